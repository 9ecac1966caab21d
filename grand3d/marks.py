"""The pieces of grounded text: a scanner that cuts a text into tags and id lists, under markup.

It goes from left to right and never back, so any string is read in time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PHRASE, PHRASE_END = "<p>", "</p>"
DETAILED, DETAILED_END = "<detailed_grounding>", "</detailed_grounding>"
ANSWER, ANSWER_END = "<refer_expression_grounding>", "</refer_expression_grounding>"
EXPRESSION, EXPRESSION_END = "<refer_expression>", "</refer_expression>"
PLACE, PLACE_END = "<place>", "</place>"
STEP, STEP_END = "<step>", "</step>"
BLOCKS = {DETAILED: DETAILED_END, ANSWER: ANSWER_END}  # the two blocks of a referring reply
TAGS = frozenset({PHRASE, PHRASE_END, EXPRESSION, EXPRESSION_END, PLACE, PLACE_END, STEP, STEP_END, *BLOCKS, *BLOCKS.values()})

WIDE = str.maketrans("［］【】＜＞〈〉，", "[][]<><>,")
_NO_BRACKETS = str.maketrans("", "", "<>[]")
_BLANKS = re.compile(r"[ \t\r\n]*")
_ANGLE = re.compile(r"<([^<>\n]*)>")
ID = re.compile(r"<([^<>,\n]+)>")
_ID_END = re.compile(r"[<>,\n]")
_NEXT_STRICT = re.compile(r"[<\[]")
_NEXT_LENIENT = re.compile(r"[<\[]|(?<!\w)(?:obj|region)_[0-9]+(?!\w)", re.IGNORECASE)
_BETWEEN = re.compile(r"(?:[\s,;&\"']|(?:and|none|null)\b)*", re.IGNORECASE)
_WORD_ID = re.compile(r"(obj|object|region)[ _-]?([0-9]+)(?!\w)", re.IGNORECASE)
_NUMBER_ID = re.compile(r"([0-9]+)(?!\w)")
_CUT_ID = re.compile(r"<(?:obj|region)(?:_[0-9]*)?")


@dataclass(slots=True)
class Mark:
    """One piece of markup: a tag (``tag`` set), an id list, or only a fault (``stray``), with its place in the text."""

    start: int
    end: int
    tag: str = ""
    ids: tuple[str, ...] = ()
    follows: bool = False  # the list stands behind a </p>
    fault: str = ""
    cut: bool = False  # the text ends inside it
    stray: bool = False


def marks(text: str, lenient: bool = False) -> Iterator[Mark]:
    """Tags and id lists from left to right; each character is looked at a bounded number of times."""
    scan = text.translate(WIDE) if lenient else text  # one character for one, so positions hold
    pattern = _NEXT_LENIENT if lenient else _NEXT_STRICT
    list_place = -1  # where the id list of the phrase just closed would open
    position = 0
    while (match := pattern.search(scan, position)) is not None:
        start = match.start()
        follows = start == list_place
        if scan[start] == "[":
            mark = _lenient_list(scan, start, follows) if lenient else _strict_list(scan, start, follows)
        elif scan[start] == "<":
            mark = _angle(scan, start, follows, lenient)
        else:
            mark = Mark(start, match.end(), ids=_word_ids(match[0]), follows=follows, fault="an id without brackets")
        if mark is None:
            position = start + 1
            continue
        if lenient and not mark.fault and text[start : mark.end] != scan[start : mark.end]:
            mark.fault = "full-width brackets"
        if mark.tag == PHRASE_END:
            list_place = _BLANKS.match(scan, mark.end).end()
        yield mark
        position = max(mark.end, start + 1)


def _word_ids(words: str) -> tuple[str, ...]:
    """The ids in what one pair of angle brackets holds, or in one bare word: ``OBJ 012`` and its like become ``obj_12``."""
    ids = []
    for part in map(str.strip, words.split(",")):
        match = _WORD_ID.fullmatch(part)
        if match is not None:
            ids.append(f"{'region' if match[1].lower() == 'region' else 'obj'}_{match[2].lstrip('0') or '0'}")
        elif part.isascii() and part.isdigit():
            ids.append(f"obj_{part.lstrip('0') or '0'}")
        elif part and part.lower() not in ("none", "null"):
            ids.append(part)
    return tuple(ids)


def _angle(scan: str, start: int, follows: bool, lenient: bool) -> Mark | None:
    """The mark that ``<`` opens outside of a list; None when it is ordinary text."""
    match = _ANGLE.match(scan, start)
    if match is None:
        rest = scan[start : start + 40]
        if 1 < len(rest) == len(scan) - start and (any(t.startswith(rest) for t in TAGS) or _CUT_ID.fullmatch(rest)):
            return Mark(start, len(scan), fault="the text ends inside a tag or id", cut=True, stray=True)
        return None
    if match[0] in TAGS:
        return Mark(start, match.end(), tag=match[0])
    name = "<" + "".join(match[1].split()).lower() + ">"
    if name in TAGS:
        return Mark(start, match.end(), tag=name if lenient else "", fault=f"{match[0]} for {name}", stray=not lenient)
    ids = tuple(i for part in match[1].split(",") if _WORD_ID.fullmatch(part.strip()) for i in _word_ids(part))
    if not ids:
        return None
    kept = ids if lenient else ()
    return Mark(start, match.end(), ids=kept, follows=follows, fault="an id without square brackets", stray=not lenient)


def _strict_list(scan: str, start: int, follows: bool) -> Mark | None:
    """The id list that opens at ``start``, as far as it keeps to the grammar; None when the bracket is ordinary text."""
    ids: list[str] = []
    fault, cut = "", False
    position = _BLANKS.match(scan, start + 1).end()
    closed = scan.startswith("]", position)
    while not closed:
        match = ID.match(scan, position)
        if match is None or match[0] in TAGS or match[1].strip() != match[1]:
            cut = position == len(scan) or (scan[position] == "<" and _ID_END.search(scan, position + 1) is None)
            fault = "not an id list: <id> expected"
            break
        ids.append(match[1])
        position = _BLANKS.match(scan, match.end()).end()
        closed = scan.startswith("]", position)
        if not closed and not scan.startswith(",", position):
            cut = position == len(scan)
            fault = "not an id list: , or ] expected"
            break
        if not closed:
            position = _BLANKS.match(scan, position + 1).end()
    return _list_mark(start, len(scan) if cut else position + closed, ids, follows, fault, cut)


def _list_mark(start: int, end: int, ids: list[str], follows: bool, fault: str, cut: bool) -> Mark | None:
    """A list that holds nothing and is not a whole ``[]`` says nothing about a phrase; elsewhere it is ordinary text."""
    if not ids and not follows:
        return None
    fault = "the text ends inside an id list" if cut else fault
    return Mark(start, end, "", tuple(ids), follows, fault, cut, stray=bool(fault) and not ids)


def _lenient_list(scan: str, start: int, follows: bool) -> Mark | None:
    """As ``_strict_list``, with the spellings that docs/markup.md allows."""
    ids: list[str] = []
    cut, closed, position = False, False, start + 1
    while True:
        position = _BETWEEN.match(scan, position).end()
        if position == len(scan):
            cut = True
            break
        if scan[position] == "]":
            position, closed = position + 1, True
            break
        match = _ANGLE.match(scan, position)
        if match is not None:
            if match[0].lower() in TAGS:
                break
        elif scan[position] == "<":
            cut = _ID_END.search(scan, position + 1) is None
            break
        else:
            match = _WORD_ID.match(scan, position) or (_NUMBER_ID.match(scan, position) if follows else None)
            if match is None:
                break
        ids += _word_ids(match[1] if match[0].startswith("<") else match[0])
        position = match.end()
    mark = _list_mark(start, len(scan) if cut else position, ids, follows, "" if closed else "not an id list", cut)
    if mark is not None and closed and mark != _strict_list(scan, start, follows):
        mark.fault = "an id list in another form"
    return mark


def plain(text: str) -> str:
    """The words alone: tags and id lists removed, and nothing left that a strict reading would find fault with."""
    pieces, position = [], 0
    for mark in marks(text):
        piece = text[position : mark.start]
        pieces.append(piece if mark.tag or mark.stray else piece.rstrip(" \t"))
        if mark.stray:
            pieces.append(text[mark.start : mark.end].translate(_NO_BRACKETS))
        position = mark.end
    words = "".join(pieces) + text[position:]
    if position and next(marks(words), None) is not None:  # tags inside tags: what is left forms new ones
        words = words.translate(_NO_BRACKETS)
    return words
