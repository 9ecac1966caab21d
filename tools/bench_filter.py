"""How well the hallucination filter of annotations works: sound texts, and texts with one planted fault each.

    python tools/bench_filter.py [--sound 1000] [--faults 300] [--seed 0] [--json]

Sound texts about true objects of made-up rooms: a half from the templates, a half in wordings of this file's own, which no
template has. A fault is planted into a sound text by exchanging words or ids, after a look at the scene and not at the filter:
a look that the object lacks, a relation that does not hold, a thing that the room lacks, an id of a thing of another category,
an id that is none, a name without its ids. Recall of a kind: planted texts for which the filter's first finding is of that
kind. Precision: of the texts, planted with whatever or sound, for which it is, those planted so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import ATTRIBUTE, EXISTENCE, RELATION, UNGROUNDED, UNKNOWN, WRONG, faults
from grand3d.annotate.kinds import say
from grand3d.annotate.lexicon import FREE, LOOKS, same
from grand3d.annotate.make import make_texts
from grand3d.annotate.naming import single, usable
from grand3d.annotate.templates import MAKERS
from grand3d.bench.nouns import words
from grand3d.scene import Object
from grand3d.synth import make_room
from grand3d.synth.phrases import article
from grand3d.synth.presence import Presence
from grand3d.synth.vocabulary import plural

TWO = re.compile(r"<p>([^<]+)</p>\[<([^<>]+)>\] (is|are)( not)? ([a-z ]+?) <p>([^<]+)</p>\[<([^<>]+)>\]")
ONE = re.compile(r"<p>([^<]+)</p>\[((?:<[^<>]+>(?:, )?)+)\]")
SAID = {
    "on": "on top of",
    "under": "beneath",
    "above": "over",
    "near": "close to",
    "larger": "bigger than",
    "taller": "taller than",
}
COLOURS = ("purple", "green", "pink", "orange", "beige", "yellow", "red", "blue", "white", "black")


def own_words(facts: Facts, rng: Random) -> str | None:
    """A sound text in wordings that the templates lack."""
    items = single(facts)
    laden = [(name, a, b) for a in items for name, b in facts.around(a) if b in items]
    if not laden:
        return None
    name, a, b = rng.choice(laden)
    first, second = (f"the {a.category}", (a.object_id,)), (f"the {b.category}", (b.object_id,))
    if len(facts.groups[a.category]) > 1 or len(facts.groups[b.category]) > 1:
        return None
    over = {"on": "resting on", "under": "tucked beneath", "above": "directly above", "near": "right beside"}[name]
    looks = [value for value in a.attributes.values() if set(words(value)) <= LOOKS]
    look = looks[0].split()[-1] if looks else ""
    extra = rng.choice(usable(facts))
    group = facts.groups[extra.category]
    whole = (
        f"all the {plural(extra.category)}" if len(group) > 1 else f"the {extra.category}",
        tuple(o.object_id for o in group),
    )
    choices: list[tuple[Any, ...]] = [
        ("You will find", first, over, second, "."),
        (over, second, ", you can see", first, "."),
        ("Looking around,", first, "can be seen", over, second, "."),
        ("A visitor notices", whole, "at once; ", first, ", which is", over, second, ", is easy to spot."),
        (first, "stands out in this space. It is placed", over, second, "."),
    ]
    if look:
        kind = article(look)
        choices += [
            ((f"{kind} {look} {a.category}", (a.object_id,)), "is located", over, second, ", as one would expect."),
            (first, "appears", look, "and sits", over, second, "."),
            ("There is", (f"{kind} {look} {a.category}", (a.object_id,)), "here, and it is", over, second, "."),
        ]
    return say(*rng.choice(choices))


def sound_texts(number: int, seed: int) -> Iterator[tuple[Facts, str]]:
    """Sound texts with the facts of their rooms; every second one in own words."""
    rng, made, index = Random(f"filter {seed}"), 0, 0
    kinds = list(MAKERS)
    while made < number:
        facts = Facts(make_room(7_000_003 * (seed + 1) + index))
        index += 1
        texts = []
        for kind in kinds:
            for sample in make_texts(facts, kind, 2, seed):
                texts.append(sample.answer or sample.text)
                text = own_words(facts, rng)
                texts += [text] if text else []
        for text in texts[: number - made]:
            made += 1
            yield facts, text


def _exchange(text: str, match: re.Match[str], group: int, new: str) -> str:
    return text[: match.start(group)] + new + text[match.end(group) :]


def _a_span(text: str, rng: Random) -> re.Match[str] | None:
    found = list(ONE.finditer(text))
    return rng.choice(found) if found else None


def _ids(match: re.Match[str]) -> list[str]:
    return re.findall("<([^<>]+)>", match[2])


def plant_look(text: str, facts: Facts, rng: Random) -> str | None:
    """A colour that the object is not of: in place of one that it is said to be of, or put before its name."""
    match = _a_span(text, rng)
    if match is None:
        return None
    known = frozenset().union(*(facts.looks(i) for i in _ids(match)))
    colour = rng.choice([word for word in COLOURS if word not in known])
    said = match[1].split()
    place = next((k for k, word in enumerate(said) if word.lower() in COLOURS), None)
    if place is not None:
        said[place] = colour
    else:
        article_first = said[0].lower() in ("the", "a", "an", "all", "both") or said[0].lower() in MANY
        said.insert(2 if said[:2] == ["all", "the"] else int(article_first), colour)
    return _exchange(text, match, 1, " ".join(said))


MANY = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def plant_relation(text: str, facts: Facts, rng: Random) -> str | None:
    """Another relation, which does not hold where it is stated, and holds where it is denied."""
    found = [match for match in TWO.finditer(text) if match[2] in facts.by_id and match[7] in facts.by_id]
    if not found:
        return None
    match = rng.choice(found)
    a, b = facts.by_id[match[2]], facts.by_id[match[7]]
    wanted = match[4] is not None
    names = [name for name in SAID if facts.holds(name, a, (b,)) == wanted]
    return _exchange(text, match, 5, SAID[rng.choice(names)]) if names else None


def plant_absent(text: str, facts: Facts, rng: Random) -> str | None:
    """A thing that the room lacks: in place of a name, or in a sentence of its own."""
    presence = Presence(facts.scene, facts.scene)
    label = next((name for name in (presence.absent(rng) for _ in range(20)) if not facts.called(name)), None)
    match = _a_span(text, rng)
    if label is None or match is None:
        return None
    if rng.random() < 0.5:
        ids = _ids(match)
        return _exchange(text, match, 1, plural(label) if len(ids) > 1 else f"the {label}")
    return f"{text} {say('There is also', (f'{article(label)} {label}', ()), '.')}"


def _other(item: Object, facts: Facts, rng: Random) -> str | None:
    rest = [
        o.object_id for o in facts.scene.objects if not same(o.category, item.category) and not same(item.category, o.category)
    ]
    return rng.choice(rest) if rest else None


def plant_wrong(text: str, facts: Facts, rng: Random) -> str | None:
    """The id of a thing of another category."""
    match = _a_span(text, rng)
    if match is None:
        return None
    ids = _ids(match)
    other = _other(facts.by_id[ids[0]], facts, rng)
    if other is None:
        return None
    return _exchange(text, match, 2, ", ".join(f"<{i}>" for i in [other, *ids[1:]]))


def plant_unknown(text: str, facts: Facts, rng: Random) -> str | None:
    """An id that the scene does not have."""
    match = _a_span(text, rng)
    if match is None:
        return None
    return _exchange(text, match, 2, ", ".join(f"<{i}>" for i in [str(rng.randrange(500, 999)), *_ids(match)[1:]]))


def plant_bare(text: str, facts: Facts, rng: Random) -> str | None:
    """A name without its markup."""
    match = _a_span(text, rng)
    if match is None or match[1].split()[-1].lower() in FREE:  # walls, floor and ceiling need no id
        return None
    return text[: match.start()] + match[1] + text[match.end() :]


PLANTS: Mapping[str, Callable[[str, Facts, Random], str | None]] = {
    ATTRIBUTE: plant_look,
    RELATION: plant_relation,
    EXISTENCE: plant_absent,
    WRONG: plant_wrong,
    UNKNOWN: plant_unknown,
    UNGROUNDED: plant_bare,
}


def measure(num_sound: int, num_faults: int, seed: int = 0) -> dict[str, Any]:
    """Recall and precision of each kind, and of finding anything at all; examples of what went wrong."""
    texts = list(sound_texts(max(num_sound, 6 * num_faults), seed))
    first: dict[str, Counter[str]] = {"sound": Counter()}
    wrong: list[dict[str, str]] = []

    def count(kind: str, text: str, facts: Facts) -> None:
        found = faults(text, facts)
        cause = found[0].cause if found else "none"
        first[kind][cause] += 1
        if cause != (kind if kind != "sound" else "none"):
            wrong.append({"planted": kind, "found": cause, "why": found[0].reason if found else "", "text": text})

    for facts, text in texts[:num_sound]:
        count("sound", text, facts)
    rows = []
    for kind, plant in PLANTS.items():
        rng = Random(f"{kind} {seed}")
        first[kind] = Counter()
        for facts, text in texts:
            if first[kind].total() == num_faults:
                break
            planted = plant(text, facts, rng)
            if planted is not None and planted != text:
                count(kind, planted, facts)
    for kind in PLANTS:
        right = first[kind][kind]
        flagged = sum(counts[kind] for counts in first.values())
        rows.append(
            {
                "kind": kind,
                "planted": first[kind].total(),
                "found": round(1 - first[kind]["none"] / max(1, first[kind].total()), 4),
                "recall": round(right / max(1, first[kind].total()), 4),
                "precision": round(right / max(1, flagged), 4),
            }
        )
    sound = first["sound"]
    planted = sum(first[kind].total() for kind in PLANTS)
    found = sum(first[kind].total() - first[kind]["none"] for kind in PLANTS)
    alarms = sound.total() - sound["none"]
    total = {"recall": round(found / max(1, planted), 4), "precision": round(found / max(1, found + alarms), 4)}
    return {"sound": sound.total(), "passed": sound["none"], "any": total, "kinds": rows, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sound", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.sound, options.faults, options.seed)
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return
    print(f"sound: {found['passed']} of {found['sound']} let through; any fault: {found['any']}")
    for row in found["kinds"]:
        print("{kind:20} planted {planted:4}  found {found:.3f}  recall {recall:.3f}  precision {precision:.3f}".format(**row))
    for row in found["wrong"][:8]:
        print(row)


if __name__ == "__main__":
    main()
