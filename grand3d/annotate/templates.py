"""The eight kinds of text from templates, for any scene and without a model. What they say is true by construction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from grand3d import relations as rel
from grand3d.annotate.facts import Facts
from grand3d.annotate.kinds import DESCRIBE, Draft, ids_of, listed, say
from grand3d.annotate.lexicon import LOOKS, use_of
from grand3d.annotate.naming import (
    MOST_NAMED,
    SUPERLATIVES,
    UNARY,
    WAYS,
    alone,
    best_of,
    looks_before,
    plain_group,
    several,
    sided,
    single,
    thing,
    usable,
    way,
)
from grand3d.bench.nouns import words
from grand3d.scene import Object
from grand3d.synth.counted import close
from grand3d.synth.phrases import Part, article
from grand3d.synth.presence import Presence
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import plural


def reference(facts: Facts, rng: Random) -> Draft | None:
    items = usable(facts)
    if not items:
        return None
    item = rng.choice(items)
    found = way(facts, rng, item)
    if found is None:
        return None
    name, others = found
    start = rng.choice(("this is", "there is", "it is", "find", "the object is"))
    text = say(start, thing(rng, item, "a", 0.8), ".")
    if name in SUPERLATIVES:
        text += f" {say('it is', (f'the {name} {item.category}', (item.object_id,)), '.')}"
    elif name in UNARY:
        text += f" {say('it is', UNARY[name], '.')}"
    elif name == "supports":
        text += f" {say('it holds', thing(rng, others[0], 'a'), '.')}"
    elif name != "only":
        names = listed([thing(rng, other) for other in others])
        text += f" {say('it is', 'the one' if name in ('nearest', 'farthest') else '', rng.choice(WAYS[name]), *names, '.')}"
    around = [row for row in facts.around(item) if row[1] not in others and row[1].category not in STRUCTURE]
    for relation, other in rng.sample(around, min(len(around), rng.choice((0, 1, 1, 2)))):
        verb = rng.choice(("it is", "it is", "it stands")) if relation == "near" else "it is"
        text += f" {say(verb, rng.choice(WAYS[relation]), thing(rng, other, 'a'), '.')}"
    meta = {"label": item.category, "relation": name, "anchors": [other.object_id for other in others]}
    return Draft("object_reference", text, "", (item.object_id,), meta)


def description(facts: Facts, rng: Random) -> Draft | None:
    groups = [items for name, items in facts.groups.items() if name not in STRUCTURE and len(items) <= MOST_NAMED]
    if not groups:
        return None
    shown = rng.sample(groups, min(len(groups), rng.randint(3, 7)))
    sentences = [say(rng.choice(("this room has", "the room contains", "here are")), *listed([several(g) for g in shown]), ".")]
    items = [item for group in shown for item in group if plain_group(facts, item)]
    for item in rng.sample(items, min(len(items), rng.randint(2, 6))):
        around = [row for row in facts.around(item) if row[1].category not in STRUCTURE]
        look = looks_before(rng, item, 0.7)
        if around:
            relation, other = rng.choice(around)
            kind = "the" if len(facts.groups[item.category]) == 1 else "a"
            sentences.append(say(thing(rng, item, kind), "is", rng.choice(WAYS[relation]), thing(rng, other), "."))
        elif look:
            sentences.append(say(thing(rng, item, share=0), "is", look.split()[-1], "."))
        use = use_of(item.category)
        if use and rng.random() < 0.25:
            sentences.append(say("it is there to", use, "."))
    question = rng.choice(DESCRIBE)
    answer = " ".join(sentences)
    return Draft("scene_description", question, answer, ids_of(answer))


def existence(facts: Facts, rng: Random) -> Draft | None:
    if "presence" not in facts._kept:
        facts._kept["presence"] = Presence(facts.scene, facts.scene)
    start = rng.choice(("are there any", "does the room have any", "can you see any", "do you see any"))
    if rng.random() < 0.5 and usable(facts):
        label = rng.choice(usable(facts)).category
        items = facts.groups[label]
        asked = ""
        looked = [item for item in items if item.attributes.get("colour") in LOOKS] if rng.random() < 0.3 else []
        if looked:
            asked = looked[0].attributes["colour"]
            items = [item for item in items if asked in facts.looks(item.object_id)]
        ids = tuple(item.object_id for item in items)
        name = f"{asked} {plural(label)}".strip()
        one = f"{asked} {label}".strip()
        found = (f"{article(one)} {one}" if len(ids) == 1 else name, ids)
        answer = say("Yes, there is" if len(ids) == 1 else "Yes, there are", found, "in the room .")
        return Draft("existence", say(start, (name, ids), "in the room ?"), answer, ids, {"label": label})
    label = facts._kept["presence"].absent(rng)
    if facts.called(label):
        return None
    name = plural(label)
    answer = say("No, there are no", (name, ()), rng.choice(("in the room .", "here .", ".")))
    return Draft("existence", say(start, (name, ()), "in the room ?"), answer, (), {"label": label})


_ASKED = {
    "colour": (("What colour is", "?"), ("What is the colour of", "?")),
    "material": (("What material is", "made of ?"), ("What is", "made of ?")),
    "shape": (("What shape is", "?"), ("What is the shape of", "?")),
}
FINISHES = frozenset(["framed", "padded", "cushioned", "upholstered", "soft", "fluffy", "striped", "checkered", "white"])
"""Values of ``material`` that are none."""


def attribute(facts: Facts, rng: Random) -> Draft | None:
    if not single(facts):
        return None
    item = rng.choice(single(facts))
    subject: Part = (f"the {best_of(facts, item)} {item.category}".replace("  ", " "), (item.object_id,))
    if len(facts.groups[item.category]) == 1:
        subject = (f"the {item.category}", (item.object_id,))
    known = {"colour" if key == "color" else key: value for key, value in item.attributes.items() if set(words(value)) <= LOOKS}
    asked = [key for key in _ASKED if known.get(key) and not (key == "material" and set(words(known[key])) & FINISHES)]
    if not asked or rng.random() < 0.15:
        side, which = rng.choice((("tall", 2), ("long", 0)))
        answer = say(subject, f"is about {facts.size(item)[which]:.2f} m {side}", ".")
        return Draft("attribute", say(f"How {side} is", subject, "?"), answer, ids_of(answer), {"attribute": side})
    key = rng.choice(asked)
    true, meta = known[key], {"attribute": key}
    if key == "colour" and rng.random() < 0.4:
        other = rng.choice((true, "red", "blue", "green", "white", "black", "brown", "yellow", "pink"))
        if other == true:
            answer = say("Yes,", subject, "is", true, ".")
        elif other in facts.looks(item.object_id):
            return None
        else:
            answer = f"{say('No,', subject, 'is not', other, '.')} {say('it is', true, '.')}"
        return Draft("attribute", say("Is", subject, other, "?"), answer, ids_of(answer), meta)
    start, end = rng.choice(_ASKED[key])
    answer = say(subject, "is made of" if key == "material" else "is", "wood" if true == "wooden" else true, ".")
    return Draft("attribute", say(start, subject, end), answer, ids_of(answer), meta)


def spatial(facts: Facts, rng: Random) -> Draft | None:
    items = single(facts)
    if len(items) < 2:
        return None
    share = rng.random()
    if share < 0.3:
        return _what_is_there(facts, rng)
    item = rng.choice(items)
    subject, around = alone(facts, rng, item), sided(facts, item)
    if share < 0.6 or not around:
        name = rng.choice(("on", "under", "above", "near"))
        other = rng.choice(items)
        if other is item or close(name, item, other):
            return None
        anchor, words_of = alone(facts, rng, other), rng.choice(WAYS[name])
        answer = say("No,", subject, "is not", words_of, anchor, ".")
        return Draft("spatial_relation", say("Is", subject, words_of, anchor, "?"), answer, ids_of(answer), {"relation": name})
    name, other = rng.choice(around)
    anchor, words_of = alone(facts, rng, other), rng.choice(WAYS[name])
    if share < 0.8:
        question, answer = say("Is", subject, words_of, anchor, "?"), say("Yes,", subject, "is", words_of, anchor, ".")
    else:
        question, answer = say("Where is", subject, "?"), say(subject, "is", words_of, anchor, ".")
    return Draft("spatial_relation", question, answer, ids_of(answer), {"relation": name})


def _what_is_there(facts: Facts, rng: Random) -> Draft | None:
    """Everything on, or above, one thing."""
    if "laden" not in facts._kept:
        facts._kept["laden"] = list(_laden(facts))
    if not facts._kept["laden"]:
        return None
    name, host, found = rng.choice(facts._kept["laden"])
    groups: dict[str, list[Object]] = {}
    for item in found:
        groups.setdefault(item.category, []).append(item)
    anchor, words_of = alone(facts, rng, host), rng.choice(WAYS[name])
    verb = "is" if len(found) == 1 else "are"
    answer = say(words_of, anchor, verb, *listed([several(group) for group in groups.values()]), ".")
    return Draft("spatial_relation", say("What is", words_of, anchor, "?"), answer, ids_of(answer), {"relation": name})


def _laden(facts: Facts) -> Iterator[tuple[str, Object, list[Object]]]:
    """Things of ``single`` and all that is on them or above them, where nothing else nearly is."""
    pairs = {(name, host.object_id) for item in facts.exact.items for name, host in facts.around(item) if name in ("on", "above")}
    for host in single(facts):
        for name in ("on", "above"):
            if (name, host.object_id) not in pairs:
                continue
            others = [item for item in facts.exact.items if item is not host]
            found = [item for item in others if facts.holds(name, item, (host,))]
            if len(found) <= MOST_NAMED and not any(close(name, item, host) for item in others if item not in found):
                yield name, host, found


def counting(facts: Facts, rng: Random) -> Draft | None:
    if not usable(facts):
        return None
    items = facts.groups[rng.choice(usable(facts)).category]
    name = plural(items[0].category)
    ids = tuple(item.object_id for item in items)
    if rng.random() < 0.35 and single(facts):
        anchor, relation = rng.choice(single(facts)), rng.choice(("on", "near", "near"))
        found = [item for item in items if facts.holds(relation, item, (anchor,))]
        if not found or anchor in items or any(close(relation, item, anchor) for item in items if item not in found):
            return None
        words_of, ids, part = rng.choice(WAYS[relation]), tuple(item.object_id for item in found), alone(facts, rng, anchor)
        called = name if len(found) > 1 else items[0].category
        answer = say(str(len(ids)), (called, ids), "are" if len(ids) > 1 else "is", words_of, part, ".")
        return Draft("counting", say("How many", (name, ids), "are", words_of, part, "?"), answer, ids, {"count": len(ids)})
    called = name if len(ids) > 1 else items[0].category
    answer = say(str(len(ids)), (called, ids), "are" if len(ids) > 1 else "is", "in the room .")
    start, end = rng.choice(
        (("How many", "are there in the room ?"), ("How many", "are in this room ?"), ("Count the", "in the room ."))
    )
    return Draft("counting", say(start, (name, ids), end), answer, ids, {"label": items[0].category, "count": len(ids)})


def comparison(facts: Facts, rng: Random) -> Draft | None:
    items = single(facts)
    if len(items) < 2:
        return None
    if rng.random() < 0.3:
        group = facts.groups[rng.choice(items).category]
        name = rng.choice(SUPERLATIVES)
        best = getattr(rel, name)(group) if 2 <= len(group) <= MOST_NAMED else None
        if best is None:
            return None
        which = (f"the {plural(group[0].category)}", tuple(item.object_id for item in group))
        answer = say((f"the {best.category}", (best.object_id,)), "is the", name, "of", which, ".")
        return Draft("comparison", say("Which of", which, "is the", name, "?"), answer, ids_of(answer), {"relation": name})
    a, b = rng.sample(items, 2)
    first, second, name = alone(facts, rng, a), alone(facts, rng, b), rng.choice(("larger", "taller"))
    a_more, b_more = facts.holds(name, a, (b,)), facts.holds(name, b, (a,))
    if not a_more and not b_more:
        return None
    more, less = (first, second) if a_more else (second, first)
    words_of, meta = rng.choice(WAYS[name]), {"relation": name}
    if rng.random() < 0.5:
        answer = say(more, "is", words_of, less, ".")
        return Draft("comparison", say(f"Which is {name},", first, "or", second, "?"), answer, ids_of(answer), meta)
    answer = say("Yes," if a_more else "No,", first, "is" if a_more else "is not", words_of, second, ".")
    return Draft("comparison", say("Is", first, words_of, second, "?"), answer, ids_of(answer), meta)


def function(facts: Facts, rng: Random) -> Draft | None:
    if "uses" not in facts._kept:
        uses: dict[str, dict[str, list[Object]]] = {}
        for item in facts.exact.items:
            use = use_of(item.category) if item.category not in STRUCTURE else ""
            if use:
                uses.setdefault(use, {}).setdefault(item.category, []).append(item)
        facts._kept["uses"] = uses
    uses = facts._kept["uses"]
    if not uses:
        return None
    use = rng.choice(sorted(uses))
    groups = list(uses[use].values())
    if rng.random() < 0.5:
        named = [item for group in groups for item in group if item in single(facts)]
        if not named:
            return None
        subject = alone(facts, rng, rng.choice(named))
        question = say(rng.choice(("What is the use of", "What can one do with", "What is the purpose of")), subject, "?")
        answer = say(subject, rng.choice(("is there to", "can be used to", "serves to")), use, ".")
        return Draft("function", question, answer, ids_of(answer), {"use": use})
    if sum(map(len, groups)) > 2 * MOST_NAMED:
        return None
    verb = "is" if len(groups) == 1 and len(groups[0]) == 1 else "are"
    answer = say("There", verb, *listed([several(group) for group in groups]), "to", use, ".")
    question = rng.choice(
        ("What is there to {}?", "I would like to {}. What could I use?", "What in this room could I use to {}?")
    )
    return Draft("function", question.format(use), answer, ids_of(answer), {"use": use})


MAKERS: Mapping[str, Callable[[Facts, Random], Draft | None]] = {
    "object_reference": reference,
    "scene_description": description,
    "existence": existence,
    "attribute": attribute,
    "spatial_relation": spatial,
    "counting": counting,
    "comparison": comparison,
    "function": function,
}
