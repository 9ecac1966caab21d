"""What a language model is asked for each kind of text, and how its answer becomes drafts. The wording is ours.

Objects are ``<obj_k>`` in a prompt, the k-th of its list; answers come back in the scene's own ids.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grand3d.annotate.client import Answer, Request
from grand3d.annotate.facts import Facts
from grand3d.annotate.kinds import DESCRIBE, Draft, ids_of
from grand3d.annotate.naming import usable
from grand3d.errors import GrandError, shown
from grand3d.files import field
from grand3d.jsons import decode
from grand3d.markup import map_ids
from grand3d.scene import Object, Scene
from grand3d.synth.view import STRUCTURE

MOST_OBJECTS = 60  # that a prompt lists; the rest is counted in it, the smallest left out first
MOST_RELATIONS = 80
TEXTS_A_REQUEST = 8
LOOK_KEYS = ("colour", "material", "shape")

SYSTEM = """\
You write texts about a room for a data set. The room is given as a list of its objects, with what is known of them, and of how
they stand to each other.
Rules:
1. Every noun phrase that names an object of the list is written <p>the words</p>[<obj_3>], with the ids of all objects it
means: <p>two chairs</p>[<obj_1>, <obj_4>]. A thing that is not there has an empty list: <p>a piano</p>[].
2. Say of an object only what the list says of it. Invent no colour, material, part or thing.
3. Say of two objects only the relations that are listed, or that follow from their places. Use the words on, under, above, next
to, between, larger than, taller than, closest to. Never say left, right, in front of or behind: nobody knows where the viewer
stands.
4. Plain English, no numbers of the list, no coordinates.
Answer with JSON only."""

ASKS: Mapping[str, str] = {
    "object_reference": """\
Write {n} texts. Each describes one object of the list in one to three sentences, so that a reader finds it and no other. Begin
with the object itself. "target" is its id, such as "obj_3". Describe: {targets}.""",
    "scene_description": """\
Write {n} different descriptions of the room, four to eight sentences each: what stands in it and how things stand to each
other.""",
    "existence": """\
Write {n} questions whether there is a certain kind of thing in the room, half of them about things that are not there. The
answer begins with Yes or No, then says what there is, in one sentence.""",
    "attribute": """\
Write {n} questions about the colour, the material, the shape or the size of one object of the list, as far as the list says it,
with answers of one sentence.""",
    "spatial_relation": """\
Write {n} questions about how two or more objects stand to each other, some to be answered with Yes or No first, with answers of
one sentence.""",
    "counting": """\
Write {n} questions about how many things of a kind there are in the room, or next to or on some object. The answer begins with
the number in digits, then says in one sentence which things.""",
    "comparison": """\
Write {n} questions that compare objects: which of them is larger or taller, or closest to another object, with answers of one
sentence.""",
    "function": """\
Write {n} questions about what objects of the room are for, or which objects one could use for something, with answers of one
sentence.""",
}


def _texts_schema(names: Sequence[str]) -> dict[str, Any]:
    item = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"items": {"type": "array", "items": item}},
        "required": ["items"],
        "additionalProperties": False,
    }


def names_of(kind: str) -> tuple[str, ...]:
    """The texts of one item of an answer."""
    return {"object_reference": ("target", "text"), "scene_description": ("text",)}.get(kind, ("question", "answer"))


def listing(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """A scene as a model reads it: its objects, then their relations; and the object ids, in order."""
    items = sorted(facts.exact.items, key=lambda o: -max(o.extent))[:MOST_OBJECTS]
    order = {item.object_id: index for index, item in enumerate(items)}
    lines = [f"Room {facts.scene.scene_id}, {len(facts.scene.objects)} objects, lengths in metres:"]
    for index, item in enumerate(items):
        looks = "; ".join(f"{name} {value}" for name, value in item.attributes.items() if name != "heading")
        x, y, z = item.centroid
        size = " x ".join(f"{side:.2f}" for side in item.extent)
        about = f"; {item.description}" if item.description else ""
        region = facts.region_of(item)
        place = f"; in the {region.name}" if region else ""
        lines.append(
            f"obj_{index} {item.category}: {looks or 'looks unknown'}; at {x:.2f}, {y:.2f}, {z:.2f}; size {size}{place}{about}"
        )
    left = len(facts.exact.items) - len(items)
    if left:
        lines.append(f"and {left} smaller objects, which are not to be spoken of")
    relations = [
        f"obj_{order[item.object_id]} {name} obj_{order[other.object_id]}"
        for item in items
        for name, other in facts.around(item)[:4]
        if other.object_id in order and item.category not in STRUCTURE
    ]
    lines += ["Relations:", "; ".join(relations[:MOST_RELATIONS]) or "none listed"]
    return "\n".join(lines), tuple(item.object_id for item in items)


@dataclass(frozen=True, slots=True)
class About:
    """What a request is about; ``ids[k]`` is the object that ``obj_k`` means in it."""

    scene_id: str
    kind: str
    variant: int
    ids: tuple[str, ...]


def text_request(facts: Facts, kind: str, number: int, variant: int = 0) -> Request:
    """What is asked for texts of a kind; ``about`` is an :class:`About`.

    Args:
        number: Texts wanted.
        variant: Several requests about one scene and kind differ by it; it says which objects are to be described.
    """
    text, ids = listing(facts)
    wanted = [o.object_id for o in usable(facts) if o.object_id in ids] or list(ids)
    chosen = [wanted[(variant * number + k) % len(wanted)] for k in range(min(number, len(wanted)))] if wanted else []
    targets = ", ".join(f"obj_{ids.index(i)}" for i in chosen)
    names = names_of(kind)
    example = json.dumps({"items": [dict.fromkeys(names, "...")]})
    ask = ASKS[kind].format(n=number, targets=targets)
    ask += f" Let them differ from each other{f' (set {variant + 1})' if variant else ''}. The form of your answer: {example}"
    messages = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{text}\n\n{ask}"})
    about = About(facts.scene.scene_id, kind, variant, ids)
    return Request(f"{facts.scene.scene_id} {kind} {variant}", messages, _texts_schema(names), about)


def read_json_answer(answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer, also inside a code fence.

    Raises:
        GrandError: With the cause ``empty answer``, ``answer cut off``, ``answer not JSON`` or ``answer of another form``.
    """
    text = answer.text.strip()
    if not text:
        raise GrandError("the answer is empty, expected JSON", "empty answer")
    fence = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text, re.DOTALL)
    try:
        value = decode(fence[1] if fence else text)
    except GrandError as error:
        if not answer.finished:
            raise GrandError(
                "the token limit cut the answer; expected a whole one, is --max-tokens too small?", "answer cut off"
            ) from None
        raise GrandError(f"the answer is {error}", "answer not JSON") from None
    if not isinstance(value, dict):
        raise GrandError(f"the answer is {shown(value)}, expected a JSON object", "answer of another form")
    return value


def read_texts(answer: Answer, about: About, facts: Facts) -> Iterator[Draft | GrandError]:
    """The drafts of an answer, in the scene's own ids, or for each that cannot be read why.

    Raises:
        GrandError: If the whole answer cannot be read, with the cause it is counted by.
    """
    value, kind, ids = read_json_answer(answer), about.kind, about.ids
    try:
        items = field(value, "items", list, "answer")
    except GrandError as error:
        raise GrandError(str(error), "answer of another form") from None
    if not items:
        raise GrandError("items is [], expected texts", "empty answer")
    own = {f"obj_{k}": i for k, i in enumerate(ids)}
    labels = {i: facts.by_id[i].category for i in ids}
    for number, item in enumerate(items, about.variant):
        try:
            texts = {name: field(item if isinstance(item, dict) else {}, name, str, "item").strip() for name in names_of(kind)}
        except GrandError as error:
            yield GrandError(str(error), "item of another form")
            continue
        if not all(texts.values()):
            yield GrandError(f"{shown(item)} holds an empty text", "item of another form")
            continue
        mapped, unknown = {}, []
        for name, text in texts.items():
            mapped[name], strangers = map_ids(text, own.get)
            unknown += strangers
        target = own.get(texts.get("target", "").strip("<>[] "))
        if unknown or ("target" in texts and target is None):
            yield GrandError(
                f"{shown((unknown or [texts.get('target')])[0])} is none of the {len(ids)} ids of the prompt", "unknown id"
            )
            continue
        if kind == "object_reference":
            yield Draft(kind, mapped["text"], "", (target,), {"label": labels.get(target or "", "")})  # type: ignore[arg-type]
        elif kind == "scene_description":
            yield Draft(kind, DESCRIBE[number % len(DESCRIBE)], mapped["text"], ids_of(mapped["text"]))
        else:
            yield Draft(kind, mapped["question"], mapped["answer"], ids_of(mapped["answer"]))


LOOKS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in (*LOOK_KEYS, "description")},
    "required": [*LOOK_KEYS, "description"],
    "additionalProperties": False,
}
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


def look_requests(scene: Scene, folder: Path) -> Iterator[Request]:
    """Requests for the looks of objects, each from its pictures ``folder/<scene_id>/<object_id>*.png`` (or jpg, webp).

    A picture is a crop of the object, or a view in which its number stands on it (set-of-mark): the request names both.
    ``about`` is the ids of scene and object.
    """
    for item in scene.objects:
        found = sorted(path for path in (folder / scene.scene_id).glob(f"{item.object_id}*") if _is_of(path, item))
        if found:
            ask = (
                f"The pictures show a {item.category}; where numbers are drawn on things, it is number {item.object_id}. "
                f"Answer with JSON: its {', '.join(LOOK_KEYS)}, one or two words each, empty where it cannot be seen, and a "
                "description of one sentence that names only what can be seen."
            )
            parts: list[dict[str, Any]] = [{"type": "text", "text": ask}]
            for path in found:
                data = base64.b64encode(path.read_bytes()).decode()
                parts.append({"type": "image_url", "image_url": {"url": f"data:{IMAGES[path.suffix.lower()]};base64,{data}"}})
            name, about = f"{scene.scene_id} looks of {item.object_id}", (scene.scene_id, item.object_id)
            yield Request(name, ({"role": "user", "content": parts},), LOOKS_SCHEMA, about)


def _is_of(path: Path, item: Object) -> bool:
    rest = path.stem.removeprefix(item.object_id)
    return path.suffix.lower() in IMAGES and (not rest or rest[0] in "_-.")


def with_looks(item: Object, answer: Answer) -> Object:
    """An object with what a model saw of it; what the scene says already stays.

    Raises:
        GrandError: If the answer cannot be read.
    """
    value = read_json_answer(answer)
    try:
        seen = {name: field(value, name, str, "answer").strip().lower() for name in LOOK_KEYS}
        description = field(value, "description", str, "answer", "").strip()
    except GrandError as error:
        raise GrandError(str(error), "answer of another form") from None
    attributes = {name: text for name, text in seen.items() if text} | dict(item.attributes)
    return replace(item, attributes=attributes, description=item.description or description or None)
