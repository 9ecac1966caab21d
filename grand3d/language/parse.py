"""A shallow parser of referring expressions: its things, what is said of each, how they relate, and which one is meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from grand3d.language import lexicon as lex
from grand3d.language.words import Token, attribute_kind, base, is_number, is_plural, singular, tokens


@dataclass(slots=True)
class Thing:
    """A noun phrase.

    Attributes:
        head: Its noun in the singular; ``one`` where it stands for a noun named before.
        start, end: Tokens that it covers.
        plural: Whether it means several.
        role: ``object``, ``region`` (a room or a part of one), ``text`` (words written on something), ``part`` ("end" of
            something), ``activity`` (inside a purpose: "to wash clothes").
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
    starts = {k for k in range(start, end) if k == 0 or row[k - 1].lower in ".?!"}
    capital = [row[k] for k in range(start, end) if row[k].text[:1].isupper() and row[k].tag == "N" and k not in starts]
    if capital:
        thing.attributes.append(("text_label", " ".join(t.text for t in capital)))
    names = {thing.head, *thing.names}
    if thing.head in lex.TEXT_NOUNS and not (thing.head in ("sign", "print", "label", "note") and end - start < 3):
        thing.role = "text"
    elif thing.head in lex.REGIONS or (names & lex.ROOMS and thing.head in ("area", "space", "section", "side", "corner")):
        thing.role = "region"
    elif thing.head in lex.SIDES | lex.LEVELS | lex.COLLECTIONS | lex.COMPASS | {
        "end",
        "side",
        "edge",
        "rest",
        "part",
        "section",
    }:
        thing.role = "part"
    return thing


def _modify(thing: Thing, row: list[Token], k: int, end: int) -> None:
    """Add what a word before the head says to a noun phrase."""
    token, word = row[k], row[k].lower
    stem, degree = base(word)
    after = row[k + 1].lower if k + 1 < end else ""
    if token.tag == "ORD" or (word == "middle" and token.tag in ("ADJ", "N")):
        thing.ordinal = True
    elif token.tag == "NUM":
        thing.plural |= word not in ("single", "lone", "1")
        thing.attributes.append(("number", word))
    elif word in ("more", "most", "less", "least"):
        if k + 1 >= end or not (row[k + 1].tag == "ADV" or attribute_kind(after)):
            return
        thing.degrees.append((base(after)[0], "est" if word in ("most", "least") else "er"))
    elif token.tag in ("ADJ", "N"):
        kind = attribute_kind(word)
        if degree:
            thing.degrees.append((stem, degree))
        if token.tag == "N" and kind not in ("material", "color", "shape", "style", "size", "function"):
            thing.names.append(singular(word))
        elif word in ("light", "mini") and after in (
            "switch",
            "fixture",
            "bulb",
            "stand",
            "source",
            "fixtures",
            "fridge",
            "refrigerator",
        ):
            thing.names.append(word)
        elif kind and stem not in ("close", "near", "far"):
            thing.attributes.append((kind, word))
        elif token.tag == "N":
            thing.names.append(singular(word))
        elif (
            word not in lex.SIDES | lex.LEVELS
            and stem not in ("close", "near", "far")
            and word not in {"same", "only"} | lex.POSITIONAL
        ):
            kind = "state" if word.endswith("ed") else "style"
            if (not word.endswith("ing") and "-" not in word) or word.split("-")[-1] in ("like",):
                thing.attributes.append((kind, word))


def chunk(text: str) -> Parse:
    """A parse with tokens and noun phrases only; group words join the noun after their "of"."""
    parse = Parse(text, tokens(text))
    parse.things = list(noun_phrases(parse.tokens))
    for first, second in zip(parse.things, parse.things[1:], strict=False):
        joined = first.end < len(parse.tokens) and parse.tokens[first.end].lower == "of" and second.start == first.end + 1
        if joined and (first.head in lex.PARTITIVES | lex.COLLECTIONS | {"all", "one", "both"} or first.role == "region"):
            if first.head == "one" and not any(is_number(t.lower) for t in parse.tokens[first.start : first.end]):
                continue
            second.share = first.head
            if first.head in lex.COLLECTIONS or first.head in ("pair", "couple", "number", "bunch", "lot"):
                if first.head in ("pair", "couple", "number"):
                    second.attributes.insert(0, ("number", first.head))
                second.plural = True
                first.role = "part"
            elif first.role != "region":
                first.role = "part"
            second.attributes += [a for a in first.attributes if a[0] == "number"]
    return parse
