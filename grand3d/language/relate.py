"""Relations that a text states between its things."""

from __future__ import annotations

from dataclasses import replace

from grand3d.language import lexicon as lex
from grand3d.language.clues import RELATIONS, relation_at
from grand3d.language.parse import Parse, Relation, Thing
from grand3d.language.words import Token

_LINKS = ("directly", "right", "immediately", "just", "positioned", "located", "situated", "placed", "mounted", "sitting", "not")
_FORMS = ("shape", "color", "colour", "size", "height", "font", "width", "length", "style", "order", "interest", "total")
"""Nouns after "in" that say no place."""
_UPRIGHT = ("wall", "door", "ceiling", "mirror", "fridge", "refrigerator", "window", "board")
"""What a thing is on without being above it."""
_NONE: frozenset[str] = frozenset()


def relations(parse: Parse, ends: list[int], used: set[int], views: set[int]) -> None:
    """Add the relations that phrases state.

    Args:
        ends: Of the sentence of each token.
        used: Tokens that say something else.
        views: Tokens of clauses that say from where it is seen, which relate nothing.
    """
    row, k = parse.tokens, 0
    starts = {thing.start: number for number, thing in enumerate(parse.things)}
    inside = {j: number for number, thing in enumerate(parse.things) for j in range(thing.start, thing.end)}
    while k < len(row):
        found = None if k in used or k in views or row[k].tag in ("QUOTE", "P") else relation_at(row, k)
        if row[k].lower == "of" and k - 1 in inside and k + 1 in starts and _whole(parse, inside[k - 1], starts[k + 1]):
            found = k + 1, frozenset({"contain"})
        if found is None or (k in inside and not _outside(row, k, found[0])):
            k += 1
            continue
        end, kinds = found
        if row[end - 1].lower in lex.SIDES and end - 1 in inside and parse.things[inside[end - 1]].end > end:
            end, kinds = k + 1, frozenset(RELATIONS.get((row[k].lower,), ()))  # "on the left bed" is "on"
        number = _object_after(parse, end, starts, inside)
        kinds = _in_context(parse, k, end, kinds, number, ends)
        if kinds:
            by = _subject_of_relation(parse, k, inside)
            if number is None and row[end : end + 1] and row[end].lower in lex.PRONOUNS:
                by, number = parse.target, by if by not in parse.same else None  # "a shelf with books on it"
            negated = any(token.tag == "NEG" or token.lower in lex.NEGATIVE for token in row[max(0, k - 3) : k])
            negated |= number is not None and row[parse.things[number].start].lower == "no"
            text = " ".join(token.text for token in row[k:end])
            parse.relations.append(Relation(kinds, text, k, end, by, number, negated))
        k = end


def _whole(parse: Parse, part: int, whole: int) -> bool:
    """Whether "of" says what a thing belongs to or holds: "the door of the room"."""
    first, second = parse.things[part], parse.things[whole]
    return (
        first.role == "object" and second.role in ("object", "region") and not second.share and first.head not in ("one", "size")
    )


def _outside(row: list[Token], k: int, end: int) -> bool:
    """Whether a phrase that starts inside a noun phrase is a relation all the same: "to the left" is, "right" of it is not."""
    return row[k].tag in ("PREP", "VERB", "HAVE") or (end - k > 1 and row[k].tag == "N" and row[end - 1].lower == "of")


def _object_after(parse: Parse, end: int, starts: dict[int, int], inside: dict[int, int]) -> int | None:
    row = parse.tokens
    if end in inside and end not in starts and parse.things[inside[end]].end > end:
        return inside[end]
    for k in range(end, min(end + 3, len(row))):
        if k in starts:
            thing = parse.things[starts[k]]
            after = starts[k] + 1
            if thing.role == "part" and after < len(parse.things) and parse.things[after].share == thing.head:
                return after
            return starts[k]
        if row[k].tag not in ("ADV", "NEG", "PREP") or row[k].lower in ("in", "on", "and"):
            return None
    return None


def _in_context(parse: Parse, k: int, end: int, kinds: frozenset[str], number: int | None, ends: list[int]) -> frozenset[str]:
    """The types of a relation once its words are known; none where the phrase is no relation here."""
    row, thing = parse.tokens, None if number is None else parse.things[number]
    word = " ".join(token.lower for token in row[k:end])
    before = row[k - 1].lower if k else ""
    head, share = ("", "") if thing is None else (thing.head, thing.share)
    if row[k].tag in ("VERB", "HAVE") and before in ("to", "you"):
        return _NONE
    if thing is not None and thing.role == "text" and word in ("with", "has", "have", "on", "in"):
        return _NONE
    if thing is not None and thing.role == "excluded":
        return _NONE
    if word in ("at", "by"):
        watching = word == "at" and before in ("looking", "look", "looks")
        return _NONE if thing is None or head in ("night", "home", "desk") or watching else kinds
    if word in ("in", "within", "inside", "into", "inside of"):
        in_row = {head, share} & (lex.COLLECTIONS - {"set", "group", "collection"})
        return _NONE if head in _FORMS else frozenset({"arrangement"}) if in_row else kinds
    if word in ("on", "onto", "upon"):
        lost = thing is None and bool(row[end : end + 1]) and row[end].lower not in lex.PRONOUNS
        if lost or before in ("turned", "switched"):
            return _NONE
        return frozenset({"near"}) if head in (*_UPRIGHT, "side", "end") or share in ("side", "end") else kinds
    if row[k].tag == "HAVE" or word in ("with", "without"):
        return _NONE if thing is None or _on_it(row[end : ends[k]]) else kinds
    if word == "over" and thing is None and end < len(row) and row[end].tag != "PRO":
        return _NONE
    return kinds


def _on_it(words: list[Token]) -> bool:
    """Whether a sentence goes on to say where on the thing the other one is: "has a vase on it"."""
    text = " ".join(["", *(token.lower for token in words)])
    return any(f" {phrase}" in text for phrase in ("on it", "on top", "on them", "in it", "under it", "inside it", "above it"))


def _subject_of_relation(parse: Parse, k: int, inside: dict[int, int]) -> int | None:
    """The thing before, where nothing but an adverb or a participle stands between; else the target."""
    row, j = parse.tokens, k - 1
    while j >= 0 and (row[j].tag in ("ADV", "NEG") or row[j].lower in _LINKS or _is_participle(row[j])):
        j -= 1
    if j > 0 and row[j].tag in ("BE", "HAVE") and row[j - 1].tag == "REL":
        j -= 2
    number = inside.get(j, parse.target)
    if number is None or number in parse.same or parse.things[number].role in ("region", "part", "text", "activity"):
        return parse.target
    return number


def _is_participle(token: Token) -> bool:
    return token.tag == "VERB" and token.lower.endswith(("ed", "ing"))


def degrees(parse: Parse) -> None:
    """Add the relations that the form of a noun phrase states: the third chair, the tallest of them, a row of boxes."""
    said = {k for relation in parse.relations for k in range(relation.start, relation.end)}
    for number, thing in enumerate(parse.things):
        if thing.role in ("text", "activity"):
            continue
        words = {token.lower for token in parse.tokens[thing.start : thing.end]}
        stated: list[tuple[set[str], str]] = []
        than = any(relation.text == "than" and relation.subject == number for relation in parse.relations)
        for stem, degree in thing.degrees if not than else ():
            distance = {"near"} if stem in ("close", "near") else {"far"} if stem == "far" else set()
            stated.append(({"comparison", *distance}, f"{stem} ({degree})"))
        if thing.ordinal and not _count_from(parse, number, thing):
            stated.append(({"ordinal"}, "ordinal"))
        sided = words & (lex.SIDES - {"front", "back"}) and thing.role in ("object", "part") and thing.head not in lex.SIDES
        if sided and not said & set(range(thing.start, thing.end)):
            stated.append(({"viewpoint_dependent"}, "side"))
        if words & lex.LEVELS and thing.role == "object" and thing.head not in lex.LEVELS:
            stated.append(({"vertical"}, "level"))
        if words & {"same", "identical"}:
            stated.append(({"comparison"}, "same"))
        in_row = any(relation.object == number and "arrangement" in relation.kinds for relation in parse.relations)
        if thing.share in lex.COLLECTIONS - {"group", "bunch", "collection"} and not in_row:
            stated.append(({"arrangement"}, thing.share))
        parse.relations += [Relation(frozenset(kinds), text, thing.start, thing.end, number, None) for kinds, text in stated]


def _count_from(parse: Parse, number: int, thing: Thing) -> bool:
    """Whether it is said from where to count, "the third from the left": then that relation becomes ordinal too."""
    for k, relation in enumerate(parse.relations):
        follows = thing.end - 1 <= relation.start <= thing.end + 2
        if relation.subject == number and follows and relation.text.startswith("from the"):
            parse.relations[k] = replace(relation, kinds=relation.kinds | {"ordinal"})
            return True
    return False
