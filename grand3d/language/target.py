"""Which noun phrase a text is about, and which others mean the same thing."""

from __future__ import annotations

from grand3d.language import lexicon as lex
from grand3d.language.parse import Parse, Thing, sentence_ends

OF_INTEREST, SOUGHT, POINTED_AT, SUBJECT = 5, 4, 3, 2
_SHOWN = ("this", "these", "those")
_POINT = (*_SHOWN, "it", "that", "they")
_WOULD = ("would", "should", "must", "will")
_BETWEEN = ("not", "also", "the", "actually", "only", "likely", "probably")
"""Words between "is" and what it introduces."""
_ALL_OF = (["all", "of"], ["both", "of"], ["one", "of"], ["each", "of"], ["any", "of"])
_SEARCHES = {
    *(("look", "for"), ("looking", "for"), ("search", "for"), ("show", "me"), ("get", "me"), ("bring", "me"), ("find", "me")),
    *(("give", "me"), ("hand", "me"), ("where", "is"), ("where", "are"), ("point", "to"), ("point", "at"), ("go", "to")),
    *(("walk", "to"), ("refer", "to"), ("refers", "to"), ("referring", "to")),
}


def resolve(parse: Parse) -> None:
    """Set ``target``, ``same`` and ``coreferences`` of a parse.

    The target is the first of these that there is: "the bin of interest"; the last thing that is sought ("find a bin") or
    pointed at ("this is the bin"); what there is ("there is a bin", "under the desk is a bin"); the first subject. A later "one"
    of a set named before ("two bins ... the taller one") is the target too, and takes over what is said of the set.
    """
    if not parse.things:
        return
    scores = [_score(parse, thing) for thing in parse.things]
    target = max(range(len(scores)), key=lambda k: (scores[k], k if scores[k] >= POINTED_AT else -k))
    thing = parse.things[target]
    following = parse.things[target + 1] if target + 1 < len(parse.things) else None
    if thing.role == "part" and following is not None and following.share == thing.head:
        target, thing = target + 1, following
    ends = sentence_ends(parse.tokens)
    parse.target, parse.same = target, {target}
    if thing.head in ("one", "group", "container", "object") or parse.tokens[thing.start].lower in _SHOWN:
        _antecedent(parse, target, ends)
    _names_again(parse, target, ends)
    _references_back(parse, ends)


def _names_again(parse: Parse, target: int, ends: list[int]) -> None:
    """Add to ``same`` the things that are the target by another name: "this shelf", "the one", "the shelf" once more."""
    thing = parse.things[target]
    heads = {parse.things[k].head for k in parse.same} - {"one"}
    for k, other in enumerate(parse.things):
        words = [token.lower for token in parse.tokens[other.start : other.end]]
        if k in parse.same or other.role in ("activity", "text", "excluded") or "other" in words:
            continue
        elsewhere = ends[other.start] != ends[thing.start]
        shown = words[0] in _SHOWN and k > target and (other.head in heads or other.head in lex.GENERIC)
        before = [token.tag for token in parse.tokens[max(0, other.start - 2) : other.start]]
        predicate = len(words) <= 4 and (before[-1:] == ["BE"] or before == ["BE", "NEG"])
        one = other.head == "one" and (predicate or (k > target and elsewhere and words[0] != "another"))
        again = other.head in heads and words[0] == "the" and elsewhere and _score(parse, other) >= SUBJECT
        if shown or one or again:
            parse.same.add(k)
            if again and not shown:
                parse.coreferences.append(f"the {other.head}")


def _references_back(parse: Parse, ends: list[int]) -> None:
    """Collect the words that refer to what was named before."""
    first = min(thing.end for thing in parse.things)
    for k, token in enumerate(parse.tokens[first:], first):
        word, later = token.lower, ends[k] != ends[0]
        pronoun = word in lex.PRONOUNS and token.tag in ("PRO", "POS")
        that = token.tag == "PRO" and word == "that" and k + 1 < len(parse.tokens)
        shown = word in _SHOWN and (token.tag == "DET" or (token.tag == "PRO" and not _introduces(parse, k)))
        if pronoun or that or (later and (shown or token.tag == "ONE")):
            parse.coreferences.append(word)
    of_interest = any(token.lower == "interest" for token in parse.tokens)
    if of_interest and len(parse.same) > 1 and not parse.coreferences:
        parse.coreferences.append("of interest")


def _introduces(parse: Parse, k: int) -> bool:
    """Whether "this is" at token ``k`` introduces a thing by its full name."""
    thing = next((thing for thing in parse.things if k < thing.start <= k + 3), None)
    return thing is not None and thing.head not in ("one", "group")


def _antecedent(parse: Parse, target: int, ends: list[int]) -> None:
    """Join the target with the set or thing named before that it is one of."""
    start = ends[parse.things[target].start]
    thing = parse.things[target]
    for k in range(target - 1, -1, -1):
        other = parse.things[k]
        fits = other.role == "object" and (thing.head in ("one", "group") or other.head == thing.head)
        introduced = _score(parse, other) >= 2
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


def _score(parse: Parse, thing: Thing) -> int:
    """How plainly a thing is what the text is about, by what stands before it: OF_INTEREST ... SUBJECT, 1, 0, -1."""
    row, start = parse.tokens, thing.start
    if thing.role in ("text", "activity", "excluded", "viewer"):
        return -1
    if start in parse.seen_from:
        return 0
    before = row[max(0, start - 6) : start]
    if [token.lower for token in before[-2:]] in _ALL_OF:
        before = before[:-2]
    words, tags = [token.lower for token in before], [token.tag for token in before]
    if [token.lower for token in row[thing.end : thing.end + 2]] == ["of", "interest"] or thing.head == "target":
        return OF_INTEREST
    is_subject = bool(row[thing.end : thing.end + 1]) and row[thing.end].tag == "BE"
    joined = tags[-1:] == ["CONJ"] and (tags[-2:-1] == ["P"] or is_subject)
    opening = start == 0 or row[start - 1].lower in ".?!;:," or joined
    if opening and row[start].lower in ("what", "which"):
        return SOUGHT
    if words and words[-1] in lex.SEEK and row[start - 1].tag != "N" and not _as_clause(parse, start - 1):
        return 1 if words[-1] in lex.USES and start >= 3 and "to" in words else SOUGHT
    if tuple(words[-2:]) in _SEARCHES or words[-2:] == ["which", "of"]:
        return SOUGHT
    if any(token.tag == "BE" for token in before):
        found = _after_is(parse, thing, words, tags)
        if found is not None:
            return found
    whole = any(other.start == thing.end + 1 and other.share == thing.head for other in parse.things)
    if _prepositional(parse, start) or not (thing.role == "object" or (thing.role == "part" and whole)):
        return 0
    return SUBJECT if opening else 1


def _after_is(parse: Parse, thing: Thing, words: list[str], tags: list[str]) -> int | None:
    """The score of a thing that "is" introduces: "this is", "there is", "under the desk is"; None without it."""
    row, start = parse.tokens, thing.start
    while words and (words[-1] in _BETWEEN or (words[-1] in _WOULD[:3] and tags[-2:-1] != ["PRO"])):
        words, tags = words[:-1], tags[:-1]
    if tags[-1:] != ["BE"]:
        return None
    pointed = [word for word in words[-3:-1] if word not in _WOULD][-1:]
    if pointed and pointed[0] in _POINT:
        return 1 if row[start - 1].tag == "NEG" and thing.head != "one" else SOUGHT
    if words[-2:-1] == ["there"]:
        if any(token.lower in ".?!" for token in row[:start]):
            return 1
        return SUBJECT if thing.plural or "NEG" in tags else POINTED_AT
    first = next((token for token in row if token.tag != "P"), None)
    alone = not any(token.tag == "BE" for token in row[: start - 1])
    return POINTED_AT if first is not None and first.tag in ("PREP", "ADV") and alone else 1


def _as_clause(parse: Parse, k: int) -> bool:
    """Whether the verb at ``k`` is of a clause such as "as you enter" or "used to clean"."""
    before = [t.lower for t in parse.tokens[max(0, k - 3) : k]]
    return bool(before) and (before[-1] in ("to", "you", "that", "which", "not", "if", "when") and "please" not in before)


def _prepositional(parse: Parse, start: int) -> bool:
    before = parse.tokens[start - 1] if start else None
    return before is not None and (before.tag == "PREP" or before.lower in lex.FACING)
