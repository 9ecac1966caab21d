"""From a text to what it means: its things with what is said of each, how they relate, and which one it is about."""

from __future__ import annotations

import re

from grand3d.language import lexicon as lex
from grand3d.language.parse import Parse, chunk, sentence_ends
from grand3d.language.relate import degrees, relations
from grand3d.language.said import CLAUSE, predicates, purposes, texts
from grand3d.language.target import resolve
from grand3d.language.words import Token

_SIDED = re.compile(
    r"\b(?:on|to) the (?:far |very )?(?:left|right)(?: hand|-hand)?(?: side)?\b"
    r"(?= (?:in|on|at|near|when|if|as|and|is|under|by|above|with|next|while|facing|looking|that|which)\b|\s*[.,;]|$)"
)


def understand(text: str) -> Parse:
    """Parse a referring expression.

    Returns:
        Its things with their attributes, the relations between them, and the thing it is about.
    """
    parse = chunk(text)
    ends = sentence_ends(parse.tokens)
    _set_aside(parse)
    used, aims = purposes(parse, ends)
    views = _viewpoints(parse, ends, used)
    resolve(parse)
    for number, words in aims:
        of_part = number is None or parse.things[number].role in ("part", "region", "text")
        by = parse.target if of_part and parse.target is not None else number
        if by is not None:
            parse.things[by].attributes.append(("function", words))
    used |= texts(parse)
    used |= predicates(parse, ends, used)
    relations(parse, ends, used, views)
    degrees(parse)
    parse.negations = [token.lower for token in parse.tokens if token.tag != "QUOTE" and _denies(token.lower)]
    parse.negations += ["besides"] * any(
        t.role == "excluded" and parse.tokens[t.start - 1].lower == "besides" for t in parse.things
    )
    parse.negations += [phrase for phrase in _EXCEPT if phrase in text.lower()]
    return parse


_EXCEPT = ("other than", "instead of", "rather than", "aside from", "apart from")
_LEAVES_OUT = {"excluding", "except", "ignoring", "besides", "not including", "not counting", "except for", *_EXCEPT}
_PICTURES = ("picture", "photo", "painting", "image", "drawing", "photograph")
_NO_THINGS = ("interest", "viewer", "observer", "perspective", "viewpoint", "view", "night", "time", "day")
_BODY = ("foot", "hand", "body", "head", "back", "face")


def _denies(word: str) -> bool:
    return word in lex.NEGATIVE or word.endswith("n't")


def _set_aside(parse: Parse) -> None:
    """Mark things that are no anchors: left out of the count, parts of the viewer's body, what a picture shows."""
    row = parse.tokens
    for number, thing in enumerate(parse.things):
        before = [token.lower for token in row[max(0, thing.start - 2) : thing.start]]
        if before and (before[-1] in _LEAVES_OUT or " ".join(before) in _LEAVES_OUT):
            thing.role = "excluded"
        elif thing.head in _NO_THINGS or (thing.head in _BODY and row[thing.start].tag == "POS"):
            thing.role = "viewer"
        elif before[-1:] == ["of"] and number and parse.things[number - 1].head in _PICTURES:
            thing.role = "activity"


def _viewpoints(parse: Parse, ends: list[int], purpose: set[int]) -> set[int]:
    """Clauses that say from where the scene is seen, none of them in a purpose. Returns their tokens."""
    row, used = parse.tokens, set()
    for k in range(len(row)):
        if _looks(row, k) or _stands(row, k) or _view(row, k):
            over = (j for j in range(k, ends[k]) if row[j].lower in (",", ".") or (j > k + 1 and _main_clause(parse, j)))
            stop = next(over, ends[k])
            parse.viewpoints.append(" ".join(token.text for token in row[k:stop]))
            used |= set(range(k, stop))
    parse.seen_from = used
    parse.viewpoints = parse.viewpoints or _SIDED.findall(parse.text.lower())
    parse.viewpoints = parse.viewpoints or [
        token.text for k, token in enumerate(row) if token.lower in ("your", "yours") and k not in purpose
    ]
    return used


def _looks(row: list[Token], k: int) -> bool:
    """Whether token ``k`` begins a clause such as "facing the door" or "looking at the wall"; "look for" is none."""
    token, before = row[k], row[k - 1] if k else Token("", "", 0, 0, "P")
    after = row[k + 1].lower if k + 1 < len(row) else ""
    begins = before.tag == "P" or before.lower in (*CLAUSE, "you", "are", "were", "and", "then")
    if token.lower not in lex.FACING or token.tag == "N" or not begins or after == "for":
        return False
    if before.tag in ("N", "ONE", "REL") or (before.lower == "are" and row[k - 2].lower != "you"):
        return False
    return token.lower not in ("look", "walk", "come", "lie") or before.tag == "PRO" or after in ("at", "toward", "towards")


def _stands(row: list[Token], k: int) -> bool:
    """Whether a clause about where someone is begins at token ``k``: "as you enter"; "if you want to sit" is a purpose."""
    clause = any(token.lower in CLAUSE for token in row[max(0, k - 2) : k])
    wish = any(token.lower in lex.WISHES for token in row[k + 1 : k + 4])
    return row[k].lower in ("you", "person", "i", "we") and clause and not wish


def _view(row: list[Token], k: int) -> bool:
    """Whether a view is named: "from the perspective of the desk"."""
    names = ("perspective", "viewpoint", "vantage", "pov", "view", "viewer", "observer")
    seen = row[k].lower in names and any(token.lower == "from" for token in row[max(0, k - 3) : k])
    return seen or (row[k].lower == "view" and k + 1 < len(row) and row[k + 1].lower == "from")


def _main_clause(parse: Parse, k: int) -> bool:
    """Whether the clause that says what is meant starts at token ``k``, with no comma before it."""
    row = parse.tokens
    if row[k].lower in ("choose", "select", "pick", "find", "locate", "identify"):
        return True
    thing = next((t for t in parse.things if t.start == k), None)
    end = k + 1 if row[k].tag == "PRO" and row[k].lower in ("it", "this", "these") else None if thing is None else thing.end
    return end is not None and row[end : end + 1] != [] and row[end].tag == "BE" and row[k - 1].tag not in ("PREP", "SUB")
