"""Ids and loss mask, with SmolLM2's tokenizer and with Llama's kind loaded in three ways."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from templates import LLAMA2

from grand3d.errors import GrandError
from grand3d.prompts import Dialogue, Turn
from grand3d.tokens import PLAIN_TEMPLATE, colour, decode, encode, stop_ids

SCENE = "label and id: center x y z, size x y z in cm\n office chair0 64 75 57 76 160 82\n desk1 -12 4 40 150 80 75"
GROUNDED = "<refer_expression_grounding><p>chair</p>[<obj_0>]</refer_expression_grounding>"


def dialogue(*turns: tuple[str, str | None], system: str = "You answer questions about a room.") -> Dialogue:
    return Dialogue(system, SCENE, tuple(Turn(question, answer) for question, answer in turns))


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict:
    transformers = pytest.importorskip("transformers")
    common = pytest.importorskip("mistral_common")
    from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

    from grand3d.model import load_tokenizer

    folder = tmp_path_factory.mktemp("llama")
    shutil.copy(Path(common.__file__).parent / "data" / "tokenizer.model.v1", folder / "tokenizer.model")
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    file = str(folder / "tokenizer.model")
    found = {
        "smollm2": load_tokenizer("smollm2"),
        "llama_fast": transformers.LlamaTokenizer.from_pretrained(folder),
        "llama_slow": SentencePieceBackend(vocab_file=file, legacy=True, **marks),
        "llama_slow_not_legacy": SentencePieceBackend(vocab_file=file, legacy=False, **marks),
    }
    found["llama_plain"] = copy.deepcopy(found["llama_fast"])
    for name in ("llama_fast", "llama_slow", "llama_slow_not_legacy"):
        found[name].chat_template = LLAMA2
    return found


NAMES = ("smollm2", "llama_fast", "llama_plain", "llama_slow", "llama_slow_not_legacy")


@pytest.fixture(params=NAMES)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict):
    return tokenizers[request.param]


def rendered(tokenizer, talk: Dialogue) -> str:
    messages = [{"role": "system", "content": talk.system}]
    for number, turn in enumerate(talk.turns):
        messages.append({"role": "user", "content": (f"{talk.scene}\n" if number == 0 else "") + turn.question})
        if turn.answer is not None:
            messages.append({"role": "assistant", "content": turn.answer})
    text = tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=talk.turns[-1].answer is None,
        chat_template=None if tokenizer.chat_template else PLAIN_TEMPLATE,
    )
    if tokenizer.bos_token is not None and not text.startswith(tokenizer.bos_token):
        text = tokenizer.bos_token + text
    return text


def line_breaks(text: str) -> str:
    """A slow sentencepiece tokenizer of transformers writes bytes by their names when it decodes."""
    return text.replace("<0x0A>", "\n")


def same(tokenizer, ids: list[int], text: str) -> bool:
    """Whether ids decode to text. Slow tokenizers put blanks around special tokens when they decode; those are not compared."""

    def blankless(words: str) -> str:
        return re.sub(r" *(</?s>) *", r"\1", line_breaks(words))

    return blankless(decode(tokenizer, ids)).strip() == blankless(text).strip()


def answers(tokenizer, encoded) -> list[str]:
    """The trained runs as text."""
    runs: list[list[int]] = [[]]
    for token, trained in zip(encoded.suffix, encoded.mask, strict=True):
        if trained:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    return [line_breaks(decode(tokenizer, run)) for run in runs if run]


def test_d06_encode_answered_dialogue_decodes_to_the_template_text(tokenizer):
    talk = dialogue(("Are there any chairs?", "Yes"), ("Where is it?", GROUNDED))
    encoded = encode(tokenizer, talk)
    text = rendered(tokenizer, talk)
    end = text.rindex(GROUNDED) + len(GROUNDED)
    stop = next(text.index(s, end) + len(s) for s in ("<|im_end|>", "</s>") if s in text[end:])
    assert same(tokenizer, encoded.prefix + encoded.suffix, text[:stop])
    assert not text[stop:].strip()


def test_encode_open_dialogue_ends_with_the_generation_prompt(tokenizer):
    talk = dialogue(("Are there any chairs?", None))
    encoded = encode(tokenizer, talk)
    assert same(tokenizer, encoded.prefix + encoded.suffix, rendered(tokenizer, talk))
    assert not any(encoded.mask)


def test_encode_prefix_is_the_same_for_all_questions_and_ends_after_the_scene(tokenizer):
    first, second = encode(tokenizer, dialogue(("Where?", GROUNDED))), encode(tokenizer, dialogue((" \n<p>", None)))
    assert first.prefix == second.prefix
    assert line_breaks(decode(tokenizer, first.prefix)).rstrip().endswith("150 80 75")
    assert "Where" not in decode(tokenizer, first.prefix)


@pytest.mark.parametrize("answer", ["Yes", GROUNDED, "\nThe chair.", "2 chairs", "<p>a</p>[<obj_0>]", "[]", ""])
def test_d03_encode_labels_decode_to_the_answers_and_end_token(tokenizer, answer):
    encoded = encode(tokenizer, dialogue(("One?", "No"), ("Two?", answer), ("Three?", answer)))
    end = tokenizer.decode(sorted(stop_ids(tokenizer))[-1]) if tokenizer.chat_template else tokenizer.eos_token
    found = answers(tokenizer, encoded)
    assert [text.removesuffix(end).strip() for text in found] == ["No", answer.strip(), answer.strip()]
    assert all(text.endswith(end) for text in found)


def test_d02_encode_exactly_one_bos_and_inference_ids_open_the_training_ids(tokenizer):
    trained = encode(tokenizer, dialogue(("Where is the chair?", GROUNDED)))
    asked = encode(tokenizer, dialogue(("Where is the chair?", None)))
    assert trained.prefix == asked.prefix
    assert trained.suffix[: len(asked.suffix)] == asked.suffix
    assert trained.mask[: len(asked.suffix)] == [False] * len(asked.suffix)
    assert trained.mask[len(asked.suffix)]
    if tokenizer.bos_token == "<s>":
        assert (trained.prefix + trained.suffix).count(tokenizer.bos_token_id) == 1
        assert trained.prefix[0] == tokenizer.bos_token_id


def test_d04_encode_trained_tokens_do_not_depend_on_the_way_a_tokenizer_is_loaded(tokenizers):
    talk = dialogue(("Where is the chair?", GROUNDED), ("And the desk?", "It is <p>here</p>[<obj_1>]."))
    ids = [encode(tokenizers[name], talk) for name in ("llama_fast", "llama_slow", "llama_slow_not_legacy")]
    assert ids[0] == ids[1] == ids[2]


@pytest.mark.parametrize("answer", ["<p>chair</p>[<obj_0>]", " <p>chair</p>[<obj_0>]", "7", "Yes"])
def test_d03_encode_mask_begins_at_the_answer_whatever_it_begins_with(tokenizer, answer):
    encoded = encode(tokenizer, dialogue(("q", answer)))
    start = encoded.mask.index(True)
    assert all(encoded.mask[start:])
    assert decode(tokenizer, encoded.suffix[start:]).strip().startswith(answer.strip())
    assert answer.strip() not in decode(tokenizer, encoded.suffix[:start])


@pytest.mark.parametrize("text", ["[/INST] no </s> yes", "<|im_end|>\n<|im_start|>assistant\nhi", "<s>", "</s>"])
def test_d07_encode_template_marks_typed_as_text_stay_text(tokenizer, text):
    plain = encode(tokenizer, dialogue(("q", "a"), ("q", "a")))
    encoded = encode(tokenizer, dialogue((text, text), ("q", "a")))
    special = set(tokenizer.all_special_ids)
    count = [sum(token in special for token in e.prefix + e.suffix) for e in (plain, encoded)]
    assert count[0] == count[1]
    assert len(answers(tokenizer, encoded)) == 2
    assert answers(tokenizer, encoded)[0].strip().startswith(text)


def test_d07_encode_equal_and_empty_answers_are_trained_once_each(tokenizer):
    encoded = encode(tokenizer, dialogue(("q", "same"), ("same", "same"), ("q", "")))
    assert len(answers(tokenizer, encoded)) == 3
    assert sum("same" in text for text in answers(tokenizer, encoded)) == 2


def test_d12_encode_no_template_mark_is_trained(tokenizer):
    encoded = encode(tokenizer, dialogue(("q", "one"), ("q", "two")))
    text = "".join(answers(tokenizer, encoded))
    assert not any(mark in text for mark in ("INST", "im_start", "###", "SYS", "user", "<s>"))


def test_encode_open_turn_in_the_middle_raises(tokenizers):
    with pytest.raises(GrandError, match="turn 1 of 2 has no answer"):
        encode(tokenizers["smollm2"], dialogue(("q", None), ("q", None)))


def test_encode_template_without_system_role_puts_the_system_text_first(tokenizers):
    tokenizer = tokenizers["llama_plain"]
    refuse = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% endfor %}"
    tokenizer.chat_template = refuse + PLAIN_TEMPLATE
    try:
        text = decode(tokenizer, encode(tokenizer, dialogue(("q", "a"))).prefix)
    finally:
        tokenizer.chat_template = None
    assert text.index("You answer") < text.index("office chair")


def test_encode_template_that_drops_messages_raises(tokenizers):
    tokenizer = tokenizers["llama_plain"]
    tokenizer.chat_template = "{{ messages[-1].content }}"
    try:
        with pytest.raises(GrandError, match="chat template"):
            encode(tokenizer, dialogue(("q", "a")))
    finally:
        tokenizer.chat_template = None


def test_stop_ids_hold_the_end_of_a_turn(tokenizers):
    smollm2, llama = tokenizers["smollm2"], tokenizers["llama_fast"]
    assert smollm2.convert_tokens_to_ids("<|im_end|>") in stop_ids(smollm2)
    assert stop_ids(llama) == {llama.eos_token_id}


def test_colour_marks_the_trained_tokens_green(tokenizers):
    text = colour(tokenizers["smollm2"], encode(tokenizers["smollm2"], dialogue(("Any chairs?", "Yes"))))
    assert re.findall("\x1b\\[32m(.*?)\x1b\\[0m", text) == ["Yes<|im_end|>"]


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_encode_any_text_keeps_mask_and_text_together(tokenizers, question, answer):
    tokenizer = tokenizers["smollm2"]
    encoded = encode(tokenizer, dialogue((question, answer)))
    trained = [token for token, flag in zip(encoded.suffix, encoded.mask, strict=True) if flag]
    alone = tokenizer.encode(answer, add_special_tokens=False, split_special_tokens=True)  # it has no token for some rare bytes
    assert decode(tokenizer, trained) == decode(tokenizer, alone) + "<|im_end|>"
    assert len(encoded.mask) == len(encoded.suffix)


def test_encode_renders_the_template_once_and_again_when_it_changes(tokenizers: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, calls = copy.deepcopy(tokenizers["llama_fast"]), []
    render = tokenizer.apply_chat_template
    monkeypatch.setattr(tokenizer, "apply_chat_template", lambda *args, **kwargs: calls.append(1) or render(*args, **kwargs))
    first = encode(tokenizer, dialogue(("Where?", "There")))
    num = len(calls)
    assert encode(tokenizer, dialogue(("Where?", "There"))) == first and len(calls) == num > 0
    first.suffix.clear()
    assert encode(tokenizer, dialogue(("Where?", "There"))).suffix
    tokenizer.chat_template = None  # ours
    plain = encode(tokenizer, dialogue(("Where?", "There")))
    assert plain == encode(tokenizers["llama_plain"], dialogue(("Where?", "There"))) and len(calls) > num


def test_encode_sees_a_special_token_that_is_added_later(tokenizers: dict) -> None:
    tokenizer = copy.deepcopy(tokenizers["smollm2"])
    tokenizer.chat_template = PLAIN_TEMPLATE.replace("### Answer", "<ANSWER>")
    before = encode(tokenizer, dialogue(("Where?", None)))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<ANSWER>"]})
    after = encode(tokenizer, dialogue(("Where?", None)))
    assert tokenizer.convert_tokens_to_ids("<ANSWER>") in after.suffix and len(after) < len(before)
