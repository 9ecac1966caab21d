"""What check tells of data that are well formed but doubtful."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.audit import audit, leaks
from grand3d.cli import main
from grand3d.sample import Data, Sample, save_data
from grand3d.scene import Object, Scene
from grand3d.synth import make_data


def box(name: str, label: str, x: float, side: float = 1.0, z: float = 1.0) -> Object:
    return Object(name, label, (x, 0.0, 0.5), (side, side, z))


def counts(data: Data) -> dict[str, int]:
    return {kind: note["count"] for kind, note in audit(data).items()}


def test_boxes_that_no_room_holds_and_things_seen_twice() -> None:
    objects = (box("1", "bed", 0), box("2", "Bed", 0.02), box("3", "sofa", 0), box("4", "bed", 3), box("5", "rug", 6, z=0))
    scene = Scene("s", (*objects, box("6", "wall", 9, side=31), box("7", "bin", 500)))
    found = audit(Data({"s": scene}, ()))
    assert {kind: note["count"] for kind, note in found.items()} == {
        **{"thing seen twice": 1, "flat box": 1, "box larger than a room": 2},
    }
    assert found["thing seen twice"]["examples"] == ["scene s: bed 1 and 2"]


def test_targets_that_no_proposal_reaches_and_labels_that_none_bears() -> None:
    scene = Scene("s", (box("p0", "chair", 0), box("p1", "table", 5)))
    truth = Scene("s", (box("1", "chair", 0.1), box("2", "couch", 9), box("3", "table", 5)))
    samples = tuple(
        Sample(f"q{k}", "s", "object_reference", f"thing {k}", target_ids=ids)
        for k, ids in enumerate((("1",), ("2",), ("3", "2"), ()))
    )
    data = Data({"s": scene}, samples, {"s": truth})
    assert counts(data) == {"target that no proposal reaches": 2, "target label that no proposal bears": 1}


def test_one_text_with_two_answers() -> None:
    scene = Scene("s", (box("1", "chair", 0), box("2", "chair", 5)))
    rows = (("a", "The  chair", ("1",)), ("b", "the <p>chair</p>[<2>]", ("2",)), ("c", "the chair", ("1",)), ("d", "it", ("1",)))
    samples = tuple(Sample(name, "s", "object_reference", text, target_ids=ids) for name, text, ids in rows)
    assert counts(Data({"s": scene}, samples)) == {"one text, two answers": 1, "text asked twice": 1}


def test_leaks_are_found_by_room_not_by_scan() -> None:
    def data(*names: str) -> Data:
        return Data({name: Scene(name, (box("1", name, 0),)) for name in names}, ())

    found = leaks(data("scene0011_00", "scene0012_00", "office"), data("scene0011_01", "scene0013_00", "office", "office_2"))
    assert found["room in both"]["count"] == 2
    assert found["room in both"]["examples"] == [
        "scene0011_01 is a scan of a room of the other data, scene0011_00",
        "office is in both",
    ]
    assert leaks(data("scene0011_00"), data("scene0110_00")) == {}


def test_generated_rooms_have_nothing_doubtful_but_detections_of_one_thing() -> None:
    assert set(counts(make_data(20, 3, 24))) <= {"thing seen twice", "text asked twice"}


def test_check_tells_and_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene("scene0001_00", (box("1", "rug", 0, z=0), box("2", "bed", 4)))
    data = Data({scene.scene_id: scene}, (Sample("a", scene.scene_id, "object_reference", "rug", target_ids=("1",)),))
    save_data(tmp_path / "train", data)
    other = Scene("scene0001_01", scene.objects)
    save_data(
        tmp_path / "held",
        Data({other.scene_id: other}, (Sample("b", other.scene_id, "object_reference", "rug", target_ids=("1",)),)),
    )
    assert main(["check", str(tmp_path / "held"), "--against", str(tmp_path / "train")]) == 0
    out = capsys.readouterr().out
    assert "doubtful: 1 x flat box\n  scene scene0001_01: rug 1: its sides are 1.00 x 1.00 x 0.00 m" in out
    assert f"with {tmp_path / 'train'}: 1 x room in both" in out
    (tmp_path / "c.yaml").write_text(f"data: {{train: [{{path: {tmp_path / 'train'}}}], heldout: {tmp_path / 'held'}}}")
    assert main(["check", str(tmp_path / "c.yaml")]) == 0
    assert "1 x room in both" in capsys.readouterr().out
    assert main(["store", str(tmp_path / "o"), str(tmp_path / "train")]) == 0
    assert main(["check", str(tmp_path / "o")]) == 0
    assert "1 x flat box" in capsys.readouterr().out


def test_a_fifth_of_the_public_targets_is_out_of_reach(real: Callable[[str], Path]) -> None:
    """The upper bound of ScanRefer's best box, 80.5, told before anything is trained."""
    from grand3d.convert.scanrefer import convert

    files: dict[str, Any] = {
        "descriptions": real("scanrefer/val_descriptions_dev.json"),
        "truth": real("scanrefer/val_ground_truth_objects.json"),
        "ids": real("scanrefer/object_id_to_graph_key_dev.json"),
        "proposals": real("mask3d/scannet_val_proposals.json"),
    }
    found = counts(convert(**files))
    assert found["target that no proposal reaches"] == 964
    assert round(100 * (1 - 964 / 4955), 1) == 80.5


def test_rooms_under_other_names_are_known_by_their_boxes() -> None:
    one, far = (box("1", "bed", 0), box("2", "lamp", 3)), (box("1", "bed", 0), box("2", "lamp", 3.02))
    twins = Data({"a": Scene("a", one), "b": Scene("b", (box("x", "lamp", 3.001), one[0])), "c": Scene("c", far)}, ())
    assert audit(twins)["room under two names"] == {"count": 1, "examples": ["scene b is a, box for box"]}
    empty = Data({"d": Scene("d", ()), "e": Scene("e", ())}, ())
    assert audit(empty) == {} and leaks(empty, Data({"f": Scene("f", ())}, ())) == {}
    found = leaks(Data({"old": Scene("old", one)}, ()), twins)
    assert found == {
        "room in both under another name": {"count": 2, "examples": [f"{n} is old of the other data, box for box" for n in "ab"]}
    }
    assert set(leaks(twins, twins)) == {"room in both"}  # each told once


def test_check_writes_the_rows_with_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_data(tmp_path / "d", make_data(1, 1, 6))
    assert main(["check", str(tmp_path / "d"), "--rows", str(tmp_path / "rows")]) == 0
    assert (tmp_path / "rows").read_text() == ""
    with open(tmp_path / "d" / "samples.jsonl", "a") as file:
        file.write('{"sample_id": 7}\n{"half')
    assert main(["check", str(tmp_path / "d"), "--rows", str(tmp_path / "rows")]) == 2
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [row["cause"] for row in rows] == ["wrong type", "not JSON"] and rows[0]["row"] == {"sample_id": 7}
    (tmp_path / "c.yaml").write_text("")
    assert main(["check", str(tmp_path / "c.yaml"), "--rows", str(tmp_path / "rows")]) == 2
    assert "--rows belongs to the check of data, expected none" in capsys.readouterr().err
