"""A shallow parser of referring expressions: its things, what is said of each, how they relate, and which one is meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from grand3d.language import lexicon as lex
from grand3d.language.words import Token, attribute_kind, base, is_plural, singular, tokens


@dataclass(slots=True)
class Thing:
    """A noun phrase.

    Attributes:
        head: Its noun in the singular; ``one`` where it stands for a noun named before.
        start, end: Tokens that it covers.
        plural: Whether it means several.
        role: ``object``, ``region`` (a room or a part of one), ``text`` (words written on something), ``part`` ("end" of
            something), ``activity`` (inside a purpose: "to wash clothes"; what a picture shows), ``excluded`` ("not counting
            the floor"), ``viewer`` (who looks, their body).
        attributes: What is said of it: type of ViGiL3D and words.
        names: Nouns before the head that belong to its name.
        degrees: Comparatives and superlatives in it: base and degree.
        ordinal: Whether it is counted: "the third chair".
        share: The noun before "of" where the phrase is a part or a group of this thing: "row", "end".
    """

    head: str
    start: int
    end: int
    plural: bool = False
    role: str = "object"
    attributes: list[tuple[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    degrees: list[tuple[str, str]] = field(default_factory=list)
    ordinal: bool = False
    share: str = ""


@dataclass(slots=True)
class Relation:
    """A relation stated: ``subject`` and ``object`` are numbers of things, None where nothing is named."""

    kinds: frozenset[str]
    text: str
    start: int
    end: int
    subject: int | None
    object: int | None
    negated: bool = False


@dataclass(slots=True)
class Parse:
    """What a text says.

    Attributes:
        tokens: Its words.
        things: Noun phrases in their order.
        relations: In their order.
        target: Number of the thing that is meant; None where nothing is named.
        same: Numbers of the things that are the target by another name, the target among them.
        coreferences, negations, viewpoints: Words that refer back, that deny, and that say from where it is seen.
        seen_from: Tokens of clauses that say from where it is seen.
    """

    text: str
    tokens: list[Token]
    things: list[Thing] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    target: int | None = None
    same: set[int] = field(default_factory=set)
    coreferences: list[str] = field(default_factory=list)
    negations: list[str] = field(default_factory=list)
    viewpoints: list[str] = field(default_factory=list)
    seen_from: set[int] = field(default_factory=set)


def sentence_ends(row: list[Token]) -> list[int]:
    """For each token the end of its sentence."""
    ends, out = [], len(row)
    for k in range(len(row) - 1, -1, -1):
        if row[k].lower in ".?!;" and row[k].tag == "P":
            out = k + 1
        ends.append(out)
    return ends[::-1]


def noun_phrases(row: list[Token]) -> Iterator[Thing]:
    """Noun phrases of tagged tokens, from left to right; none overlap."""
    k = 0
    while k < len(row):
        end = _phrase_end(row, k)
        if end == k:
            k += 1
            continue
        yield _thing(row, k, end)
        k = end


def _phrase_end(row: list[Token], k: int) -> int:
    """End of the noun phrase that starts at ``k``; ``k`` where none does."""
    j, head = k, k
    if row[j].tag not in ("DET", "POS", "ADJ", "NUM", "ORD", "N", "ONE", "ADV", "QUOTE"):
        return k
    while j < len(row):
        tag = row[j].tag
        if tag in ("DET", "POS"):
            if j > k and row[j - 1].tag not in ("DET", "POS") and row[j].lower != "'s":
                break
        elif tag in ("N", "ONE"):
            head = j + 1
        elif tag in ("NUM", "ORD", "ADJ"):
            if head > k and row[j - 1].tag in ("N", "ONE") and not _noun_follows(row, j):
                break
            if j > k and row[k].tag in ("DET", "POS") and not _noun_follows(row, j) and head == k:
                head = j + 1  # "the larger", "the two"
            elif tag == "NUM" and not _noun_follows(row, j):
                head = j + 1
        elif tag == "QUOTE":
            if head == k and not _noun_follows(row, j):
                return j + 1 if j == k else k
            if head > k:
                break
        elif tag == "ADV":
            graded = j + 1 < len(row) and row[j + 1].tag == "ADJ" and row[k].tag in ("DET", "POS")
            if not (_noun_follows(row, j) or graded) or head > k:
                break
        elif tag == "CONJ" or row[j].lower == ",":
            listed = j > k and (row[j - 1].tag in ("ADJ", "NUM", "ORD") or attribute_kind(row[j - 1].lower))
            after = j + 2 if row[j].lower == "," and j + 1 < len(row) and row[j + 1].tag == "CONJ" else j + 1
            fits = after < len(row) and (row[after].tag in ("ADJ", "NUM", "ADV") or attribute_kind(row[after].lower))
            if not ((listed and fits and _noun_follows(row, after) and row[j - 1].tag != "N") or _listed_nouns(row, j, head)):
                break
        else:
            break
        j += 1
    return head


def _noun_follows(row: list[Token], j: int) -> bool:
    """Whether the modifier at ``j`` still has its noun to come."""
    for token in row[j + 1 :]:
        if token.tag in ("N", "ONE"):
            return True
        if token.tag not in ("ADJ", "NUM", "ORD", "ADV", "QUOTE") and token.lower not in (",", "and", "or", "&"):
            return False
    return False


def _listed_nouns(row: list[Token], j: int, head: int) -> bool:
    """Whether ``j`` joins two materials before a noun: "plastic or fabric containers"."""
    if head != j or j + 2 >= len(row) or row[j].tag != "CONJ":
        return False
    return bool(attribute_kind(row[j - 1].lower) and attribute_kind(row[j + 1].lower) and row[j + 2].tag in ("N", "ONE"))


_PARTS = {"end", "side", "edge", "rest", "part", "section"}


def _thing(row: list[Token], start: int, end: int) -> Thing:
    head = row[end - 1]
    thing = Thing(singular(head.lower), start, end, is_plural(head.lower) or head.lower == "ones")
    if head.tag in ("ADJ", "NUM", "ORD"):
        thing.head = "one"
    if head.tag == "QUOTE":
        thing.role = "text"
    for k in range(start, end - (head.tag in ("N", "ONE", "QUOTE"))):
        _modify(thing, row, k, end)
    if row[start].lower in ("these", "those", "all", "several", "many"):
        thing.plural = True
    inner = [k for k in range(start, end) if k and row[k - 1].lower not in ".?!"]
    capital = [row[k].text for k in inner if row[k].text[:1].isupper() and row[k].tag == "N"]
    if capital:  # a brand
        thing.attributes.append(("text_label", " ".join(capital)))
    names = {thing.head, *thing.names}
    if thing.head in lex.TEXT_NOUNS and not (thing.head in ("sign", "print", "label", "note") and end - start < 3):
        thing.role = "text"
    elif thing.head in lex.REGIONS or (names & lex.ROOMS and thing.head in ("area", "space", "section", "side", "corner")):
        thing.role = "region"
    elif thing.head in _PARTS | lex.SIDES | lex.LEVELS | lex.COLLECTIONS | lex.COMPASS:
        thing.role = "part"
    return thing


def _modify(thing: Thing, row: list[Token], k: int, end: int) -> None:
    """Add what a word before the head says to a noun phrase."""
    token, word = row[k], row[k].lower
    after = row[k + 1].lower if k + 1 < end else ""
    if token.tag == "ORD" or (word == "middle" and token.tag in ("ADJ", "N")):
        thing.ordinal = True
    elif token.tag == "NUM":
        thing.plural |= word != "1"
        thing.attributes.append(("number", word))
    elif word in lex.DEGREES:
        if after and (row[k + 1].tag == "ADV" or attribute_kind(after)):
            thing.degrees.append((base(after)[0], "est" if word in ("most", "least") else "er"))
    elif token.tag in ("ADJ", "N"):
        stem, degree = base(word)
        if degree:
            thing.degrees.append((stem, degree))
        kind = _kind(token, stem, after)
        if kind:
            thing.attributes.append((kind, word))
        elif token.tag == "N" or after in _NAMED.get(word, ()):
            thing.names.append(singular(word))


_LIGHTS = ("switch", "switches", "fixture", "fixtures", "bulb", "bulbs", "stand", "source")
_NAMED = {"light": _LIGHTS, "mini": ("fridge", "refrigerator")}
"""Adjectives that with these nouns are a name."""
_NOUN_KINDS = ("material", "color", "shape", "style", "size", "function")
"""Types of attributes that a noun before the head may say: "metal shelf", "queen-size bed"."""


def _kind(token: Token, stem: str, after: str) -> str:
    """The type of attribute of a word in a noun phrase; an adjective that no list holds is style, a participle state."""
    word = token.lower
    if after in _NAMED.get(word, ()) or stem in ("close", "near", "far"):
        return ""
    kind = attribute_kind(word)
    if token.tag == "N":
        return kind if kind in _NOUN_KINDS else ""
    if kind or word in {"same", "only"} | lex.SIDES | lex.LEVELS | lex.POSITIONAL:
        return kind
    if word.endswith("ing") or ("-" in word and not word.endswith("-like")):
        return ""
    return "state" if word.endswith("ed") else "style"


_WHOLES = ("piece", "pair", "couple", "kind", "type", "item")
"""Nouns before "of" by which the thing itself is meant, so that what is said of them is said of it."""


def chunk(text: str) -> Parse:
    """A parse with tokens and noun phrases only; in "a row of chairs" the chairs get the row's name as their ``share``."""
    parse = Parse(text, tokens(text))
    parse.things = list(noun_phrases(parse.tokens))
    for first, second in pairwise(parse.things):
        linked = second.start == first.end + 1 and parse.tokens[first.end].lower == "of"
        divides = first.head in lex.PARTITIVES | lex.COLLECTIONS | {"all", "both"} or first.role == "region"
        numbers = [attribute for attribute in first.attributes if attribute[0] == "number"]
        if not linked or not (divides or (first.head == "one" and numbers)):
            continue
        second.share = first.head
        second.attributes += first.attributes if first.head in _WHOLES or first.head in lex.COLLECTIONS else numbers
        if first.head in ("pair", "couple", "number", "lot", *lex.COLLECTIONS):
            second.plural |= parse.tokens[second.start].tag != "DET"
        if first.head in ("pair", "couple", "number"):
            second.attributes.append(("number", first.head))
        if first.role != "region":
            first.role = "part"
    return parse
