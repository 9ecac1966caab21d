"""Scene graphs as 3D-GRAND publishes them: ``{scene: {key: {centroid, extent, category, score}}}``; and scenes of our own.

Metres, z up, axis-aligned. Keys are ``obj_0``, ``obj_1``, ... or names such as ``dining chair-2``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from grand3d import markup
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, read_json, refuse_unfit, shown
from grand3d.sample import Data, Sample
from grand3d.scene import Scene, scene_from_dict, split_scenes

_NUMBERED = re.compile(r"obj_(0|[1-9][0-9]*)")


def object_id_of(key: str) -> str:
    """The object id of a graph key: the number of ``obj_<number>``, which only a prompt may show; else the key itself."""
    match = _NUMBERED.fullmatch(key)
    return match[1] if match else key


def read_graphs(path: str | Path, id_space: str, scored: bool = True, rejects: Rejects | None = None) -> dict[str, Scene]:
    """Read a graph file into ``{scene_id: Scene}``, objects in the file's order.

    Of an object the keys category, centroid, extent, score and description are read; others are not carried over.

    Args:
        path: JSON file.
        id_space: What the numbering of the file is called.
        scored: False for true objects: their constant score is not kept.
        rejects: Where broken scenes go; None raises at the first.

    Raises:
        GrandError: If the file or, without ``rejects``, a scene in it is broken.
    """
    return split_graphs(path, id_space, scored, rejects)[0]


def split_graphs(
    path: str | Path, id_space: str, scored: bool = True, rejects: Rejects | None = None
) -> tuple[dict[str, Scene], set[str]]:
    """What ``read_graphs`` gives, and the ids of the scenes that were rejected.

    Scenes of a data folder (.jsonl), as ``convert scannet`` writes them, are read as well, if they are of the same ``id_space``.
    """
    if Path(path).suffix == ".jsonl":
        return _own_scenes(path, id_space, rejects)
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        expected = "expected one JSON object of scenes {scene: {key: {category, centroid, extent}}}"
        raise GrandError(f"{place(path)}: {expected}, seen {shown(document)}", "no scenes" if document == {} else "wrong type")
    rejects = rejects if rejects is not None else Rejects()
    scenes = {}
    for scene_id, graph in document.items():
        try:
            scenes[scene_id] = _scene(scene_id, graph, id_space, scored)
        except GrandError as error:
            rejects.add(place(path), str(error), {scene_id: graph}, error.cause)
    refuse_none_left(path, scenes, rejects)
    return scenes, document.keys() - scenes.keys()


def _own_scenes(path: str | Path, id_space: str, rejects: Rejects | None) -> tuple[dict[str, Scene], set[str]]:
    scenes, lost = split_scenes(path, rejects)
    foreign = next((scene for scene in scenes.values() if scene.id_space != id_space), None)
    if foreign is not None:
        reason = f"scene {shown(foreign.scene_id)} has ids of {shown(foreign.id_space)}, expected {shown(id_space)}"
        raise GrandError(f"{place(path)}: {reason}; ids of two numberings are never compared", "other ids")
    return scenes, lost


def absent_scene(scene_id: str, rejected: Collection[str], reason: str) -> GrandError:
    """What a row about a scene that is not there is refused with: the scene was rejected, or else ``reason``."""
    if scene_id in rejected:
        return GrandError(f"scene {shown(scene_id)} was rejected", "its scene was rejected")
    return GrandError(f"scene {shown(scene_id)} {reason}", "unknown scene")


def _scene(scene_id: str, graph: Any, id_space: str, scored: bool) -> Scene:
    if not isinstance(graph, dict):
        raise GrandError(f"scene {shown(scene_id)}: expected an object of objects, seen {shown(graph)}", "wrong type")
    objects = []
    for key, entry in graph.items():
        where = f"scene {shown(scene_id)}, object {shown(key)}"
        if not isinstance(entry, dict):
            raise GrandError(f"{where}: expected a JSON object, seen {shown(entry)}", "wrong type")
        kept = {name: entry[name] for name in ("category", "centroid", "extent", "description") if name in entry}
        if scored:
            kept["score"] = entry.get("score")
        kept["category"] = field(entry, "category", str, where)
        objects.append({"object_id": object_id_of(key), **kept})
    return scene_from_dict({"scene_id": scene_id, "objects": objects, "id_space": id_space})


def rows_of(path: str | Path) -> list[Any]:
    """The rows of an annotation file, decoded.

    Raises:
        GrandError: If the file is not a list, or an empty one.
    """
    document = read_json(path)
    if not isinstance(document, list) or not document:
        cause = "no rows" if document == [] else "wrong type"
        raise GrandError(f"{place(path)}: expected a list of rows, seen {shown(document)}", cause)
    return document


def object_of(row: Any) -> dict[str, Any]:
    """A row of an annotation file that is a JSON object and holds nothing that no row may hold.

    Raises:
        GrandError: If it is something else.
    """
    if not isinstance(row, dict):
        raise GrandError(f"expected a JSON object, seen {shown(row)}", "wrong type")
    refuse_unfit(row, "a field")
    return row


def refuse_none_left(path: str | Path, kept: Collection[Any], rejects: Rejects) -> None:
    """Refuse a file of which every row (or scene) was rejected: data without a row serve nobody.

    Raises:
        GrandError: With the causes, and what was said of the first row.
    """
    if not kept:
        counts = ", ".join(f"{number} x {cause}" for cause, number in rejects.counts().items())
        first = f"; the first: {rejects.rows[0]['where']}: {rejects.rows[0]['reason']}" if rejects.rows else ""
        raise GrandError(f"{place(path)}: expected at least one good row, all were rejected ({counts}){first}", "nothing left")


def used_scenes(scenes: Mapping[str, Scene], scene_ids: set[str]) -> dict[str, Scene]:
    """The scenes that samples speak of, in the file's order: scans without a row have no place in a data folder."""
    return {scene_id: scene for scene_id, scene in scenes.items() if scene_id in scene_ids}


def assemble(
    path: str | Path,
    rows: Iterable[tuple[str, Any]],
    make: Callable[[dict[str, Any]], Sample],
    truth: str | Path | None,
    proposals: str | Path | None,
    rejects: Rejects,
    id_space: str = "scannet",
    scored: bool = False,
) -> Data:
    """Data of a source whose targets are object ids of the scans themselves, by default ScanNet's.

    Args:
        path: Named in messages.
        rows: Rows with the place each stands at.
        make: A row to a sample; raises GrandError for a bad one.
        truth: Graph of the true objects, keyed by ScanNet's object ids (not by rank); targets and the ids of grounded texts are
            then checked against it.
            Without it the samples can be scored by ids only: their scenes hold no object.
        proposals: Graph of a detector's proposals, which prompts then show in place of the true objects.
        id_space: Whose numbering targets are in.
        scored: Whether the graph of ``truth`` keeps scores, as where targets are proposals.

    Raises:
        GrandError: For a broken graph. Broken rows, ids that occur twice, unknown scans and targets raise too, unless
            ``rejects`` collects them.
    """
    true, lost = split_graphs(truth, id_space, scored, rejects) if truth is not None else (None, set())
    seen, lost_too = split_graphs(proposals, "mask3d", rejects=rejects) if proposals is not None else (None, set())
    samples: dict[str, Sample] = {}
    for where, row in rows:
        try:
            sample = make(object_of(row))
            for scenes, reason in (
                (true, "has no true objects, expected them in the graph"),
                (seen, "has no proposals, expected them in the graph"),
            ):
                if scenes is not None and sample.scene_id not in scenes:
                    raise absent_scene(sample.scene_id, lost | lost_too, reason)
            if true is not None:
                _refuse_unknown_ids(sample, true[sample.scene_id])
            if sample.sample_id in samples:
                raise GrandError(f"annotation {shown(sample.sample_id)} occurs twice, expected once", "id twice")
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        samples[sample.sample_id] = sample
    refuse_none_left(path, samples, rejects)
    used = dict.fromkeys(sample.scene_id for sample in samples.values())
    if seen is not None:
        answers = None if true is None else used_scenes(true, set(used))
        return Data(used_scenes(seen, set(used)), tuple(samples.values()), answers)
    if true is not None:
        return Data(used_scenes(true, set(used)), tuple(samples.values()))
    return Data({name: Scene(name, (), id_space=id_space) for name in used}, tuple(samples.values()))


def _refuse_unknown_ids(sample: Sample, scene: Scene) -> None:
    """Refuse targets, and objects of a grounded text, that are no true objects."""
    named = [item for span in markup.parse(sample.text).spans for item in span.ids]
    for what, ids in (("target", sample.target_ids), ("phrase", named)):
        absent = [item for item in ids if item not in scene.object_ids]
        if absent:
            some = ", ".join(scene.object_ids[:6])
            reason = f"{what} {shown(absent[0])} of scene {sample.scene_id} has no true box, expected one of {some}, ..."
            raise GrandError(f"{reason}; are they keyed by ScanNet's ids, or by rank?", f"unknown {what}")


def scannet_id(value: Any, name: str) -> str:
    """A ScanNet object id as text, from a number or its text.

    Raises:
        GrandError: If it is neither.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > 9:
        raise GrandError(f"{name} is {shown(value)}, expected a number of ScanNet", "bad id")
    return str(int(text))
