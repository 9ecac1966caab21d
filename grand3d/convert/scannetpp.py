"""ScanNet++: annotated objects of its laser scans (from documentation)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.obbs import ALIGNMENT_HELP, FRAME_HELP, SETTINGS, Row, read_boxes
from grand3d.files import Rejects
from grand3d.sample import Data

__all__ = ["INPUTS", "SETTINGS", "convert"]

INPUTS = {
    "scans": "folder of a scene, or of such: SCENE/scans/segments_anno.json",
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
}


def convert(
    *, scans: str | Path, alignment: str | Path | None = None, frame: str = "raw", rejects: Rejects | None = None
) -> Data:
    """Read scenes, ``id_space`` ``scannetpp``: ``object_id`` is the ``objectId``, which ViGiL3D's targets name.

    Raises:
        GrandError: See ``obbs.read_boxes``.
    """
    return read_boxes(
        scans, "scans/segments_anno.json", "scans/mesh_aligned_0.05.ply", _rows, "scannetpp", alignment, frame, rejects
    )


def _rows(document: Any) -> Iterator[Row]:
    return ((group["objectId"], group.get("label"), group.get("obb")) for group in document["segGroups"])
