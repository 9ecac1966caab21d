"""What a step loses by asking several questions about one scene: how alike their gradients are.

    python tools/diversity.py [--model smollm2|default|RUN] [--scenes 24] [--questions 8] [--json]

Gradients of questions about one scene share what the scene has in common, so K of them tell a step less than K questions about
K scenes. With the intraclass correlation r of the gradients (one-way analysis of variance over scenes, squared norms in place of
squares), B questions over B / K scenes are worth B / (1 + (K - 1) r) of independent ones (Kish, Survey Sampling, 1965: the
design effect). The table sets that against what a question costs at each K: ``worth`` is the share of a step's questions that
count, ``cost`` the counted operations of a question against K = 1, ``gain`` independent questions for the same operations.

The gradients are those of the LoRA matrices: of a fresh adapter on a base, or of a trained one as it goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_train as bench
import torch

from grand3d.attention import choose
from grand3d.model import attach_lora, load_base, start_from
from grand3d.pack import make_pack, pack_loss
from grand3d.schema import Config, DataConfig, LoraConfig, ModelConfig, SynthConfig
from grand3d.stream import Tally, encode_group, open_stream
from grand3d.tokens import Encoded

SIZES = (1, 2, 4, 8, 16, 32)
STEP = 96  # questions of a step, as in 3D-GRAND


def gradient(model: Any, row: Encoded) -> torch.Tensor:
    """Of the summed loss of one question, as one vector in double precision."""
    model.zero_grad()
    loss, _ = pack_loss(model, make_pack([[row]]), choose("auto", model.device, torch.float32))
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).double()


def correlation(scenes: Iterable[Sequence[torch.Tensor]]) -> float:
    """Intraclass correlation of vectors in groups of equal size, which are looked at one group after the other."""
    num, size, squares, of_means, total = 0, 0, 0.0, 0.0, torch.zeros(())
    for rows in scenes:
        num, size, mean = num + 1, len(rows), torch.stack(list(rows)).mean(0)
        squares += sum(float(row.square().sum()) for row in rows)
        of_means += float(mean.square().sum())
        total = total + mean
    between = size * (of_means - float(total.square().sum()) / num) / (num - 1)
    within = (squares - size * of_means) / (num * (size - 1))
    return (between - within) / (between + (size - 1) * within)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a base with a fresh adapter, or 'default', a run, an adapter folder")
    parser.add_argument("--scenes", type=int, default=24, help="generated rooms (default: 24)")
    parser.add_argument("--questions", type=int, default=8, help="questions a room (default: 8)")
    parser.add_argument("--seed", type=int, default=500, help="of the rooms (default: 500)")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    options = parser.parse_args()
    trained = options.model == "default" or Path(options.model).is_dir()
    config = Config(
        model=ModelConfig(base="smollm2" if trained else options.model),
        lora=LoraConfig(dropout=0.0, start=options.model if trained else None),
        data=DataConfig(synth=SynthConfig(num_scenes=options.scenes, seed=options.seed), questions_per_scene=options.questions),
    )
    stream = open_stream(config)
    torch.manual_seed(0)
    base, tokenizer = load_base(config.model.base)
    model = attach_lora(base, config.lora, False).train()
    if trained:
        start_from(model, options.model, config)
    sizes: list[tuple[int, int, int]] = []

    def rooms() -> Iterator[list[torch.Tensor]]:
        for number in range(options.scenes):
            rows = encode_group(tokenizer, *stream.group(number), config.prompt, Tally())
            print(f"\r{number + 1} of {options.scenes} rooms", end="", file=sys.stderr, flush=True)
            if len(rows) == options.questions:  # in some rooms there is little to ask about
                sizes.extend((len(row.prefix), len(row.suffix), sum(row.mask)) for row in rows)
                yield [gradient(model, row) for row in rows]
        print(file=sys.stderr)

    alike, shape, rank = correlation(rooms()), bench.SHAPES["smollm2"], config.lora.rank
    prefix, suffix, labels = (round(sum(column) / len(sizes)) for column in zip(*sizes, strict=True))

    def cost(num: int) -> float:
        return bench.flops(shape, *bench.pairs_of(prefix, [suffix] * num, "shared"), labels * num, rank) / num

    table = []
    for num in SIZES:
        worth, price = 1 / (1 + (num - 1) * alike), cost(num) / cost(1)
        table.append({"questions": num, "scenes": STEP // num, "worth": worth, "cost": price, "gain": worth / price})
    report = {"correlation": alike, "rooms": len(sizes) // options.questions, "tokens": [prefix, suffix], "table": table}
    if options.json:
        print(json.dumps(report))
        return
    print(f"correlation of gradients within a scene {alike:.3f} ({report['rooms']} rooms, {prefix} + {suffix} tokens)")
    print(f"{'questions':>9} {'scenes of ' + str(STEP):>12} {'worth':>6} {'cost':>6} {'gain':>6}")
    for row in table:
        print("{questions:9} {scenes:12} {worth:6.2f} {cost:6.2f} {gain:6.2f}".format(**row))


if __name__ == "__main__":
    main()
