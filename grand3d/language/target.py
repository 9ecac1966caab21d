"""Which noun phrase a text is about, and which others mean the same thing."""

from __future__ import annotations

from grand3d.language import lexicon as lex
from grand3d.language.parse import Parse, Thing, sentence_ends

_POINT = ("this", "these", "it", "that", "those", "they")


def resolve(parse: Parse) -> None:
    """Set ``target``, ``same`` and ``coreferences`` of a parse.

    The last of these that there is: "the bin of interest"; what is sought ("find a bin") or pointed at ("this is the bin");
    what there is ("there is a bin", "under the desk is a bin"); else the first subject. A later "one" of a set named before
    ("two bins ... the taller one") is the target too, and takes over what is said of the set.
    """
    scores = [(_score(parse, k, thing), -k if _score(parse, k, thing) < 3 else k) for k, thing in enumerate(parse.things)]
    best = max(scores, default=(0, 0))
    if not parse.things:
        return
    target = scores.index(best)
    ends = sentence_ends(parse.tokens)
    thing = parse.things[target]
    following = parse.things[target + 1] if target + 1 < len(parse.things) else None
    if thing.role == "part" and following is not None and following.share == thing.head:
        target, thing = target + 1, following
    parse.target, parse.same = target, {target}
    if thing.head in ("one", "group", "container", "object") or parse.tokens[thing.start].lower in ("this", "these", "those"):
        _antecedent(parse, target, ends)
    heads = {parse.things[k].head for k in parse.same} - {"one"}
    for k, other in enumerate(parse.things):
        if k in parse.same or other.role in ("activity", "text", "excluded"):
            continue
        first = parse.tokens[other.start].lower
        same_sentence = ends[other.start] == ends[thing.start]
        shown = first in ("this", "these", "those") and k > target and (other.head in heads or other.head in lex.GENERIC)
        predicate = other.head == "one" and other.end - other.start <= 4 and _predicate_of_target(parse, k)
        again = other.head in heads and first == "the" and not same_sentence and (_score(parse, k, other) >= 2)
        one_of_them = other.head == "one" and k > target and not same_sentence and first != "another"
        words = [t.lower for t in parse.tokens[other.start : other.end]]
        if (shown or predicate or again or one_of_them) and "other" not in words:
            parse.same.add(k)
            if again and not shown:
                parse.coreferences.append(f"the {other.head}")
    for k, token in enumerate(parse.tokens):
        earlier = any(other.end <= k for other in parse.things)
        later = ends[k] != ends[0]
        if not earlier:
            continue
        back = token.lower in lex.PRONOUNS and token.tag in ("PRO", "POS")
        back |= token.tag == "PRO" and token.lower in ("this", "these", "those") and later and _full(parse, k) is None
        back |= token.tag == "PRO" and token.lower == "that" and k + 1 < len(parse.tokens)
        back |= token.tag == "ONE" and later
        back |= token.lower in ("this", "these", "those") and token.tag == "DET" and later
        if back:
            parse.coreferences.append(token.lower)
    of_interest = any(token.lower == "interest" for token in parse.tokens)
    if of_interest and len(parse.same) > 1 and not parse.coreferences:
        parse.coreferences.append("of interest")


def _full(parse: Parse, k: int) -> Thing | None:
    """The full noun phrase that "this is" at token ``k`` introduces."""
    for thing in parse.things:
        if k < thing.start <= k + 3:
            return None if thing.head in ("one", "group") else thing
    return None


def _predicate_of_target(parse: Parse, k: int) -> bool:
    """Whether "one" follows "is", and the target or a pronoun is the subject."""
    start = parse.things[k].start
    return start > 0 and parse.tokens[start - 1].tag in ("BE", "NEG")


def _antecedent(parse: Parse, target: int, ends: list[int]) -> None:
    """Join the target with the set or thing named before that it is one of."""
    start = ends[parse.things[target].start]
    thing = parse.things[target]
    for k in range(target - 1, -1, -1):
        other = parse.things[k]
        fits = other.role == "object" and (thing.head in ("one", "group") or other.head == thing.head)
        introduced = _score(parse, k, other) >= 2
        if fits and introduced and ends[other.start] != start:
            parse.same.add(k)
            return
    following = parse.things[target + 1] if target + 1 < len(parse.things) else None
    if thing.head in ("one", "group"):
        several = [k for k in range(target) if parse.things[k].role == "object" and parse.things[k].plural]
        if several and len(parse.same) == 1 and "other" not in [t.lower for t in parse.tokens[thing.start : thing.end]]:
            parse.same.add(several[-1])
            return
    if thing.head == "one" and following is not None:
        between = [t.lower for t in parse.tokens[thing.end : following.start]]
        if between == ["of"]:
            parse.same.add(target + 1)


def _score(parse: Parse, k: int, thing: Thing) -> int:
    row, start = parse.tokens, thing.start
    if thing.role in ("text", "activity", "excluded", "viewer"):
        return -1
    if start in parse.seen_from:
        return 0
    before = [t.lower for t in row[max(0, start - 6) : start]]
    tags = [t.tag for t in row[max(0, start - 6) : start]]
    if before[-2:] in (["all", "of"], ["both", "of"], ["one", "of"], ["each", "of"], ["any", "of"]):
        before, tags = before[:-2], tags[:-2]
    after = [t.lower for t in row[thing.end : thing.end + 2]]
    if after == ["of", "interest"] or thing.head == "target":
        return 5
    opening = (
        start == 0
        or (row[start - 1].lower in ".?!;:,")
        or (tags[-1:] == ["CONJ"] and (tags[-2:-1] == ["P"] or (row[thing.end : thing.end + 1] and row[thing.end].tag == "BE")))
    )
    asked = row[start].lower in ("what", "which")
    if asked and opening:
        return 4
    if before[-1:] and before[-1] in lex.SEEK and row[start - 1].tag != "N" and not _as_clause(parse, start - 1):
        looking = before[-1] in ("look", "clean", "use", "take", "move", "need", "want", "place", "open", "close", "mark", "walk")
        looking |= before[-1] in ("go", "enter", "touch", "put", "hold")
        return 4 if not looking or start < 3 or "to" not in before else 1
    if before[-2:] in (["look", "for"], ["show", "me"], ["search", "for"], ["looking", "for"], ["get", "me"], ["bring", "me"]):
        return 4
    if before[-2:] in (["find", "me"], ["give", "me"], ["where", "is"], ["where", "are"], ["point", "to"], ["point", "at"]):
        return 4
    if before[-2:] in (["go", "to"], ["walk", "to"], ["refer", "to"], ["referring", "to"], ["refers", "to"], ["hand", "me"]):
        return 4
    while before and (
        (tags[-1] == "MODAL" and before[-1] in ("would", "should", "must") and tags[-2:-1] != ["PRO"])
        or before[-1] in ("not", "also", "the", "actually", "only", "likely", "probably")
    ):
        before, tags = before[:-1], tags[:-1]
    if tags[-1:] == ["BE"]:
        pointed = [w for w in before[-3:-1] if w not in ("would", "should", "must", "will")][-1:]
        if pointed and pointed[0] in _POINT:
            denied = row[start - 1].tag == "NEG" and thing.head != "one"
            return 4 if not denied else 1
        if before[-2:-1] == ["there"]:
            opened = any(t.lower in ".?!" for t in row[:start])
            return 1 if opened else 2 if thing.plural or "NEG" in tags else 3
        first = next((t for t in row if t.tag != "P"), None)
        fronted = first is not None and first.tag in ("PREP", "ADV") and not any(t.tag == "BE" for t in row[: start - 1])
        if fronted or (first is not None and first.lower in ("farthest", "closest", "furthest", "nearest", "to", "in", "on")):
            return 3 if fronted else 1
        return 1
    if opening and not _prepositional(parse, start) and thing.role == "object":
        return 2
    return 1 if thing.role == "object" and not _prepositional(parse, start) else 0


def _as_clause(parse: Parse, k: int) -> bool:
    """Whether the verb at ``k`` is of a clause such as "as you enter" or "used to clean"."""
    before = [t.lower for t in parse.tokens[max(0, k - 3) : k]]
    return bool(before) and (before[-1] in ("to", "you", "that", "which", "not", "if", "when") and "please" not in before)


def _prepositional(parse: Parse, start: int) -> bool:
    before = parse.tokens[start - 1] if start else None
    return before is not None and (before.tag == "PREP" or before.lower in lex.FACING)
