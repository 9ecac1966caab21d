"""The hallucination filter: what of a grounded text the scene does not bear out, each fault by its cause.

Six kinds as 3D-GRAND's pipeline needs them, each decided by rules that can be read (docs/annotate.md), and three more that
text comes with: markup that is none, numbers that do not add up, and an answer that its own question contradicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grand3d import relations as rel
from grand3d.annotate.claims import Claim, Named, Reading, read
from grand3d.annotate.facts import Facts
from grand3d.annotate.lexicon import GENERIC, canonical, same
from grand3d.bench.nouns import forms, words
from grand3d.markup import Parsed, parse
from grand3d.scene import Object

MARKUP, UNKNOWN, EXISTENCE, WRONG = "malformed markup", "unknown id", "existence", "wrong object"
UNGROUNDED, ATTRIBUTE, COUNT, RELATION, ANSWER = "ungrounded phrase", "attribute", "count", "relation", "answer"
CAUSES = (MARKUP, UNKNOWN, EXISTENCE, WRONG, UNGROUNDED, ATTRIBUTE, COUNT, RELATION, ANSWER)
"""In the order in which they are looked for. What is said of a span that is at fault is not looked at: it would fail too."""
SIZE_SLACK = 0.06
"""Metres by which a stated size may be off."""
MOST_PAIRS = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a text.

    Attributes:
        cause: One of CAUSES.
        position: Character of the text it stands at.
        reason: What a person is told.
    """

    cause: str
    position: int
    reason: str


def faults(text: str, facts: Facts, viewpoint: rel.Point | None = None, asks: bool = False) -> list[Finding]:
    """Everything in a grounded text that the scene does not bear out; empty for a sound one.

    Args:
        text: Ids are the scene's own: ``<p>desk</p>[<12>]``.
        viewpoint: Where the speaker stands, for left, right, in front and behind, which nothing decides without.
        asks: It is a question: it names things, but whether they look or stand as it says is what is asked.
    """
    return list(_faults(parse(text), facts, viewpoint, asks))


def sound(text: str, facts: Facts, viewpoint: rel.Point | None = None, asks: bool = False) -> bool:
    """Whether ``faults`` finds nothing."""
    return next(_faults(parse(text), facts, viewpoint, asks), None) is None


def pair_faults(question: str, answer: str, facts: Facts, viewpoint: rel.Point | None = None) -> list[Finding]:
    """Faults of a grounded question and its answer, and whether the yes or no of the answer is what the question comes to."""
    asked, told = parse(question), parse(answer)
    out = [*_faults(asked, facts, viewpoint, True), *_faults(told, facts, viewpoint, False)]
    said = words(told.text[:12])[:1]
    if out or said not in (["yes"], ["no"]):
        return out
    claims = [claim for claim in read(asked, facts.extra).claims if claim.objects]
    if claims:
        holds = all(_bears(claim, asked, facts, viewpoint) for claim in claims)
        if holds != (said == ["yes"]):
            out.append(Finding(ANSWER, 0, f"the answer is {said[0]}, but what is asked {'holds' if holds else 'does not hold'}"))
    return out


def _faults(parsed: Parsed, facts: Facts, viewpoint: rel.Point | None, asks: bool) -> Iterator[Finding]:
    for fault in parsed.faults:
        if fault.reason != "no id list behind the phrase":
            yield Finding(MARKUP, fault.position, fault.reason)
    reading = read(parsed, facts.extra)
    bad: set[int] = set()
    for index, span in enumerate(parsed.spans):
        found = list(_span_faults(index, parsed, reading, facts, asks))
        if found:
            bad.add(index)
            yield from found
        elif not span.ids:
            bad.add(index)
    for noun, negative, position in reading.loose:
        absent = not facts.called(noun) and not negative and not asks
        what = "the scene has none" if absent else "no id says which"
        yield Finding(EXISTENCE if absent else UNGROUNDED, position, f"{noun!r}: {what}")
    yield from _look_faults(parsed, reading, facts, bad, asks)
    for index, number in reading.counts:
        if index not in bad and len(parsed.spans[index].ids) != number:
            yield Finding(COUNT, parsed.spans[index].start, f"{number} are said, {len(parsed.spans[index].ids)} named")
    if asks:
        return
    for claim in reading.claims:
        if not bad.intersection((*claim.subjects, *claim.objects)) and _bears(claim, parsed, facts, viewpoint) == claim.negated:
            names = [parsed.spans[k].phrase for k in (claim.subjects[0], *claim.objects)]
            said = f"{'not ' if claim.negated else ''}{claim.name}"
            yield Finding(RELATION, parsed.spans[claim.subjects[0]].start, f"{names[0]} {said} {', '.join(names[1:])}".strip())


def _span_faults(index: int, parsed: Parsed, reading: Reading, facts: Facts, asks: bool) -> Iterator[Finding]:
    span, names = parsed.spans[index], reading.names[index]
    unknown = [i for i in span.ids if i not in facts.by_id and i not in facts.regions]
    if unknown:
        yield Finding(UNKNOWN, span.start, f"{span.phrase!r}: the scene has no {unknown[0]!r}")
        return
    if not span.listed:
        yield Finding(UNGROUNDED, span.start, f"{span.phrase!r}: no id list behind it")
        return
    if any(i in facts.regions for i in span.ids):
        return
    nouns = [name.noun for name in names]
    absent = next((noun for noun in nouns if noun and noun not in GENERIC and not facts.called(noun)), None)
    if not span.ids:
        if absent is None and not asks and not _about_others(index, reading) and any(facts.called(noun) for noun in nouns):
            yield Finding(EXISTENCE, span.start, f"{span.phrase!r}: said to be absent, but the scene has some")
        elif absent is not None and not asks and index not in reading.denied:
            yield Finding(EXISTENCE, span.start, f"{span.phrase!r}: the scene has none")
        return
    items = [facts.by_id[i] for i in span.ids]
    if absent is not None:
        yield Finding(EXISTENCE, span.start, f"{span.phrase!r}: the scene has no {absent}")
        return
    for item in items:
        if not any(_fits(noun, item.category) for noun in nouns):
            yield Finding(WRONG, span.start, f"{span.phrase!r}: {item.object_id!r} is a {item.category}")
            return
    if len(names) == 1:
        yield from _name_faults(span.start, names[0], items, facts)


def _fits(noun: str, category: str) -> bool:
    return not noun or bool(forms(noun) & GENERIC) or same(noun, category)


def _about_others(index: int, reading: Reading) -> bool:
    """Whether an empty span is narrowed down by a relation or a look, so that others of its kind may be there."""
    narrowed = any(index in (*claim.subjects, *claim.objects) for claim in reading.claims)
    return narrowed or any(name.looks for name in reading.names[index])


def _name_faults(position: int, name: Named, items: list[Object], facts: Facts) -> Iterator[Finding]:
    for word in name.looks:
        for item in items:
            if canonical(word) not in facts.looks(item.object_id):
                yield Finding(ATTRIBUTE, position, f"{item.category} {item.object_id!r} is not said to be {word!r}")
                return
    if name.number is not None and name.number != len(items):
        yield Finding(COUNT, position, f"{name.number} are said, {len(items)} named")
    if name.superlative and len(items) == 1:
        rivals = facts.called(name.noun)
        if len(rivals) > 1 and getattr(rel, name.superlative)(rivals) is not items[0]:
            yield Finding(ATTRIBUTE, position, f"{items[0].object_id!r} is not the {name.superlative} {name.noun}")


def _look_faults(parsed: Parsed, reading: Reading, facts: Facts, bad: set[int], asks: bool) -> Iterator[Finding]:
    if asks:
        return
    for index, word, negative in reading.looks:
        ids = [i for i in parsed.spans[index].ids if i in facts.by_id]
        fits = bool(ids) and all(canonical(word) in facts.looks(i) for i in ids)
        if index not in bad and fits == negative:
            yield Finding(ATTRIBUTE, parsed.spans[index].start, f"{parsed.spans[index].phrase!r} is not said to be {word!r}")
    for index, size, side in reading.measures:
        for i in parsed.spans[index].ids if index not in bad else ():
            if i not in facts.by_id:
                continue
            long, short, height = facts.size(facts.by_id[i])
            true = {"tall": (height,), "high": (height,), "long": (long,), "wide": (long, short)}[side]
            if min(abs(size - value) for value in true) > SIZE_SLACK:
                yield Finding(ATTRIBUTE, parsed.spans[index].start, f"{i!r} is {true[0]:.2f} m {side}, not {size:g}")


def _bears(claim: Claim, parsed: Parsed, facts: Facts, viewpoint: rel.Point | None) -> bool:
    """Whether a relation holds: every thing of the first name to some thing of the other."""
    return any(_stands(subject, claim, parsed, facts, viewpoint) for subject in claim.subjects)


def _stands(subject: int, claim: Claim, parsed: Parsed, facts: Facts, viewpoint: rel.Point | None) -> bool:
    items = [facts.by_id[i] for i in parsed.spans[subject].ids if i in facts.by_id]
    regions = [i for k in claim.objects for i in parsed.spans[k].ids if i in facts.regions]
    if regions:
        places = [facts.region_of(item) for item in items]
        return bool(items) and claim.name == "inside" and all(r is not None and r.region_id in regions for r in places)
    others = [[facts.by_id[i] for i in parsed.spans[k].ids if i in facts.by_id] for k in claim.objects]
    if not items or not all(others) or len(items) * max(map(len, others), default=1) > MOST_PAIRS:
        return False
    if not others:
        return all(facts.in_place(claim.name, item) for item in items)
    if claim.name == "between":
        ends = [others[0][0], others[0][1]] if len(others) == 1 and len(others[0]) == 2 else [group[0] for group in others]
        return len(ends) == 2 and all(facts.holds("between", item, ends) for item in items)
    return all(any(facts.holds(claim.name, item, (other,), viewpoint) for other in others[0]) for item in items)
