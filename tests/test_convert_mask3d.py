from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scans import POINTS, ply_bytes, write_scan, xyz

from grand3d.convert import mask3d
from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.scene import Scene
from grand3d.serial import fit_scene

SCAN = "scene0011_00"
MASKS = ([1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0, 0])


def _write(folder: Path, index: str, masks: Any = MASKS, layout: str = "pred_mask/{}_{}.txt") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{SCAN}.txt").write_text(index)
    for k, mask in enumerate(masks):
        path = folder / layout.format(SCAN, k)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(str, mask)) + "\n")
    return folder


def _points(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{SCAN}_vh_clean_2.ply").write_bytes(ply_bytes(xyz(POINTS)))
    return folder


def _convert(tmp_path: Path, index: str, rejects: Rejects | None = None, **more: Any) -> Scene:
    layout = more.pop("layout", "pred_mask/{}_{}.txt")
    folder = _write(tmp_path / "out", index, more.pop("masks", MASKS), layout)
    data = mask3d.convert(predictions=folder, points=_points(tmp_path / "scans"), frame="raw", rejects=rejects, **more)
    return data.scenes[SCAN]


@pytest.mark.parametrize(
    ("index", "layout"),
    [
        (f"pred_mask/{SCAN}_0.txt 5 0.98\npred_mask/{SCAN}_1.txt 1191 0.5\n", "pred_mask/{}_{}.txt"),
        (
            f"predicted_masks/{SCAN}_000.txt\t5\t0.98\r\n\npredicted_masks/{SCAN}_001.txt 1191 0.5",
            "predicted_masks/{}_{:03d}.txt",
        ),
    ],
)
def test_b06_both_public_layouts_give_proposals(tmp_path: Path, index: str, layout: str) -> None:
    scene = _convert(tmp_path, index, layout=layout, masks=[MASKS[0], [f"{value}.0" for value in MASKS[1]]])
    first, second = scene.objects
    assert scene.id_space == "mask3d" and scene.frame == "raw"
    assert (first.object_id, first.category, first.score) == ("0", "door", 0.98)
    assert first.centroid == (0.5, 1.5, 0.5) and first.extent == (1.0, 3.0, 1.0)
    assert (second.category, second.centroid, second.extent) == ("mattress", (4.5, 1.0, 0.5), (1.0, 2.0, 1.0))


@pytest.mark.parametrize(
    ("index", "masks", "message"),
    [
        (f"pred_mask/{SCAN}_0.txt 5 0.9\npred_mask/{SCAN}_1.txt 5\n", MASKS, r"scene0011_00.txt:2: seen .*expected three fields"),
        (f"pred_mask/{SCAN}_0.txt 5 0.9 x\n", MASKS, "txt:1: seen .*expected three fields"),
        (f"pred_mask/{SCAN}_9.txt 5 0.9\n", MASKS, "scene0011_00_9.txt: no such file"),
        (f"pred_mask/{SCAN}_0.txt 5 0.9\n", [[1, 0]], "2 values, the scan has 8 points, expected one for each"),
        (f"pred_mask/{SCAN}_0.txt 5 0.9\n", [["x", *MASKS[0][1:]]], "value 1 is 'x', expected 0 or 1"),
        (f"pred_mask/{SCAN}_0.txt 5 0.9\n", [["nan", *MASKS[0][1:]]], "value 1 is 'nan', expected 0 or 1"),
        (f"pred_mask/{SCAN}_0.txt 5 1.2\n", MASKS, "the score is '1.2', expected a number from 0 to 1"),
        (f"pred_mask/{SCAN}_0.txt 5 nan\n", MASKS, "the score is 'nan', expected"),
        (f"pred_mask/{SCAN}_0.txt 0 0.9\n", MASKS, "class 0 is none of the 200 of scannet200, expected"),
        ("../secret.txt 5 0.9\n", MASKS, "expected a path within the folder"),
        ("/etc/passwd 5 0.9\n", MASKS, "expected a path within the folder"),
    ],
)
def test_b06_other_layouts_are_refused_by_line(tmp_path: Path, index: str, masks: Any, message: str) -> None:
    with pytest.raises(GrandError, match=message):
        _convert(tmp_path, index, masks=masks)


def test_b06_class_numbers_are_those_of_the_named_numbering(tmp_path: Path) -> None:
    index = f"pred_mask/{SCAN}_0.txt 7 0.9\n"
    assert _convert(tmp_path, index).objects[0].category == "cabinet"
    assert _convert(tmp_path, index, labels="scannet20").objects[0].category == "table"
    own = tmp_path / "names.json"
    own.write_text(json.dumps({"7": "robot arm"}))
    assert _convert(tmp_path, index, labels=str(own)).objects[0].category == "robot arm"


@pytest.mark.parametrize(("index", "options"), [("", {}), (f"pred_mask/{SCAN}_0.txt 5 0.01\n", {"min_score": 0.5})])
def test_b04_a_scan_without_detections_is_a_scene_without_objects(tmp_path: Path, index: str, options: Any) -> None:
    rejects = Rejects()
    scene = _convert(tmp_path, index, rejects, **options)
    assert scene.objects == ()
    assert rejects.counts() in ({"scan without detections": 1}, {"score below min_score": 1})
    assert fit_scene(scene).object_ids == ()


def test_b05_one_detection_stays_one(tmp_path: Path) -> None:
    scene = _convert(tmp_path, f"pred_mask/{SCAN}_0.txt 5 0.9\n")
    for overlap in (1.0, 0.5, 0.01):
        assert merge_duplicates(scene, overlap) == (scene, {})


def test_b02_proposal_numbers_are_another_space_than_object_ids(tmp_path: Path) -> None:
    scene = _convert(tmp_path, f"pred_mask/{SCAN}_0.txt 5 0.9\n")
    assert scene.id_space == "mask3d" and scene.objects[0].score is not None
    true = write_scan(tmp_path / "raw", SCAN)
    from grand3d.convert import scannet

    assert scannet.convert(scans=true).scenes[SCAN].id_space == "scannet"


def test_b07_low_scores_stay_unless_left_out_and_the_real_file_counts_them(real: Callable[[str], Path]) -> None:
    path = real("mask3d/scannet_val_proposals.json")
    scenes = mask3d.convert(predictions=path).scenes
    scores = [item.score for scene in scenes.values() for item in scene.objects]
    assert len(scores) == 9612 and min(scores) == pytest.approx(0.0007, abs=5e-5)
    rejects = Rejects()
    kept = mask3d.convert(predictions=path, min_score=0.5, rejects=rejects).scenes
    assert rejects.counts() == {"score below min_score": 2206}
    shown = [len(fit_scene(scene).text) for scene in kept.values()]
    assert sum(shown) < sum(len(fit_scene(scene).text) for scene in scenes.values())


def test_b08_no_object_is_cut_without_being_counted() -> None:
    from grand3d.scene import Object

    side = (0.1, 0.1, 0.1)
    objects = tuple(Object(str(k), "box", (k % 20, k // 20, 0.5), side, score=1 - k / 400) for k in range(400))
    scene = Scene("hall", objects, id_space="mask3d")
    text = fit_scene(scene, top_k=40, keep=("399",))
    assert "399" in text.object_ids and len(text.object_ids) == 40 and text.num_dropped == 360
    assert fit_scene(scene, top_k=400).num_dropped == 0
    assert "399" not in fit_scene(scene, top_k=40).object_ids


def test_masks_of_an_npz_stand_in_rows_or_columns(tmp_path: Path) -> None:
    arrays = {"pred_masks": np.array(MASKS, bool), "pred_scores": np.array([0.9, 0.2]), "pred_classes": np.array([5, 2])}
    scenes = []
    for name, masks in (("rows", arrays["pred_masks"]), ("columns", arrays["pred_masks"].T)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / f"{SCAN}.npz", **{**arrays, "pred_masks": masks})
        scenes.append(mask3d.convert(predictions=tmp_path / name, points=_points(tmp_path / "p"), frame="raw").scenes[SCAN])
    assert scenes[0] == scenes[1]
    assert [(item.category, item.score) for item in scenes[0].objects] == [("door", 0.9), ("chair", 0.2)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pred_masks": np.ones((2, 8))}, "has no pred_scores, expected"),
        ({"pred_masks": np.ones((2, 7)), "pred_scores": np.ones(2), "pred_classes": np.ones(2)}, "the scan has 8 points"),
        ({"pred_masks": np.ones(8), "pred_scores": np.ones(1), "pred_classes": np.ones(1)}, "expected masks"),
        ({"pred_masks": np.ones((1, 8)), "pred_scores": np.ones(1), "pred_classes": np.array([1.5])}, "expected a whole number"),
        ({"pred_masks": np.ones((1, 8)), "pred_scores": np.array(["a"]), "pred_classes": np.ones(1)}, "expected numbers"),
        ({"pred_masks": np.array([{}]), "pred_scores": np.ones(1), "pred_classes": np.ones(1)}, "no pickle is loaded"),
    ],
)
def test_an_npz_of_another_form_is_refused(tmp_path: Path, arrays: Any, message: str) -> None:
    np.savez(tmp_path / f"{SCAN}.npz", **arrays)
    with pytest.raises(GrandError, match=message):
        mask3d.convert(predictions=tmp_path / f"{SCAN}.npz", points=_points(tmp_path / "p"), frame="raw")


def test_a_damaged_npz_and_an_empty_mask(tmp_path: Path) -> None:
    (tmp_path / f"{SCAN}.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(GrandError, match=r"npz: cannot be read .*expected an .npz"):
        mask3d.convert(predictions=tmp_path / f"{SCAN}.npz", points=_points(tmp_path / "p"), frame="raw")
    rejects = Rejects()
    scene = _convert(tmp_path, f"pred_mask/{SCAN}_0.txt 5 0.9\n", rejects, masks=[[0] * 8])
    assert scene.objects == () and rejects.counts() == {"empty mask": 1, "scan without detections": 1}


def test_detections_of_a_real_mesh_fall_on_the_true_boxes(tmp_path: Path, real: Callable[[str], Path]) -> None:
    from grand3d.convert import scannet
    from grand3d.convert.ply_file import read_ply

    scan, table = "scene0000_00", real("scannet/scans_axis_alignment_matrices.json")
    folder = real(f"scannet/{scan}")
    true = scannet.convert(scans=folder, alignment=table).scenes[scan]
    points, segments = scannet.read_mesh(folder / f"{scan}_vh_clean_2.ply", folder / f"{scan}_vh_clean_2.0.010000.segs.json")
    owners = scannet.instances_of(segments, scannet.read_groups(folder / f"{scan}.aggregation.json", scan), "x")
    masks = np.stack([owners == int(item.object_id) for item in true.objects])
    num = len(true.objects)
    np.savez(tmp_path / f"{scan}.npz", pred_masks=masks, pred_scores=np.full(num, 0.5), pred_classes=np.full(num, 2))
    found = mask3d.convert(predictions=tmp_path, points=real("scannet"), alignment=table).scenes[scan]
    assert len(read_ply(folder / f"{scan}_vh_clean_2.ply")["vertex"]["x"]) == len(points)
    for item, twin in zip(true.objects, found.objects, strict=True):
        assert replace(twin, object_id=item.object_id, category=item.category, score=None) == item


def test_the_command_says_what_was_left_out(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    folder = _write(tmp_path / "out", f"pred_mask/{SCAN}_0.txt 5 0.9\npred_mask/{SCAN}_1.txt 2 0.1\n")
    files = ("--predictions", folder, "--points", _points(tmp_path / "scans"))
    code, _, err = run("convert", "mask3d", tmp_path / "data", *files, "--frame", "raw", "--min-score", "0.5")
    assert (
        code == 0 and "1 scenes, 0 samples" in err and "noted: 1 x score below min_score" in err and "the 1 notes are in" in err
    )
    assert (tmp_path / "data.rejected.jsonl").exists()
    for wrong in (["--min-score", "half"], ["--min-score", "2"], ["--frame", "tilted"], ["--up", "w"], []):
        code, _, err = run("convert", "mask3d", tmp_path / "other", *files, *wrong)
        assert code == 2 and "expected" in err and not (tmp_path / "other").exists()


def test_a_graph_of_boxes_takes_no_points(real: Callable[[str], Path]) -> None:
    with pytest.raises(GrandError, match="a graph of boxes is taken as it is, expected no points"):
        mask3d.convert(predictions=real("mask3d/scannet_val_proposals.json"), units="cm")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.booleans(), max_size=20), st.sampled_from(["\n", "\r\n", " ", "\n\n"]), st.sampled_from(["", "\n"]), st.booleans()
)
def test_masks_read_alike_however_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, mask: list[bool], gap: str, end: str, as_float: bool
) -> None:
    path = tmp_path_factory.mktemp("m") / "mask.txt"
    path.write_bytes((gap.join(f"{int(value)}{'.0' if as_float else ''}" for value in mask) + end).encode())
    assert mask3d.read_mask(path, len(mask)).tolist() == mask
    with pytest.raises(GrandError, match=f"{len(mask)} values, the scan has {len(mask) + 1} points, expected"):
        mask3d.read_mask(path, len(mask) + 1)
