"""Replies through vLLM: what it is handed, and what is made of what it gives. The real one runs on a GPU (``-m gpu``)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from grand3d.adapter import read_adapter
from grand3d.decoding import Decoding, Sampling
from grand3d.errors import GrandError
from grand3d.evaluate import predict
from grand3d.generate import ask, generate
from grand3d.generate.ask import task_grammar
from grand3d.generate.vllm import ask_vllm, open_vllm
from grand3d.grammar import KINDS
from grand3d.model import load_adapter, merge
from grand3d.sample import Data
from grand3d.schema import PromptConfig
from grand3d.synth import make_data
from grand3d.tokens import Encoded, stop_ids, text_ids


@dataclass
class Params:
    temperature: float
    top_p: float
    seed: int
    max_tokens: int
    stop_token_ids: list[int]
    detokenize: bool
    structured_outputs: Any


@dataclass
class Structured:
    grammar: str


@dataclass
class Engine:
    """Has the one method of ``vllm.LLM`` that is used, and answers by this library's own engine, token ids and all."""

    model: Any
    tokenizer: Any
    calls: list[tuple[list[Any], list[Params]]] = field(default_factory=list)

    def generate(self, prompts: list[dict[str, list[int]]], settings: list[Params], use_tqdm: bool) -> list[Any]:
        self.calls.append((prompts, settings))
        requests = [Encoded(row["prompt_token_ids"][:-1], row["prompt_token_ids"][-1:], [False]) for row in prompts]
        grammars = [row.structured_outputs.grammar for row in settings]
        tokens = settings[0].max_tokens
        replies = sorted(generate(self.model, self.tokenizer, requests, tokens, grammars=grammars))
        stop = settings[0].stop_token_ids[0]
        return [
            SimpleNamespace(
                outputs=[
                    SimpleNamespace(
                        token_ids=(*text_ids(self.tokenizer, text), *([stop] if finished else [])),
                        finish_reason="stop" if finished else "length",
                    )
                ]
            )
            for _, text, finished in replies
        ]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    library, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    library.SamplingParams, params.StructuredOutputsParams = Params, Structured  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", library)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    return library


@pytest.fixture(scope="module")
def rooms() -> Data:
    return make_data(2, 3, 5)


def test_replies_are_those_of_the_own_engine(vllm: ModuleType, tiny_base: Any, rooms: Data) -> None:
    model, tokenizer = tiny_base
    engine, decoding = Engine(model, tokenizer), Decoding(64, sampling=Sampling(seed=3))
    theirs = {
        reply.sample_id: reply for reply in ask_vllm(engine, model, tokenizer, PromptConfig(), rooms, rooms.samples, decoding)
    }
    ours = {reply.sample_id: reply for reply in ask(model, tokenizer, PromptConfig(), rooms, rooms.samples, decoding)}
    assert theirs == ours
    ((prompts, settings),) = engine.calls  # all scenes at once
    assert len(prompts) == len(rooms.samples)
    assert {row.seed for row in settings} == {3} and set(settings[0].stop_token_ids) == stop_ids(tokenizer)


@pytest.mark.parametrize("task", sorted(KINDS))
def test_grammars_are_recognised_as_what_they_are(task: str) -> None:
    """vLLM hands over grammars without their kind, and llguidance tells from the text."""
    library = pytest.importorskip("llguidance")
    text = task_grammar(task, 3, PromptConfig())
    assert library.grammar_from("grammar", text) == library.LLMatcher.grammar_from_lark(text)


def test_candidates_are_refused(vllm: ModuleType, tiny_base: Any, rooms: Data) -> None:
    with pytest.raises(GrandError, match="expected no --candidates"):
        list(ask_vllm(None, *tiny_base, PromptConfig(), rooms, rooms.samples, Decoding(candidates=True)))


def test_an_adapter_is_refused_with_the_line_that_merges_it() -> None:
    with pytest.raises(GrandError, match=r"expected a merged model .* grand3d merge default OUT"):
        open_vllm("default", "fp32", PromptConfig())


def test_missing_vllm_names_its_pip_line(tmp_path: Path, rooms: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    folder = merge("default", tmp_path / "merged")
    with pytest.raises(GrandError, match=r"pip install 'grand3d\[vllm\]'"):
        predict(f"vllm:{folder}", rooms, tmp_path / "replies.jsonl")
    assert not (tmp_path / "replies.jsonl").exists()


@pytest.mark.gpu
def test_greedy_replies_of_vllm_are_those_of_the_own_engine(tmp_path: Path, rooms: Data) -> None:
    pytest.importorskip("vllm")
    folder = merge("default", tmp_path / "merged")
    prompt = read_adapter(folder).prompt
    engine, config, tokenizer = open_vllm(str(folder), "fp32", prompt)
    theirs = {r.sample_id: r.text for r in ask_vllm(engine, config, tokenizer, prompt, rooms, rooms.samples, Decoding(192))}
    model, tokenizer, prompt = load_adapter(str(folder))
    ours = {r.sample_id: r.text for r in ask(model.to("cuda"), tokenizer, prompt, rooms, rooms.samples, Decoding(192))}
    same = sum(theirs[key] == ours[key] for key in ours)
    assert same >= 0.9 * len(ours)  # kernels of different sums: a near tie may fall otherwise
