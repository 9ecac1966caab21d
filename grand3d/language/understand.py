"""From a text to what it means: its things with what is said of each, how they relate, and which one it is about."""

from __future__ import annotations

import re

from grand3d.language import lexicon as lex
from grand3d.language.parse import Parse, chunk, sentence_ends
from grand3d.language.relate import degrees, relations
from grand3d.language.said import CLAUSE, predicates, purposes, texts
from grand3d.language.target import resolve

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
    views = _viewpoints(parse, ends)
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
    parse.negations = [t.lower for t in parse.tokens if t.tag != "QUOTE" and (t.lower in lex.NEGATIVE or t.lower.endswith("n't"))]
    lower = text.lower()
    parse.negations += [
        phrase for phrase in ("other than", "instead of", "rather than", "aside from", "apart from") if phrase in lower
    ]
    return parse


def _set_aside(parse: Parse) -> None:
    """Mark things that are no anchors: left out of the count, parts of the viewer's body, what a picture shows."""
    row = parse.tokens
    for number, thing in enumerate(parse.things):
        before = [t.lower for t in row[max(0, thing.start - 3) : thing.start]]
        if before[-1:] in (["excluding"], ["except"], ["ignoring"], ["besides"]) or before[-2:] in (
            ["not", "including"],
            ["not", "counting"],
            ["except", "for"],
            ["other", "than"],
            ["apart", "from"],
            ["aside", "from"],
        ):
            thing.role = "excluded"
        elif thing.head in ("interest", "viewer", "observer", "perspective", "viewpoint", "view", "night", "time", "day") or (
            thing.head in ("foot", "hand", "body", "head", "back", "face") and row[thing.start].tag == "POS"
        ):
            thing.role = "viewer"
        elif (
            before[-1:] == ["of"]
            and number
            and parse.things[number - 1].head in ("picture", "photo", "painting", "image", "drawing", "photograph")
        ):
            thing.role = "activity"


def _viewpoints(parse: Parse, ends: list[int]) -> set[int]:
    """Clauses that say from where the scene is seen. Returns their tokens."""
    row, used = parse.tokens, set()
    for k, token in enumerate(row):
        follows = [t.lower for t in row[k + 1 : k + 5]]
        first = (
            k == 0
            or row[k - 1].tag == "P"
            or row[k - 1].lower in CLAUSE
            or row[k - 1].lower in ("you", "are", "were", "and", "then")
        )
        seeing = token.lower in lex.FACING and token.tag != "N" and first and "for" not in follows[:1]
        seeing &= (
            token.lower not in ("look", "walk", "come", "lie")
            or (k and row[k - 1].tag == "PRO")
            or follows[:1] in (["at"], ["toward"], ["towards"])
        )
        person = token.lower in ("you", "person", "i", "we") and k and any(t.lower in CLAUSE for t in row[max(0, k - 2) : k])
        person &= not any(t.lower in lex.WISHES for t in row[k + 1 : k + 4])
        view = (
            token.lower in ("perspective", "viewpoint", "vantage", "pov", "view", "viewer", "observer")
            and k
            and any(t.lower == "from" for t in row[max(0, k - 3) : k])
        )
        view |= token.lower == "view" and follows[:1] == ["from"]
        if seeing and k and (row[k - 1].tag in ("N", "ONE", "REL") or (row[k - 1].lower == "are" and row[k - 2].lower != "you")):
            continue
        if seeing or person or view:
            stop = next(
                (j for j in range(k, ends[k]) if row[j].lower in (",", ".") or (j > k + 1 and _main_clause(parse, j))), ends[k]
            )
            parse.viewpoints.append(" ".join(t.text for t in row[k:stop]))
            used |= set(range(k, stop))
    parse.seen_from = used
    if not parse.viewpoints:
        parse.viewpoints += _SIDED.findall(parse.text.lower())
    if not parse.viewpoints:
        parse.viewpoints += [t.text for t in row if t.lower in ("your", "yours")]
    return used


def _main_clause(parse: Parse, k: int) -> bool:
    """Whether the clause that says what is meant starts at token ``k``, with no comma before it."""
    row = parse.tokens
    if row[k].lower in ("choose", "select", "pick", "find", "locate", "identify"):
        return True
    thing = next((t for t in parse.things if t.start == k), None)
    end = k + 1 if row[k].tag == "PRO" and row[k].lower in ("it", "this", "these") else None if thing is None else thing.end
    return end is not None and row[end : end + 1] != [] and row[end].tag == "BE" and row[k - 1].tag not in ("PREP", "SUB")
