"""Grounded text: reading, writing and checking it. The grammar is docs/markup.md.

Built from the tags and id lists that the scanner of marks.py finds, one after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from grand3d.errors import GrandError
from grand3d.marks import (
    ANSWER,
    ANSWER_END,
    BLOCKS,
    DETAILED,
    DETAILED_END,
    EXPRESSION,
    EXPRESSION_END,
    ID,
    PHRASE,
    PHRASE_END,
    PLACE,
    PLACE_END,
    STEP,
    STEP_END,
    TAGS,
    WIDE,
    Mark,
    marks,
    plain,
)

__all__ = ["parse", "check", "answer_ids", "span", "plain", "map_ids", "reference_reply", "Parsed", "Span", "Step", "Fault"]
__all__ += ["PHRASE", "PHRASE_END", "EXPRESSION", "EXPRESSION_END", "DETAILED", "DETAILED_END", "ANSWER", "ANSWER_END"]
__all__ += ["PLACE", "PLACE_END", "STEP", "STEP_END", "TAGS", "GROUNDINGS"]

GROUNDINGS = ("first", "later", "none")

_MAX_OPEN = 4  # phrases inside phrases that are followed at once; bounds the text they copy
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Span:
    """A phrase with the objects it names; ``text[start:end]`` is the whole of it, tags and id list included.

    Attributes:
        phrase: The words between ``<p>`` and ``</p>``; empty when an id list stands alone.
        ids: Without repeats, in the order written; empty for ``[]`` and for a phrase without a list.
        listed: False when no id list followed the phrase, so that nothing is said about its objects.
    """

    phrase: str
    ids: tuple[str, ...]
    start: int
    end: int
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: its text as written (still grounded, number included) and the spans inside."""

    text: str
    spans: tuple[Span, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A deviation from the grammar, at a character position of the text."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says.

    Attributes:
        spans: All phrases and id lists in reading order, those inside blocks and steps too.
        detailed: Spans of the first ``<detailed_grounding>`` block; None without one.
        answer: Spans of the first ``<refer_expression_grounding>`` block; None without one.
        places: ``(x, y, z)`` in metres; places that are not three finite numbers are left out and are faults.
        faults: Every deviation from the grammar, the ones that lenient reading mends too.
        truncated: The text stops inside a tag, id, list, phrase, block, place or step.
        lenient: Which reading this is.
    """

    text: str
    spans: tuple[Span, ...]
    detailed: tuple[Span, ...] | None
    answer: tuple[Span, ...] | None
    places: tuple[tuple[float, float, float], ...]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    truncated: bool
    lenient: bool = False


@dataclass(slots=True)
class _Reader:
    """What is open while the marks of one text go by."""

    text: str
    lenient: bool
    spans: list[Span] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    places: list[tuple[float, float, float]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    blocks: dict[str, list[Span]] = field(default_factory=dict)  # the first block of each kind
    stack: list[tuple[str, int, list[Span]]] = field(default_factory=list)  # open blocks: tag, position, where spans go
    phrases: list[tuple[int, int, bool]] = field(default_factory=list)  # open phrases: start, inner start, nested
    waiting: tuple[str, int, int] | None = None  # a closed phrase whose id list may come next: words, start, end
    place: int | None = None  # inner start of the open place
    step: tuple[int, int, int] | None = None  # open step: start, inner start, number of spans before

    def fault(self, position: int, reason: str) -> None:
        self.faults.append(Fault(position, reason))

    def add(self, phrase: str, ids: tuple[str, ...], start: int, end: int, listed: bool = True) -> None:
        unique = tuple(dict.fromkeys(ids))
        if len(unique) < len(ids):
            self.fault(start, "an id is listed twice")
        span = Span(phrase, unique, start, end, listed)
        self.spans.append(span)
        if self.stack:
            self.stack[-1][2].append(span)

    def settle(self) -> None:
        """The phrase that waits gets no list."""
        if self.waiting is not None:
            phrase, start, end = self.waiting
            self.waiting = None
            self.fault(start, "no id list behind the phrase")
            self.add(phrase, (), start, end, listed=False)

    def drop_phrases(self) -> None:
        self.faults += [Fault(start, "<p> is not closed") for start, _, _ in self.phrases]
        self.phrases.clear()

    def read_list(self, mark: Mark, behind_open: bool) -> None:
        if self.waiting is not None and mark.follows:
            phrase, start, end = self.waiting
            self.waiting = None
            if end != mark.start:
                self.fault(end, "blank between </p> and the id list")
            self.add(phrase, mark.ids, start, mark.end)
        elif behind_open and self.phrases:
            start, inner, _ = self.phrases.pop()
            self.fault(start, "<p> is not closed before its id list")
            self.add(self.text[inner : mark.start].strip(), mark.ids, start, mark.end)
        else:
            self.settle()
            self.add("", mark.ids, mark.start, mark.end)

    def read_phrase(self, mark: Mark) -> None:
        self.settle()
        if mark.tag == PHRASE:
            if self.phrases:
                self.fault(mark.start, "<p> inside an open phrase")
                self.phrases = [(start, inner, True) for start, inner, _ in self.phrases[1 - _MAX_OPEN :]]
            self.phrases.append((mark.start, mark.end, False))
        elif not self.phrases:
            self.fault(mark.start, "</p> without <p>")
        else:
            start, inner, nested = self.phrases.pop()
            words = self.text[inner : mark.start]
            words = plain(words) if nested else words
            if not words.strip():
                self.fault(start, "empty phrase")
            self.waiting = (words, start, mark.end)

    def read_block(self, mark: Mark) -> None:
        self.settle()
        self.drop_phrases()
        if mark.tag in BLOCKS:
            if any(tag == mark.tag for tag, _, _ in self.stack):
                self.fault(mark.start, f"{mark.tag} inside itself")
                return
            if mark.tag in self.blocks:
                self.fault(mark.start, f"a second {mark.tag}")
            if self.stack:
                self.fault(mark.start, f"{mark.tag} inside {self.stack[-1][0]}")
            spans: list[Span] = []
            self.blocks.setdefault(mark.tag, spans)
            self.stack.append((mark.tag, mark.start, spans))
            return
        if all(BLOCKS[tag] != mark.tag for tag, _, _ in self.stack):
            self.fault(mark.start, f"{mark.tag} closes nothing")
            return
        while BLOCKS[self.stack[-1][0]] != mark.tag:
            self.lose_block()
        self.stack.pop()

    def lose_block(self) -> None:
        """An open block has no end: lenient reading ends it here, strict reading does not read it."""
        tag, start, spans = self.stack.pop()
        self.fault(start, f"{tag} is not closed")
        if not self.lenient and self.blocks[tag] is spans:
            del self.blocks[tag]

    def read_place(self, mark: Mark) -> None:
        self.settle()
        if mark.tag == PLACE:
            if self.place is not None:
                self.fault(self.place, "<place> is not closed")
            self.place = mark.end
        elif self.place is None:
            self.fault(mark.start, "</place> without <place>")
        else:
            words = self.text[self.place : mark.start]
            start, self.place = self.place, None
            reason, place = _read_place(words, self.lenient)
            if reason:
                self.fault(start, reason)
            if place is not None:
                self.places.append(place)

    def read_step(self, mark: Mark) -> None:
        self.settle()
        self.drop_phrases()
        if mark.tag == STEP_END and self.step is None:
            self.fault(mark.start, "</step> without <step>")
        if self.step is not None:
            self.end_step(mark.start, mark.end, closed=mark.tag == STEP_END)
        if mark.tag == STEP:
            self.step = (mark.start, mark.end, len(self.spans))

    def end_step(self, inner_end: int, end: int, closed: bool) -> None:
        start, inner, before = self.step
        self.step = None
        if not closed:
            self.fault(start, "<step> is not closed")
            end = inner_end
        if closed or self.lenient:
            words = self.text[inner:inner_end]
            if not words.lstrip().startswith(f"{len(self.steps) + 1}. "):
                self.fault(start, f"step {len(self.steps) + 1} does not begin with its number")
            self.steps.append(Step(words, tuple(self.spans[before:]), start, end))


def _read_place(words: str, lenient: bool) -> tuple[str, tuple[float, float, float] | None]:
    """(fault, place) of what stands between the place tags."""
    bare = words.translate(WIDE).strip().strip("[]()") if lenient else words
    parts = [part.strip() for part in bare.split(",")]
    if len(parts) != 3:
        return f"a place has 3 numbers, this has {len(parts)} parts", None
    numbers = [float(part) if _NUMBER.fullmatch(part) else math.nan for part in parts]
    for part, number in zip(parts, numbers, strict=True):
        if not math.isfinite(number):
            return f"{part[:20]!r} is not a finite number", None
    return ("a place in brackets" if bare != words.strip() and lenient else ""), tuple(numbers)


_READ = {PHRASE: _Reader.read_phrase, PHRASE_END: _Reader.read_phrase, PLACE: _Reader.read_place, PLACE_END: _Reader.read_place}
_READ |= {STEP: _Reader.read_step, STEP_END: _Reader.read_step}
_READ |= {tag: _Reader.read_block for pair in BLOCKS.items() for tag in pair}


def parse(text: str, lenient: bool = False) -> Parsed:
    """Read grounded text. Never raises, whatever the string; time linear in its length.

    Args:
        text: A reply, an answer or a question.
        lenient: Also read the other spellings listed in docs/markup.md. For replies of a model only: ids become ``obj_k``.
    """
    reader = _Reader(text, lenient)
    truncated, last = False, ""
    for mark in marks(text, lenient):
        truncated = truncated or mark.cut
        if mark.fault:
            reader.fault(mark.start, mark.fault)
        if mark.stray:
            continue
        if not mark.tag:
            reader.read_list(mark, last == PHRASE)
        elif mark.tag in _READ:
            _READ[mark.tag](reader, mark)
        last = mark.tag
    reader.settle()
    truncated = truncated or bool(reader.phrases or reader.stack or reader.step or reader.place is not None)
    reader.drop_phrases()
    if reader.place is not None:
        reader.fault(reader.place, "<place> is not closed")
    if reader.step is not None:
        reader.end_step(len(text), len(text), closed=False)
    while reader.stack:
        reader.lose_block()
    found = {tag: tuple(sorted(spans, key=lambda s: s.start)) for tag, spans in reader.blocks.items()}
    return Parsed(
        text=text,
        spans=tuple(sorted(reader.spans, key=lambda s: s.start)),
        detailed=found.get(DETAILED),
        answer=found.get(ANSWER),
        places=tuple(reader.places),
        steps=tuple(reader.steps),
        faults=tuple(sorted(reader.faults, key=lambda f: f.position)),
        truncated=truncated,
        lenient=lenient,
    )


def check(parsed: Parsed, known_ids: Collection[str]) -> list[str]:
    """What is wrong with a text, in words: its faults, and the ids that are not among ``known_ids``."""
    known = set(known_ids)
    messages = [f"at {fault.position}: {fault.reason}" for fault in parsed.faults]
    for item in parsed.spans:
        for unknown in (i for i in item.ids if i not in known):
            of = f" of {item.phrase!r}" if item.phrase else ""
            messages.append(f"at {item.start}: <{unknown}>{of} is none of the {len(known)} known ids")
    return messages


def answer_ids(parsed: Parsed) -> tuple[str, ...] | None:
    """The objects a reply answers with; ``()`` when it says that none fits; None when no answer can be read.

    The ids of all lists in the answer block. Without an answer block, lenient reading takes the first listed span outside of
    the detailed block.
    """
    if parsed.answer is not None:
        listed = [item.ids for item in parsed.answer if item.listed]
        return tuple(dict.fromkeys(i for ids in listed for i in ids)) if listed else None
    if parsed.lenient:
        detailed = {item.start for item in parsed.detailed or ()}
        for item in parsed.spans:
            if item.listed and item.start not in detailed:
                return item.ids
    return None


def span(phrase: str, ids: Sequence[str]) -> str:
    """Write a phrase with its ids: ``<p>desk</p>[<obj_12>]``; an empty phrase gives the list alone.

    Raises:
        GrandError: If the phrase holds markup, or an id is blank, a tag, or holds ``<``, ``>``, ``,`` or a line break.
    """
    if next(marks(phrase), None) is not None:
        raise GrandError(f"the phrase {phrase!r} holds markup; use plain() first")
    for item in ids:
        if ID.fullmatch(f"<{item}>") is None or item.strip() != item or f"<{item}>" in TAGS:
            raise GrandError(f"the id {item!r} cannot be written: expected text without '<', '>', ',', line breaks, no tag name")
    listed = "[" + ", ".join(f"<{item}>" for item in ids) + "]"
    return f"{PHRASE}{phrase}{PHRASE_END}{listed}" if phrase else listed


def map_ids(text: str, mapping: Callable[[str], str | None], order: Callable[[str], Any] | None = None) -> tuple[str, list[str]]:
    """Write other ids into every id list.

    Args:
        text: Grounded text.
        mapping: New id of an old one; None for one that is unknown.
        order: By which the new ids of a list are sorted; None leaves them as they stand.

    Returns:
        The text, in which unknown ids are left out of their lists (``[]`` when none stays) and ids that became equal stand
        once; and the unknown ids in order.
    """
    pieces, unknown, position = [], [], 0
    for mark in marks(text):
        if mark.tag or mark.stray:
            continue
        new = [(old, mapping(old)) for old in mark.ids]
        unknown += [old for old, name in new if name is None]
        kept = dict.fromkeys(name for _, name in new if name is not None)
        listed = kept if order is None else sorted(kept, key=order)
        pieces += [text[position : mark.start], span("", tuple(listed))]
        position = mark.end
    return "".join(pieces) + text[position:], unknown


def reference_reply(detailed: Sequence[tuple[str, Sequence[str]]], phrase: str, ids: Sequence[str], grounding: str) -> str:
    """The reply to a referring expression: a block with its grounded phrases and one with the answer.

    Args:
        detailed: Noun phrases of the expression in order, each with its ids.
        phrase: What the target is called.
        ids: The target ids; none when nothing fits.
        grounding: ``first`` (detailed block before the answer), ``later`` (after it) or ``none`` (without it).

    Raises:
        GrandError: For another grounding, or a phrase or id that cannot be written.
    """
    if grounding not in GROUNDINGS:
        raise GrandError(f"grounding is {grounding!r}, expected one of {', '.join(GROUNDINGS)}")
    answer = ANSWER + span(phrase, ids) + ANSWER_END
    if grounding == "none":
        return answer
    listed = DETAILED + " ".join(span(words, named) for words, named in detailed) + DETAILED_END
    return listed + answer if grounding == "first" else answer + listed
