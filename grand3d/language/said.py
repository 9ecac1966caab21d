"""What a text says of its things beside their noun phrases: what they are for, how they are, what is written on them."""

from __future__ import annotations

from grand3d.language import lexicon as lex
from grand3d.language.clues import relation_at
from grand3d.language.parse import Parse, Thing
from grand3d.language.words import Token, attribute_kind, base

CLAUSE = ("as", "when", "if", "while", "once", "upon", "after", "by")
"""Words that begin a clause of how the scene is looked at."""
_PEOPLE = ("you", "i", "we", "one", "people", "someone", "person", "they", "he", "she")
_ASKED = ("would", "do", "can", "should")
_LINKING = ("BE", "ADV", "NEG", "CONJ", "VERB", "REL", "N", "ONE")
"""What stands before a predicate."""
_STILL = ("located", "situated", "positioned", "placed", "used", "attached", "mounted", "colored", "labeled", "surrounded")


def owner(parse: Parse, k: int) -> int | None:
    """Number of the last thing that ends at or before token ``k``."""
    found = [number for number, thing in enumerate(parse.things) if thing.end <= k]
    return found[-1] if found else None


def subject(parse: Parse, k: int, ends: list[int]) -> int | None:
    """The thing that the verb or adjective at token ``k`` is about: a relative's antecedent, else the sentence's subject."""
    for j in range(k - 1, max(k - 5, -1), -1):
        if parse.tokens[j].tag == "REL":
            return owner(parse, j)
    start = next((j + 1 for j in range(k - 1, -1, -1) if ends[j] != ends[k]), 0)
    for number, thing in enumerate(parse.things):
        if start <= thing.start < k:
            if number in parse.same:
                return number
            if thing.role == "object" and not (thing.start and parse.tokens[thing.start - 1].tag == "PREP"):
                return number
    return parse.target


def purposes(parse: Parse, ends: list[int]) -> tuple[set[int], list[tuple[int | None, str]]]:
    """Functions: "used to ...", "for washing", "a place to sit on", "that you can sit on". Returns their tokens, and of which
    thing each is said.
    """
    row, used, out = parse.tokens, set(), []
    for k in range(1, len(row) - 1):
        start = None if k in used else _purpose_start(parse, k)
        if start is None or any(token.lower in lex.SEEING for token in row[start : start + 3]):
            continue
        stop = _clause_end(parse, start, ends)
        of_subject = row[k - 1].lower in lex.MEANT and row[k - 2].tag == "BE" and row[k - 3].tag != "REL"
        out.append((None if of_subject else owner(parse, k), " ".join(token.text for token in row[k:stop])))
        used |= set(range(k, stop))
        for thing in parse.things:
            if k <= thing.start < stop:
                thing.role = "activity"
    _purposes_in_names(parse)
    return used, out


def _purpose_start(parse: Parse, k: int) -> int | None:
    """Where the verb of a purpose stands that is introduced at token ``k``; None where none is."""
    row = parse.tokens
    before, token, after, later = row[k - 1], row[k], row[k + 1], row[k + 2 : k + 3]
    word, named = token.lower, before.tag in ("N", "ONE")
    if word in ("for", "to") and before.lower in lex.MEANT:
        return k + 1
    if word == "as" and before.lower in lex.SERVES:
        return k + 1
    if word in ("that", "which") and token.tag == "REL" and after.lower not in lex.SPATIAL and _acts(after, later):
        return k + 1
    kind = before.lower in lex.CATEGORIES | lex.GENERIC
    if kind and token.tag == "VERB" and word not in lex.SPATIAL and _acts(token, [after]):
        return k
    if word == "for" and named and before.lower not in lex.SEEK:
        return k + 1
    if word == "to" and named and before.lower not in ("next", "close") and not relation_at(row, k):
        does = after.lower in lex.OTHER_VERBS | lex.SEEK
        return k + 1 if does or (after.tag == "N" and later != [] and later[0].tag in ("DET", "POS")) else None
    if word in _PEOPLE and token.tag in ("PRO", "ONE") and before.lower not in CLAUSE:
        if _people_do(row, k):
            return k + 1
    elif word in ("can", "could") and token.tag == "MODAL" and after.tag in ("VERB", "N"):
        return k + 1 if before.tag in ("CONJ", "REL", "N") else None
    elif word in _ASKED and after.lower in _PEOPLE and row[0].lower in ("what", "which", "where"):
        return k + 1
    elif word in lex.WISHES and after.lower == "to" and row[max(0, k - 3)].lower in (*_PEOPLE, "if", "when"):
        return k + 2
    elif word == "where" and _passive(parse, k + 1):
        return k + 1
    elif before.lower == "it" and before.tag == "PRO" and word not in lex.SPATIAL and _acts(token, row[k + 1 : k + 2]):
        return k
    return None


def _people_do(row: list[Token], k: int) -> bool:
    """Whether the person at token ``k`` can or usually does something with the thing named before: "that you can sit on"."""
    following = (token for token in row[k + 1 : k + 6] if token.tag in ("VERB", "N") and token.lower not in lex.ADVERBS)
    verb = next(following, None)
    if verb is None or any(token.lower in CLAUSE for token in row[max(0, k - 4) : k]):
        return False
    if row[k - 1].lower == "where" and verb.lower not in lex.FACING:
        return True
    return any(token.tag == "MODAL" or token.lower in lex.USUALLY for token in row[k + 1 : k + 4])


def _purposes_in_names(parse: Parse) -> None:
    """Purposes in a noun phrase, "working surface", and patterns, "a rug with stripes"."""
    for number, thing in enumerate(parse.things[1:], 1):
        if thing.head in lex.PATTERNS:
            parse.things[number - 1].attributes.append(("texture", thing.head))
    for thing in parse.things:
        first = thing.names[0] if thing.names else ""
        modifiers = [t.lower for t in parse.tokens[thing.start : thing.end - 1]]
        acts = [w for w in modifiers if w in lex.ACTIVITIES]
        if (
            acts
            and thing.head in lex.GENERIC | lex.CATEGORIES | {"display"}
            and thing.head not in ("unit", "machine", "bin")
            and first not in lex.ROOMS
        ):
            thing.attributes.append(("function", " ".join([*acts, thing.head])))


def _acts(verb: Token, following: list[Token]) -> bool:
    """Whether a word after "that" is a verb of what a thing does: "that heats the room"."""
    third = verb.lower.endswith("s") and not verb.lower.endswith("ss")
    return verb.tag in ("VERB", "N") and third and bool(following) and following[0].tag not in ("PREP", "BE", "HAVE")


def _passive(parse: Parse, k: int) -> bool:
    """Whether a clause from token ``k`` says what is done to things: "clothes are kept"."""
    thing = next((t for t in parse.things if t.start == k), None)
    following = parse.tokens[thing.end : thing.end + 3] if thing is not None else []
    return bool(following) and following[0].tag in ("BE", "MODAL") and any(t.tag == "VERB" for t in following[1:])


def _clause_end(parse: Parse, start: int, ends: list[int]) -> int:
    """End of a purpose: its verb, what follows the verb, and prepositions left over."""
    row, k, nouns = parse.tokens, start, 0
    while k < ends[start]:
        token = row[k]
        if token.lower in ",;" or token.tag == "REL":
            break
        if token.tag == "P" and token.lower in ".?!()":
            break
        if token.tag == "CONJ" and k + 1 < len(row) and row[k + 1].tag in ("BE", "HAVE", "DET", "MODAL", "ADV", "PREP", "NEG"):
            break
        if token.tag == "BE" and k > start:
            break
        thing = next((t for t in parse.things if t.start == k), None)
        if token.tag == "PREP" and nouns and thing is None and token.lower not in ("for", "at", "to", "while", "of", "with"):
            nxt = next((t for t in parse.things if t.start == k + 1), None)
            if nxt is not None and k > start + 1:
                break
        if token.tag == "PREP" and k > start and token.lower in ("in", "near", "next", "under", "above", "between", "behind"):
            nxt = next((t for t in parse.things if t.start == k + 1), None)
            if nxt is not None and nxt.role != "activity" and (nxt.role == "region" or token.lower != "in"):
                break
        if thing is not None:
            nouns += 1
            k = thing.end
        else:
            k += 1
    return min(max(k, start), ends[start])


def texts(parse: Parse) -> set[int]:
    """Attributes of text: what things are labelled, and words, letters or numbers on them. Returns their tokens."""
    row, used = parse.tokens, set()
    for number, thing in enumerate(parse.things):
        if thing.role != "text":
            continue
        quoted = any(t.tag == "QUOTE" for t in row[thing.end : thing.end + 3]) or row[thing.end - 1].tag == "QUOTE"
        nearby = number and any(k == "text_label" for k, _ in parse.things[_holder(parse, number)].attributes)
        if number and not nearby and (quoted or thing.head != "title"):
            words = " ".join(t.text for t in row[thing.start : thing.end + 3 if quoted else thing.end])
            holder = _holder(parse, number)
            parse.things[holder].attributes.append(("text_label", words))
        used |= set(range(max(thing.start - 1, 0), thing.end))
        kept = any(t.tag == "HAVE" or t.lower.startswith("display") for t in row[: thing.start])
        for k in range(thing.end, thing.end if kept else min(thing.end + 5, len(row) - 1)):
            if row[k].lower in ("on", "in") and row[k + 1].lower in ("it", "them", "its", "the"):
                used |= {k}
    for k, token in enumerate(row):
        if token.lower in lex.TEXT_VERBS and token.tag in ("VERB", "N", "ADJ") and any(t.tag == "QUOTE" for t in row[k : k + 4]):
            number = owner(parse, k)
            if number is not None and not any(kind == "text_label" for kind, _ in parse.things[number].attributes):
                parse.things[number].attributes.append(("text_label", token.text))
    return used


def _holder(parse: Parse, number: int) -> int:
    """The thing that a text stands on: the last one before that is no text."""
    return next((k for k in range(number - 1, -1, -1) if parse.things[k].role not in ("text", "activity")), 0)


def predicates(parse: Parse, ends: list[int], used: set[int]) -> set[int]:
    """Attributes said by a verb: "is white", "colored red", "made of wood", "lying on its side". Returns their tokens."""
    row, out = parse.tokens, set()
    covered = {j for thing in parse.things for j in range(thing.start, thing.end)}
    for k in range(1, len(row)):
        number = subject(parse, k, ends)
        if number is None:
            continue
        thing, token, before = parse.things[number], row[k], row[k - 1]
        following = [later.lower for later in row[k + 1 : k + 3]]
        if token.tag == "ADJ" and k not in covered | used and before.tag in _LINKING:
            _predicate(thing, token.lower, before.lower, following)
        elif token.lower in lex.DEGREES and k not in covered and following and row[k + 1].tag not in ("PREP", "ADJ"):
            thing.degrees.append((following[0], "est"))  # "most well stored"
        elif token.tag == "VERB" and token.lower.endswith(("ed", "ept", "ut")) and _well(before.lower):
            if token.lower not in _STILL:
                thing.attributes.append(("state", token.lower))
        elif token.lower in ("turned", "switched", "plugged") and following[:1] in (["on"], ["off"], ["in"]):
            thing.attributes.append(("state", f"{token.lower} {following[0]}"))
        elif token.lower == "made" and following[:1] in (["of"], ["from"], ["out"]):
            for material in parse.things:
                if k < material.start <= k + 3:
                    thing.attributes += material.attributes + [("material", material.head)] * (not material.attributes)
                    material.role, material.attributes = "activity", []
                    out |= set(range(k, material.end))
        elif token.lower in ("lying", "standing") and following in (["on", "its"], ["on", "their"]):
            thing.attributes.append(("state", " ".join(later.text for later in row[k : k + 4])))
            for side in parse.things:
                if k < side.start <= k + 3:
                    side.role = "activity"
            out |= set(range(k, k + 4))
    return out


def _predicate(thing: Thing, word: str, before: str, following: list[str]) -> None:
    """Add an adjective behind a verb to the thing that it is about."""
    stem, degree = base(word)
    placed = stem in ("high", "low") and following[:1] in (["up"], ["down"], ["than"])
    if placed or stem in {"close", "far", "near"} | lex.POSITIONAL:
        return
    thing.attributes.append((attribute_kind(word) or ("state" if word.endswith("ed") else "style"), word))
    if degree or before in lex.DEGREES:
        thing.degrees.append((stem, degree or "est"))


def _well(word: str) -> bool:
    """Whether an adverb of manner: "neatly put", "well stored"."""
    manner = word.endswith("ly") and word not in ("directly", "immediately", "only")
    return manner or word in ("well", "currently", "half", "fully")
