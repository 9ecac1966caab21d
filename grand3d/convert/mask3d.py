"""Detections of Mask3D and other instance segmenters: masks over a scan's points, or boxes, become proposals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.convert.graphs import read_graphs, refuse_none_left
from grand3d.convert.instances import object_of_bounds
from grand3d.convert.labels import SPACES_HELP, class_name, class_names
from grand3d.convert.ply_file import points_of, read_ply
from grand3d.convert.scans import (
    ALIGNMENT_HELP,
    FRAME_HELP,
    FRAMES,
    UNITS,
    UNITS_HELP,
    UP_HELP,
    UPS,
    alignment_of,
    frame_name,
    read_alignments,
    upright,
)
from grand3d.errors import GrandError, place, shown, unusable
from grand3d.files import Rejects, read_bytes, read_text
from grand3d.frames import apply, compose
from grand3d.sample import Data
from grand3d.scene import Scene, validate

INPUTS = {
    "predictions": "folder of SCAN.txt (lines: MASK_FILE CLASS SCORE) or SCAN.npz (pred_masks, pred_scores, pred_classes),"
    " one such file, or a graph of boxes (.json)",
    "points": "the points that masks are over: one .ply, or a folder of SCAN.ply, SCAN_vh_clean_2.ply or SCAN/ with one of them",
    "labels": SPACES_HELP,
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
    "up": UP_HELP,
    "units": UNITS_HELP,
    "min_score": "leave out detections below this score (default: 0, all stay)",
}
SETTINGS = {"labels": str, "frame": FRAMES, "up": UPS, "units": UNITS, "min_score": float}
ARRAYS = ("pred_masks", "pred_scores", "pred_classes")

Detection = tuple[str, Any, int, float]
"""(where, mask over the points, class number, score)"""


def convert(
    *,
    predictions: str | Path,
    points: str | Path | None = None,
    labels: str = "scannet200",
    alignment: str | Path | None = None,
    frame: str = "axis_aligned",
    up: str = "z",
    units: str = "m",
    min_score: float = 0.0,
    rejects: Rejects | None = None,
) -> Data:
    """Read detections into scenes of proposals, ``id_space`` ``mask3d``: ``object_id`` counts the detections of the file from 0.

    That number has nothing to do with a true object's: the two meet through the overlap of their boxes. The box of a detection
    is the axis-aligned one around the points its mask takes, after the alignment. None is merged or capped here; scene texts
    take the best ``prompt.top_k`` and say how many they left out.

    Counted and left out, never raised: detections below ``min_score``, and those whose mask takes no point. A scan without a
    detection is a scene without objects.

    Raises:
        GrandError: For a file that is missing or broken, with the line; a mask of another length than the points; a class that
            the numbering of ``labels`` does not have; a scan without alignment. With ``rejects`` such scans are left out.
    """
    rejects = rejects if rejects is not None else Rejects()
    if not 0 <= min_score <= 1:
        raise GrandError(f"min_score is {min_score}, expected 0 to 1")
    if Path(predictions).suffix == ".json":
        if points is not None or alignment is not None or (frame, up, units) != ("axis_aligned", "z", "m"):
            reason = "a graph of boxes is taken as it is, expected no points, alignment, frame, up or units beside it"
            raise GrandError(f"{place(predictions)}: {reason}; convert boxes turns boxes")
        return Data(_best(read_graphs(predictions, "mask3d", rejects=rejects), min_score, predictions, rejects), ())
    if points is None:
        raise GrandError(f"{place(predictions)}: masks need the points they are over, expected --points")
    names = class_names(labels)
    matrices = read_alignments(alignment) if alignment is not None else {}
    scenes = {}
    for scan, file in _files(predictions):
        try:
            cloud = cloud_of(points, scan)
            own = points_of(cloud, read_ply(cloud)["vertex"])
            stand = upright(up, units)
            matrix = compose(alignment_of(scan, cloud.parent, matrices, frame, apply(stand, own)), stand)
            placed = apply(matrix, own)
            objects = []
            for number, (where, mask, kind, score) in enumerate(_detections(file, len(placed))):
                category = class_name(kind, names, labels)
                if not mask.any():
                    rejects.note(where, f"detection {number}, {category}, takes no point, so it has no box", None, "empty mask")
                    continue
                inside = placed[mask]
                bounds = np.stack([inside.min(axis=0), inside.max(axis=0)])
                objects.append(object_of_bounds(str(number), category, bounds, score=score))
            scenes[scan] = validate(Scene(scan, tuple(objects), (), "mask3d", frame_name(frame), transform=matrix))
            if not objects:
                rejects.note(
                    place(file), f"scan {scan} has no detection; its scene has no object", None, "scan without detections"
                )
        except GrandError as error:
            rejects.add(place(file), str(error), scan, error.cause)
    refuse_none_left(predictions, scenes, rejects)
    return Data(_best(scenes, min_score, predictions, rejects), ())


def _best(scenes: Mapping[str, Scene], min_score: float, path: str | Path, rejects: Rejects) -> dict[str, Scene]:
    out = {}
    for name, scene in scenes.items():
        kept = tuple(item for item in scene.objects if item.score is None or item.score >= min_score)
        for item in scene.objects:
            if item not in kept:
                reason = f"scene {name}: detection {item.object_id} has the score {item.score:.4g}, below {min_score:g}"
                rejects.note(place(path), reason, None, "score below min_score")
        out[name] = replace(scene, objects=kept)
    return out


def _files(path: str | Path) -> Iterator[tuple[str, Path]]:
    top = Path(path)
    if not os.path.isdir(top):
        yield top.stem, top
        return
    files = sorted(file for file in top.iterdir() if file.suffix in (".txt", ".npz") and file.is_file())
    if not files:
        raise GrandError(f"{place(path)}: holds no .txt and no .npz, expected one of them for each scan", "no scans")
    scans: dict[str, Path] = {}
    for file in files:
        if scans.setdefault(file.stem, file) != file:
            raise GrandError(f"{place(path)}: {file.stem} has a .txt and a .npz, expected one of them", "id twice")
    yield from scans.items()


def cloud_of(points: str | Path, scan: str) -> Path:
    """The point cloud of a scan: a file given, or found in a folder by ScanNet's names or the scan's own.

    Raises:
        GrandError: If there is none.
    """
    top = Path(points)
    if not os.path.isdir(top):
        return top
    mesh = f"{scan}_vh_clean_2.ply"
    for name in (f"{scan}.ply", mesh, f"{scan}/{mesh}", f"{scan}/{scan}.ply"):
        if (top / name).is_file():
            return top / name
    raise GrandError(f"{place(points)}: has no points of scan {scan}, expected {scan}.ply, {mesh} or {scan}/{mesh}", "no points")


def _detections(file: Path, num_points: int) -> Iterator[Detection]:
    if file.suffix == ".npz":
        yield from _of_arrays(file, num_points)
        return
    for number, line in enumerate(read_text(file).splitlines(), 1):
        where = f"{place(file)}:{number}"
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or not words[1].isascii() or not words[1].isdigit():
            raise GrandError(
                f"{where}: seen {shown(line)}, expected three fields: the file of a mask, a class number, a score", "broken row"
            )
        score = _score(words[2], where)
        path = Path(words[0])
        if path.is_absolute() or ".." in path.parts:
            raise GrandError(
                f"{where}: the mask is {shown(words[0])}, expected a path within the folder of the predictions", "foreign path"
            )
        yield where, read_mask(file.parent / path, num_points), int(words[1]), score


def _score(value: Any, where: str) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = -1.0
    if not 0 <= score <= 1:
        raise GrandError(f"{where}: the score is {shown(value)}, expected a number from 0 to 1", "bad score")
    return score


def read_mask(path: Path, num_points: int) -> NDArray[np.bool_]:
    """A mask file: one number a line for each point, 0 outside and anything else inside (``1``, ``1.0``).

    Raises:
        GrandError: If the file is missing, holds something else, or another number of lines than there are points.
    """
    raw = read_bytes(path)
    letters = np.frombuffer(raw, np.uint8)
    marks, breaks = letters[::2], letters[1::2]
    if len(marks) == num_points and (breaks == ord("\n")).all() and ((marks == ord("0")) | (marks == ord("1"))).all():
        return marks == ord("1")  # as nearly all are written; a hundred times as fast as what follows
    words = raw.split()
    if len(words) != num_points:
        reason = f"{len(words)} values, the scan has {num_points} points, expected one for each"
        raise GrandError(f"{place(path)}: {reason}; is it a mask over another mesh?", "lengths differ")
    try:
        values = np.array(words, np.float64)
    except ValueError:
        values = np.array([_number(word) for word in words])
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        seen = shown(words[wrong[0]].decode("latin-1"))
        raise GrandError(f"{place(path)}: value {wrong[0] + 1} is {seen}, expected 0 or 1", "bad number")
    return values != 0


def _number(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        return float("nan")


def _of_arrays(file: Path, num_points: int) -> Iterator[Detection]:
    """Detections of an .npz; masks stand in rows or in columns, whichever has the number of points."""
    arrays = read_arrays(file, ARRAYS)
    masks, scores, kinds = (arrays[name] for name in ARRAYS)
    if any(array.dtype.kind not in "biuf" for array in (masks, scores, kinds)):
        raise GrandError(f"{place(file)}: arrays of {masks.dtype}, {scores.dtype}, {kinds.dtype}, expected numbers", "wrong type")
    if scores.ndim != 1 or kinds.shape != scores.shape or masks.ndim != 2:
        shapes = f"masks {masks.shape}, scores {scores.shape}, classes {kinds.shape}"
        raise GrandError(
            f"{place(file)}: seen {shapes}, expected masks (detections, points), scores and classes (detections,)", "wrong shape"
        )
    if masks.shape == (num_points, len(scores)) and num_points != len(scores):
        masks = masks.T
    if masks.shape != (len(scores), num_points):
        reason = f"pred_masks is {masks.shape}, the scan has {num_points} points and the file {len(scores)} scores"
        raise GrandError(f"{place(file)}: {reason}, expected ({len(scores)}, {num_points})", "lengths differ")
    for number, mask in enumerate(masks):
        where = f"{place(file)}: detection {number}"
        kind = kinds[number]
        if not np.isfinite(kind) or int(kind) != kind:
            raise GrandError(f"{where}: the class is {shown(kind)}, expected a whole number", "unknown class")
        yield where, mask != 0, int(kind), _score(scores[number], where)


def read_arrays(file: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz, by name; Python objects in it (pickles) are not loaded.

    Raises:
        GrandError: If it is no .npz, lacks one of the arrays, or holds Python objects.
    """
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as document:
            absent = [name for name in names if name not in document]
            if absent:
                raise GrandError(
                    f"{place(file)}: has no {absent[0]}, expected {', '.join(names)}; it has {shown(document.files)}",
                    "missing key",
                )
            return {name: document[name] for name in names}
    except OSError as error:
        raise unusable(file, error, "read") from None
    except GrandError:
        raise
    except Exception as error:  # zipfile, numpy and zlib each have their own
        raise GrandError(
            f"{place(file)}: cannot be read ({error}), expected an .npz of plain arrays; no pickle is loaded", "not npz"
        ) from None
