"""ScanNet's raw scans: mesh, segments and annotated groups become true objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.convert.graphs import refuse_none_left, scannet_id
from grand3d.convert.instances import boxes_by_instance, category_of, object_of_bounds, whole_numbers
from grand3d.convert.labels import LabelTable, read_label_table
from grand3d.convert.ply_file import points_of, read_ply
from grand3d.convert.scans import ALIGNMENT_HELP, FRAME_HELP, FRAMES, alignment_of, frame_name, read_alignments, scan_folders
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json
from grand3d.frames import apply
from grand3d.sample import Data
from grand3d.scene import Object, Scene, validate

INPUTS = {
    "scans": "folder of a scan, or of such folders: SCAN_vh_clean_2.ply, SCAN_vh_clean_2.0.010000.segs.json,"
    " SCAN.aggregation.json, SCAN.txt",
    "alignment": ALIGNMENT_HELP,
    "labels": "scannetv2-labels.combined.tsv: categories from its column; without it labels stay as annotated",
    "column": "column of the label table: category (default), nyu40class, ...",
    "frame": FRAME_HELP,
}
SETTINGS = {"column": str, "frame": FRAMES}
MESH, SEGMENTS, GROUPS = "{}_vh_clean_2.ply", "{}_vh_clean_2.0.010000.segs.json", "{}.aggregation.json"


def convert(
    *,
    scans: str | Path,
    alignment: str | Path | None = None,
    labels: str | Path | None = None,
    column: str = "category",
    frame: str = "axis_aligned",
    rejects: Rejects | None = None,
) -> Data:
    """Read scans into scenes of true objects, ``id_space`` ``scannet``: ``object_id`` is the ``objectId`` of the annotation.

    An object is the vertices whose segment its group lists, its box the axis-aligned one around them, after the alignment. Where
    ``labels`` renames an object, its own label is ``attributes["raw_category"]``.

    Counted and left out, never raised: objects without a vertex or with a blank label; labels that the table does not have, which
    stay as annotated.

    Raises:
        GrandError: For a file that is missing or broken, files of a scan that do not fit together (vertices and segments differ
            in number, a group names an unknown segment, a segment stands in two groups, an id twice, another scan's name), and
            a scan without alignment. With ``rejects`` such scans are left out and collected instead.
    """
    rejects = rejects if rejects is not None else Rejects()
    table = read_label_table(labels, column) if labels is not None else None
    matrices = read_alignments(alignment) if alignment is not None else {}
    scenes = {}
    for scan, folder in scan_folders(scans, GROUPS.format("{scan}"), rejects):
        try:
            points, segments = read_mesh(folder / MESH.format(scan), folder / SEGMENTS.format(scan))
            matrix = alignment_of(scan, folder, matrices, frame, points)
            groups = read_groups(folder / GROUPS.format(scan), scan)
            objects = _objects(apply(matrix, points), segments, groups, table, f"{place(folder)}: scan {scan}", rejects)
            scenes[scan] = validate(Scene(scan, tuple(objects), (), "scannet", frame_name(frame), transform=matrix))
        except GrandError as error:
            rejects.add(place(folder), str(error), scan, error.cause)
    refuse_none_left(scans, scenes, rejects)
    return Data(scenes, ())


def read_mesh(mesh: Path, segments: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Vertices (n, 3) of a mesh and the segment (n,) of each.

    Raises:
        GrandError: If they are not of one scan: as many segment numbers as vertices.
    """
    points = points_of(mesh, read_ply(mesh)["vertex"])
    document = read_json(segments)
    if not isinstance(document, dict):
        raise GrandError(f"{place(segments)}: holds {shown(document)}, expected {{segIndices: [...]}}", "wrong type")
    numbers = whole_numbers(field(document, "segIndices", list, place(segments)), f"{place(segments)}: segIndices")
    if len(numbers) != len(points):
        reason = f"{len(numbers)} segment numbers, {place(mesh)} has {len(points)} vertices, expected as many"
        raise GrandError(f"{place(segments)}: {reason}; are they of one mesh, both of the low resolution?", "lengths differ")
    return points, numbers


def read_groups(path: Path, scan: str | None = None) -> list[dict[str, Any]]:
    """The annotated groups: ``objectId``, ``label`` and the ``segments`` of each, which are segment numbers, not vertices.

    Raises:
        GrandError: If the file is broken, an ``objectId`` occurs twice, or it is another scan's.
    """
    document = read_json(path)
    groups = document.get("segGroups") if isinstance(document, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected {{segGroups: [...]}}", "wrong type")
    named = document.get("sceneId", scan)
    if scan is not None and isinstance(named, str) and named.removeprefix("scannet.") != scan:
        raise GrandError(f"{place(path)}: sceneId is {shown(named)}, expected {scan}; was the file renamed?", "wrong scan")
    ids = Counter(scannet_id(group.get("objectId"), f"{place(path)}: objectId") for group in groups)
    twice = [number for number, count in ids.items() if count > 1]
    if twice:
        raise GrandError(f"{place(path)}: objectId {twice[0]} occurs twice, expected each once", "id twice")
    return groups


def instances_of(segments: NDArray[np.int64], groups: Iterable[dict[str, Any]], where: str) -> NDArray[np.int64]:
    """The ``objectId`` (n,) of each vertex; -1 where it belongs to none.

    Raises:
        GrandError: If a group names a segment that no vertex has, or a segment stands in two groups.
    """
    known, inside = np.unique(segments, return_inverse=True)
    owner = np.full(len(known), -1, np.int64)
    for group in groups:
        number = int(group["objectId"])
        listed = whole_numbers(field(group, "segments", list, where), f"{where}: segments of object {number}")
        position = np.searchsorted(known, listed)
        absent = (position >= len(known)) | (known[np.minimum(position, len(known) - 1)] != listed)
        if absent.any():
            reason = f"segment {listed[absent][0]} of object {number} is of no vertex, expected the numbers of the segments file"
            raise GrandError(f"{where}: {reason}; is it the annotation of the other mesh?", "unknown segment")
        taken = owner[position]
        if ((taken >= 0) & (taken != number)).any():
            other = taken[(taken >= 0) & (taken != number)][0]
            reason = f"objects {other} and {number} share a segment, expected each segment in one object"
            raise GrandError(f"{where}: {reason}", "segment twice")
        owner[position] = number
    return owner[inside]


def _objects(
    points: NDArray[np.float64],
    segments: NDArray[np.int64],
    groups: list[dict[str, Any]],
    table: LabelTable | None,
    where: str,
    rejects: Rejects,
) -> list[Object]:
    boxes = boxes_by_instance(points, instances_of(segments, groups, where))
    objects = []
    for group in sorted(groups, key=lambda group: int(group["objectId"])):
        object_id = scannet_id(group["objectId"], "objectId")
        try:
            label = category_of(group.get("label"))
        except GrandError as error:
            rejects.note(where, f"object {object_id}: {error}", group, error.cause)
            continue
        if int(object_id) not in boxes:
            rejects.note(where, f"object {object_id}, {label}, has no vertex, so it has no box", group, "object without points")
            continue
        item = object_of_bounds(object_id, label, boxes[int(object_id)])
        if table is not None and label not in table.by_label:
            reason = f"object {object_id}: label {shown(label)} has no name in the label table; it stays as annotated"
            rejects.note(where, reason, group, "label not in the table")
        elif table is not None and table.by_label[label] != label:
            item = replace(item, category=table.by_label[label], attributes={"raw_category": label})
        objects.append(item)
    return objects
