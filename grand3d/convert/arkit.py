"""ARKitScenes: annotated furniture (from documentation)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.obbs import ALIGNMENT_HELP, FRAME_HELP, SETTINGS, Row, read_boxes
from grand3d.files import Rejects
from grand3d.sample import Data

__all__ = ["INPUTS", "SETTINGS", "convert"]

INPUTS = {
    "scans": "folder of a video, or of such: VIDEO/VIDEO_3dod_annotation.json",
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
}


def convert(
    *, scans: str | Path, alignment: str | Path | None = None, frame: str = "raw", rejects: Rejects | None = None
) -> Data:
    """Read scenes, ``id_space`` ``arkit``: ``object_id`` is the ``uid``, the box ``obbAligned``, which is upright, else ``obb``.

    Raises:
        GrandError: See ``obbs.read_boxes``.
    """
    return read_boxes(scans, "{scan}_3dod_annotation.json", "{scan}_3dod_mesh.ply", _rows, "arkit", alignment, frame, rejects)


def _rows(document: Any) -> Iterator[Row]:
    for item in document["data"]:
        boxes = item.get("segments") or {}
        yield item["uid"], item.get("label"), boxes.get("obbAligned", boxes.get("obb"))
