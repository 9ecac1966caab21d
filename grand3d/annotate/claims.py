"""What a grounded text claims: which things it names, how they look, how they stand to each other. Words only, no scene.

English, by rules: a relation is read where its words stand right before the name of the other thing. Whatever is not
recognised claims nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from grand3d.annotate.lexicon import (
    ASIDE,
    CLAUSE,
    CUTS,
    DETERMINERS,
    FAINT,
    FREE,
    GENERIC,
    GROUPS,
    LOOKS,
    NEGATED,
    NOUNS,
    NUMBERS,
    PLACES,
    PRONOUN,
    RELATION,
    RELATIONS,
)
from grand3d.bench.nouns import forms, words
from grand3d.markup import Parsed

SUPERLATIVES = {"largest": "largest", "biggest": "largest", "smallest": "smallest", "tallest": "tallest"}
PARTS = frozenset(
    words("handle handles frame frames leg legs shade shades base top tops surface edge edges door doors drawer drawers")
)
FOLLOWS = PARTS | frozenset(words("side sides surface size height width colour color shape material design area"))
"""Words that make of the name before them a part or a property: the table top, the desk area."""
VERBS = frozenset(words("stands lights rests cans seats signs fans plants holds watches screens papers boards"))
"""Plurals that are verbs too: without an article they name nothing."""
_SIZES = frozenset(words("small large big tall short long little thin wide narrow low high huge tiny medium sized"))
_LONGEST = 4  # words of a name
_COPULA = frozenset(words("is are was were looks look appears appear and of a an"))
_END = re.compile(r"[.!?;\n](?=\s|$)")
_POLITE = re.compile(r"\s*(?:yes|no)\b,?\s*", re.IGNORECASE)
_AND = re.compile(r"\s*(?:,|and|, and|or)\s*(?:the|a|an)?\s*", re.IGNORECASE)
_ON_IT = re.compile(r"\s*(?:on (?:it|them|top)|resting on it|sitting on it)\b")
_WITH = re.compile(r".*\bwith\s*(?:the|a|an)?\s*|\s*(?:that )?has\s*(?:the|a|an)?\s*", re.DOTALL)
_MEASURE = re.compile(r"\b(\d+(?:\.\d+)?) ?(?:m|metres?|meters?) (tall|high|long|wide)\b")


@dataclass(frozen=True, slots=True)
class Named:
    """A noun phrase: its noun (empty if there is none), how the thing is said to look, its number and superlative, if said."""

    noun: str
    looks: tuple[str, ...]
    number: int | None
    superlative: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A relation between spans, by their numbers.

    Attributes:
        subjects: Spans that it may be said of; it is enough that it holds of one.
        objects: The other thing; two for ``between``. Empty for a place in the room.
    """

    subjects: tuple[int, ...]
    name: str
    objects: tuple[int, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a text claims.

    Attributes:
        names: Of each span, the noun phrases in it.
        loose: Names of things outside of spans: the noun, whether its sentence denies, and its place in the text.
        looks: Looks stated outside of spans: the span they are said of, the word, and whether the sentence denies.
        measures: Sizes: the span, metres, and ``tall``, ``high``, ``long`` or ``wide``.
        counts: Numbers right before spans.
        denied: Spans whose sentence denies.
    """

    names: tuple[tuple[Named, ...], ...]
    claims: tuple[Claim, ...]
    loose: tuple[tuple[str, bool, int], ...]
    looks: tuple[tuple[int, str, bool], ...]
    measures: tuple[tuple[int, float, str], ...]
    counts: tuple[tuple[int, int], ...]
    denied: frozenset[int]


def known(name: str, extra: frozenset[str]) -> bool:
    """Whether words name a kind of thing, in the vocabulary or in ``extra``."""
    found = forms(name)
    return bool(found & NOUNS or found & extra)


def _name(tokens: list[str], extra: frozenset[str]) -> bool:
    """Whether these words are the name of a kind, and not a look before one: a glass door is a door of glass."""
    name = " ".join(tokens)
    return known(name, extra) and (len(tokens) == 1 or tokens[0] not in LOOKS or name in extra)


@lru_cache(maxsize=200_000)
def named(phrase: str, extra: frozenset[str]) -> tuple[Named, ...]:
    """The noun phrases of a span: one, or several joined by ``and``."""
    tokens = words(phrase)
    if "and" in tokens:
        cut = tokens.index("and")
        parts = [_one(tokens[:cut], extra), *named(" ".join(tokens[cut + 1 :]), extra)]
        if all(known(part.noun, extra) for part in parts):
            return tuple(parts)
        tokens = [token for token in tokens if token != "and"]  # black and white
    return (_one(tokens, extra),)


def _one(tokens: list[str], extra: frozenset[str]) -> Named:
    start = 0
    while start < len(tokens) - 1 and (tokens[start] in DETERMINERS or tokens[start] in ("which", "what")):
        start += 1
    number = None
    if start < len(tokens) - 1 and (tokens[start] in NUMBERS or tokens[start].isdigit()):
        number = NUMBERS.get(tokens[start]) if tokens[start] in NUMBERS else int(tokens[start][:6])
        start += 1
    tokens = tokens[start:]
    if "of" in tokens[1:] and tokens[tokens.index("of") - 1] in {*GROUPS, *(f"{word}s" for word in GROUPS)}:
        return _one(tokens[tokens.index("of") + 1 :], extra)
    end = next((k for k, token in enumerate(tokens) if k and (token in CUTS or token == "of")), len(tokens))
    if end < len(tokens) and tokens[end] == "of":  # chest of drawers
        whole = next((n for n in (2, 1) if known(" ".join(tokens[end - 1 : end + 1 + n]), extra)), 0)
        end = end + 1 + whole if whole else end
    head = tokens[:end]
    noun, before = (head[-1], head[:-1]) if head else ("", [])
    for length in range(min(_LONGEST, len(head)), 0, -1):
        if _name(head[-length:], extra):
            noun, before = " ".join(head[-length:]), head[:-length]
            break
    looks = tuple(token for token in before if token in LOOKS)
    return Named(noun, looks, number, next((SUPERLATIVES[token] for token in before if token in SUPERLATIVES), ""))


@lru_cache(maxsize=100_000)
def loose(text: str, extra: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    """Of text outside of spans: things that it names, looks that it states, and the number that it ends with.

    A thing is named by a known noun behind an article or a number, or by the plural of one of the ``extra`` names.
    """
    tokens = words(text)
    nouns, looks, position = [], [], 0
    while position < len(tokens):
        length = next((n for n in range(_LONGEST, 0, -1) if _name(tokens[position : position + n], extra)), 0)
        length = min(length, len(tokens) - position)
        name = " ".join(tokens[position : position + length])
        follows = tokens[position + length] if position + length < len(tokens) else ""
        if (
            length
            and name not in FREE
            and not forms(name) & GENERIC
            and follows not in FOLLOWS
            and not (name in LOOKS and _leads(tokens, position, extra))
        ):
            before = position - 1
            while before >= 0 and (tokens[before] in LOOKS or tokens[before] in _SIZES or tokens[before] in SUPERLATIVES):
                before -= 1
            led = before >= 0 and (tokens[before] in DETERMINERS or tokens[before] in NUMBERS or tokens[before].isdigit())
            if led or (name not in extra and name not in VERBS and forms(name) & extra):
                nouns.append(name)
                position += length
                continue
        token = tokens[position]
        if token in LOOKS and (token not in FAINT or _meant(tokens, position)):
            looks.append(token)
        position += 1
    last = tokens[-1] if tokens else ""
    number = NUMBERS[last] if last in NUMBERS else int(last) if last.isdigit() and len(last) < 6 else None
    return tuple(nouns), tuple(looks), number


def _leads(tokens: list[str], position: int, extra: frozenset[str]) -> bool:
    """Whether a word that is a look and a thing too, such as glass, is a look here: the name of a thing comes after it."""
    rest = tokens[position + 1 : position + 4]
    return any(known(" ".join(rest[:n]), extra) for n in range(1, len(rest) + 1)) or bool(rest and rest[0] in LOOKS)


def _meant(tokens: list[str], position: int) -> bool:
    after = tokens[position + 1] if position + 1 < len(tokens) else ""
    return after in LOOKS or (position > 0 and tokens[position - 1] in _COPULA and (not after or after in ("and", "or", "in")))


@lru_cache(maxsize=100_000)
def relation(text: str) -> str:
    """The relation that a text ends with, right before the name of the other thing; empty if none."""
    match = RELATION.match(text.lower())
    return "" if match is None else next(name for name, _ in RELATIONS if match[name])


@lru_cache(maxsize=100_000)
def denies(text: str) -> bool:
    """Whether a text holds a word that denies."""
    return NEGATED.search(text.lower()) is not None


@dataclass(frozen=True, slots=True)
class Piece:
    """What a piece of running text says: at its start, at its end, and at large.

    Attributes:
        relation: See ``relation``.
        pronoun: It begins with it, they, this or these, behind a yes or no.
        aside: It goes on about what the sentence is about; ``clause``: about the name right before it.
        joins: It is ``and``, a comma or ``or``, and no more; ``holds``: ``with`` or ``has``; ``on_it``: it begins so.
        places: Places in the room that it names.
    """

    relation: str
    negated: bool
    pronoun: bool
    aside: bool
    clause: bool
    joins: bool
    holds: bool
    on_it: bool
    places: tuple[str, ...]


@lru_cache(maxsize=100_000)
def piece(text: str) -> Piece:
    """Read a piece of running text; the same pieces come again and again."""
    low = text.lower()
    start = _POLITE.sub("", low, count=1)
    return Piece(
        relation(text),
        denies(start),
        PRONOUN.match(start) is not None,
        ASIDE.match(low) is not None,
        CLAUSE.match(low) is not None,
        _AND.fullmatch(text) is not None,
        _WITH.fullmatch(low) is not None,
        _ON_IT.match(low) is not None,
        tuple(name for name, found in PLACES if found.search(low)),
    )


def sentences(parsed: Parsed) -> list[list[str | int]]:
    """A text cut at its full stops: pieces of running text and, between them, numbers of spans. Text comes first and last."""
    out: list[list[str | int]] = [[""]]
    position = 0
    for index, span in enumerate((*parsed.spans, None)):
        piece = parsed.text[position : span.start if span else len(parsed.text)]
        first, *more = (
            _END.split(piece) if "." in piece or "?" in piece or "!" in piece or ";" in piece or "\n" in piece else [piece]
        )
        out[-1][-1] = first if out[-1][-1] == "" else f"{out[-1][-1]} {first}"
        out += [[part] for part in more]
        if span:
            out[-1] += [index, ""]
            position = max(position, span.end)
    return [row for row in out if len(row) > 1 or str(row[0]).strip()]


@lru_cache(maxsize=10_000)
def _unusual(extra: frozenset[str]) -> frozenset[str]:
    """Names that the vocabulary lacks or would take apart. Few scenes have any, so what phrases mean is shared by all others."""
    return frozenset(name for name in extra if name not in NOUNS or name.partition(" ")[0] in LOOKS)


def read(parsed: Parsed, extra: frozenset[str]) -> Reading:
    """What a parsed text claims; ``extra`` holds the scene's own categories."""
    found: list[Claim] = []
    nouns: list[tuple[str, bool, int]] = []
    looks: list[tuple[int, str, bool]] = []
    sizes: list[tuple[int, float, str]] = []
    counts: list[tuple[int, int]] = []
    denied: set[int] = set()
    subject: int | None = None
    for row in sentences(parsed):
        head = _sentence(row, subject, found)
        negative = any(denies(part) for part in row if isinstance(part, str))
        last = subject if piece(str(row[0])).pronoun else None
        for place, part in enumerate(row):
            if isinstance(part, int):
                last = part
                if negative:
                    denied.add(part)
                continue
            if not part.strip():
                continue
            names, seen, number = loose(part, extra)
            nouns += [(name, negative, parsed.spans[last].end if last is not None else 0) for name in names]
            about = last if last is not None else head
            if about is not None:
                looks += [(about, word, negative) for word in seen]
                if " m" in part:
                    sizes += [(about, float(size), side) for size, side in _MEASURE.findall(part)]
            if number is not None and place + 1 < len(row):
                counts.append((row[place + 1], number))  # type: ignore[arg-type]
        subject = head if head is not None else subject
    own = _unusual(extra)
    names_of = tuple(named(span.phrase, own) for span in parsed.spans)
    return Reading(names_of, tuple(found), tuple(nouns), tuple(looks), tuple(sizes), tuple(counts), frozenset(denied))


def _sentence(row: list[str | int], subject: int | None, found: list[Claim]) -> int | None:
    """Add the relations of one sentence to ``found``; returns the span that it is about."""
    spans = [part for part in row if isinstance(part, int)]
    pieces = [piece(part) for part in row if isinstance(part, str)]
    start = pieces[0]
    if start.pronoun and subject is not None:
        head, pronoun = subject, True
        _places(start, head, found)
    elif spans:
        head, pronoun = spans[1] if start.relation and len(spans) > 1 else spans[0], False
    else:
        return None
    clause, group, said = head, (head,), ""  # what is spoken of, and the relation that a further "and ..." goes on with
    opening = start.relation if spans and (pronoun or len(spans) > 1) else ""
    if opening:
        found.append(Claim((head,), opening, tuple(spans[: 2 if opening == "between" else 1]), start.negated))
        said = opening if pronoun else ""
    negated = start.negated
    for k in range(1, len(spans)):
        gap, a, b = pieces[k], spans[k - 1], spans[k]
        if gap.joins:
            if said and pieces[k + 1].clause:
                clause, said = b, ""
            elif said and said != "between":
                found.append(Claim(group, said, (b,), negated))
            continue
        _places(gap, a, found)
        if opening and not pronoun and k == 1:
            continue
        said = gap.relation or ("supports" if gap.holds and pieces[k + 1].on_it else "")
        if said:
            group = (clause,) if gap.aside or clause == a else (a, clause)
            negated = gap.negated
            found.append(
                Claim(group[:1] if said == "between" else group, said, tuple(spans[k : k + 1 + (said == "between")]), negated)
            )
    if spans:
        _places(pieces[-1], head if pieces[-1].aside else spans[-1], found)
    return head


def _places(text: Piece, subject: int, found: list[Claim]) -> None:
    found += [Claim((subject,), name, (), text.negated) for name in text.places]
