"""Replies of a model to the questions of a data folder, and figures from replies. Scoring needs no model and no torch."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from grand3d import launched, server
from grand3d.adapter import read_adapter
from grand3d.bench import BENCHMARKS
from grand3d.config import override_prompt, to_dict
from grand3d.decoding import Decoding
from grand3d.errors import GrandError, import_extra, shown
from grand3d.files import Rejects
from grand3d.replies import data_hash, join, only_writer, part_of, refuse_no_file, resume
from grand3d.sample import Data, Reply, Sample
from grand3d.schema import PromptConfig
from grand3d.serial import added_tokens

BASE, VLLM = "base:", "vllm:"
HELDOUT_TOKENS = 160  # synthetic answers have at most about 120


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a run of ``predict`` did.

    Attributes:
        num_new: Replies written now.
        num_kept: Replies to the samples asked for that an earlier run had written.
        num_unfinished: New replies that the token limit cut.
        num_dropped: Objects that top_k or the token budget kept out of the prompts, summed over the scenes read now.
    """

    num_new: int
    num_kept: int
    num_unfinished: int
    num_dropped: int


def load_model(name: str, dtype: str = "fp32") -> tuple[Any, Any, PromptConfig]:
    """A model to ask, its tokenizer and prompt settings, on the GPU where there is one.

    Args:
        name: ``default``, an adapter or run folder, or ``base:NAME`` for an untrained base with the default prompt.

    Raises:
        GrandError: If it cannot be loaded.
    """
    torch = import_extra("torch", "train")
    import_extra("transformers", "train")
    from grand3d.model import load_adapter, load_base

    if name.startswith(BASE):
        model, tokenizer = load_base(name.removeprefix(BASE), dtype)
        prompt = PromptConfig()
    else:
        model, tokenizer, prompt = load_adapter(name, dtype=dtype)
    device = f"cuda:{launched.device()}" if torch.cuda.is_available() else "cpu"
    return model.to(device), tokenizer, prompt


def predict(
    adapter: str,
    data: Data,
    out: str | Path,
    decoding: Decoding | None = None,
    dtype: str = "fp32",
    num_scenes: int | None = None,
    num_samples: int | None = None,
    rejects: Rejects | None = None,
    overrides: Sequence[str] = (),
) -> Predicted:
    """Write one reply for each sample of the data to a replies file; an interrupted run goes on where it stopped.

    Beside the file lies ``<out>.run.json``, which says what made it. A half-written last line is cut off and done again.
    Processes that a launcher started together (``accelerate launch``, ``torchrun``) share the scenes out among them.

    Args:
        adapter: See ``load_model``; or ``openai:MODEL@URL`` for a server (``server.ask_server``), which writes what it likes;
            or ``vllm:FOLDER`` for a merged model that vLLM runs (``generate.vllm``).
        decoding: How the replies are made; None for the defaults.
        num_scenes: Ask only about the first scenes that samples name; a later run may go on with the rest.
        num_samples: Ask only the first samples (of those scenes).
        rejects: Where samples go that cannot be asked, such as a question longer than the context. None raises.
        overrides: Prompt settings in place of the adapter's own, such as ``prompt.top_k=100``.

    Raises:
        GrandError: If the file holds replies of another model, of other settings or to other data, or another run is writing
            to it; or see ``rejects``.
    """
    out = Path(out)
    refuse_no_file(out)  # said before the model is loaded
    rank, size = launched.number(), launched.count()
    decoding = decoding or Decoding()
    wanted = _first(data.samples, num_scenes, num_samples)
    prompt, weights, answer = _answerer(adapter, dtype, decoding, {sample.task for sample in wanted}, overrides)
    about = {
        "adapter": adapter,
        "weights": weights,
        "data": data_hash(data),
        "prompt": to_dict(prompt),
        "dtype": dtype,
    } | {key: value for key, value in asdict(decoding).items() if key != "batch_size"}
    with only_writer(out) if rank == 0 else contextlib.nullcontext() as write:
        done = launched.from_first(lambda: resume(out, about, data))
        left = [sample for sample in wanted if sample.sample_id not in done]
        num_kept = len(wanted) - len(left)
        rejects = rejects if rejects is not None else Rejects()
        known = len(rejects.rows)
        with only_writer(part_of(out, rank)) if size > 1 else contextlib.nullcontext(write) as write:
            own = share(left, rank, size)
            counts = _write(answer(data, own, decoding, rejects), write, len(own))
        every = launched.from_all((counts, rejects.rows[known:]))
        if rank == 0:
            join(out)
            for _, rows in every[1:]:
                rejects.rows += rows
    num_new, num_unfinished, num_dropped = (sum(column) for column in zip(*(counts for counts, _ in every), strict=True))
    return Predicted(num_new, num_kept, num_unfinished, num_dropped)


Answer = Callable[[Data, Sequence[Sample], Decoding, Rejects], Iterator[Reply]]


def _answerer(
    adapter: str, dtype: str, decoding: Decoding, tasks: Collection[str], overrides: Sequence[str]
) -> tuple[PromptConfig, str | None, Answer]:
    """Prompt settings, a hash of the weights (None where they are not at hand), and what answers samples."""
    if adapter.startswith(server.PREFIX):
        prompt = override_prompt(PromptConfig(), overrides)
        return prompt, None, partial(server.ask_server, server.read_server(adapter), prompt)
    if adapter.startswith(VLLM):
        import_extra("transformers", "train")
        from grand3d.generate.vllm import ask_vllm, open_vllm

        prompt = override_prompt(read_adapter(adapter.removeprefix(VLLM)).prompt, overrides)
        engine, model, tokenizer = open_vllm(adapter.removeprefix(VLLM), dtype, prompt)
        return prompt, None, partial(ask_vllm, engine, model, tokenizer, prompt)
    model, tokenizer, own = load_model(adapter, dtype)
    from grand3d.generate import ask, check_limits

    prompt = override_prompt(own, overrides)
    if added_tokens(prompt.serializer) != added_tokens(own.serializer):
        reason = f"{shown(adapter)} reads scene texts of the form {own.serializer!r}, whose tokens are not those of"
        raise GrandError(f"{reason} {prompt.serializer!r}, expected a form of the same tokens")
    check_limits(model, tokenizer, prompt, tasks, decoding)  # before there is a file
    return prompt, _weights_hash(model), partial(ask, model, tokenizer, prompt)


def _write(replies: Iterator[Reply], write: Callable[[Reply], None], total: int) -> tuple[int, int, int]:
    """Replies written, of them unfinished, and objects left out of their scenes."""
    num_new = num_unfinished = 0
    dropped: dict[str, int] = {}
    progress = _progress(total)
    try:
        for reply in replies:
            write(reply)
            progress(1)
            num_new += 1
            num_unfinished += not reply.finished
            dropped[reply.scene_id] = reply.num_dropped
    finally:
        progress(0)
    return num_new, num_unfinished, sum(dropped.values())


def share(samples: Sequence[Sample], rank: int, size: int) -> list[Sample]:
    """What one of ``size`` processes answers: whole scenes, so that the numbers of samples differ little."""
    counts = Counter(sample.scene_id for sample in samples)
    loads, owner = [0] * size, {}
    for scene_id, count in sorted(counts.items(), key=lambda item: -item[1]):
        owner[scene_id] = loads.index(min(loads))
        loads[owner[scene_id]] += count
    return [sample for sample in samples if owner[sample.scene_id] == rank]


def _first(samples: Sequence[Sample], num_scenes: int | None, num_samples: int | None) -> list[Sample]:
    scenes = set(list(dict.fromkeys(sample.scene_id for sample in samples))[:num_scenes])
    return [sample for sample in samples if sample.scene_id in scenes][:num_samples]


def score(bench: str, data: Data, replies: Sequence[Reply], missing: str | None = None, **options: Any) -> dict[str, Any]:
    """The report of a benchmark on replies.

    Args:
        bench: ``synth`` (every task in the data, see ``figures``) or a key of ``bench.BENCHMARKS``.
        missing: ``wrong`` or ``skip`` for samples without a reply; None refuses them.
        options: What the benchmark's own ``score`` takes beside these.

    Raises:
        GrandError: If the benchmark is unknown, or data and replies do not fit together.
    """
    known = {"synth": "grand3d.figures"} | BENCHMARKS
    if bench not in known:
        raise GrandError(f"benchmark {shown(bench)} is unknown, expected one of {', '.join(known)}")
    return importlib.import_module(known[bench]).score(data, replies, missing, **options)


def heldout(model: Any, tokenizer: Any, data: Data, prompt: PromptConfig, rejects: Rejects | None = None) -> dict[str, Any]:
    """Figures of a model on held-out data, in percent, for the log of a training run.

    Args:
        rejects: Where samples go that cannot be asked; they are left out of the figures. None raises.

    Returns:
        ``n``; ``parsed``, the share of replies that could be read; and one figure for each task there is.
    """
    from grand3d.generate import ask

    decoding = Decoding(HELDOUT_TOKENS, constrained=False)  # whether replies can be read is among what is learnt
    replies = list(ask(model, tokenizer, prompt, data, data.samples, decoding, rejects))
    if not replies:  # the training goes on
        return {"n": 0, "parsed": 0.0}
    report = score("synth", data, replies, "skip" if rejects is not None and rejects.skip_bad else None)
    counts = report["counts"]
    figures: dict[str, Any] = {"n": counts["n"], "parsed": 100 * counts["parsed"] / max(1, counts["n"])}
    for row in report["rows"]:
        figures |= {f"{row['name']}_{key}": row[key] for key in ("accuracy", "acc25") if row.get(key) is not None}
    return figures


def _weights_hash(model: Any) -> str:
    """A short hash of the first numbers of every weight: tells models apart, not every single number of them."""
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        digest.update(name.encode() + weight.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _progress(total: int) -> Callable[[int], None]:
    """Call it with 1 for each reply and with 0 at the end: a bar on a terminal, else a line every half minute."""
    if launched.number():  # the first one speaks for all, whose shares are alike
        return lambda num: None
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=total, unit=" replies", dynamic_ncols=True)
        return lambda num: bar.update(num) if num else bar.close()
    start = last = time.monotonic()
    count = 0

    def step(num: int) -> None:
        nonlocal last, count
        count += num
        now = time.monotonic()
        if count and (now - last >= 30 or not num):
            last = now
            rate = count / max(now - start, 1e-9)
            print(f"{count} of {total} replies, {rate:.1f} a second", file=sys.stderr, flush=True)

    return step
