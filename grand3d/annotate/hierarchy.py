"""MMScan's hierarchy for any scene, from templates: what objects and regions are like, then samples of its sub-classes, then
captions of a whole scene in which every mention carries its ids.

Sub-classes are called as the benchmark's columns: ST single target, OO object and object, OR object and region, EQ existence and
quantity; attr on looks, space on places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from grand3d import relations as rel
from grand3d.annotate.facts import Facts, attribute_of
from grand3d.annotate.kinds import SUB_CLASSES, Draft, ids_of, listed, say
from grand3d.annotate.lexicon import LIKE, LOOKS, use_of
from grand3d.annotate.naming import MOST_NAMED, UNARY, WAYS, alone, best_of, several, sided, single, thing, usable
from grand3d.annotate.templates import attribute, counting, existence, spatial
from grand3d.bench.nouns import words
from grand3d.markup import parse
from grand3d.regions import with_members
from grand3d.scene import Object, Region, Scene
from grand3d.synth.counted import close
from grand3d.synth.phrases import Part
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import plural

CENTRES = (
    "bed",
    "desk",
    "couch",
    "table",
    "counter",
    "sink",
    "toilet",
    "bookshelf",
    "tv",
    "bathtub",
    "stove",
    "piano",
    "whiteboard",
)
"""Things that an area of a room is named after, where a scene brings no regions."""
REACH = 1.6
"""Metres of floor between a thing and the centre of its area at most."""
APART = 0.6  # metres of floor between the large pieces that areas are named after
START = ("find", "select", "choose", "look for", "point at")


def with_regions(scene: Scene) -> Scene:
    """A scene with regions; where it brings none, areas around its large pieces, each named after one: ``desk area``."""
    if scene.regions:
        return with_members(scene)
    centres: list[Object] = []
    for item in sorted(scene.objects, key=lambda o: -rel.volume(o)):
        apart = all(rel.floor_gap(item, other) > APART for other in centres)
        if item.category.endswith(CENTRES) and apart and all(item.category != other.category for other in centres):
            centres.append(item)
    members: dict[str, list[Object]] = {item.object_id: [] for item in centres}
    home: dict[str, str] = {}
    for item in scene.objects:
        near = min(((rel.floor_gap(item, o), o.object_id) for o in centres), default=(REACH + 1, ""))
        if near[0] <= REACH and item.category not in STRUCTURE:
            members[near[1]].append(item)
    regions = []
    for number, centre in enumerate(centres):
        inside = members[centre.object_id]
        x0, y0, x1, y1 = rel.room_bounds(inside)
        corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
        region = Region(f"region_{number}", f"{centre.category} area", corners, tuple(o.object_id for o in inside))
        regions.append(region)
        home |= dict.fromkeys(region.object_ids, region.region_id)
    objects = tuple(replace(item, region_id=home.get(item.object_id)) for item in scene.objects)
    return replace(scene, objects=objects, regions=tuple(regions)) if regions else scene


def region_part(region: Region) -> Part:
    return f"the {region.name}", (region.region_id,)


def _members(facts: Facts, region: Region) -> list[Object]:
    """What is spoken of in a region."""
    return [item for item in usable(facts) if facts.region_of(item) is region]


def aspects(facts: Facts, item: Object) -> dict[str, str]:
    """An object's meta-annotation, by aspect; an aspect of which nothing is known is left out."""
    long, short, height = facts.size(item)
    place = next((name for name in ("corner", "middle", "wall") if facts.in_place(name, item)), "")
    around = next((f"{name} {other.category} {other.object_id}" for name, other in facts.around(item)), "")
    region = facts.region_of(item)
    found = {
        "type": item.category,
        "color": attribute_of(item, "colour"),
        "shape": attribute_of(item, "shape"),
        "material": attribute_of(item, "material"),
        "size": f"{long:.2f} x {short:.2f} x {height:.2f} m",
        "position": "; ".join(text for text in (place, around, region.name if region else "") if text),
        "function": use_of(item.category),
        "design": item.description or "",
    }
    return {name: text for name, text in found.items() if text}


def object_meta(facts: Facts, rng: Random) -> Draft | None:
    """What one object is like: looks, size, place, use."""
    items = usable(facts)
    if not items:
        return None
    item = rng.choice(items)
    name: Part = (f"this {item.category}", (item.object_id,))
    looks = [value for key, _ in LIKE if (value := attribute_of(item, key)) and set(words(value)) <= LOOKS]
    text = [say(name, "is", *listed(looks), ".")] if looks else []
    long, _, height = facts.size(item)
    text.append(say(name, f"is {long:.2f} m long and {height:.2f} m tall."))
    place = next((name_of for name_of in UNARY if facts.in_place(name_of, item)), "")
    text += [say("it is", UNARY[place], ".")] if place else []
    around = [row for row in facts.around(item) if row[1].category not in STRUCTURE]
    if around:
        relation, other = around[0]
        text.append(say("it is", rng.choice(WAYS[relation]), thing(rng, other, "a"), "."))
    use = use_of(item.category)
    text += [say("it is there to", use, ".")] if use else []
    answer = " ".join(text)
    meta = {"aspects": aspects(facts, item), "ask_grounded": True}
    return Draft("object_meta", say("Describe", name, "."), answer, (item.object_id,), meta)


def region_meta(facts: Facts, rng: Random) -> Draft | None:
    """What one region is like: what stands there, what it is for, how things stand to each other and to it."""
    regions = [region for region in facts.regions.values() if len(_members(facts, region)) >= 2]
    if not regions:
        return None
    region = rng.choice(regions)
    items = _members(facts, region)
    groups: dict[str, list[Object]] = {}
    for item in items:
        groups.setdefault(item.category, []).append(item)
    shown = [group for group in groups.values() if len(group) <= MOST_NAMED][:6]
    if not shown:
        return None
    text = [
        say(
            "in", region_part(region), "there are" if len(shown[0]) > 1 else "there is", *listed([several(g) for g in shown]), "."
        )
    ]
    uses = list(dict.fromkeys(use for group in shown if (use := use_of(group[0].category))))[:2]
    pairs = [(name, a, b) for a in items for name, b in facts.around(a) if b in items][:40]
    for name, a, b in rng.sample(pairs, min(len(pairs), 2)):
        text.append(say(thing(rng, a), "is", rng.choice(WAYS[name]), thing(rng, b), "."))
    if uses:
        text.append(say(region_part(region), "is a place to", " and to ".join(uses), "."))
    answer = " ".join(text)
    about = {
        "name": region.name,
        "function": uses,
        "objects": {name: len(group) for name, group in groups.items()},
        "relations": [f"{a.object_id} {name} {b.object_id}" for name, a, b in pairs],
    }
    own = tuple(i for i in ids_of(answer) if i in facts.by_id)
    return Draft("region_meta", say("Describe", region_part(region), "."), answer, own, {"aspects": about, "ask_grounded": True})


def _named(rng: Random, label: str, ids: Sequence[str], look: str = "") -> Part:
    name = f"{look} {label if len(ids) == 1 else plural(label)}".strip()
    return f"the {name}", tuple(ids)


def _reference(kind: str, rng: Random, label: str, ids: Sequence[str], *rest: Part, look: str = "", **meta: object) -> Draft:
    text = say(rng.choice(START), _named(rng, label, ids, look), *rest, ".")
    return Draft(kind, text, "", tuple(ids), {"label": label, "sub_class": SUB_CLASSES[kind], **meta})


def vg_st_attr(facts: Facts, rng: Random) -> Draft | None:
    """All of a category that look so."""
    if not usable(facts):
        return None
    item = rng.choice(usable(facts))
    look = attribute_of(item, rng.choice(LIKE)[0])
    if not look or not set(words(look)) <= LOOKS:
        return None
    group = facts.groups[item.category]
    ids = [o.object_id for o in group if set(words(look)) <= facts.looks(o.object_id)]
    return _reference("VG-ST-attr", rng, item.category, ids, look=look) if len(ids) <= MOST_NAMED else None


def vg_st_space(facts: Facts, rng: Random) -> Draft | None:
    """The one of a category that is the largest, or all that stand at a place in the room."""
    if not usable(facts):
        return None
    item = rng.choice(usable(facts))
    group, best = facts.groups[item.category], best_of(facts, item)
    if best and len(group) > 1 and rng.random() < 0.5:
        return _reference("VG-ST-space", rng, f"{best} {item.category}", [item.object_id])
    place = rng.choice(list(UNARY))
    ids = [o.object_id for o in group if facts.in_place(place, o)]
    return _reference("VG-ST-space", rng, item.category, ids, UNARY[place]) if ids and len(ids) <= MOST_NAMED else None


def _other(facts: Facts, rng: Random, item: Object) -> Object | None:
    others = [o for o in single(facts) if o.category != item.category]
    return rng.choice(others) if others else None


def vg_oo_attr(facts: Facts, rng: Random) -> Draft | None:
    """All of a category that look like another thing."""
    anchor = _other(facts, rng, rng.choice(usable(facts))) if usable(facts) else None
    if anchor is None:
        return None
    name = rng.choice(LIKE)[0]
    alike = [o for o in usable(facts) if o.category != anchor.category and facts.holds(f"same_{name}", o, (anchor,))]
    if not alike:
        return None
    label = rng.choice(alike).category
    ids = [o.object_id for o in facts.groups[label] if facts.holds(f"same_{name}", o, (anchor,))]
    rest = ("with the same" if name == "colour" else "of the same", name, "as", alone(facts, rng, anchor))
    return _reference("VG-OO-attr", rng, label, ids, *rest, anchors=[anchor.object_id]) if len(ids) <= MOST_NAMED else None


def vg_oo_space(facts: Facts, rng: Random) -> Draft | None:
    """All of a category that stand so to another thing, and none that nearly does."""
    if not usable(facts):
        return None
    around = sided(facts, rng.choice(usable(facts)))
    if not around:
        return None
    name, anchor = rng.choice(around)
    labels = sorted({o.category for o in facts.neighbours(anchor) if o in usable(facts) and facts.holds(name, o, (anchor,))})
    if not labels:
        return None
    group = facts.groups[rng.choice(labels)]
    ids = [o.object_id for o in group if o is not anchor and facts.holds(name, o, (anchor,))]
    if (
        not ids
        or len(ids) > MOST_NAMED
        or anchor in group
        or any(close(name, o, anchor) for o in group if o.object_id not in ids)
    ):
        return None
    rest = (rng.choice(WAYS[name]), alone(facts, rng, anchor))
    return _reference("VG-OO-space", rng, group[0].category, ids, *rest, relation=name, anchors=[anchor.object_id])


def vg_or(facts: Facts, rng: Random) -> Draft | None:
    """All of a category in one region."""
    if not facts.regions:
        return None
    region = rng.choice(list(facts.regions.values()))
    items = _members(facts, region)
    if not items:
        return None
    label = rng.choice(items).category
    ids = [o.object_id for o in facts.groups[label] if facts.region_of(o) is region]
    return _reference("VG-OR", rng, label, ids, "in", region_part(region)) if len(ids) <= MOST_NAMED else None


def _as(kind: str, make: Callable[[Facts, Random], Draft | None]) -> Callable[[Facts, Random], Draft | None]:
    def made(facts: Facts, rng: Random) -> Draft | None:
        draft = make(facts, rng)
        return None if draft is None else replace(draft, kind=kind, meta={**draft.meta, "sub_class": SUB_CLASSES[kind]})

    return made


def _presence(facts: Facts, rng: Random) -> Draft | None:
    return rng.choice((existence, counting))(facts, rng)


def _place(facts: Facts, rng: Random) -> Draft | None:
    """Where in the room one thing stands."""
    items = [(name, item) for item in single(facts) for name in UNARY if facts.in_place(name, item)]
    if not items:
        return None
    name, item = rng.choice(items)
    subject = alone(facts, rng, item)
    answer = say(subject, "is", UNARY[name], ".")
    return Draft("", say("Where in the room is", subject, "?"), answer, ids_of(answer))


def _alike(facts: Facts, rng: Random) -> Draft | None:
    """Whether two things are alike in a look."""
    if len(single(facts)) < 2:
        return None
    a, b = rng.sample(single(facts), 2)
    name = rng.choice(LIKE)[0]
    if not attribute_of(a, name) or not attribute_of(b, name):
        return None
    first, second = (f"the {best_of(facts, a)} {a.category}".replace("  ", " "), (a.object_id,)), alone(facts, rng, b)
    yes, words_of = facts.holds(f"same_{name}", a, (b,)), f"the same {name} as"
    answer = say("Yes," if yes else "No,", first, "has" if yes else "does not have", words_of, second, ".")
    return Draft("", say("Does", first, "have", words_of, second, "?"), answer, ids_of(answer))


def _in_region(facts: Facts, rng: Random) -> Draft | None:
    """In which region one thing stands, or what stands in one."""
    items = [item for item in single(facts) if facts.region_of(item) is not None]
    if not items:
        return None
    item = rng.choice(items)
    region, subject = facts.region_of(item), alone(facts, rng, item)
    answer = say(subject, "is in", region_part(region), ".")  # type: ignore[arg-type]
    return Draft("", say("In which area of the room is", subject, "?"), answer, (item.object_id,))


def caption(facts: Facts, rng: Random) -> Draft | None:
    """A whole scene, region by region: each one's main thing, what is around it, and relations by rule."""
    regions = [(region, _members(facts, region)) for region in facts.regions.values()]
    regions = [(region, items) for region, items in regions if items] or [(None, usable(facts))]  # type: ignore[list-item]
    text: list[str] = []
    for region, items in regions[:5]:
        if not items:
            return None
        main = max(items, key=rel.volume)
        where: list[Part] = ["in", region_part(region), "there is"] if region is not None else ["there is"]
        text.append(say(*where, thing(rng, main, "a", 0.9), "."))
        near = [row for row in facts.around(main) if row[1] in items][:3]
        text += [say(thing(rng, main), "is", rng.choice(WAYS[name]), thing(rng, other, "a"), ".") for name, other in near[:1]]
        text += _by_rule(facts, rng, main, items)
    answer = " ".join(text)
    spans: dict[str, list[list[int]]] = {}
    position = removed = 0
    for span in parse(answer).spans:
        removed += span.start - position
        for i in span.ids:
            spans.setdefault(i, []).append([removed, removed + len(span.phrase)])
        position, removed = span.end, removed + len(span.phrase)
    own = tuple(i for i in ids_of(answer) if i in facts.by_id)
    return Draft("scene_caption", "Describe this room area by area.", answer, own, {"spans": spans})


def _by_rule(facts: Facts, rng: Random, main: Object, items: Sequence[Object]) -> list[str]:
    """Supporting, between, nearest and facing, one sentence of each where it holds."""
    out = []
    held = [item for item in items if facts.holds("on", item, (main,))]
    if 0 < len(held) <= MOST_NAMED:
        groups: dict[str, list[Object]] = {}
        for item in held:
            groups.setdefault(item.category, []).append(item)
        out.append(say(thing(rng, main), "supports", *listed([several(group) for group in groups.values()]), "."))
    ends = [item for item in facts.neighbours(main)[:4] if item in items]
    for item in ends:
        pair = [other for other in ends if other is not item]
        if len(pair) >= 2 and facts.holds("between", item, pair[:2]):
            out.append(say(thing(rng, item), "is between", thing(rng, pair[0]), "and", thing(rng, pair[1]), "."))
            break
    nearest = next((o for o in ends if len(facts.called(o.category)) > 1 and facts.holds("nearest", o, (main,))), None)
    if nearest is not None:
        out.append(say(thing(rng, nearest), "is the one closest to", thing(rng, main), "."))
    faced = next((o for o in facts.neighbours(main) if facts.holds("facing", main, (o,)) and o.category not in STRUCTURE), None)
    if faced is not None:
        out.append(say(thing(rng, main), "faces", thing(rng, faced), "."))
    return out


MAKERS: Mapping[str, Callable[[Facts, Random], Draft | None]] = {
    "object_meta": object_meta,
    "region_meta": region_meta,
    "VG-ST-attr": vg_st_attr,
    "VG-ST-space": vg_st_space,
    "VG-OO-attr": vg_oo_attr,
    "VG-OO-space": vg_oo_space,
    "VG-OR": vg_or,
    "QA-EQ": _as("QA-EQ", _presence),
    "QA-ST-attr": _as("QA-ST-attr", attribute),
    "QA-ST-space": _as("QA-ST-space", _place),
    "QA-OO-attr": _as("QA-OO-attr", _alike),
    "QA-OO-space": _as("QA-OO-space", spatial),
    "QA-OR": _as("QA-OR", _in_region),
    "scene_caption": caption,
}
