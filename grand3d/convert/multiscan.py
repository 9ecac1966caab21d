"""MultiScan: annotated objects (from documentation)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.obbs import ALIGNMENT_HELP, FRAME_HELP, SETTINGS, Row, read_boxes
from grand3d.files import Rejects
from grand3d.sample import Data

__all__ = ["INPUTS", "SETTINGS", "convert"]

_NUMBER = re.compile(r"\.[0-9]+$")
"""Counts the objects of a category."""

INPUTS = {
    "scans": "folder of a scan, or of such: SCAN/SCAN.annotations.json",
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
}


def convert(
    *, scans: str | Path, alignment: str | Path | None = None, frame: str = "raw", rejects: Rejects | None = None
) -> Data:
    """Read scans, ``id_space`` ``multiscan``: ``object_id`` is the ``objectId``.

    The category of ``wall_cabinet.1`` is ``wall_cabinet``. Parts and their joints are not read.

    Raises:
        GrandError: See ``obbs.read_boxes``.
    """
    return read_boxes(scans, "{scan}.annotations.json", "{scan}.ply", _rows, "multiscan", alignment, frame, rejects)


def _rows(document: Any) -> Iterator[Row]:
    for item in document["objects"]:
        label = item.get("label")
        yield item["objectId"], _NUMBER.sub("", label) if isinstance(label, str) else label, item.get("obb")
