"""Files of regions, ``{scene: [{region_id, name, polygon, object_ids}]}``: rooms and other parts of the floor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.convert.instances import category_of
from grand3d.errors import GrandError, place, shown
from grand3d.files import field, numbers, read_json
from grand3d.frames import apply
from grand3d.scene import Region


def read_regions(path: str | Path) -> dict[str, list[Region]]:
    """Regions of scenes, ``{scene: [{region_id, name, polygon, object_ids}]}``; the last two may be absent.

    Raises:
        GrandError: If the file is something else.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not all(isinstance(rows, list) for rows in document.values()):
        raise GrandError(
            f"{place(path)}: holds {shown(document)}, expected {{scene: [{{region_id, name, polygon}}]}}", "wrong type"
        )
    out: dict[str, list[Region]] = {}
    for scene_id, rows in document.items():
        for index, row in enumerate(rows):
            where = f"{place(path)}: scene {shown(scene_id)}, region {index}"
            if not isinstance(row, dict):
                raise GrandError(f"{where}: expected a JSON object, seen {shown(row)}", "wrong type")
            corners = field(row, "polygon", list, where, [])
            polygon = tuple(numbers(corner, 2, f"{where}: a corner of polygon") for corner in corners)
            members = tuple(map(str, field(row, "object_ids", list, where, [])))
            name = category_of(field(row, "name", str, where))
            out.setdefault(scene_id, []).append(Region(str(row.get("region_id", f"r{index}")), name, polygon, members))  # type: ignore[arg-type]
    return out


def move_region(region: Region, matrix: Any) -> Region:
    """A region in other coordinates. Its corners count as points on the floor of the files: x and y, or with y up x and z."""
    matrix = np.asarray(matrix, np.float64)
    flat = [(x, y, 0.0) if abs(matrix[2, 2]) > abs(matrix[2, 1]) else (x, 0.0, y) for x, y in region.polygon]
    moved = apply(matrix, flat)[:, :2] if flat else ()
    return replace(region, polygon=tuple((float(x), float(y)) for x, y in moved))
