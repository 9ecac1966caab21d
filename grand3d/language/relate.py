"""Relations that a text states between its things."""

from __future__ import annotations

from dataclasses import replace

from grand3d.language import lexicon as lex
from grand3d.language.clues import RELATIONS, relation_at
from grand3d.language.parse import Parse, Relation

_LINKS = ("directly", "right", "immediately", "just", "positioned", "located", "situated", "placed", "mounted", "sitting", "not")


_SKIP_AFTER_IN = {"shape", "color", "colour", "size", "height", "font", "width", "length", "style", "order", "interest", "total"}


def relations(parse: Parse, ends: list[int], used: set[int], views: set[int]) -> None:
    row, k = parse.tokens, 0
    starts = {thing.start: number for number, thing in enumerate(parse.things)}
    inside = {j: number for number, thing in enumerate(parse.things) for j in range(thing.start, thing.end)}
    while k < len(row):
        found = None if k in used or k in views or row[k].tag in ("QUOTE", "P") else relation_at(row, k)
        owned = (
            row[k].lower == "of" and k and k + 1 in starts and (k - 1) in inside and _whole(parse, inside[k - 1], starts[k + 1])
        )
        found = (k + 1, frozenset({"contain"})) if owned else found
        if found is None or (k in inside and not _outside(row, k, found[0])):
            k += 1
            continue
        end, kinds = found
        if row[end - 1].lower in lex.SIDES and end - 1 in inside and parse.things[inside[end - 1]].end > end:
            end, kinds = k + 1, frozenset(RELATIONS.get((row[k].lower,), ()))  # "on the left bed" is "on"
        number = _object_after(parse, end, starts, inside)
        kinds = _in_context(parse, k, end, kinds, number, ends)
        if kinds:
            by = _subject_of_relation(parse, k, ends, inside)
            if number is None and row[end : end + 1] and row[end].lower in lex.PRONOUNS:
                by, number = parse.target, by if by not in parse.same else None  # "a shelf with books on it"
            negated = any(t.tag == "NEG" or t.lower in lex.NEGATIVE for t in row[max(0, k - 3) : k])
            negated |= number is not None and row[parse.things[number].start].lower == "no"
            text = " ".join(t.text for t in row[k:end])
            parse.relations.append(Relation(kinds, text, k, end, by, number, negated))
        k = end


def _whole(parse: Parse, part: int, whole: int) -> bool:
    """Whether "of" says what a thing belongs to or holds: "the door of the room"."""
    first, second = parse.things[part], parse.things[whole]
    return (
        first.role == "object" and second.role in ("object", "region") and not second.share and first.head not in ("one", "size")
    )


def _outside(row: list, k: int, end: int) -> bool:
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
    row, word = parse.tokens, row_text(parse, k, end)
    thing = parse.things[number] if number is not None else None
    head = thing.head if thing is not None else ""
    before = row[k - 1].lower if k else ""
    if row[k].tag == "VERB" and before in ("to", "you"):
        return frozenset()
    if thing is not None and thing.role == "text" and word in ("with", "has", "have", "on", "in"):
        return frozenset()
    if word in ("at", "by") and (head in ("night", "home", "desk") or thing is None):
        return frozenset()
    if word == "at":
        return frozenset() if before in ("looking", "look", "looks") else kinds
    if word in ("in", "within", "inside", "into", "inside of"):
        if head in _SKIP_AFTER_IN:
            return frozenset()
        shares = {head, thing.share if thing is not None else ""}
        if shares & (lex.COLLECTIONS - {"set", "group", "collection"}):
            return frozenset({"arrangement"})
        return kinds
    if word in ("on", "onto", "upon"):
        if before in ("turned", "switched") or (thing is None and row[end : end + 1] and row[end].lower not in lex.PRONOUNS):
            return frozenset()
        if head in ("wall", "door", "ceiling", "mirror", "fridge", "refrigerator", "window", "board"):
            return frozenset({"near"})
        if head == "side" or (thing is not None and thing.share in ("side", "end")) or head == "end":
            return frozenset({"near"})
        return kinds
    if word in ("including", "excluding", "include", "without") and before == "not" and word == "including":
        return frozenset()
    if row[k].tag == "HAVE" or word in ("with", "without", "has", "have"):
        sentence = [t.lower for t in row[end : ends[k]]]
        if (row[k].tag == "HAVE" and before in ("to", "you")) or thing is None:
            return frozenset()
        return frozenset() if _on_it(sentence) else kinds
    if (
        word in ("over", "under", "around", "across", "along", "against")
        and thing is None
        and end < len(row)
        and row[end].tag != "PRO"
    ):
        return frozenset() if word == "over" else kinds
    return kinds


def _on_it(words: list[str]) -> bool:
    text = " ".join(words)
    return any(
        f" {phrase}" in f" {text}" for phrase in ("on it", "on top", "on them", "in it", "under it", "inside it", "above it")
    )


def row_text(parse: Parse, k: int, end: int) -> str:
    return " ".join(t.lower for t in parse.tokens[k:end])


def _subject_of_relation(parse: Parse, k: int, ends: list[int], inside: dict[int, int]) -> int | None:
    """The thing before, where nothing but an adverb or a participle stands between; else the target."""
    row, j = parse.tokens, k - 1
    while j >= 0 and (
        row[j].tag in ("ADV", "NEG") or row[j].lower in _LINKS or (row[j].tag == "VERB" and row[j].lower.endswith(("ed", "ing")))
    ):
        j -= 1
    related = j >= 0 and row[j].tag in ("BE", "HAVE") and j and row[j - 1].tag == "REL"
    if related:
        j -= 2
    if j in inside:
        number = inside[j]
        thing = parse.things[number]
        if number in parse.same or thing.role in ("region", "part", "text", "activity"):
            return parse.target
        return number
    return parse.target


def degrees(parse: Parse, used: set[int]) -> None:
    """Relations said by the form of a noun phrase: the third chair, the tallest of them, a row of boxes."""
    said = {k for relation in parse.relations for k in range(relation.start, relation.end)}
    for number, thing in enumerate(parse.things):
        if thing.role in ("text", "activity"):
            continue
        for stem, degree in thing.degrees:
            kinds = {"comparison"} | ({"near"} if stem in ("close", "near") else {"far"} if stem == "far" else set())
            parse.relations.append(Relation(frozenset(kinds), f"{stem} ({degree})", thing.start, thing.end, number, None))
        words = {t.lower for t in parse.tokens[thing.start : thing.end]}
        counted = [
            r
            for r in parse.relations
            if r.text.startswith("from the") and r.subject == number and thing.end - 1 <= r.start <= thing.end + 2
        ]
        if thing.ordinal and counted:
            parse.relations[parse.relations.index(counted[0])] = replace(counted[0], kinds=counted[0].kinds | {"ordinal"})
        elif thing.ordinal:
            parse.relations.append(Relation(frozenset({"ordinal"}), "ordinal", thing.start, thing.end, number, None))
        if (
            words & (lex.SIDES - {"front", "back"})
            and thing.role in ("object", "part")
            and thing.head not in lex.SIDES
            and not set(range(thing.start, thing.end)) & said
        ):
            parse.relations.append(Relation(frozenset({"viewpoint_dependent"}), "side", thing.start, thing.end, number, None))
        if words & lex.LEVELS and thing.role == "object" and thing.head not in lex.LEVELS:
            parse.relations.append(Relation(frozenset({"vertical"}), "level", thing.start, thing.end, number, None))
        if words & {"same", "identical"}:
            parse.relations.append(Relation(frozenset({"comparison"}), "same", thing.start, thing.end, number, None))
        if thing.share in lex.COLLECTIONS - {"group", "bunch", "collection"}:
            in_row = any(r.object == number and "arrangement" in r.kinds for r in parse.relations)
            if not in_row:
                parse.relations.append(Relation(frozenset({"arrangement"}), thing.share, thing.start, thing.end, number, None))
