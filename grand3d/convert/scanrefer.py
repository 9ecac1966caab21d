"""ScanRefer descriptions with 3D-GRAND's graphs of detections and of true boxes.

The graph of true boxes holds only the objects that descriptions refer to, and numbers them by rank: ``obj_k`` is the k-th of
the scan's referred ScanNet ids in ascending order, not ScanNet's object k. Taking ``obj_<object id>`` would give a wrong
box without any sign of it, so ids go through the rank or through an id map, and labels are compared where rows name them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import absent_scene, object_of, refuse_none_left, rows_of, split_graphs, used_scenes
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, read_json, shown
from grand3d.sample import Data, Sample
from grand3d.scene import Scene

INPUTS = {
    "descriptions": "ScanRefer_filtered_*.json, or a list of {scene_id, object_id, description}",
    "truth": "graph of the true boxes of the referred objects, keyed by rank, or scenes.jsonl of convert scannet",
    "proposals": "graph of a detector's proposals; without it prompts show the true boxes",
    "ids": "{scene: {ScanNet object id: obj_k}}; needed when the descriptions are a part of their split",
}


def convert(
    *,
    descriptions: str | Path,
    truth: str | Path,
    proposals: str | Path | None = None,
    ids: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read ScanRefer into samples of the task ``object_reference``; targets are ScanNet object ids.

    ``sample_id`` is ``scene_object_ann`` with the row's ``ann_id``, else with a number that counts the object's rows.
    Labels of the true boxes get blanks for underscores; ``meta.object_name`` keeps a row's own spelling.
    Scans without a description are left out.

    Raises:
        GrandError: If a file is broken, or the id map is not the rank rule. Rows whose scan or target is unknown, or whose
            label is not the target's, raise too, unless ``rejects`` collects them.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows = _read_rows(descriptions, rejects)
    shown_scenes, unshown = split_graphs(proposals, "mask3d", rejects=rejects) if proposals is not None else (None, set())
    own = Path(truth).suffix == ".jsonl"  # every object of a scan, under ScanNet's own id
    ranked, unranked = split_graphs(truth, "scannet" if own else "scanrefer_rank", scored=False, rejects=rejects)
    referred: dict[str, set[int]] = defaultdict(set)
    for _, row in rows:
        referred[row["scene_id"]].add(int(row["object_id"]))
    known = _checked_map(ids, ranked) if ids is not None else {}
    numbered: dict[str, Scene] = {}
    reasons: dict[str, str] = {}
    for scene_id, wanted in referred.items():
        if scene_id not in ranked:
            reasons[scene_id] = "no true boxes for this scan"
        elif own:
            numbered[scene_id] = _with_blanks(ranked[scene_id])
        elif scene_id in known or len(wanted) == len(ranked[scene_id].objects):
            numbered[scene_id] = _with_scannet_ids(ranked[scene_id], known.get(scene_id) or sorted(wanted))
        else:
            count = len(ranked[scene_id].objects)
            reasons[scene_id] = (
                f"{len(wanted)} objects are referred to, {count} have true boxes, so the rank of an id is not known;"
                " give the id map (ids), or the whole split"
            )
    samples = _samples(rows, numbered, shown_scenes, reasons, unshown | unranked, rejects)
    refuse_none_left(descriptions, samples, rejects)
    used = {sample.scene_id for sample in samples}
    answers = used_scenes(numbered, used)
    if shown_scenes is None:
        return Data(answers, tuple(samples))
    return Data(used_scenes(shown_scenes, used), tuple(samples), answers)


def _read_rows(path: str | Path, rejects: Rejects) -> list[tuple[str, dict[str, Any]]]:
    """Checked rows, each with the place it stands at; ids become text."""
    rows = []
    for index, row in enumerate(rows_of(path)):
        where = f"{place(path)}: row {index}"
        try:
            kept = dict(object_of(row))
            for name in ("scene_id", "description"):
                field(row, name, str, "")
            for name in ("object_id", "ann_id"):
                value = row.get(name)
                if isinstance(value, int) and not isinstance(value, bool):
                    value = str(value)
                if value is None and name == "ann_id":
                    continue
                if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 9:
                    raise GrandError(f"{name} is {shown(value)}, expected a number of ScanNet", "bad id")
                kept[name] = value
            if row.get("object_name") is not None:
                field(row, "object_name", str, "")
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        rows.append((where, kept))
    return rows


def _checked_map(path: str | Path, ranked: Mapping[str, Scene]) -> dict[str, list[int]]:
    """The ascending ScanNet ids of each scan in the map.

    Raises:
        GrandError: If the map is broken, or gives an id another number than its rank.
    """
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: expected {{scene: {{object id: obj_k}}}}, seen {shown(document)}", "wrong type")
    out = {}
    for scene_id, table in document.items():
        where = f"{place(path)}: scene {shown(scene_id)}"
        if not isinstance(table, dict) or not all(key.isascii() and key.isdigit() for key in table):
            raise GrandError(f"{where}: expected {{object id: obj_k}}, seen {shown(table)}", "wrong type")
        ascending = sorted(table, key=int)
        for rank, key in enumerate(ascending):
            if table[key] != f"obj_{rank}":
                text = f"object id {key} is given {shown(table[key])}, but it is number {rank} of {len(table)} in ascending order"
                raise GrandError(f"{where}: {text}; obj_k is a rank, not ScanNet's id", "wrong id map")
        if scene_id in ranked and len(ranked[scene_id].objects) != len(table):
            text = f"{len(table)} ids for {len(ranked[scene_id].objects)} true boxes"
            raise GrandError(f"{where}: {text}; do both files belong together?", "wrong id map")
        out[scene_id] = [int(key) for key in ascending]
    return out


def _with_scannet_ids(scene: Scene, ascending: list[int]) -> Scene:
    objects = []
    for item in scene.objects:
        rank = int(item.object_id) if item.object_id.isdigit() else -1
        if not 0 <= rank < len(ascending):
            raise GrandError(f"true boxes of scene {shown(scene.scene_id)}: key {shown(item.object_id)} is no obj_k", "bad id")
        objects.append(replace(item, object_id=str(ascending[rank]), category=_blanks(item.category)))
    return replace(scene, objects=tuple(objects), id_space="scannet")


def _with_blanks(scene: Scene) -> Scene:
    return replace(scene, objects=tuple(replace(item, category=_blanks(item.category)) for item in scene.objects))


def _blanks(label: str) -> str:
    return " ".join(label.replace("_", " ").split())


def _samples(
    rows: list[tuple[str, dict[str, Any]]],
    numbered: Mapping[str, Scene],
    proposals: Mapping[str, Scene] | None,
    reasons: Mapping[str, str],
    rejected: Collection[str],
    rejects: Rejects,
) -> list[Sample]:
    labels = {scene_id: {o.object_id: o.category for o in scene.objects} for scene_id, scene in numbered.items()}
    count: Counter[tuple[str, str]] = Counter()
    samples: dict[str, Sample] = {}
    for where, row in rows:
        scene_id, object_id = row["scene_id"], str(int(row["object_id"]))
        ann = row.get("ann_id")
        if ann is None:
            ann = str(count[scene_id, object_id])
            count[scene_id, object_id] += 1
        sample_id = f"{scene_id}_{object_id}_{ann}"
        try:
            if scene_id in rejected:
                raise absent_scene(scene_id, rejected, "")
            if scene_id in reasons:
                raise GrandError(f"target {object_id} is unknown: {reasons[scene_id]}", "unknown target")
            if proposals is not None and scene_id not in proposals:
                raise absent_scene(scene_id, rejected, "has no proposals")
            _check_target(row, object_id, labels[scene_id])
            if sample_id in samples:
                raise GrandError(f"annotation {sample_id} occurs twice, expected once", "id twice")
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        meta = {name: row[name] for name in ("object_name", "ann_id") if row.get(name) is not None}
        samples[sample_id] = Sample(sample_id, scene_id, "object_reference", row["description"], "", (object_id,), None, meta)
    return list(samples.values())


def _check_target(row: dict[str, Any], object_id: str, labels: Mapping[str, str]) -> None:
    if object_id not in labels:
        raise GrandError(f"target {object_id} of scene {row['scene_id']} has no true box", "unknown target")
    name = row.get("object_name")
    if name is not None and _blanks(name) != labels[object_id]:
        text = f"object {object_id} is called {shown(name)}, its true box {labels[object_id]!r}"
        raise GrandError(f"{text}; do the files belong together?", "label differs")
