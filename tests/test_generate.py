"""Batched replies over a shared prefix against transformers' own generate, one whole prompt at a time."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")

from grand3d.errors import GrandError  # noqa: E402
from grand3d.generate import Sampling, decode, generate, prompt_limit  # noqa: E402
from grand3d.tokens import Encoded  # noqa: E402

STOPS = set(range(0, 49152, 16))
"""Every sixteenth token ends a reply, so that the random model's replies end at unequal lengths."""


@pytest.fixture(autouse=True)
def many_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "stop_ids", lambda tokenizer: STOPS)


def make_requests(sizes: list[tuple[int, list[int]]], shared_start: int = 0, seed: int = 0) -> list[Encoded]:
    """For each (prefix length, suffix lengths) of a scene: random prompts whose suffixes begin with the same tokens."""
    rng = random.Random(seed)
    start = [rng.randrange(100, 49000) for _ in range(shared_start)]
    out = []
    for prefix_length, lengths in sizes:
        prefix = [rng.randrange(100, 49000) for _ in range(prefix_length)]
        for length in lengths:
            suffix = start + [rng.randrange(100, 49000) for _ in range(length)]
            out.append(Encoded(prefix, suffix, [False] * len(suffix)))
    return out


def one_by_one(model: Any, tokenizer: Any, requests: list[Encoded], max_new_tokens: int) -> list[tuple[str, bool]]:
    out = []
    for request in requests:
        ids = torch.tensor([request.prefix + request.suffix])
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=sorted(STOPS),
            pad_token_id=0,
        )[0, ids.shape[1] :].tolist()
        finished = made[-1] in STOPS
        out.append((tokenizer.decode(made[:-1] if finished else made, clean_up_tokenization_spaces=False), finished))
    return out


def batched(model: Any, tokenizer: Any, requests: list[Encoded], max_new_tokens: int, **options: Any) -> list[tuple[str, bool]]:
    out = {index: (text, finished) for index, text, finished in generate(model, tokenizer, requests, max_new_tokens, **options)}
    assert sorted(out) == list(range(len(requests)))
    return [out[index] for index in range(len(requests))]


@pytest.mark.parametrize("shared_start", [0, 20])
def test_d13_generate_gives_the_replies_of_one_by_one_generation(lively: Any, shared_start: int) -> None:
    model, tokenizer = lively
    requests = make_requests([(90, [1, 2, 9, 30, 4, 17, 5]), (3, [6]), (41, [1, 25])], shared_start)
    expected = one_by_one(model, tokenizer, requests, 24)
    lengths = {len(text) for text, _ in expected}
    assert len(lengths) > 3 and {finished for _, finished in expected} == {True, False}  # replies that say something
    for batch_size in (1, 3, 64):
        assert batched(model, tokenizer, requests, 24, batch_size=batch_size) == expected


def test_generate_longer_than_the_buffers_grow_gives_the_same_replies(lively: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = lively
    monkeypatch.setattr("grand3d.generate.cache.GROWTH", 2)
    requests = make_requests([(30, [3, 8, 12, 5, 6])], seed=5)
    assert batched(model, tokenizer, requests, 24) == one_by_one(model, tokenizer, requests, 24)


def test_generate_one_long_question_gives_the_same_reply(lively: Any) -> None:
    model, tokenizer = lively
    requests = make_requests([(20, [700])])
    assert batched(model, tokenizer, requests, 6) == one_by_one(model, tokenizer, requests, 6)


def test_generate_of_one_token_stops_there(lively: Any) -> None:
    model, tokenizer = lively
    requests = make_requests([(30, [5, 8, 1, 3, 4, 9, 7, 2])])
    expected = one_by_one(model, tokenizer, requests, 1)
    assert batched(model, tokenizer, requests, 1) == expected
    assert {finished for _, finished in expected} >= {False}


def test_generate_of_no_request_gives_nothing(lively: Any) -> None:
    assert list(generate(*lively, [])) == []


def test_generate_answers_equal_requests_once_and_alike(lively: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = lively
    first, second = make_requests([(30, [5, 8])])
    rows = []
    answer = decode._answer
    monkeypatch.setattr(decode, "_answer", lambda *a: rows.append(len(a[4])) or answer(*a))
    replies = batched(model, tokenizer, [first, second, first, first], 8)
    assert replies[0] == replies[2] == replies[3] != replies[1]
    assert rows == [2]


def test_generate_leaves_the_model_as_it_was(lively: Any) -> None:
    model, tokenizer = lively
    before = model.config._attn_implementation
    model.train()
    try:
        stream = generate(model, tokenizer, make_requests([(9, [3]), (8, [2])]), 2)
        next(stream)
        assert model.training and model.config._attn_implementation == before and torch.is_grad_enabled()
        list(stream)
        assert model.training
    finally:
        model.eval()


def test_generate_with_an_adapter_gives_the_replies_of_one_by_one_generation(lively: Any) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed (extra train)")
    model, tokenizer = copy.deepcopy(lively[0]), lively[1]
    requests = make_requests([(30, [5, 8, 1, 3])])
    without = batched(model, tokenizer, requests, 8)
    settings = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    torch.manual_seed(0)
    model = peft.get_peft_model(model, settings).eval()
    expected = one_by_one(model, tokenizer, requests, 8)
    assert batched(model, tokenizer, requests, 8) == expected != without


def test_generate_from_memory_reads_a_scene_once(lively: Any) -> None:
    model, tokenizer = lively
    first, second = make_requests([(30, [5, 8])])
    expected = batched(model, tokenizer, [first, second], 8)
    memory: dict[Any, Any] = {}
    assert batched(model, tokenizer, [first], 8, memory=memory) == expected[:1]
    kept = memory[tuple(first.prefix)]
    assert batched(model, tokenizer, [second], 8, memory=memory) == expected[1:]
    assert memory[tuple(first.prefix)] is kept and len(kept) == 30


def test_generate_streams_the_text_it_returns(lively: Any) -> None:
    model, tokenizer = lively
    pieces: list[str] = []
    ((text, _),) = batched(model, tokenizer, make_requests([(12, [6])], seed=2), 12, on_token=pieces.append)
    assert "".join(pieces) == text and len(pieces) > 2


def test_generate_sampled_follows_the_seed_and_the_temperature(lively: Any) -> None:
    model, tokenizer = lively
    requests = make_requests([(12, [6])]) * 3
    hot = batched(model, tokenizer, requests, 8, sampling=Sampling(5.0, seed=1))
    assert hot == batched(model, tokenizer, requests, 8, sampling=Sampling(5.0, seed=1))
    assert hot != batched(model, tokenizer, requests, 8, sampling=Sampling(5.0, seed=2))
    assert len(set(hot)) > 1  # equal requests are drawn separately
    cold = batched(model, tokenizer, requests, 8, sampling=Sampling(5.0, top_p=1e-6, seed=2))
    assert cold == batched(model, tokenizer, requests, 8)


def test_generate_beyond_the_positions_of_the_model_is_refused_with_counts(lively: Any) -> None:
    requests = make_requests([(8000, [100])])
    with pytest.raises(GrandError, match=r"8100 tokens of prompt and room for 200 of reply, but the model takes 8192"):
        list(generate(*lively, requests, 200))


def test_generate_beyond_the_window_of_the_model_is_refused(lively: Any) -> None:
    model = copy.deepcopy(lively[0])
    model.config.sliding_window = 64
    with pytest.raises(GrandError, match="but the model takes 64"):
        list(generate(model, lively[1], make_requests([(50, [10])]), 5))


def test_d15_prompt_limit_names_the_bound_that_a_reply_alone_fills(lively: Any) -> None:
    assert prompt_limit(lively[0], 10_000, 8000) == 192
    for max_tokens, bound in ((10_000, "8192, which is what the model takes"), (4096, "4096, which is prompt.max_tokens")):
        with pytest.raises(GrandError, match=f"9000 tokens \\(max_new_tokens\\), expected fewer than {bound}"):
            prompt_limit(lively[0], max_tokens, 9000)


def test_generate_in_bf16_gives_nearly_the_replies_of_one_by_one_generation(lively: Any) -> None:
    model, tokenizer = copy.deepcopy(lively[0]).to(torch.bfloat16), lively[1]
    requests = make_requests([(40, [5, 8, 1, 3, 9, 12, 7, 20])], seed=4)
    pairs = zip(batched(model, tokenizer, requests, 2), one_by_one(model, tokenizer, requests, 2), strict=True)
    assert sum(a == b for a, b in pairs) >= 6  # rounding decides where two tokens are nearly equally likely


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("temperature", value) for value in (-1.0, float("nan"), float("inf"), 1e-9, 1e300)],
        *[("top_p", value) for value in (0.0, 1.5, float("nan"))],
        *[("seed", value) for value in (-1, 2**63, 2**70)],
    ],
)
def test_sampling_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(GrandError, match=f"^{name} is .*expected"):
        Sampling(**{name: value})


def test_sampling_at_the_ends_of_its_ranges_draws(lively: Any) -> None:
    model, tokenizer = lively
    for sampling in (Sampling(1e-6, seed=2**63 - 1), Sampling(1e6), Sampling(1.0, top_p=1e-12)):
        assert batched(model, tokenizer, make_requests([(20, [5])]), 3, sampling=sampling)
