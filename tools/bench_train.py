"""How fast is training over a shared scene prefix, against the two usual ways, on the same samples in one run?

    python tools/bench_train.py [--quick] [--json] [--trl]
    python tools/bench_train.py --model llama2_7b --device cuda --dtype bf16     # on a GPU, random weights of Llama-2's shape

Each way does the forward and the backward pass of a LoRA model over K questions about one scene of P tokens:

- padded: K rows of P + R tokens, causal SDPA: how most fine-tuning scripts train.
- packed: one row of the K whole samples behind each other, no attention across them: "padding-free" training.
- shared: one row, the scene once.

Half formats run under autocast with the adapter in float32, as a training of one process or of DDP does. All take the cross
entropy of labelled tokens only (a head over all tokens would cost the other two far more). Ways are timed in turn, so that a
change of the machine's speed meets all alike; figures are ratios of medians. ``flop_limit`` is how much faster ``shared`` would
be than ``padded`` if time followed the counted floating point operations, attention included.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from grand3d.attention import ATTENTION, choose
from grand3d.model import DTYPES, attach_lora
from grand3d.pack import make_pack, pack_loss
from grand3d.schema import LoraConfig
from grand3d.tokens import Encoded

SHAPES: dict[str, dict[str, int]] = {
    "small": {
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "vocab_size": 32_000,
    },
    "smollm2": {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49_152,
    },
    "llama2_7b": {
        "hidden_size": 4096,
        "intermediate_size": 11_008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32_000,
    },
}
CASES = ((640, 8, 60), (1860, 8, 120))
"""Tokens of the scene, questions, tokens of a question with its answer: 26 objects as a table, 75 (or 30 in 3D-GRAND's text)."""
LABEL_SHARE = 0.5


def samples(num_prefix: int, num_questions: int, mean: int, vocab: int, seed: int = 0) -> list[Encoded]:
    """Random tokens in lengths from half to one and a half of the mean; the second half of each suffix is the answer."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda n: torch.randint(5, vocab, (n,), generator=rng).tolist()  # noqa: E731
    prefix, out = draw(num_prefix), []
    for number in range(num_questions):
        length = round(mean * (0.5 + (number + 0.5) / num_questions))
        asked = round(length * (1 - LABEL_SHARE))
        out.append(Encoded(prefix, draw(length), [False] * asked + [True] * (length - asked)))
    return out


def flops(shape: dict[str, int], tokens: int, pairs: int, labels: int, rank: int) -> float:
    """Of a forward and backward pass with frozen weights: ``tokens`` through the layers, ``pairs`` of query and key a layer."""
    hidden, wide, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    kv = hidden * shape.get("num_key_value_heads", shape["num_attention_heads"]) // shape["num_attention_heads"]
    sizes = [(hidden, hidden), (hidden, kv), (hidden, kv), (hidden, hidden), (hidden, wide), (hidden, wide), (wide, hidden)]
    frozen, adapter = sum(a * b for a, b in sizes), rank * sum(a + b for a, b in sizes)
    # frozen: forward and gradient of the input; adapter: the gradient of the weights too; attention: 2 products, then 5
    linear = tokens * layers * (4 * frozen + 6 * adapter) + labels * 4 * hidden * shape["vocab_size"]
    return linear + layers * pairs * hidden * 2 * (2 + 5)


def pairs_of(prefix: int, suffixes: list[int], way: str) -> tuple[int, int]:
    """(tokens, pairs of query and key that a causal mask leaves) of a way."""
    causal = lambda n: n * (n + 1) // 2  # noqa: E731
    if way == "padded":
        length = prefix + max(suffixes)
        return len(suffixes) * length, len(suffixes) * causal(length)
    if way == "packed":
        return sum(prefix + n for n in suffixes), sum(causal(prefix + n) for n in suffixes)
    return prefix + sum(suffixes), causal(prefix) + sum(causal(n) + n * prefix for n in suffixes)


def padded_loss(model: Any, rows: list[Encoded], device: Any) -> torch.Tensor:
    """The rows as one right-padded batch; labelled positions only go through the head."""
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    where, labels = [], []
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row.prefix + row.suffix)
        for offset, trained in enumerate(row.mask):
            if trained:
                where.append((number, len(row.prefix) + offset - 1))
                labels.append(row.suffix[offset])
    body = model.get_base_model()
    hidden = body.model(input_ids=ids.to(device), use_cache=False).last_hidden_state
    index = torch.tensor(where, device=device)
    logits = body.lm_head(hidden[index[:, 0], index[:, 1]]).float()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(labels, device=device), reduction="sum")


def build(shape: dict[str, int], dtype: str, device: Any, rank: int, checkpointing: bool) -> Any:
    import transformers

    torch.manual_seed(0)
    settings = transformers.LlamaConfig(**shape, max_position_embeddings=8192, attn_implementation=ATTENTION)
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(DTYPES[dtype])
        try:
            base = transformers.LlamaForCausalLM(settings)
        finally:
            torch.set_default_dtype(before)
    model = attach_lora(base.requires_grad_(False), LoraConfig(rank=rank, dropout=0.0), checkpointing).train()
    for name, weight in model.named_parameters():
        if "lora_B" in name:  # zero matrices would give the other ones no gradient
            torch.nn.init.normal_(weight, std=0.02)
    return model


def step(model: Any, dtype: str, losses: Callable[[], list[torch.Tensor]]) -> torch.Tensor:
    """One forward and backward pass; the adapter's gradient as one vector."""
    model.zero_grad()
    with torch.autocast(model.device.type, DTYPES[dtype], enabled=dtype != "fp32"):
        summed = losses()
    for loss in summed:
        loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


def timed(model: Any, dtype: str, losses: Callable[[], list[torch.Tensor]]) -> float:
    """Seconds of a step; a GPU has nothing else to do when the clock starts, and is done when it stops."""
    wait = torch.cuda.synchronize if model.device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    step(model, dtype, losses)
    wait()
    return time.perf_counter() - began


class Peak:
    """Most memory in use above that at the start, in MB: CUDA's own count, or the resident set on Linux."""

    def __init__(self, device: Any) -> None:
        self.cuda = device.type == "cuda"
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()
        else:
            ctypes.CDLL(None).malloc_trim(0)  # memory freed earlier would hide what is taken now
            Path("/proc/self/clear_refs").write_text("5")  # restarts the peak of the resident set
            self.before = self._status("VmRSS")

    def _status(self, key: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])

    def megabytes(self) -> float:
        now = torch.cuda.max_memory_allocated() if self.cuda else self._status("VmHWM")
        return round((now - self.before) / 1e6, 1)


def measure(model: Any, shape: dict[str, int], case: tuple[int, int, int], repeats: int, rank: int, dtype: str) -> dict[str, Any]:
    rows = samples(*case, shape["vocab_size"])
    prefix, suffixes = len(rows[0].prefix), [len(row.suffix) for row in rows]
    labels = sum(sum(row.mask) for row in rows)
    device = model.device
    how = choose("auto", device, DTYPES[dtype])
    shared, packed = make_pack([rows]).to(device), make_pack([[row] for row in rows]).to(device)
    ways: dict[str, Callable[[], list[torch.Tensor]]] = {
        "padded": lambda: [padded_loss(model, rows, device)],
        "packed": lambda: [pack_loss(model, packed, how)[0]],
        "shared": lambda: [pack_loss(model, shared, how)[0]],
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    grads, peaks = {}, {}
    for way, losses in ways.items():  # a first round warms up, and gives gradients and memory
        peak = Peak(device)
        grads[way] = step(model, dtype, losses)
        peaks[way] = peak.megabytes()
    for _ in range(repeats):
        for way, losses in ways.items():
            seconds[way].append(timed(model, dtype, losses))
    middle = {way: statistics.median(values) for way, values in seconds.items()}
    work = {way: flops(shape, *pairs_of(prefix, suffixes, way), labels, rank) for way in ways}
    speedup, limit = middle["padded"] / middle["shared"], work["padded"] / work["shared"]
    exact = grads["padded"].double()
    differ = max(float((grads[way].double() - exact).norm() / exact.norm()) for way in ("packed", "shared"))
    return {
        "prefix": prefix,
        "questions": len(rows),
        "suffix_mean": round(sum(suffixes) / len(suffixes), 1),
        "speedup_over_padded": round(speedup, 2),
        "flop_limit": round(limit, 2),
        "share_of_limit": round(speedup / limit, 2),
        "speedup_over_packing": round(middle["packed"] / middle["shared"], 2),
        "max_rel_grad_diff": float(f"{differ:.2g}"),
        "label_tokens_per_second": {way: round(labels / value, 1) for way, value in middle.items()},
        "samples_per_second": {way: round(len(rows) / value, 2) for way, value in middle.items()},
        "gflop_per_second": {way: round(work[way] / value / 1e9, 1) for way, value in middle.items()},
        "peak_mb": peaks,
        "spread": {way: round((max(v) - min(v)) / middle[way], 2) for way, v in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 repeats in place of 7")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of a table")
    parser.add_argument("--model", choices=sorted(SHAPES), default="small", help="shape of the random model (default: small)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32")
    parser.add_argument("--rank", type=int, default=16, help="LoRA rank (default: 16)")
    parser.add_argument("--checkpointing", action="store_true", help="recompute activations in the backward pass")
    parser.add_argument("--peak-tflops", type=float, help="of the device, dense, for the share of it that is used (H200: 989)")
    parser.add_argument("--trl", action="store_true", help="also TRL's SFTTrainer with packing (pip install trl)")
    options = parser.parse_args()
    device, shape = torch.device(options.device), SHAPES[options.model]
    model = build(shape, options.dtype, device, options.rank, options.checkpointing)
    repeats = 2 if options.quick else 7
    cases = [measure(model, shape, case, repeats, options.rank, options.dtype) for case in CASES]
    report: dict[str, Any] = {
        "model": options.model,
        "dtype": options.dtype,
        "device": options.device,
        "threads": torch.get_num_threads(),
    }
    report |= {"cases": cases}
    if options.peak_tflops:
        for case in cases:
            # MFU on the usual basis for frozen weights: 4 N a token (2 N forward, 2 N for the gradient of the input)
            numbers = sum(p.numel() for p in model.get_base_model().model.layers.parameters() if not p.requires_grad)
            tokens = case["prefix"] + case["suffix_mean"] * case["questions"]
            rate = case["samples_per_second"]["shared"] / case["questions"] * tokens * 4 * numbers
            case["mfu_4n"] = round(rate / (options.peak_tflops * 1e12), 3)
            case["hours_of_10000_steps_of_96"] = round(960_000 / case["samples_per_second"]["shared"] / 3600, 1)
    if options.trl:
        report["trl"] = trl(model, shape, options)
    if options.json:
        print(json.dumps(report))
        return
    for case in cases:
        print(f"\nscene of {case['prefix']} tokens, {case['questions']} questions of {case['suffix_mean']} tokens")
        for way, value in case["samples_per_second"].items():
            label, memory = case["label_tokens_per_second"][way], case["peak_mb"][way]
            print(f"  {way:7} {value:8.2f} samples/s {label:8.1f} label tokens/s {memory:8.0f} MB")
        print(
            f"  {case['speedup_over_padded']}x padded (counted operations allow {case['flop_limit']}x: "
            f"{100 * case['share_of_limit']:.0f} % of it), {case['speedup_over_packing']}x packed; gradients differ by "
            f"{case['max_rel_grad_diff']:.1e}"
        )
        for key in ("mfu_4n", "hours_of_10000_steps_of_96"):
            if key in case:
                print(f"  {key} {case[key]}")
    if options.trl:
        print(f"\nTRL: {json.dumps(report['trl'])}")


def trl(model: Any, shape: dict[str, int], options: argparse.Namespace) -> list[dict[str, Any]]:
    """TRL's SFTTrainer with packing against ``shared``, samples of the same sizes: samples per second, steps after the first."""
    import tempfile
    import warnings

    try:
        import trl as package
        from datasets import Dataset
        from transformers import TrainerCallback
    except ImportError as error:
        raise SystemExit(f"--trl needs TRL ({error}): pip install trl") from None
    from grand3d.model import load_tokenizer

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.seconds.append(time.perf_counter() - self.began)

    device, found = next(model.parameters()).device, []
    num_steps = 3 if options.quick else 5
    for prefix, questions, mean in CASES:
        whole, rows = questions * (prefix + mean), []
        for scene in range(num_steps):
            for row in samples(prefix, questions, mean, shape["vocab_size"], seed=scene):
                unseen = [-100] * len(row.prefix)
                labels = [token if trained else -100 for token, trained in zip(row.suffix, row.mask, strict=True)]
                rows.append({"input_ids": row.prefix + row.suffix, "labels": unseen + labels})
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = package.SFTConfig(
                output_dir=folder,
                packing=True,
                max_length=whole,
                per_device_train_batch_size=1,
                max_steps=num_steps,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                bf16=options.dtype == "bf16",
                use_cpu=device.type == "cpu",
                gradient_checkpointing=options.checkpointing,
            )
            trainer = package.SFTTrainer(
                model=model,
                args=settings,
                train_dataset=Dataset.from_list(rows),
                processing_class=load_tokenizer("tiny"),
                callbacks=[clock],
            )
            per_step = len(rows) / len(trainer.train_dataset)
            trainer.train()
        theirs = per_step / statistics.median(clock.seconds[1:])
        how = choose("auto", device, DTYPES[options.dtype])
        pack = make_pack([samples(prefix, questions, mean, shape["vocab_size"])]).to(device)
        loss = lambda pack=pack, how=how: [pack_loss(model, pack, how)[0]]  # noqa: E731
        ours = questions / statistics.median(timed(model, options.dtype, loss) for _ in range(num_steps))
        found.append(
            {
                "prefix": prefix,
                "trl": package.__version__,
                "samples_per_second": {"trl": round(theirs, 2), "shared": round(ours, 2)},
                "speedup_over_trl": round(ours / theirs, 2),
            }
        )
    return found


if __name__ == "__main__":
    main()
