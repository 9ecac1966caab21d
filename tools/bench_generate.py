"""Questions a second of grand3d's generation against transformers' own, on the same questions about one room, in one run.

    python tools/bench_generate.py --quick --json

``naive`` asks one whole prompt at a time, ``batched`` pads several whole prompts to one batch, both with ``model.generate`` of
transformers; ``shared`` reads the room once for all its questions, ``constrained`` also keeps the replies inside their
grammar. All decode greedily, up to the same number of tokens. Longer runs add a sweep over objects and questions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from grand3d.evaluate import load_model
from grand3d.generate import Times, encode_questions, generate
from grand3d.generate.guide import Grammar
from grand3d.grammar import KINDS, reply_grammar
from grand3d.sample import Sample
from grand3d.scene import Scene
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText
from grand3d.synth import make_scene
from grand3d.tokens import Encoded, stop_ids

Row = tuple[Sample, SceneText, Encoded]


def make_rows(tokenizer: Any, prompt: PromptConfig, num_objects: int, num_questions: int) -> tuple[Scene, list[Row]]:
    """Different questions about one generated room that shows as near to ``num_objects`` objects as a few tries give."""
    rooms = [make_scene(0, index, num_questions) for index in range(40)]
    scene, samples = min(rooms, key=lambda room: abs(len(room[0].objects) - num_objects))
    rows = encode_questions(tokenizer, scene, samples[:num_questions], prompt, prompt.max_tokens - 256)
    return scene, rows


def with_transformers(model: Any, tokenizer: Any, requests: list[Encoded], max_new_tokens: int) -> tuple[list[str], float]:
    """Replies and seconds of one batch of whole prompts, padded on the left."""
    longest = max(map(len, requests))
    ids = torch.zeros(len(requests), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, request in enumerate(requests):
        ids[i, longest - len(request) :] = torch.tensor(request.prefix + request.suffix)
        mask[i, longest - len(request) :] = 1
    stops = sorted(stop_ids(tokenizer))
    start = time.perf_counter()
    with torch.no_grad():
        made = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=stops,
            pad_token_id=stops[0],
        )[:, longest:].tolist()
    seconds = time.perf_counter() - start
    replies = []
    for line in made:
        end = next((i for i, token in enumerate(line) if token in stops), len(line))
        replies.append(tokenizer.decode(line[:end], skip_special_tokens=False, clean_up_tokenization_spaces=False))
    return replies, seconds


def with_shared_prefix(
    model: Any, tokenizer: Any, requests: list[Encoded], max_new_tokens: int, grammars: list[str] | None = None
) -> tuple[list[str], float, Times]:
    """Replies and seconds, and where they went."""
    times, replies = Times(), [""] * len(requests)
    start = time.perf_counter()
    for index, text, _ in generate(model, tokenizer, requests, max_new_tokens, grammars=grammars, times=times):
        replies[index] = text
    return replies, time.perf_counter() - start, times


def measure(
    model: Any, tokenizer: Any, prompt: PromptConfig, options: argparse.Namespace, num: int, questions: int
) -> dict[str, Any]:
    """One case: all ways over the same questions."""
    scene, rows = make_rows(tokenizer, prompt, num, questions)
    requests = [row[2] for row in rows]
    tokens = options.max_new_tokens
    grammars = [
        reply_grammar(KINDS[sample.task], [f"obj_{k}" for k in range(len(text.object_ids))], prompt.grounding)
        for sample, text, _ in rows
    ]
    with_transformers(model, tokenizer, requests[:1], 4)  # warm
    with_shared_prefix(model, tokenizer, requests[:2], tokens, grammars[:2])
    naive, naive_seconds = [], 0.0
    for request in requests[: options.naive]:
        texts, seconds = with_transformers(model, tokenizer, [request], tokens)
        naive += texts
        naive_seconds += seconds
    batched, batched_seconds = with_transformers(model, tokenizer, requests[: options.batched], tokens)
    shared, seconds, times = with_shared_prefix(model, tokenizer, requests, tokens)
    _, guided_seconds, guided = with_shared_prefix(model, tokenizer, requests, tokens, grammars)
    compiled = []
    for text in dict.fromkeys(grammars):
        start = time.perf_counter()
        Grammar(text, tokenizer, model.get_output_embeddings().weight.shape[0], stop_ids(tokenizer))
        compiled.append(1000 * (time.perf_counter() - start))
    rate = len(requests) / seconds
    return {
        "objects": len(scene.objects),
        "questions": len(requests),
        "prefix_tokens": len(requests[0].prefix),
        "max_new_tokens": tokens,
        "queries_per_second": {
            "naive": len(naive) / naive_seconds,
            "batched": len(batched) / batched_seconds,
            "shared": rate,
            "constrained": len(requests) / guided_seconds,
        },
        "speedup_over_naive": rate * naive_seconds / len(naive),
        "speedup_over_batched": rate * batched_seconds / len(batched),
        "same_replies": shared[: len(naive)] == naive,
        "same_as_batched": sum(a == b for a, b in zip(shared, batched, strict=False)) / len(batched),
        "seconds": {
            "prefix": times.prefix,
            "steps": times.steps,
            "constrained_prefix": guided.prefix,
            "constrained_steps": guided.steps,
            "grammar": guided.grammar,
        },
        "grammar_share": guided.grammar / guided_seconds,
        "grammar_compile_ms": statistics.median(compiled),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="base:smollm2", help="as in grand3d predict (default: base:smollm2)")
    parser.add_argument("--quick", action="store_true", help="one room, 60 questions, under 90 s on 2 cores")
    parser.add_argument("--objects", type=int, default=31, help="in the room, about (default: 31)")
    parser.add_argument("--questions", type=int, default=60, help="about the room (default: 60)")
    parser.add_argument("--naive", type=int, default=4, help="questions timed one at a time (default: 4)")
    parser.add_argument("--batched", type=int, default=8, help="questions in the padded batch (default: 8)")
    parser.add_argument("--max-new-tokens", type=int, default=48, help="of every reply (default: 48)")
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    model, tokenizer, prompt = load_model(options.model, options.dtype)
    model.eval()
    sizes = [(options.objects, options.questions)]
    if not options.quick:
        sizes += [(10, options.questions), (60, options.questions), (options.objects, 15), (options.objects, 120)]
    cases = [measure(model, tokenizer, prompt, options, *size) for size in sizes]
    if options.json:
        print(json.dumps({**cases[0], "cases": cases}, indent=1))
        return
    for case in cases:
        rates = ", ".join(f"{name} {rate:.2f}" for name, rate in case["queries_per_second"].items())
        print(
            f"{case['objects']} objects, {case['questions']} questions, {case['prefix_tokens']} tokens of room: {rates} a second"
        )
        print(
            f"  {case['speedup_over_naive']:.1f} x naive, {case['speedup_over_batched']:.1f} x batched; same replies: "
            f"{case['same_replies']}; grammar {100 * case['grammar_share']:.1f} % of the time, compiled in "
            f"{case['grammar_compile_ms']:.1f} ms"
        )


if __name__ == "__main__":
    main()
