"""3RScan: annotated objects of its scans and rescans (from documentation)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.obbs import ALIGNMENT_HELP, FRAME_HELP, SETTINGS, Row, read_boxes
from grand3d.files import Rejects
from grand3d.sample import Data

__all__ = ["INPUTS", "SETTINGS", "convert"]

INPUTS = {
    "scans": "folder of a scan, or of such: SCAN/semseg.v2.json",
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
}


def convert(
    *, scans: str | Path, alignment: str | Path | None = None, frame: str = "raw", rejects: Rejects | None = None
) -> Data:
    """Read scans, ``id_space`` ``3rscan``: ``object_id`` is the ``objectId``.

    Rescans are scenes of their own, in their own coordinates.

    Raises:
        GrandError: See ``obbs.read_boxes``.
    """
    return read_boxes(scans, "semseg.v2.json", "labels.instances.annotated.v2.ply", _rows, "3rscan", alignment, frame, rejects)


def _rows(document: Any) -> Iterator[Row]:
    return ((group["objectId"], group.get("label"), group.get("obb")) for group in document["segGroups"])
