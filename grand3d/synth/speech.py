"""Human-like referring expressions: a sentence on what the thing is, one or two on where, true but not always enough."""

from __future__ import annotations

from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.synth.cues import cues, pick
from grand3d.synth.phrases import (
    ENTRANCE,
    GENERIC,
    Part,
    Phrase,
    article,
    finish,
    indefinite,
    looks,
    noun,
    part_of,
    render,
    spoken,
    state_of,
)
from grand3d.synth.view import Cue, View
from grand3d.synth.vocabulary import plural

VERBS = (
    *("is",) * 20,
    *("is located",) * 3,
    "is placed",
    "sits",
    "sits",
    "stands",
    "can be found",
    "is positioned",
    "is situated",
)
SHORT_STARTS = (
    *("the",) * 4, "choose the", "find the", "select the", "pick the", "click the", "click on the", "it is the", "this is the",
    "you are looking for the", "the correct object is the", "",
)  # fmt: skip
TURNED = {"left": "to the right of", "right": "to the left of", "near": "next to", "above": "below", "under": "above",
          "front": "behind", "behind": "in front of", "on": "under", "facing": "across from"}  # fmt: skip


def reference(view: View, target: Object, proposals: Scene, sample_id: str) -> Sample | None:
    """One expression for a true object that has a proposal; its words may fit look-alikes too, as people's do."""
    rng = view.rng
    ids = view.ids(target)
    name = spoken(rng, target.category)
    others = [o for o in view.objects if o is not target and (o.category == target.category or o.category == name)]
    found = cues(view, target, others)
    first = pick(view, found)
    if first is None:
        return None
    taken = [first]
    second = pick(view, found, taken) if rng.random() < 0.6 else None
    if second:
        taken.append(second)
    style = rng.random()
    if style < 0.14:
        parts, spaced = _short(view, target, name, ids, taken), rng.random() < 0.9
    elif style < 0.22:
        parts, spaced = _target_last(view, target, name, ids, found, taken), rng.random() < 0.8
    else:
        parts, spaced = _sentences(view, target, name, ids, taken), rng.random() < 0.8
    text, _ = render(parts)
    meta = {
        "strict": False,
        "label": answer_label(proposals, ids[0], name),
        "category": target.category,
        "cues": [c.name for c in taken],
        "rivals": min(c.rivals for c in taken),
    }
    return Sample(sample_id, proposals.scene_id, "object_reference", finish(rng, text, spaced), "", ids[:1], meta=meta)


def answer_label(proposals: Scene, object_id: str, name: str) -> str:
    """The label the prompt shows for an object: of several on one box, the one that was said, else the first."""
    item = proposals[object_id]
    labels = [o.category for o in proposals.objects if o.centroid == item.centroid and o.extent == item.extent]
    return name if name in labels else item.category


def _it_is(view: View, cue: Cue, name: str, ids: tuple[str, ...]) -> list[Part]:
    """A sentence that gives one cue of a thing already named."""
    rng = view.rng
    head = cue.parts[0]
    share = rng.random()
    if cue.name in TURNED and rng.random() < 0.13:
        anchor = next(p for p in cue.parts if not isinstance(p, str))
        anchor = (indefinite(anchor[0]), anchor[1])
        if cue.name in ("left", "right") and rng.random() < 0.3:
            return [f"to its {'left' if cue.name == 'right' else 'right'} is", anchor]
        return [rng.choice(("there is", "there is", "it has")), anchor, TURNED[cue.name], "it"]
    if cue.name == "around" and not _is_name(cue) and str(head) == "with":
        return _supports(view, cue, ["it"])
    subject: list[Part] = ["it"] if share < 0.72 else [(f"the {name}", ids)] if share < 0.94 else ["this"]
    if cue.name == "supports" and rng.random() < 0.7:
        return _supports(view, cue, subject)
    if isinstance(head, str) and head.startswith("the "):
        return [*subject, rng.choice(("is", "is", "is", "is", "is", "'s" if subject == ["it"] else "is")), *cue.parts]
    return [*subject, "'s" if subject == ["it"] and rng.random() < 0.06 else rng.choice(VERBS), *cue.parts]


def _supports(view: View, cue: Cue, subject: list[Part]) -> list[Part]:
    anchor = next(p for p in cue.parts if not isinstance(p, str))
    where = cue.parts[-1] if isinstance(cue.parts[-1], str) else "on it"
    if view.rng.random() < 0.5:
        return [
            "there is" if anchor[0].startswith(("a ", "an ", "the ")) else "there are",
            anchor,
            "on it" if where == "on it" else where,
        ]
    return [*subject, view.rng.choice(("has", "has", "holds") if "on" in where else ("has",)), anchor, where]


def _opening(view: View, target: Object, name: str, ids: tuple[str, ...]) -> list[Part]:
    """A sentence that says what the thing is."""
    rng = view.rng
    words = looks(rng, target) if rng.random() < 0.82 else []
    share = rng.random()
    a: Phrase = (noun(rng, name, words, "a"), ids)
    if share < 0.34:
        return ["this is", (noun(rng, name, words, "the"), ids) if rng.random() < 0.06 else a]
    if name.endswith("s") and plural(name) == name:
        return [rng.choice(("there are some", "these are", "there are")), (noun(rng, name, words, ""), ids)]
    if share < 0.53:
        return ["there is" if rng.random() < 0.9 else "there 's", a]
    if share < 0.64:
        return ["it is", a]
    if share < 0.70:
        return [f"{rng.choice(('the', 'the', 'this'))} {rng.choice(GENERIC)} is", a]
    words = words or looks(rng, target)
    if share < 0.93:
        state = (
            " and ".join(words)
            if rng.random() < 0.6
            else f"{article(words[0])} {words[0]} {rng.choice(('color', 'object', 'rectangle', 'one'))}"
        )
        return [(f"{rng.choice(('the', 'the', 'this'))} {name}", ids), "is", state]
    return [a]


def _extra(view: View, target: Object, name: str) -> list[Part]:
    rng = view.rng
    share = rng.random()
    state = state_of(rng, name)
    if state and rng.random() < 0.4:
        return [rng.choice(("it is", "it is", f"the {name} is")), state]
    if share < 0.5:
        return ["it has", part_of(rng, name)]
    if share < 0.75:
        return [f"the {name} has", part_of(rng, name)]
    if share < 0.85:
        return ["it is", " and ".join(looks(rng, target))]
    return [f"the {name} has", part_of(rng, name), "and", part_of(rng, name)]


def _sentences(view: View, target: Object, name: str, ids: tuple[str, ...], taken: list[Cue]) -> list[Part]:
    """Two, sometimes three or four short sentences in one of the usual orders."""
    rng = view.rng
    share = rng.random()
    first, rest = taken[0], taken[1:]
    blocks: list[list[Part]]
    if share < 0.66:
        blocks = [_opening(view, target, name, ids), _it_is(view, first, name, ids)]
        if rng.random() < 0.05 and first.name in ("left", "right", "order", "room side"):
            blocks[-1].append(rng.choice(ENTRANCE))
        if rest and rng.random() < 0.8:
            joined = not _is_name(rest[0]) and rest[0].name != "around" and rng.random() < 0.6
            blocks[-1] += (
                ["and" if rng.random() < 0.7 else ",", *rest[0].parts] if joined else [".", *_it_is(view, rest[0], name, ids)]
            )
    elif share < 0.86:
        subject: Phrase = (
            noun(rng, name, looks(rng, target) if rng.random() < 0.4 else [], rng.choice(("the", "the", "this", "a"))),
            ids,
        )
        blocks = [[subject, rng.choice(VERBS), *first.parts]]
        blocks.append(_it_is(view, rest[0], name, ids) if rest else _extra(view, target, name))
    else:
        glue = "" if not _is_name(first) else ", "
        blocks = [[*_opening(view, target, name, ids), glue.strip(), *first.parts]]
        blocks.append(_it_is(view, rest[0], name, ids) if rest else _extra(view, target, name))
    if rng.random() < 0.07:
        blocks.append(_extra(view, target, name))
    out: list[Part] = []
    for block in blocks:
        out += [*block, "."]
    return out


def _is_name(cue: Cue) -> bool:
    return isinstance(cue.parts[0], str) and cue.parts[0].startswith("the ")


def _short(view: View, target: Object, name: str, ids: tuple[str, ...], taken: list[Cue]) -> list[Part]:
    """One noun phrase with a cue, as in games where a listener clicks."""
    rng = view.rng
    start = rng.choice(SHORT_STARTS)
    verb, _, kind = start.rpartition(" ") if start else ("", "", "")
    words = looks(rng, target) if rng.random() < 0.25 else []
    cue = taken[0]
    if _is_name(cue):
        said = str(cue.parts[0]).removeprefix("the ")
        said = (
            said.replace(" one", f" {name}", 1)
            if " one" in said
            else said.replace("one", name, 1)
            if said.startswith("one")
            else said
        )
        parts: list[Part] = [(f"{kind} {said}".strip(), ids), *cue.parts[1:]]
    else:
        parts = [(noun(rng, name, words, kind), ids), rng.choice(("", "", "", "that is", "that 's")), *cue.parts]
    if rng.random() < 0.08:
        parts = ["if you are facing", *(p for p in [view.phrase(rng.choice(view.objects), kind="the")]), ",", "it is", *parts]
    return [verb, *parts, rng.choice(("", "", "", "."))]


def _target_last(view: View, target: Object, name: str, ids: tuple[str, ...], found: list[Cue], taken: list[Cue]) -> list[Part]:
    """The place first, then the thing: "to the left of the desk is a lamp"."""
    rng = view.rng
    placed = [
        c
        for c in found
        if not _is_name(c) and c.name in ("left", "right", "near", "on", "under", "above", "between", "behind", "front")
    ]
    if not placed:
        return _sentences(view, target, name, ids, taken)
    cue = pick(view, placed) or placed[0]
    words = looks(rng, target) if rng.random() < 0.6 else []
    thing: Phrase = (noun(rng, name, words, rng.choice(("a", "a", "the"))), ids)
    share = rng.random()
    if share < 0.35:
        out: list[Part] = [*cue.parts, "is", thing, "."]
    elif share < 0.7:
        out = [*cue.parts, ",", "there is", thing, "."]
    else:
        anchor = next(p for p in cue.parts if not isinstance(p, str))
        link = {
            "left": "to the left of it is",
            "right": "to the right of it is",
            "on": "on it is",
            "under": "under it is",
            "above": "above it is",
            "near": "next to it is",
            "behind": "behind it is",
            "front": "in front of it is",
        }.get(cue.name)
        if link is None:
            out = [*cue.parts, "is", thing, "."]
        else:
            out = ["there is", (indefinite(anchor[0]), anchor[1]), ".", link, thing, "."]
    if rng.random() < 0.5:
        out += [*_extra(view, target, name), "."]
    return out
