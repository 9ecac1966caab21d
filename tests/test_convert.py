from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import markup
from grand3d.cli import main
from grand3d.convert import CONVERTERS, grand3d, graphs, pope, scanrefer
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, load_data, save_data


def _write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def _box(category: str, x: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"category": category, "centroid": [x, 0, 0.5], "extent": [1, 1, 1], "score": 1.0, **more}


def test_sources_without_a_published_file_at_hand_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--list"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == list(CONVERTERS)
    at_hand = {"scanrefer", "pope", "vigil3d", "sqa3d", "scannet", "mask3d", "boxes", "ply", "front3d"}
    assert {name for name, line in lines.items() if "from documentation" not in line} == at_hand


def test_converters_have_help_for_every_argument() -> None:
    for module in map(importlib.import_module, CONVERTERS.values()):
        arguments = inspect.signature(module.convert).parameters
        assert [*module.INPUTS, "rejects"] == list(arguments)
        assert all(p.kind is p.KEYWORD_ONLY for p in arguments.values())


# scene graphs


def test_read_graphs_takes_the_number_of_obj_k_as_id_and_other_keys_as_they_are(tmp_path: Path) -> None:
    path = _write(tmp_path / "g.json", {"a": {"obj_0": _box("desk"), "obj_12": _box("bed"), "dining chair-2": _box("chair")}})
    scene = graphs.read_graphs(path, "mask3d")["a"]
    assert scene.object_ids == ("0", "12", "dining chair-2")
    assert (scene.id_space, scene.objects[0].score) == ("mask3d", 1.0)
    assert graphs.read_graphs(path, "mask3d", scored=False)["a"].objects[0].score is None


@pytest.mark.parametrize(
    ("graph", "word"),
    [
        ([], "object of objects"),
        ({"obj_0": 3}, "object 'obj_0': expected a JSON object"),
        ({"obj_0": {"centroid": [0, 0, 0], "extent": [1, 1, 1]}}, "category is missing"),
        ({"obj_0": {"category": "desk", "centroid": [0, 0, 0]}}, "extent is missing"),
        ({"obj_0": _box("desk", float("nan"))}, "finite"),
        ({"obj_0": _box("desk") | {"extent": [1, -1, 1]}}, "every side"),
        ({"obj_0": _box("desk") | {"score": 2}}, "0 to 1"),
        ({"a<b": _box("desk")}, "expected visible text"),
        ({"obj_7": _box("desk"), "7": _box("desk")}, "occurs twice"),
    ],
)
def test_read_graphs_with_a_broken_scene_raises_or_keeps_the_others(tmp_path: Path, graph: Any, word: str) -> None:
    path = _write(tmp_path / "g.json", {"bad": graph, "good": {"obj_0": _box("desk")}})
    with pytest.raises(GrandError, match=word) as caught:
        graphs.read_graphs(path, "mask3d")
    assert "'bad'" in str(caught.value)
    rejects = Rejects(skip_bad=True)
    assert list(graphs.read_graphs(path, "mask3d", rejects=rejects)) == ["good"]
    assert len(rejects.rows) == 1


# ScanRefer: the scan refers to ScanNet objects 4, 9 and 20, so the graph has obj_0, obj_1, obj_2


@pytest.fixture
def scan(tmp_path: Path) -> dict[str, Path]:
    rows = [
        {"scene_id": "scene1", "object_id": "20", "object_name": "trash_can", "ann_id": "3", "description": "the bin."},
        {"scene_id": "scene1", "object_id": "4", "object_name": "desk", "ann_id": "0", "description": "the desk."},
        {"scene_id": "scene1", "object_id": "9", "object_name": "chair", "ann_id": "0", "description": "the chair."},
        {"scene_id": "scene1", "object_id": "20", "object_name": "trash_can", "ann_id": "1", "description": "the bin."},
    ]
    truth = {"scene1": {"obj_0": _box("desk", 1), "obj_1": _box("chair", 2), "obj_2": _box("trash_can", 3)}}
    proposals = {"scene1": {"obj_0": _box("bin", 3.1, score=0.9), "obj_1": _box("desk", 1, score=0.4)}, "scene2": {}}
    return {
        "descriptions": _write(tmp_path / "descriptions.json", rows),
        "truth": _write(tmp_path / "truth.json", truth),
        "proposals": _write(tmp_path / "proposals.json", proposals),
    }


IDS = {"scene1": {"4": "obj_0", "9": "obj_1", "20": "obj_2"}}


def _edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text())
    _write(path, change(value) or value)


def test_convert_scanrefer_gives_the_k_th_true_box_to_the_k_th_referred_id(scan: dict[str, Path], tmp_path: Path) -> None:
    data = scanrefer.convert(**scan)
    assert [s.sample_id for s in data.samples] == ["scene1_20_3", "scene1_4_0", "scene1_9_0", "scene1_20_1"]
    assert data.truth is not None and data.truth["scene1"].id_space == "scannet"
    assert {o.object_id: (o.category, o.centroid[0]) for o in data.truth["scene1"].objects} == {
        "4": ("desk", 1),
        "9": ("chair", 2),
        "20": ("trash can", 3),
    }
    assert data.samples[0].meta == {"object_name": "trash_can", "ann_id": "3"}
    assert list(data.scenes) == ["scene1"] and data.scenes["scene1"].id_space == "mask3d"
    save_data(tmp_path / "data", data)
    assert load_data(tmp_path / "data") == data


def test_convert_scanrefer_with_the_id_map_gives_the_same_data(scan: dict[str, Path], tmp_path: Path) -> None:
    assert scanrefer.convert(**scan, ids=_write(tmp_path / "ids.json", IDS)) == scanrefer.convert(**scan)


def test_convert_scanrefer_without_proposals_shows_the_true_boxes(scan: dict[str, Path]) -> None:
    del scan["proposals"]
    data = scanrefer.convert(**scan)
    assert data.truth is None
    assert data.scenes["scene1"].object_ids == ("4", "9", "20")


def test_convert_scanrefer_of_the_short_list_numbers_the_rows_of_an_object(scan: dict[str, Path]) -> None:
    keys = ("scene_id", "object_id", "description")
    _edit(scan["descriptions"], lambda rows: [{k: row[k] for k in keys} | {"object_id": int(row["object_id"])} for row in rows])
    data = scanrefer.convert(**scan)
    assert [s.sample_id for s in data.samples] == ["scene1_20_0", "scene1_4_0", "scene1_9_0", "scene1_20_1"]
    assert data.samples[0].target_ids == ("20",)


def test_convert_scanrefer_of_a_part_of_the_split_needs_the_id_map(scan: dict[str, Path], tmp_path: Path) -> None:
    _edit(scan["descriptions"], lambda rows: rows[:2])
    with pytest.raises(GrandError, match="the rank of an id is not known"):
        scanrefer.convert(**scan)
    rejects = Rejects(skip_bad=True)
    with pytest.raises(GrandError, match=r"descriptions\.json: .* all were rejected \(2 x unknown target\); the first: .*row 0"):
        scanrefer.convert(**scan, rejects=rejects)
    assert rejects.counts() == {"unknown target": 2}
    data = scanrefer.convert(**scan, ids=_write(tmp_path / "ids.json", IDS))
    assert data.truth is not None and data.truth["scene1"]["20"].centroid[0] == 3


@pytest.mark.parametrize(
    "table",
    [
        {"4": "obj_4", "9": "obj_9", "20": "obj_20"},  # the naive map
        {"4": "obj_0", "20": "obj_1", "9": "obj_2"},  # ranks of the ids as texts
        {"4": "obj_0", "9": "obj_1"},
        {"4": 0, "9": 1, "20": 2},
        {"a": "obj_0"},
        ["obj_0"],
    ],
)
def test_convert_scanrefer_with_a_map_that_is_not_the_rank_is_refused(scan: dict[str, Path], tmp_path: Path, table: Any) -> None:
    path = _write(tmp_path / "ids.json", {"scene1": table})
    with pytest.raises(GrandError, match="scene1"):
        scanrefer.convert(**scan, ids=path, rejects=Rejects(skip_bad=True))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"object_id": None}, "bad id"),
        ({"object_id": "desk"}, "bad id"),
        ({"object_id": True}, "bad id"),
        ({"description": 3}, "wrong type"),
        ({"scene_id": ["scene1"]}, "wrong type"),
        ({"scene_id": "scene9"}, "unknown target"),
        ({"object_id": "21"}, "unknown target"),
        ({"object_name": "lamp"}, "label differs"),
        ({"object_name": 5}, "wrong type"),
        ({"ann_id": "1"}, "id twice"),
    ],
)
def test_convert_scanrefer_with_one_bad_row_raises_or_counts_it(
    scan: dict[str, Path], tmp_path: Path, change: dict[str, Any], cause: str
) -> None:
    scan["ids"] = _write(tmp_path / "ids.json", IDS)
    _edit(scan["descriptions"], lambda rows: rows[0].update(change) or rows.reverse())
    with pytest.raises(GrandError, match=r"descriptions\.json: row 3"):
        scanrefer.convert(**scan)
    rejects = Rejects(skip_bad=True)
    assert len(scanrefer.convert(**scan, rejects=rejects).samples) == 3
    assert rejects.counts() == {cause: 1}


def test_convert_scanrefer_with_a_scan_without_proposals_counts_its_rows(scan: dict[str, Path]) -> None:
    _edit(scan["proposals"], lambda graph: graph.pop("scene1") and None)
    rejects = Rejects(skip_bad=True)
    with pytest.raises(GrandError, match="all were rejected"):
        scanrefer.convert(**scan, rejects=rejects)
    assert rejects.counts() == {"unknown scene": 4}


def _real_scanrefer(real: Callable[[str], Path], name: str, ids: bool) -> Data:
    return scanrefer.convert(
        descriptions=real(f"scanrefer/{name}"),
        truth=real("scanrefer/val_ground_truth_objects.json"),
        proposals=real("mask3d/scannet_val_proposals.json"),
        ids=real("scanrefer/object_id_to_graph_key_dev.json") if ids else None,
    )


def test_convert_scanrefer_real_descriptions_rank_rule_and_map_agree(real: Callable[[str], Path]) -> None:
    data = _real_scanrefer(real, "val_descriptions_dev.json", ids=True)
    assert (len(data.samples), len(data.scenes), len({s.sample_id for s in data.samples})) == (4955, 70, 4955)
    assert _real_scanrefer(real, "val_descriptions_dev.json", ids=False) == data


def test_convert_scanrefer_real_rows_all_bear_the_label_of_their_true_box(real: Callable[[str], Path]) -> None:
    data = _real_scanrefer(real, "scanrefer_format_sample_dev.json", ids=True)  # a differing label would raise
    assert len(data.samples) == 528
    assert all(s.meta["object_name"] for s in data.samples)


# 3D-GRAND


@pytest.fixture
def house(tmp_path: Path) -> Path:
    keys = ("dining table-1", "dining chair-2", "three-seat/multi-seat sofa-7", "obj_3")
    return _write(tmp_path / "graphs.json", {"house@Living-1": {key: _box(key.split("-")[0]) for key in keys}})


def _talk(*values: str, **more: Any) -> dict[str, Any]:
    turns = [{"from": ("human", "gpt")[i % 2], "value": value} for i, value in enumerate(values)]
    return {"id": "row", "scene_id": "house@Living-1", "conversations": turns, **more}


def _convert_talk(house: Path, *rows: Any, **more: Any) -> Data:
    return grand3d.convert(graphs=house, conversations=_write(house.parent / "talk.json", list(rows)), **more)


def test_convert_grand3d_keeps_grounded_answers_with_names_as_ids(house: Path) -> None:
    answer = "<p>sofa</p>[<three-seat/multi-seat sofa-7>] and <p>things</p>[<dining chair-2>, <obj_3>]"
    data = _convert_talk(house, _talk("Describe the room.\n<image>", answer, "And?", "No more."), task="scene_description")
    assert [(s.sample_id, s.task, s.text) for s in data.samples] == [
        ("row", "scene_description", "Describe the room."),
        ("row#1", "scene_description", "And?"),
    ]
    spans = markup.parse(data.samples[0].answer).spans
    assert [s.ids for s in spans] == [("three-seat/multi-seat sofa-7",), ("dining chair-2", "3")]


@pytest.mark.parametrize("close", ["</refer_expression>", "<refer_expression>"])
def test_convert_grand3d_of_a_reference_keeps_its_detailed_grounding_as_text(house: Path, close: str) -> None:
    detailed = "the <p>chair</p>[<dining chair-2>] at the <p>table</p>[<dining table-1>]"
    question = f"Ground these sentences: <refer_expression>the chair at the table{close}"
    answer = (
        f"<detailed_grounding>{detailed}</detailed_grounding>"
        "<refer_expression_grounding><p>chair</p>[<dining chair-2>]</refer_expression_grounding>"
    )
    (sample,) = _convert_talk(house, _talk(question, answer)).samples
    assert (sample.task, sample.text, sample.target_ids) == ("object_reference", detailed, ("dining chair-2",))


def test_convert_grand3d_takes_the_target_that_the_row_names(house: Path) -> None:
    question = "<refer_expression>the chair</refer_expression>"
    row = _talk(question, "anything", referred_object_id="2", referred_object_text="dining chair")
    (sample,) = _convert_talk(house, row).samples
    assert (sample.text, sample.target_ids) == ("the chair", ("dining chair-2",))


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (_talk("Hello?", "<p>lamp</p>[<lamp-9>]"), "unknown id"),
        (_talk("Hello?"), "wrong turns"),
        (_talk(), "wrong turns"),
        (_talk("Hello?", "Hi.") | {"scene_id": "elsewhere"}, "unknown scene"),
        (_talk("Hello?", "Hi.") | {"id": 3}, "wrong type"),
        (_talk("Hello?", "Hi.") | {"conversations": [3, 4]}, "wrong turns"),
        (_talk("<refer_expression>x</refer_expression>", "the chair"), "no target"),
        (_talk("<refer_expression>x</refer_expression>", "y", referred_object_id="77"), "unknown target"),
        (_talk("Hello?", "Hi."), "id twice"),
        ("row", "wrong type"),
    ],
)
def test_convert_grand3d_with_one_bad_row_raises_or_counts_it(house: Path, row: Any, cause: str) -> None:
    good = _talk("Hello?", "Hi.")
    with pytest.raises(GrandError, match=r"talk\.json: row 1"):
        _convert_talk(house, good, row)
    rejects = Rejects(skip_bad=True)
    assert len(_convert_talk(house, good, row, rejects=rejects).samples) == 1
    assert rejects.counts() == {cause: 1}


def test_convert_grand3d_of_graphs_alone_gives_scenes(house: Path) -> None:
    data = grand3d.convert(graphs=house)
    assert (list(data.scenes), data.samples) == (["house@Living-1"], ())
    with pytest.raises(GrandError, match="expected one of"):
        grand3d.convert(graphs=house, task="qa")


# 3D-POPE


def _question(number: int, noun: str, answer: str = "no", template: str = "template_1") -> dict[str, Any]:
    return {
        "id": f"scene1$random_{template}${number}",
        "scene_id": "scene1",
        "conversations": [{"from": "human", "value": f"Are there any {noun} in the room?\n<image>"}],
        "ground_truth_answer": answer,
        "question_type": "random",
        "template": template,
    }


def test_convert_pope_of_a_folder_reads_all_its_files(tmp_path: Path, scan: dict[str, Path]) -> None:
    folder = tmp_path / "questions"
    folder.mkdir()
    _write(folder / "a.json", [_question(0, "desks", "yes"), _question(1, "mice")])
    _write(folder / "b.json", [_question(0, "desks", "yes", "template_2")])
    data = pope.convert(questions=folder, proposals=scan["proposals"])
    assert [(s.text, s.answer, s.meta["template"]) for s in data.samples] == [
        ("Are there any desks in the room?", "Yes", "template_1"),
        ("Are there any mice in the room?", "No", "template_1"),
        ("Are there any desks in the room?", "Yes", "template_2"),
    ]
    assert data.samples[0].sample_id == "scene1$random_template_1$0"
    assert list(data.scenes) == ["scene1"]
    with pytest.raises(GrandError, match="holds no"):
        (tmp_path / "empty").mkdir()
        pope.convert(questions=tmp_path / "empty", proposals=scan["proposals"])


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (_question(0, "mice"), "id twice"),
        (_question(1, "mice") | {"scene_id": "scene8"}, "unknown scene"),
        (_question(1, "mice") | {"ground_truth_answer": "maybe"}, "bad answer"),
        (_question(1, "mice") | {"ground_truth_answer": None}, "wrong type"),
        (_question(1, "mice") | {"conversations": []}, "wrong turns"),
        (_question(1, "mice") | {"conversations": [{"from": "human"}]}, "missing key"),
        (None, "wrong type"),
    ],
)
def test_convert_pope_with_one_bad_row_raises_or_counts_it(tmp_path: Path, scan: dict[str, Path], row: Any, cause: str) -> None:
    path = _write(tmp_path / "q.json", [_question(0, "desks"), row])
    with pytest.raises(GrandError, match=r"q\.json: row 1"):
        pope.convert(questions=path, proposals=scan["proposals"])
    rejects = Rejects(skip_bad=True)
    assert len(pope.convert(questions=path, proposals=scan["proposals"], rejects=rejects).samples) == 1
    assert rejects.counts() == {cause: 1}


def test_convert_of_a_file_that_is_no_list_says_so(tmp_path: Path, scan: dict[str, Path], house: Path) -> None:
    wrong = _write(tmp_path / "wrong.json", {"rows": []})
    with pytest.raises(GrandError, match="expected a list of rows"):
        pope.convert(questions=wrong, proposals=scan["proposals"])
    with pytest.raises(GrandError, match="expected a list of rows"):
        scanrefer.convert(descriptions=wrong, truth=scan["truth"])
    with pytest.raises(GrandError, match="expected one JSON object of scenes"):
        grand3d.convert(graphs=_write(tmp_path / "list.json", []))


def test_split_graphs_gives_the_rejected_ids_whatever_else_was_rejected(tmp_path: Path) -> None:
    path = _write(tmp_path / "g.json", {"a": {"obj_0": _box("desk")}, "b": 3})
    rejects = Rejects(skip_bad=True)
    rejects.add(str(path), "of the whole file")
    scenes, rejected = graphs.split_graphs(path, "mask3d", rejects=rejects)
    assert list(scenes) == ["a"] and rejected == {"b"}


def test_rows_of_a_rejected_scene_are_counted_by_that_and_the_scene_is_kept_whole(tmp_path: Path) -> None:
    broken = {"obj_0": _box("desk") | {"extent": [1, -1, 1]}}
    graph = _write(tmp_path / "g.json", {"a": {"obj_0": _box("desk")}, "b": broken})
    talk = [{"from": "human", "value": "Is there a desk?"}, {"from": "gpt", "value": "Yes"}]
    talks = _write(tmp_path / "c.json", [{"id": i, "scene_id": i, "conversations": talk} for i in ("a", "b", "c")])
    asked = {"conversations": talk[:1], "ground_truth_answer": "yes", "question_type": "random", "template": "t"}
    asked_file = _write(tmp_path / "q.json", [asked | {"id": i, "scene_id": i} for i in ("a", "b", "c")])
    described = [{"scene_id": i, "object_id": "4", "description": "the desk"} for i in ("a", "b", "c")]
    described_file = _write(tmp_path / "d.json", described)
    for convert in (
        lambda rejects: grand3d.convert(graphs=graph, conversations=talks, rejects=rejects),
        lambda rejects: pope.convert(questions=asked_file, proposals=graph, rejects=rejects),
        lambda rejects: scanrefer.convert(descriptions=described_file, truth=graph, rejects=rejects),
    ):
        rejects = Rejects(skip_bad=True)
        assert [sample.scene_id for sample in convert(rejects).samples] == ["a"]
        other = "unknown target" if convert(Rejects(skip_bad=True)).samples[0].task == "object_reference" else "unknown scene"
        assert rejects.counts() == {"negative side": 1, "its scene was rejected": 1, other: 1}
        assert [row["row"] for row in rejects.rows if row["cause"] == "negative side"] == [{"b": broken}]


@pytest.mark.parametrize("source", ["vigil3d", "referit3d"])
def test_a_table_that_is_no_csv_is_refused_by_name(source: str, tmp_path: Path) -> None:
    module = importlib.import_module(CONVERTERS[source])
    path = tmp_path / "rows.csv"
    path.write_text('{"a": {"b": 1}, "c": [1]}')  # csv itself stumbles over the very first line
    files = {name: path for name, p in inspect.signature(module.convert).parameters.items() if p.default is p.empty}
    with pytest.raises(GrandError, match=r"rows\.csv.*expected a table"):
        module.convert(**files)
