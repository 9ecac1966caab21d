"""Scene graphs as 3D-GRAND publishes them: ``{scene: {key: {centroid, extent, category, score}}}``.

Metres, z up, axis-aligned. Keys are ``obj_0``, ``obj_1``, ... or names such as ``dining chair-2``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, read_json, refuse_unfit, shown
from grand3d.scene import Scene, scene_from_dict

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
    """What ``read_graphs`` gives, and the ids of the scenes that were rejected."""
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
