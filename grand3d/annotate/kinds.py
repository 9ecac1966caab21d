"""The kinds of text that are made, and how one becomes a sample."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import Finding, faults, pair_faults
from grand3d.files import Rejects
from grand3d.markup import plain, span
from grand3d.sample import Sample, sample_to_dict
from grand3d.synth.phrases import Part

KINDS: Mapping[str, str] = {
    "object_reference": "object_reference",
    "scene_description": "scene_description",
    "existence": "existence",
    "attribute": "question",
    "spatial_relation": "question",
    "counting": "counting",
    "comparison": "question",
    "function": "question",
}
"""The eight kinds of 3D-GRAND, and the task of their samples."""

SUB_CLASSES: Mapping[str, str] = {
    "VG-ST-attr": "VG_Single_Attribute",
    "VG-ST-space": "VG_Single_Space",
    "VG-OO-attr": "VG_Inter_Attribute_OO",
    "VG-OO-space": "VG_Inter_Space_OO",
    "VG-OR": "VG_Inter_OR",
    "QA-EQ": "QA_Single_EQ",
    "QA-ST-attr": "QA_Single_Attribute",
    "QA-ST-space": "QA_Single_Space",
    "QA-OO-attr": "QA_Inter_Attribute_OO",
    "QA-OO-space": "QA_Inter_Space_OO",
    "QA-OR": "QA_Inter_OR",
}
"""MMScan's sub-classes: as its tables call them, and as its files do."""
MMSCAN: Mapping[str, str] = {
    "object_meta": "question",
    "region_meta": "question",
    **{name: "object_reference" if name.startswith("VG") else "question" for name in SUB_CLASSES},
    "scene_caption": "scene_description",
}
"""The kinds of MMScan's hierarchy, and the task of their samples."""
ALL_KINDS: Mapping[str, str] = {**KINDS, **MMSCAN}

DESCRIBE = ("Describe this room.", "Give an overview of the room.", "What does this room look like?", "What is in this room?")
"""Ways to ask for a description of a scene."""

_LISTED = re.compile(r"<([^<>]+)>(?=[,\]])")
_BLANK = re.compile(r"\s+([.,?!:])")


@dataclass(frozen=True, slots=True)
class Draft:
    """A text before it is checked: grounded question (the expression of a reference) and grounded answer.

    Attributes:
        target_ids: What a reference means; of an answer, the objects that it names.
    """

    kind: str
    question: str
    answer: str = ""
    target_ids: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


_span = lru_cache(maxsize=50_000)(span)  # the same things are named again and again


def say(*parts: Part) -> str:
    """Grounded text of words and ``(words, ids)``; the first letter becomes a capital."""
    text = " ".join(part if isinstance(part, str) else _span(*part) for part in parts if part)
    text = _BLANK.sub(r"\1", text)
    if text.startswith("<p>"):
        return f"<p>{text[3:4].upper()}{text[4:]}"
    return text[:1].upper() + text[1:]


def listed(names: Sequence[Part]) -> list[Part]:
    """``a, b and c``."""
    if len(names) < 2:
        return list(names)
    out: list[Part] = []
    for name in names[:-2]:
        out += [name, ","]
    return [*out, names[-2], "and", names[-1]]


def ids_of(*texts: str) -> tuple[str, ...]:
    """The ids that well-formed grounded texts name, each once, in order."""
    return tuple(dict.fromkeys(i for text in texts for i in _LISTED.findall(text)))


def draft_faults(draft: Draft, facts: Facts) -> list[Finding]:
    """What the scene does not bear out in a draft."""
    if not draft.answer:
        return faults(draft.question, facts)
    if not draft.question:
        return faults(draft.answer, facts)
    return pair_faults(draft.question, draft.answer, facts)


def as_sample(draft: Draft, task: str, scene_id: str, sample_id: str) -> Sample:
    """The sample of a draft. A question is asked without its ids, which would often tell the answer; ``meta`` keeps them."""
    meta = {"kind": draft.kind, **draft.meta}
    if task == "object_reference":
        return Sample(sample_id, scene_id, task, draft.question, "", draft.target_ids, meta=meta)
    if meta.pop("ask_grounded", False):
        return Sample(sample_id, scene_id, task, draft.question, draft.answer, draft.target_ids, meta=meta)
    text = plain(draft.question)
    if text != draft.question:
        meta["question"] = draft.question
    return Sample(sample_id, scene_id, task, text, draft.answer, draft.target_ids, meta=meta)


def keep(draft: Draft, sample: Sample, facts: Facts, rejects: Rejects) -> bool:
    """Whether a draft holds; one that does not is counted by its first fault."""
    found = draft_faults(draft, facts)
    if found:
        row = sample_to_dict(sample) | {"grounded": draft.question}
        rejects.add(f"{sample.scene_id}, {draft.kind}", found[0].reason, row, found[0].cause)
    return not found
