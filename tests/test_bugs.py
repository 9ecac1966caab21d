"""Faults that users of other tools reported, by the numbers of our list: A scenes and ids, I files. Those of one converter stand
beside it: A1 to A19, A26 in test_convert_scannet, A4 and I6 in test_convert_boxes, B in test_convert_mask3d."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grand3d import markup
from grand3d.boxes import iou, objects_bounds
from grand3d.checks import check_data
from grand3d.convert import boxes, referit3d, scanrefer
from grand3d.errors import GrandError
from grand3d.files import Rejects, read_json, read_jsonl
from grand3d.sample import Data, Sample, load_data, save_data
from grand3d.scene import Object, Scene, save_scenes
from grand3d.serial import FORMS, fit_scene, read_scene, write_scene

Real = Callable[[str], Path]


def _write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_a03_a_perfect_reply_gives_every_box_back_whatever_the_origin(toy_scene: Scene, form: str) -> None:
    far = Scene(
        "far", tuple(Object(o.object_id, o.category, tuple(c - 40 for c in o.centroid), o.extent) for o in toy_scene.objects)
    )
    for scene in (toy_scene, far):
        shown = fit_scene(scene, form)
        reply = "".join(f"<p>it</p>[<obj_{k}>]" for k in range(len(shown.object_ids)))
        named = [shown.object_ids[int(span.ids[0].removeprefix("obj_"))] for span in markup.parse(reply).spans]
        assert sorted(named) == sorted(scene.object_ids)
        found, true = objects_bounds([scene[i] for i in named]), objects_bounds([scene[i] for i in shown.object_ids])
        assert (np.diag(iou(found, true)) == 1).all()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("<p>a</p>[<obj_2>]", ["obj_2"]),
        ("<p>a</p>[<obj_27>]", ["obj_27"]),
        ("<p>a</p>[<obj_127>]", ["obj_127"]),
        ("<p>a</p>[<obj_2>, <obj_27>]", ["obj_2", "obj_27"]),
        ("<p>a</p>obj_27>", ["obj_27"]),
    ],
)
def test_a21_an_id_is_read_whole(text: str, ids: list[str]) -> None:
    spans = markup.parse(text, lenient=True).spans
    assert [item for span in spans for item in span.ids] == ids


def test_a21_a_stimulus_names_its_target_with_all_digits(tmp_path: Path) -> None:
    (tmp_path / "nr3d.csv").write_text(
        "assignmentid,stimulus_id,utterance,scan_id,instance_type,target_id,mentions_target_class,tokens,correct_guess,dataset\n"
        "1,scene0515_00-recycling_bin-2-41-40,the left bin,scene0515_00,recycling bin,41,True,"
        "\"['the', 'left', 'bin']\",True,nr3d\n"
    )
    (sample,) = referit3d.convert(questions=tmp_path / "nr3d.csv").samples
    assert sample.target_ids == ("41",) and set(sample.meta["same_class_ids"]) == {"41", "40"}


def _scanrefer(tmp_path: Path, **row: Any) -> dict[str, Path]:
    """One description of one object, with the scan's true objects as convert scannet writes them."""
    scene = Scene(
        "scene0000_00",
        (Object("7", "trash_can", (0, 0, 0), (1, 1, 1)), Object("9", "bed", (3, 0, 0), (1, 1, 1))),
        id_space="scannet",
    )
    save_scenes(tmp_path / "scenes.jsonl", [scene])
    given = {"scene_id": "scene0000_00", "object_id": "7", "object_name": "trash_can", "ann_id": "0", "description": "a can"}
    return {"descriptions": _write(tmp_path / "rows.json", [{**given, **row}]), "truth": tmp_path / "scenes.jsonl"}


def test_a22_rows_of_scans_that_are_not_there_are_listed(tmp_path: Path) -> None:
    files = _scanrefer(tmp_path)
    rows = read_json(files["descriptions"])
    _write(files["descriptions"], rows + [{**rows[0], "scene_id": f"scene{k:04d}_02", "ann_id": str(k)} for k in (0, 155)])
    with pytest.raises(GrandError, match="no true boxes for this scan"):
        scanrefer.convert(**files)
    rejects = Rejects(skip_bad=True)
    assert len(scanrefer.convert(**files, rejects=rejects).samples) == 1
    assert rejects.counts() == {"unknown target": 2}
    assert [row["row"]["scene_id"] for row in rejects.rows] == ["scene0000_02", "scene0155_02"]


def test_a23_scenes_come_from_the_rows_not_from_a_list_of_scans(real: Real) -> None:
    data = scanrefer.convert(
        descriptions=real("scanrefer/val_descriptions_dev.json"),
        truth=real("scanrefer/val_ground_truth_objects.json"),
        proposals=real("mask3d/scannet_val_proposals.json"),
        ids=real("scanrefer/object_id_to_graph_key_dev.json"),
    )
    assert len(data.scenes) == 70 and all(name.endswith("_00") for name in data.scenes)
    assert set(data.scenes) == {sample.scene_id for sample in data.samples}
    assert len(real("scannet/scannetv2_val.txt").read_text().split()) == 312


def test_a24_scans_of_a_room_are_never_parted_between_training_and_validation() -> None:
    from grand3d.mixture import room_of, split_of

    assert room_of("scene0011_00") == room_of("scene0011_01") == "scene0011" != room_of("scene0012_00")
    for room in range(300):
        assert len({split_of(f"scene{room:04d}_{scan:02d}") for scan in range(3)}) == 1


@pytest.mark.parametrize(
    ("scene_id", "message"),
    [
        (0, "scene_id is 0, expected text"),
        ("0", "no true boxes for this scan"),
        ("scannet/scene0000_00", "no true boxes for this scan"),
        ("Scene0000_00 ", "no true boxes for this scan"),
    ],
)
def test_a25_scene_ids_are_the_source_s_texts_and_nothing_like_them(tmp_path: Path, scene_id: Any, message: str) -> None:
    with pytest.raises(GrandError, match=f"row 0: .*{message}"):
        scanrefer.convert(**_scanrefer(tmp_path, scene_id=scene_id))
    assert scanrefer.convert(**_scanrefer(tmp_path)).samples[0].scene_id == "scene0000_00"


def test_scans_as_published_are_the_true_objects_of_scanrefer(tmp_path: Path) -> None:
    data = scanrefer.convert(**_scanrefer(tmp_path))
    assert data.scenes["scene0000_00"]["7"].category == "trash can" and data.samples[0].target_ids == ("7",)
    with pytest.raises(GrandError, match="object 9 is called 'trash_can', its true box 'bed'"):
        scanrefer.convert(**_scanrefer(tmp_path, object_id="9"))
    with pytest.raises(GrandError, match="has ids of 'scannet', expected 'mask3d'"):
        scanrefer.convert(**_scanrefer(tmp_path), proposals=tmp_path / "scenes.jsonl")


def test_graphs_of_referred_objects_are_numbered_by_rank_for_all_528_rows(real: Real, tmp_path: Path) -> None:
    """The rank rule gives every row an object of its own name; ScanNet's ids taken for keys do for few, and are refused."""
    files = {
        "descriptions": real("scanrefer/scanrefer_format_sample_dev.json"),
        "truth": real("scanrefer/val_ground_truth_objects.json"),
    }
    data = scanrefer.convert(**files, ids=real("scanrefer/object_id_to_graph_key_dev.json"))
    for sample in data.samples:
        assert data.scenes[sample.scene_id][sample.target_ids[0]].category == sample.meta["object_name"].replace("_", " ")
    assert len(data.samples) == 528
    graph = read_json(files["truth"])
    naive = [graph[s.scene_id].get(f"obj_{s.target_ids[0]}", {}).get("category") == s.meta["object_name"] for s in data.samples]
    assert sum(naive) < len(naive) / 3
    ids = read_json(real("scanrefer/object_id_to_graph_key_dev.json"))
    table = {scene: {key: f"obj_{key}" for key in keys} for scene, keys in ids.items()}
    with pytest.raises(GrandError, match="obj_k is a rank, not ScanNet's id"):
        scanrefer.convert(**files, ids=_write(tmp_path / "naive.json", table))


def test_frames_of_scenes_and_truth_are_never_mixed(tmp_path: Path, toy_scene: Scene, toy_proposals: Scene) -> None:
    raw = Scene(toy_scene.scene_id, toy_scene.objects, id_space="synthetic", frame="raw")
    sample = Sample("s", "toy_room", "object_reference", "the desk", target_ids=("0",))
    save_data(tmp_path / "data", Data({"toy_room": toy_proposals}, (sample,), {"toy_room": raw}))
    with pytest.raises(GrandError, match=r"in the frame 'axis_aligned', truth.jsonl in 'raw', expected the same"):
        load_data(tmp_path / "data")
    rejects = Rejects(skip_bad=True)
    check_data(tmp_path / "data", rejects)
    assert rejects.counts()["frames differ"] == 1


BOM = "\ufeff"


def test_i01_a_byte_order_mark_changes_nothing_and_one_within_a_text_stays(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(BOM + '{"a": 1}\n' + BOM + '{"a": "x\ufeffy"}\n', encoding="utf-8")
    assert list(read_jsonl(tmp_path / "a.jsonl", lambda row: row)) == [{"a": 1}, {"a": "x\ufeffy"}]
    (tmp_path / "a.json").write_text(BOM + '[{"category": "desk", "box": [0, 0, 0, 1, 1, 1]}]', encoding="utf-8")
    (tmp_path / "a.csv").write_text(BOM + "category,x,y,z,dx,dy,dz\ndesk,0,0,0,1,1,1\n", encoding="utf-8")
    for name in ("a.json", "a.csv"):
        assert boxes.convert(boxes=tmp_path / name).scenes["a"].objects[0].category == "desk"


def test_i02_broken_lines_are_listed_by_number_and_skipped_only_if_asked(tmp_path: Path) -> None:
    lines = ['{"a": 1}\r', "", '{"a": 2}{"a": 3}', '{"a": "\0"}', '{"a": 4}', '{"a": 5']
    (tmp_path / "a.jsonl").write_bytes("\n".join(lines).encode())
    rejects = Rejects(skip_bad=True)
    assert list(read_jsonl(tmp_path / "a.jsonl", lambda row: row, rejects)) == [{"a": 1}, {"a": 4}]
    assert [row["where"].rpartition(":")[2] for row in rejects.rows] == ["3", "4", "6"]
    with pytest.raises(GrandError, match=r"jsonl:3: .*two objects on one line"):
        list(read_jsonl(tmp_path / "a.jsonl", lambda row: row))


def test_i04_what_a_file_is_is_told_by_its_content(tmp_path: Path) -> None:
    rows = b'[{"category": "desk", "box": [0, 0, 0, 1, 1, 1]}]'
    for name, raw in (("gz.json", gzip.compress(rows)), ("plain.json", rows)):
        (tmp_path / name).write_bytes(raw)
        assert boxes.convert(boxes=tmp_path / name).scenes
    (tmp_path / "lines.json").write_text('{"a": 1}\n{"a": 2}\n')
    with pytest.raises(GrandError, match="it looks like JSON lines, where one JSON document is expected"):
        read_json(tmp_path / "lines.json")
    (tmp_path / "document.jsonl").write_text('[\n{"a": 1}\n]\n')
    with pytest.raises(GrandError, match="looks like one JSON document, where JSON lines are expected"):
        list(read_jsonl(tmp_path / "document.jsonl", lambda row: row))


def test_i08_a_file_of_lines_is_read_one_line_at_a_time(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        for k in range(40_000):
            file.write(json.dumps({"k": k, "text": "x" * 200}) + "\n")
    tracemalloc.start()
    count = sum(1 for _ in read_jsonl(path, lambda row: row))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000 and peak < 1_000_000 < path.stat().st_size


OWN = ["a <p>b</p> [<obj_1>]", "} ; <obj_9>: {", "</p>", "<obj_0> 1 2 3 4 5 6", "'", '"', "\\", "x\\ny"]


def _labels(real: Real) -> list[str]:
    lines = real("scannet/scannet-labels.combined.v1-2017.LouYJ.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [" ".join(line.split("\t")[1].split()) for line in lines if line.strip()]


@pytest.mark.parametrize("form", FORMS)
def test_i09_hostile_labels_read_back_and_forge_nothing(real: Real, form: str) -> None:
    labels = [label for label in dict.fromkeys([*_labels(real), *OWN]) if label]
    assert len(labels) > 1000 and "stairs (exit)" in labels
    for start in range(0, len(labels), 100):
        part = labels[start : start + 100]
        objects = tuple(Object(str(k), label, (k, 0, 0), (0.5, 0.5, 0.5)) for k, label in enumerate(part))
        text = write_scene(Scene("s", objects), form)
        if form != "coord":  # whose range ends before 100 m: its places are rounded more
            assert [item.category for item in read_scene(text.text, form).objects] == part
        if form != "grand":  # 3D-GRAND's own text writes labels as they are, and ids only before a brace
            assert not markup.parse(text.text).spans
