"""Dialogue -> token ids and loss mask, made together, for training and for inference alike.

The chat template is rendered once with place-holders, which gives its fixed pieces. Pieces and texts are then turned into
ids one after the other, and each id is marked as it is made, so a mask cannot drift from its token. A prompt at inference is
cut at the same places, so training and inference see the same ids. Special tokens are recognised in the template only:
``</s>`` or ``<|im_end|>`` typed by a user, or standing in a label, stays plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from grand3d.errors import GrandError
from grand3d.prompts import SCENE_END, Dialogue

PLAIN_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %} {{ m.content }}{{ eos_token }}\n"
    "{% elif m.role == 'user' %}### Question\n{{ m.content }}\n### Answer\n"
    "{% else %}{{ m.content }}\n{% endif %}{% endfor %}"
)
"""For bases without a chat template of their own."""

_MARK = re.compile("\u27e6(\\w+)\u27e7")

T = TypeVar("T")
_made: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def _kept(tokenizer: Any, what: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What ``make`` gives, made once for a tokenizer while its template and special tokens stay as they are. Read only."""
    state = (str(tokenizer.chat_template), len(tokenizer), tuple(tokenizer.all_special_tokens), tokenizer.bos_token)
    key = (*state, tokenizer.eos_token, *what)
    made = _made.setdefault(tokenizer, {})
    if key not in made:
        made[key] = make()
    return made[key]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One dialogue as token ids.

    Attributes:
        prefix: Everything up to the end of the scene text; the same list for every question about the scene.
        suffix: The rest. Ends with the last answer's end token, or with the generation prompt when the last answer is open.
        mask: One flag per suffix token: True for the tokens of every answer and the end token behind it, nothing else.
    """

    prefix: list[int]
    suffix: list[int]
    mask: list[bool]

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)


def encode(tokenizer: Any, dialogue: Dialogue) -> Encoded:
    """Turn a dialogue into ids with their loss mask.

    A blank that the template puts before an answer is tokenised together with it, as the base was trained
    (``" Yes"`` is one token of Llama's).

    Raises:
        GrandError: If the chat template loses a message, or an answer stands before the last turn's question.
    """
    texts = {"system": dialogue.system, "scene": dialogue.scene}
    for number, turn in enumerate(dialogue.turns):
        texts[f"question{number}"] = turn.question
        if turn.answer is not None:
            texts[f"answer{number}"] = turn.answer
        elif number != len(dialogue.turns) - 1:
            raise GrandError(f"turn {number + 1} of {len(dialogue.turns)} has no answer; only the last one may be open")
    pieces, names = _template(tokenizer, tuple(turn.answer is not None for turn in dialogue.turns), bool(dialogue.system))
    stops = stop_ids(tokenizer)
    closed = dialogue.turns[-1].answer is not None
    ids = _bos(tokenizer, pieces[0])
    mask = [False] * len(ids)
    cut, blank, after_answer = 0, "", False
    for number, piece in enumerate(pieces):
        last = number == len(names)
        if after_answer:
            piece_ids = _piece_ids(tokenizer, piece)
            end = next((i for i, token in enumerate(piece_ids) if token in stops), None)
            if end is None:  # the template closes an answer by nothing that stops generation: close it with the end token
                piece_ids, end = [tokenizer.eos_token_id, *piece_ids], 0
            ids += piece_ids[: end + 1]
            mask += [True] * (end + 1)
            if last:
                break
            rest = piece[_end_of_stop(tokenizer, piece, stops) :]
        else:
            rest = piece
        blank = " " if rest.endswith(" ") and not last else ""
        piece_ids = _piece_ids(tokenizer, rest[: len(rest) - len(blank)])
        ids += piece_ids
        mask += [False] * len(piece_ids)
        if last:
            break
        name = names[number]
        new = text_ids(tokenizer, blank + texts[name])
        after_answer = name.startswith("answer")
        ids += new
        mask += [after_answer] * len(new)
        if name == "scene":
            end_ids = text_ids(tokenizer, SCENE_END)
            ids += end_ids
            mask += [False] * len(end_ids)
            cut = len(ids)
    if closed and not any(mask):
        raise GrandError(f"the chat template of {tokenizer.name_or_path!r} leaves no trained token in a dialogue with an answer")
    return Encoded(ids[:cut], ids[cut:], mask[cut:])


CUT_SLACK = 4
"""Tokens left free where a scene text was cut: words may split otherwise there."""


def counter(tokenizer: Any) -> Callable[[str], int]:
    """Counts the tokens of a text, as ``serial.fit_scene`` wants it."""
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def scene_budget(count: Callable[[str], int], scene_text: str, prompt_tokens: int, limit: int) -> int:
    """Tokens a scene text may have so that the prompt around it, ``prompt_tokens`` with ``scene_text``, has at most ``limit``."""
    beside = prompt_tokens - count(scene_text)
    return max(1, limit - beside - CUT_SLACK)


def stop_ids(tokenizer: Any) -> set[int]:
    """Ids that end a reply: the tokenizer's end token and the special token with which its template closes an answer."""
    return set(_kept(tokenizer, ("stops",), lambda: _stop_ids(tokenizer)))


def _stop_ids(tokenizer: Any) -> set[int]:
    ids = set() if tokenizer.eos_token_id is None else {tokenizer.eos_token_id}
    pieces, names = _template(tokenizer, (True, True), True)
    closing = pieces[names.index("answer0") + 1]
    first = next((part for part in _split_special(tokenizer, closing) if part in _special(tokenizer)), None)
    if first is not None and first != tokenizer.bos_token:
        ids.add(_special(tokenizer)[first])
    if not ids:
        raise GrandError(f"the tokenizer of {tokenizer.name_or_path!r} has no end token; a reply could never end")
    return ids


def colour(tokenizer: Any, encoded: Encoded) -> str:
    """The whole dialogue as text for a terminal: the trained tokens in green, the end of the shared prefix marked."""
    runs: list[tuple[bool, list[int]]] = []
    for token, trained in zip(encoded.suffix, encoded.mask, strict=True):
        if not runs or runs[-1][0] != trained:
            runs.append((trained, []))
        runs[-1][1].append(token)
    text = decode(tokenizer, encoded.prefix) + "\x1b[2m|\x1b[0m"
    return text + "".join(
        f"\x1b[32m{decode(tokenizer, run)}\x1b[0m" if trained else decode(tokenizer, run) for trained, run in runs
    )


def decode(tokenizer: Any, ids: list[int]) -> str:
    """Ids back to text, special tokens included, blanks as they stood."""
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _template(tokenizer: Any, answered: tuple[bool, ...], system: bool) -> tuple[list[str], list[str]]:
    """The template's fixed pieces and, between each two of them, the name of the text that stands there."""
    return _kept(tokenizer, ("template", answered, system), lambda: _render(tokenizer, answered, system))


def _render(tokenizer: Any, answered: tuple[bool, ...], system: bool) -> tuple[list[str], list[str]]:
    for fold in (False, True):  # some templates know no system role: it then opens the first question
        head = "\u27e6system\u27e7\n\n" if system and fold else ""
        messages = [{"role": "system", "content": "\u27e6system\u27e7"}] if system and not fold else []
        for number, has_answer in enumerate(answered):
            scene = head + "\u27e6scene\u27e7" if number == 0 else ""
            messages.append({"role": "user", "content": f"{scene}\u27e6question{number}\u27e7"})
            if has_answer:
                messages.append({"role": "assistant", "content": f"\u27e6answer{number}\u27e7"})
        try:
            text = tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=not answered[-1],
                chat_template=None if tokenizer.chat_template else PLAIN_TEMPLATE,
            )
        except Exception as error:  # jinja2 raises what the template's author chose
            reason = f"{type(error).__name__}: {error}"
            continue
        parts = _MARK.split(text)
        expected = (["system"] if system else []) + ["scene"]
        for number, has_answer in enumerate(answered):
            expected += [f"question{number}"] + ([f"answer{number}"] if has_answer else [])
        if parts[1::2] == expected:
            return parts[0::2], parts[1::2]
        reason = f"it renders the messages {parts[1::2]}, expected {expected}"
    raise GrandError(f"the chat template of {tokenizer.name_or_path!r} cannot be used: {reason}")


def _special(tokenizer: Any) -> dict[str, int]:
    return _kept(tokenizer, ("special",), lambda: _special_tokens(tokenizer))


def _special_tokens(tokenizer: Any) -> dict[str, int]:
    return {str(token): index for index, token in tokenizer.added_tokens_decoder.items() if token.special} | {
        token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens
    }


def _split_special(tokenizer: Any, piece: str) -> list[str]:
    names = sorted(_special(tokenizer), key=len, reverse=True)
    return [part for part in re.split("(" + "|".join(map(re.escape, names)) + ")", piece) if part] if names else [piece]


def _piece_ids(tokenizer: Any, piece: str) -> list[int]:
    """Ids of template text: special tokens are recognised here and nowhere else."""
    return list(_kept(tokenizer, ("piece", piece), lambda: _make_piece_ids(tokenizer, piece)))


def _make_piece_ids(tokenizer: Any, piece: str) -> list[int]:
    special = _special(tokenizer)
    ids: list[int] = []
    for part in _split_special(tokenizer, piece):
        ids += [special[part]] if part in special else text_ids(tokenizer, part)
    return ids


def _end_of_stop(tokenizer: Any, piece: str, stops: set[int]) -> int:
    return _kept(tokenizer, ("end", piece), lambda: _find_end_of_stop(tokenizer, piece, stops))


def _find_end_of_stop(tokenizer: Any, piece: str, stops: set[int]) -> int:
    special, end = _special(tokenizer), 0
    for part in _split_special(tokenizer, piece):
        end += len(part)
        if special.get(part) in stops:
            return end
    return 0


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of text from within a longer text: no special token is recognised and no blank is put in front.

    Tokenizers of sentencepiece's kind put a blank before the first word of what they are given. A line break, whose
    byte token merges with nothing, is put in front and its ids are taken off again.
    """
    if not text:
        return []
    head, whole = _raw_ids(tokenizer, "\n"), _raw_ids(tokenizer, "\n" + text)
    if whole[: len(head)] == head:
        return whole[len(head) :]
    return _raw_ids(tokenizer, text)  # the line break merged: a tokenizer of bytes, which needs no such help


def _raw_ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)


def _bos(tokenizer: Any, first_piece: str) -> list[int]:
    """The beginning-of-text id, for a tokenizer that has one, unless the template writes it itself.

    Whether the tokenizer would add it by itself is not asked: that differs between two ways of loading the same Llama-2 files.
    A token that both begins and ends texts, as GPT-2's, is not put in front.
    """
    bos = tokenizer.bos_token_id
    if bos is None or bos == tokenizer.eos_token_id or first_piece.startswith(tokenizer.bos_token):
        return []
    return [bos]
