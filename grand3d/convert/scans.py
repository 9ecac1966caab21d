"""Folders of scans as ScanNet and its kin publish them: which files belong to a scan, and how it is aligned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from grand3d.errors import GrandError, place, shown
from grand3d.files import read_json, read_text
from grand3d.frames import IDENTITY, as_matrix
from grand3d.scene import FRAMES, Matrix

FRAME_HELP = "axis_aligned (default) turns a scan by its matrix; raw keeps the axes of its mesh"
ALIGNMENT_HELP = "{scan: 16 numbers of its axis-alignment matrix}, for scans whose .txt lacks the line"
_SAME = 1e-4


def scan_folders(path: str | Path, needed: str) -> Iterator[tuple[str, Path]]:
    """(scan, folder) of a scan's folder, or of a folder of such, in the order of their names.

    Args:
        needed: What marks the folder of a scan: a pattern of file names in which ``{scan}`` is the name of the folder.

    Raises:
        GrandError: If there is none.
    """
    top = Path(path)
    if not os.path.isdir(top):
        what = "is a file" if os.path.exists(top) else "no such folder"
        raise GrandError(f"{place(path)}: {what}, expected the folder of a scan, or one of such folders", "no scans")
    name = os.path.basename(os.path.abspath(top))
    if any(top.glob(needed.format(scan=name))):
        yield name, top
        return
    found = 0
    for folder in sorted(item for item in top.iterdir() if item.is_dir()):
        if any(folder.glob(needed.format(scan=folder.name))):
            found += 1
            yield folder.name, folder
    if not found:
        wanted = needed.format(scan="SCAN")
        raise GrandError(f"{place(path)}: holds no scan, expected SCAN/{wanted}, or {wanted} in the folder itself", "no scans")


def read_alignments(path: str | Path) -> dict[str, Matrix]:
    """``{scan: matrix}`` from a JSON file of 16 numbers a scan, row by row; one scan's matrix may also stand alone.

    Raises:
        GrandError: If it is something else.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected {{scan: 16 numbers}}", "wrong type")
    return {scan: as_matrix(row, f"{place(path)}: {scan}") for scan, row in document.items()}


def alignment_in(path: str | Path) -> Matrix | None:
    """The matrix of the line ``axisAlignment = 16 numbers`` of a ScanNet .txt; None where it has no such line.

    Raises:
        GrandError: If the line holds something else.
    """
    for number, line in enumerate(read_text(path).splitlines(), 1):
        key, _, value = line.partition("=")
        if key.strip() == "axisAlignment":
            try:
                numbers = [float(word) for word in value.split()]
            except ValueError:
                numbers = []
            return as_matrix(numbers, f"{place(path)}:{number}: axisAlignment")
    return None


def alignment_of(scan: str, folder: Path | None, table: Mapping[str, Matrix], frame: str) -> Matrix:
    """The matrix that turns a scan's mesh into its scene: from its .txt, else from the table; the identity for ``raw``.

    Raises:
        GrandError: If the frame is unknown, both matrices are there and differ, or none is: boxes of the two frames lie metres
            apart, so none is made up.
    """
    if frame not in FRAMES:
        raise GrandError(f"frame is {shown(frame)}, expected one of {', '.join(FRAMES)}")
    if frame == "raw":
        return IDENTITY
    text = folder / f"{scan}.txt" if folder is not None else None
    own = alignment_in(text) if text is not None and text.exists() else None
    listed = table.get(scan)
    if own is not None and listed is not None:
        gap = max(abs(x - y) for rows in zip(own, listed, strict=True) for x, y in zip(*rows, strict=True))
        if gap > _SAME:
            reason = f"and the table of alignments differ by {gap:.4g}, expected one matrix; are they of one release?"
            raise GrandError(f"scan {scan}: {place(text or '')} {reason}", "matrices differ")
    matrix = own if own is not None else listed
    if matrix is None:
        where = f"{place(text)} has no line axisAlignment" if text is not None and text.exists() else f"there is no {scan}.txt"
        reason = f"{where} and the alignment file does not list it" if table else where
        hint = "expected its axis-alignment matrix; give it as --alignment, or keep the mesh's own axes with --frame raw"
        raise GrandError(f"scan {scan} is not aligned: {reason}, {hint}", "no alignment")
    return matrix
