"""Folders of scans as ScanNet and its kin publish them: which files belong to a scan, and how it is aligned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json, read_text
from grand3d.frames import IDENTITY, UNIT_SCALES, Y_UP, as_matrix, compose, rows_of, scaled
from grand3d.scene import Matrix

FRAMES = ("axis_aligned", "raw", "estimate")
FRAME_HELP = (
    "axis_aligned (default) turns a scan by its matrix, estimate by the angle that its walls show; raw keeps the axes of its mesh"
)
UPS, UP_HELP = ("z", "y"), "which axis points up in the files: z (default) or y"
UNITS, UNITS_HELP = tuple(UNIT_SCALES), "what the files measure in: m (default), cm or mm"
ALIGNMENT_HELP = "{scan: 16 numbers of its axis-alignment matrix}, for scans whose .txt lacks the line"
_SAME = 1e-4
_CELL = 0.05


def scan_folders(path: str | Path, needed: str, rejects: Rejects) -> list[tuple[str, Path]]:
    """(scan, folder) of a scan's folder, or of a folder of such, in the order of their names.

    Args:
        needed: What marks the folder of a scan: a file name in which ``{scan}`` is the name of the folder.
        rejects: Where folders without that file are noted, before the first is read: of hidden test scans it is not published.

    Raises:
        GrandError: If there is none.
    """
    top = Path(path)
    if not os.path.isdir(top):
        what = "is a file" if os.path.exists(top) else "no such folder"
        raise GrandError(f"{place(path)}: {what}, expected the folder of a scan, or one of such folders", "no scans")
    name = os.path.basename(os.path.abspath(top))
    if (top / needed.format(scan=name)).is_file():
        return [(name, top)]
    found = []
    for folder in sorted(item for item in top.iterdir() if item.is_dir()):
        if (folder / needed.format(scan=folder.name)).is_file():
            found.append((folder.name, folder))
        else:
            reason = f"has no {needed.format(scan=folder.name)}; a scan whose annotation is not published?"
            rejects.note(place(folder), reason, None, "folder without annotation")
    if not found:
        wanted = needed.format(scan="SCAN")
        raise GrandError(f"{place(path)}: holds no scan, expected SCAN/{wanted}, or {wanted} in the folder itself", "no scans")
    return found


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


def alignment_of(scan: str, folder: Path | None, table: Mapping[str, Matrix], frame: str, points: ArrayLike) -> Matrix:
    """The matrix that turns a scan's points into its scene.

    Args:
        scan: Its name.
        folder: Where its .txt may lie.
        table: Matrices by scan, for those whose .txt has none.
        frame: One of FRAMES: ``raw`` gives the identity, ``estimate`` the turn that ``wall_turn`` finds.
        points: (n, 3), z up.

    Raises:
        GrandError: If the frame is unknown, both matrices are there and differ, or none is: boxes of the two frames lie metres
            apart, so none is made up.
    """
    if frame not in FRAMES:
        raise GrandError(f"frame is {shown(frame)}, expected one of {', '.join(FRAMES)}")
    if frame != "axis_aligned":
        return IDENTITY if frame == "raw" else wall_turn(points)
    text = folder / f"{scan}.txt" if folder is not None else None
    own = alignment_in(text) if text is not None and text.exists() else None
    listed = table.get(scan)
    if own is not None and listed is not None:
        gap = float(np.abs(np.subtract(own, listed)).max())
        if gap > _SAME:
            reason = f"and the table of alignments differ by {gap:.4g}, expected one matrix; are they of one release?"
            raise GrandError(f"scan {scan}: {place(text or '')} {reason}", "matrices differ")
    matrix = own if own is not None else listed
    if matrix is None:
        has_text = text is not None and text.exists()
        where = f"{place(text or '')} has no line axisAlignment" if has_text else f"there is no {scan}.txt"
        reason = f"{where} and the alignment file does not list it" if table else where
        hint = "expected its matrix as --alignment; else take --frame estimate, or keep the axes of its mesh with --frame raw"
        raise GrandError(f"scan {scan} is not aligned: {reason}, {hint}", "no alignment")
    return matrix


def frame_name(frame: str) -> str:
    """What ``Scene.frame`` says of a choice among FRAMES."""
    return "raw" if frame == "raw" else "axis_aligned"


def upright(up: str, units: str) -> Matrix:
    """The matrix from files with another axis up, or in other units, to metres and z up.

    Raises:
        GrandError: For an unknown axis or unit.
    """
    for name, value, known in (("up", up, UPS), ("units", units, UNITS)):
        if value not in known:
            raise GrandError(f"{name} is {shown(value)}, expected one of {', '.join(known)}")
    return compose(Y_UP if up == "y" else IDENTITY, scaled(UNIT_SCALES[units]))


def wall_turn(points: ArrayLike, num: int = 20_000) -> Matrix:
    """The turn about z, within 45 degrees either way, after which walls run along x and y.

    Points of a wall along y share their x, so seen along the right axes the points pile up in few places: of all turns by a
    quarter of a degree, the one with the largest sum of squared counts in cells of 5 cm, along x and y together.

    Args:
        points: (n, 3), metres, z up.
        num: Points that are looked at, evenly taken.
    """
    plane = np.asarray(points, np.float64)[:, :2]
    if not len(plane):
        return IDENTITY
    plane = plane[:: max(1, len(plane) // num)]
    plane = plane - plane.mean(axis=0)
    reach = float(np.linalg.norm(plane, axis=1).max())
    cells = int(2 * reach / _CELL) + 1

    def piled(angle: float) -> float:
        c, s = np.cos(angle), np.sin(angle)
        x, y = plane[:, 0] * c - plane[:, 1] * s, plane[:, 0] * s + plane[:, 1] * c
        counts = (np.bincount(((v + reach) / _CELL).astype(np.int64), minlength=cells) for v in (x, y))
        return sum(float((count.astype(np.float64) ** 2).sum()) for count in counts)

    turns = np.deg2rad(np.arange(-45, 45, 0.25))
    angle = float(max(turns, key=lambda angle: (piled(angle), -abs(angle))))
    c, s = np.cos(angle), np.sin(angle)
    return rows_of([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
