"""A scene as prompt text, and back: four forms, an id map, a token budget.

``table``: one line an object, whole centimetres, objects with the same box merged.
``scored``: the same with the score of each proposal, in percent.
``coord``: the same objects with one token a number and one an id, which a base must learn (``added_tokens``).
``grand``: the scene text of 3D-GRAND's own prompts, byte for byte, which knows no regions.

Where a scene has regions, such as the rooms of a house, the other forms end with a line for each: its name and id, and the ids of
the objects in it that are shown.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from grand3d.duplicates import centimetres, merge_duplicates
from grand3d.errors import GrandError
from grand3d.grandtext import read_grand, write_grand
from grand3d.scene import Object, Region, Scene, confidence

FORMS = ("table", "scored", "coord", "grand")
MERGING = ("table", "scored", "coord")
"""Forms in which objects with the same box stand once."""
NUM_IDS = 128
LOWEST, HIGHEST = -256, 511  # what a number of ``coord`` may be, in steps
COORD_STEP = 3  # cm; the numbers then reach from -7.7 m to 15.3 m
TABLE_HEADER = "label and id: center x y z, size x y z in cm"
SCORED_HEADER = f"{TABLE_HEADER}; score in %"
REGION_HEADER = "region and id: ids in it"

# A word: letters, then digits and marks inside; "_12" is not plain, lest a label look like an id.
_WORD = r"[^\W\d_](?:[^\W_]|['&.\-]|_(?=[^\W\d_]))*"
_MARKUP = {c: f"\\u{ord(c):04x}" for c in "<>[]"}
_PLAIN_LABEL = re.compile(rf"{_WORD}(?:(?: & |[ /]){_WORD})*")
_TABLE_LINE = re.compile(
    r" (.*[^0-9])([0-9]+) (-?[0-9]{1,9}) (-?[0-9]{1,9}) (-?[0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9})(?:; ([0-9]{1,3}))?"
)
_REGION_LINE = re.compile(r" (.*[^0-9])([0-9]+):((?: [0-9]{1,9})*)")
_COORD_HEADER = re.compile(r"steps of ([0-9]{1,9}) cm from (-?[0-9]{1,12}) (-?[0-9]{1,12}) (-?[0-9]{1,12})\n")
_COORD_ITEM = re.compile(rf" ([^<>]+)<obj_([0-9]+)>{'<c_(-?[0-9]{1,3})>' * 6}")


@dataclass(frozen=True, slots=True)
class SceneText:
    """A scene as text, and what its ids mean.

    Attributes:
        text: Without a line break at the end.
        object_ids: ``object_ids[k]`` is the object that ``obj_k`` means.
        same: Id of a merged duplicate -> id of the object that stands for it.
        num_dropped: Objects of the scene that the text does not show.
        labels: ``labels[k]`` is the category of ``object_ids[k]``, without those of its merged duplicates.
        region_ids: ``region_ids[k]`` is the region that ``region_k`` means; empty where the text shows none.
    """

    text: str
    object_ids: tuple[str, ...]
    same: Mapping[str, str] = field(default_factory=dict)
    num_dropped: int = 0
    labels: tuple[str, ...] = ()
    region_ids: tuple[str, ...] = ()


def _form(form: str) -> None:
    if form not in FORMS:
        raise GrandError(f"the scene text form is {form!r}, expected one of {', '.join(FORMS)}")


def write_scene(scene: Scene, form: str = "table") -> SceneText:
    """Write all objects of a scene in their order; ``obj_k`` counts from 0.

    A rotated box is written as the axis-aligned box around it.

    Raises:
        GrandError: For an unknown form.
    """
    _form(form)
    shown, same = merge_duplicates(scene) if form in MERGING else (scene, {})
    own = {item.object_id: item.category for item in scene.objects}
    labels = tuple(own[item.object_id] for item in shown.objects)
    regions = _regions(scene, shown.objects, same)
    return SceneText(_text(shown.objects, form, regions), shown.object_ids, same, labels=labels, region_ids=_ids(scene, form))


def _ids(scene: Scene, form: str) -> tuple[str, ...]:
    return () if form == "grand" else tuple(region.region_id for region in scene.regions)


def _regions(scene: Scene, objects: Collection[Object], same: Mapping[str, str]) -> list[tuple[str, list[int]]]:
    """The name of each region and the places, among the objects shown, of those in it."""
    places = {item.object_id: k for k, item in enumerate(objects)}
    own = [(item.region_id, item.object_id) for item in scene.objects if item.region_id is not None]
    out = []
    for region in scene.regions:
        members = {*region.object_ids, *(item for region_id, item in own if region_id == region.region_id)}
        kept = {places[same.get(item, item)] for item in members if same.get(item, item) in places}
        out.append((region.name, sorted(kept)))
    return out


def _text(objects: Collection[Object], form: str, regions: Collection[tuple[str, list[int]]] = ()) -> str:
    if form == "table":
        text = "\n".join([TABLE_HEADER, *(_table_line(k, item) for k, item in enumerate(objects))])
    elif form == "scored":
        lines = (f"{_table_line(k, item)}; {round(100 * confidence(item))}" for k, item in enumerate(objects))
        text = "\n".join([SCORED_HEADER, *lines])
    elif form == "coord":
        text = _coord_text(objects)
    else:
        return write_grand(objects)
    lines = (f" {_label(name)}{k}:{''.join(f' {place}' for place in places)}" for k, (name, places) in enumerate(regions))
    return "\n".join([text, REGION_HEADER, *lines]) if regions else text


def _table_line(k: int, item: Object) -> str:
    # The id right behind the label: what followed a word is what a language model recalls most easily. The blank in front
    # makes the label the same tokens as in a sentence.
    return f" {_label(item.category)}{k} {' '.join(map(str, centimetres(item)))}"


def added_tokens(form: str) -> tuple[str, ...]:
    """Words that a tokenizer must know as one token each before it reads scene texts of this form."""
    _form(form)
    if form != "coord":
        return ()
    return tuple(f"<obj_{k}>" for k in range(NUM_IDS)) + tuple(f"<c_{k}>" for k in range(LOWEST, HIGHEST + 1))


def _coord_text(objects: Collection[Object]) -> str:
    """All numbers count steps of 3 cm from the origin; a scene that reaches farther says its own steps and origin first."""
    boxes = [centimetres(item) for item in objects]
    step, origin = COORD_STEP, [0, 0, 0]
    if any(not LOWEST <= _steps(value, step) <= HIGHEST for box in boxes for value in box):
        origin = [min(box[axis] for box in boxes) for axis in range(3)]
        places = [box[axis] - origin[axis] for box in boxes for axis in range(3)]
        widest = max(*places, *(value for box in boxes for value in box[3:]))
        step = max(step, 2 * widest // (2 * HIGHEST + 1) + 1)  # half a step more would round up to HIGHEST + 1
    text = "" if step == COORD_STEP and not any(origin) else f"steps of {step} cm from {' '.join(map(str, origin))}\n"
    for k, (item, box) in enumerate(zip(objects, boxes, strict=True)):
        numbers = [value - start for value, start in zip(box[:3], origin, strict=True)] + list(box[3:])
        text += f" {_label(item.category)}<obj_{k}>" + "".join(f"<c_{_steps(value, step)}>" for value in numbers)
    return text


def _steps(value: int, step: int) -> int:
    return (2 * value + step) // (2 * step)  # to the nearest, in whole numbers


def _read_coord(text: str) -> list[Object]:
    header = _COORD_HEADER.match(text)
    step, *origin = (COORD_STEP, 0, 0, 0) if header is None else (int(value) for value in header.groups())
    objects: list[Object] = []
    position = 0 if header is None else header.end()
    while position < len(text):
        match = _COORD_ITEM.match(text, position)
        if match is None or match[2] != str(len(objects)):
            expected = f"' label<obj_{len(objects)}>' and six <c_n>"
            raise GrandError(f"scene text, character {position}: seen {text[position : position + 40]!r}, expected {expected}")
        numbers = [int(value) * step for value in match.groups()[2:]]
        centroid = tuple((a + b) / 100 for a, b in zip(numbers[:3], origin, strict=True))
        label = _read_label(match[1], 1)
        objects.append(Object(f"obj_{len(objects)}", label, centroid, tuple(value / 100 for value in numbers[3:])))
        position = match.end()
    return objects


def _label(label: str) -> str:
    """A plain label as it is, another as a JSON string without angle or square brackets."""
    if _PLAIN_LABEL.fullmatch(label) and label[-1] not in "0123456789":
        return label
    quoted = json.dumps(label, ensure_ascii=False)
    return "".join(c if c.isprintable() and c not in _MARKUP else _MARKUP.get(c) or json.dumps(c)[1:-1] for c in quoted)


def read_scene(text: str, form: str = "table") -> Scene:
    """Read a scene text back: ids are ``obj_k`` and ``region_k``, sides and places rounded to the centimetre or coord's step.

    Raises:
        GrandError: If the text is not of the form, with line or position.
    """
    _form(form)
    readers = {"table": _read_table, "scored": partial(_read_table, scored=True), "coord": _read_coord, "grand": read_grand}
    body, header, rest = text.partition(f"\n{REGION_HEADER}\n")
    objects = readers[form](body if form != "grand" else text)
    regions = _read_regions(rest, len(objects), body.count("\n") + 3) if header and form != "grand" else []
    return Scene("prompt", tuple(objects), tuple(regions), id_space="prompt")


def _read_regions(text: str, num_objects: int, first: int) -> list[Region]:
    regions = []
    for k, line in enumerate(text.split("\n")):
        match = _REGION_LINE.fullmatch(line)
        ids = [int(word) for word in match[3].split()] if match else []
        if match is None or match[2] != str(k) or any(number >= num_objects for number in ids):
            form = f"' label{k}: ids' of the {num_objects} objects above"
            raise GrandError(f"scene text, line {first + k}: seen {line[:60]!r}, expected {form}")
        members = tuple(f"obj_{number}" for number in ids)
        regions.append(Region(f"region_{k}", _read_label(match[1], first + k), (), members))
    return regions


def _read_table(text: str, scored: bool = False) -> list[Object]:
    header, *lines = text.split("\n")
    wanted = SCORED_HEADER if scored else TABLE_HEADER
    if header != wanted:
        raise GrandError(f"scene text, line 1: seen {header[:60]!r}, expected {wanted!r}")
    objects = []
    for k, line in enumerate(lines):
        match = _TABLE_LINE.fullmatch(line)
        if match is None or match[2] != str(k) or (match[9] is not None) != scored or int(match[9] or 0) > 100:
            form = f"' label{k} x y z x y z{'; score' if scored else ''}' in cm{' and %' if scored else ''}"
            raise GrandError(f"scene text, line {k + 2}: seen {line[:60]!r}, expected {form}")
        numbers = [int(value) / 100 for value in match.groups()[2:8]]
        score = int(match[9]) / 100 if scored else None
        objects.append(Object(f"obj_{k}", _read_label(match[1], k + 2), tuple(numbers[:3]), tuple(numbers[3:]), score=score))
    return objects


def _read_label(words: str, line: int) -> str:
    if _PLAIN_LABEL.fullmatch(words):
        return words
    try:
        label = json.loads(words)
    except (json.JSONDecodeError, RecursionError):
        label = None
    if not isinstance(label, str):
        raise GrandError(f"scene text, line {line}: the label {words[:60]!r} is neither plain words nor a JSON string")
    return label


def swap_boxes(text: str, form: str, seed: str) -> str:
    """The same labels under the same ids, with the boxes of a scene text passed around a random ring of them: none keeps its own.

    Raises:
        GrandError: If the text is not of the form.
    """
    scene = read_scene(text, form)
    objects = scene.objects
    ring = random.Random(seed).sample(range(len(objects)), len(objects))
    given = {to: objects[of] for to, of in zip(ring, ring[1:] + ring[:1], strict=True)}
    swapped = (replace(item, centroid=given[k].centroid, extent=given[k].extent) for k, item in enumerate(objects))
    return _text(tuple(swapped), form, _regions(scene, objects, {}))


def fit_scene(
    scene: Scene,
    form: str = "table",
    top_k: int = 40,
    budget: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    keep: Collection[str] = (),
    overlap: float = 1.0,
    order: int = 0,
) -> SceneText:
    """Write the best proposals of a scene, best first, within a token budget.

    Takes the ``top_k`` of highest score (true objects score 1; equals in their order), then leaves out the lowest ones until
    the text fits: as few as possible, found by bisection, so that the text is tokenised about log2(top_k) times.

    Args:
        budget: Most tokens the text may have; None for no limit.
        count_tokens: Tokens of a text; needed with a budget.
        keep: Ids that are never left out, even past ``top_k``: the targets of training samples.
        overlap: See ``merge_duplicates``, in the forms that merge.
        order: 0 lists the objects best score first; any other number in an order of its own, drawn from it and ``scene_id``.

    Returns:
        The text; ``num_dropped`` counts all objects that it does not show, by top_k or by budget.

    Raises:
        GrandError: If an id of ``keep`` is not in the scene, or even the kept objects alone exceed the budget.
    """
    _form(form)
    keep = set(keep)
    absent = sorted(keep - set(scene.object_ids))
    if absent:
        raise GrandError(f"scene {scene.scene_id!r}: the ids to keep {absent[:5]} are not among its {len(scene.objects)} objects")
    if budget is not None and count_tokens is None:
        raise GrandError("a token budget needs count_tokens, the function that counts them")
    ranked = sorted(scene.objects, key=lambda item: -confidence(item))
    num_free = max(top_k - len(keep), 0)
    free = [item.object_id for item in ranked if item.object_id not in keep]
    chosen = keep | set(free[:num_free])
    best = replace(scene, objects=tuple(item for item in ranked if item.object_id in chosen))
    own = {item.object_id: item.category for item in scene.objects}
    shown, same = merge_duplicates(best, overlap) if form in MERGING else (best, {})
    kept = {same.get(item, item) for item in keep}
    spare = [item.object_id for item in reversed(shown.objects) if item.object_id not in kept]

    def without(num: int) -> tuple[Object, ...]:
        out = set(spare[:num])
        return tuple(item for item in shown.objects if item.object_id not in out)

    def size(num: int) -> int:
        return count_tokens(_text(without(num), form, _regions(scene, without(num), same)))

    low, high = 0, 0  # the fewest to leave out lies in low..high
    if budget is not None and size(0) > budget:
        low, high = 1, len(spare)
        if size(high) > budget:
            raise GrandError(
                f"scene {scene.scene_id!r}: the scene text may have {budget} tokens; the {len(shown.objects) - high} objects "
                f"that must stay take {size(high)} and all {len(shown.objects)} take {size(0)}. Raise prompt.max_tokens.",
                "too long for the context",
            )
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if size(middle) <= budget else (middle + 1, high)
    objects = without(low)
    if order:
        objects = tuple(random.Random(f"{scene.scene_id}:{order}").sample(objects, len(objects)))
    ids = tuple(item.object_id for item in objects)
    same = {item: stands for item, stands in same.items() if stands in set(ids)}
    return SceneText(
        text=_text(objects, form, _regions(scene, objects, same)),
        object_ids=ids,
        same=same,
        num_dropped=len(scene.objects) - len(ids) - len(same),
        labels=tuple(own[item] for item in ids),
        region_ids=_ids(scene, form),
    )
