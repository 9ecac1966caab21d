"""Made-up scans in the forms of published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"f": "float", "d": "double", "B": "uchar", "b": "char", "h": "short", "H": "ushort", "i": "int", "I": "uint"}


def ply_bytes(columns: Mapping[str, np.ndarray], form: str = "binary_little_endian", faces: Sequence[Sequence[int]] | None = None,
              **of_faces: Sequence[int]) -> bytes:  # fmt: skip
    """A PLY file of a vertex element, and where given of faces with whole-number properties."""
    num = len(next(iter(columns.values())))
    header = ["ply", f"format {form} 1.0", "comment made up", f"element vertex {num}"]
    header += [f"property {KINDS[column.dtype.char]} {name}" for name, column in columns.items()]
    if faces is not None:
        header += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
        header += [f"property int {name}" for name in of_faces]
    out = ("\n".join([*header, "end_header"]) + "\n").encode()
    if form == "ascii":
        rows = [" ".join(repr(column[k].item()) for column in columns.values()) for k in range(num)]
        for k, face in enumerate(faces or ()):
            rows.append(" ".join(map(str, [len(face), *face, *(values[k] for values in of_faces.values())])))
        return out + ("\n".join(rows) + "\n").encode()
    order = "<" if form == "binary_little_endian" else ">"
    kind = np.dtype([(name, column.dtype.newbyteorder(order)) for name, column in columns.items()])
    table = np.empty(num, kind)
    for name, column in columns.items():
        table[name] = column
    out += table.tobytes()
    for k, face in enumerate(faces or ()):
        out += np.array([len(face)], "u1").tobytes() + np.array(face, f"{order}i4").tobytes()
        out += np.array([values[k] for values in of_faces.values()], f"{order}i4").tobytes()
    return out


def xyz(points: Any) -> dict[str, np.ndarray]:
    """Points (n, 3) as columns of a vertex element."""
    array = np.asarray(points, np.float32)
    return {axis: array[:, k] for k, axis in enumerate("xyz")}


POINTS = [[0, 0, 0], [1, 0, 0], [4, 0, 0], [5, 2, 1], [0, 3, 1], [4, 1, 0], [8, 8, 2], [9, 9, 3]]
SEGMENTS = [5, 5, 9, 9, 5, 9, 7, 7]
GROUPS = [
    {"id": 0, "objectId": 0, "segments": [9], "label": "chair"},
    {"id": 1, "objectId": 1, "segments": [5, 7], "label": "tv stand"},
]


def write_scan(folder: Path, scan: str = "scene0000_00", **changed: Any) -> Path:
    """A scan of eight vertices as ScanNet publishes one; returns its folder.

    Args:
        changed: points, segments, groups, alignment (the line of the .txt), scene_id.
    """
    place = folder / scan
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{scan}_vh_clean_2.ply").write_bytes(ply_bytes(xyz(changed.get("points", POINTS))))
    segments = {"params": {}, "sceneId": scan, "segIndices": changed.get("segments", SEGMENTS)}
    (place / f"{scan}_vh_clean_2.0.010000.segs.json").write_text(json.dumps(segments))
    groups = {"sceneId": changed.get("scene_id", scan), "appId": "Aggregator.v1", "segGroups": changed.get("groups", GROUPS)}
    (place / f"{scan}.aggregation.json").write_text(json.dumps(groups))
    line = changed.get("alignment", "axisAlignment = 1 0 0 1 0 1 0 2 0 0 1 3 0 0 0 1\n")
    (place / f"{scan}.txt").write_text(f"{line}colorHeight = 968\nsceneType = Bedroom / Hotel\n")
    return place
