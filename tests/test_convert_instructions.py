"""LEO's and Chat-Scene's annotation files: each form read, broken rows counted, nothing evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grand3d.convert import chatscene, leo
from grand3d.errors import GrandError
from grand3d.files import Rejects, write_json
from grand3d.sample import load_data, save_data


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    box = {"category": "wall", "centroid": [0, 0, 0], "extent": [1, 1, 1], "score": 0.5}
    write_json(tmp_path / "t.json", {"a1": dict.fromkeys(("1", "2", "12"), box)})
    return tmp_path / "t.json"


def read(tmp_path: Path, graph: Path, name: str, document: Any, rejects: Rejects | None = None) -> Any:
    write_json(tmp_path / f"{name}.json", document)
    return leo.convert(questions=tmp_path / f"{name}.json", truth=graph, rejects=rejects)


def test_leo_questions_name_their_objects(tmp_path: Path, graph: Path) -> None:
    rows = [
        {"Q": "Which colour?", "T": "wall-1, side wall-12", "A": [" white ", "white"]},
        {"Q": "How many?", "T": "", "A": ["two"]},
    ]
    rejects = Rejects(skip_bad=True)
    broken = [{"Q": "Where?", "T": "wall-7", "A": ["here"]}, {"Q": "", "A": ["x"]}, {"Q": "What?", "A": []}, 3]
    data = read(tmp_path, graph, "3rscan_qa_val", {"a1": {"query": "{}", "response": [*rows, *broken]}, "b": 4}, rejects)
    first, second = data.samples
    assert (first.target_ids, first.answer, first.meta["answers"]) == (("1", "12"), "white", ["white", "white"])
    assert second.target_ids == () and data.scenes["a1"].id_space == "3rscan" and len(rejects.rows) == 5
    save_data(tmp_path / "data", data)
    assert load_data(tmp_path / "data").samples == data.samples


def test_leo_every_answer_of_a_dialogue_is_a_sample_with_its_history(tmp_path: Path, graph: Path) -> None:
    said = ("Hello?", "Hello.", "Which wall?", "The white one.", "Why?")
    turns = [{"role": ("Human", "Robot")[k % 2], "content": text} for k, text in enumerate(said)]
    rejects = Rejects(skip_bad=True)
    data = read(tmp_path, graph, "3rscan_dialog_val", {"a1": {"response": [turns, turns[1:], []]}}, rejects)
    assert [(s.text, s.answer) for s in data.samples] == [("Hello?", "Hello."), ("Which wall?", "The white one.")]
    assert data.samples[1].meta["history"] == ["Hello?", "Hello."] and len(rejects.rows) == 2


def test_leo_plans_and_captions(tmp_path: Path, graph: Path) -> None:
    plan = {"a1": {"response": [{"instruction": "Tidy up", "plan": "1. Go.\n2. Tidy."}]}}
    assert read(tmp_path, graph, "3rscan_plan_val", plan).samples[0].task == "plan"
    query = "{'wall-2': {'relations': [], 'attribute': __import__('os')}, 'side wall-12': {'relations': []}}"
    sample = read(tmp_path, graph, "3rscan_scenecap_val", {"a1": [{"query": query, "response": "A room."}]}).samples[0]
    assert (sample.task, sample.answer, sample.meta["object_ids"]) == ("scene_description", "A room.", ["2", "12"])
    sample = read(tmp_path, graph, "3rscan_prompted", {"a1": {"side wall-12": [{"response": "It is white."}]}}).samples[0]
    assert (sample.task, sample.target_ids, sample.answer) == ("object_description", ("12",), "It is white.")
    sample = read(tmp_path, graph, "3rscan_scanscribe", [{"scan_id": "a1", "object_id": 2, "sentence": "White."}]).samples[0]
    assert sample.target_ids == ("2",)
    rows = [{"scan_id": "a1", "target_id": "1", "instance_type": "wall", "utterance": "the wall"}, {"scan_id": "a1", "other": 1}]
    rejects = Rejects(skip_bad=True)
    data = read(tmp_path, graph, "scanrefer_val", rows, rejects)
    assert data.samples[0].target_ids == ("1",) and data.scenes["a1"].id_space == "scannet"
    assert "expected those of one of LEO's files" in rejects.rows[0]["reason"]


def test_chatscene_rows_become_what_they_ask(tmp_path: Path, graph: Path) -> None:
    row = {"scene_id": "a1", "obj_id": 4, "prompt": "Which one is white?"}
    rows: list[dict[str, Any]] = [
        row | {"caption": "<OBJ012>."},
        row | {"caption": "Yes. <OBJ001> and <OBJ002>.", "eval_type": "mt"},
        row | {"caption": "No.", "eval_type": "zt_w_d"},
        row | {"prompt": "Describe <OBJ002>.", "ref_captions": ["It is white.", "A wall."], "iou": 0.6},
        row | {"ref_captions": ["two", "2"], "sqa_type": 2},
        row | {"prompt": "What is near <OBJ001>?", "caption": "The <OBJ002>, which is white."},
        row | {"caption": "<OBJ099>."},
        row | {"ref_captions": [1, 2], "eval_type": "mt"},
        row | {"caption": ""},
        row | {"scene_id": "b", "caption": "two"},
    ]
    write_json(tmp_path / "c.json", rows)
    rejects = Rejects(skip_bad=True)
    data = chatscene.convert(questions=tmp_path / "c.json", proposals=graph, rejects=rejects)
    kinds = [(sample.task, sample.target_ids) for sample in data.samples]
    references = [("object_reference", ids) for ids in (("12",), ("1", "2"), ())]
    assert kinds == [*references, ("object_description", ("2",)), ("question", ()), ("question", ("1", "2"))]
    assert data.samples[3].meta["answers"] == ["It is white.", "A wall."]
    assert data.samples[5].text == "What is near <p>object</p>[<1>]?" and "<p>object</p>[<2>]" in data.samples[5].answer
    assert len(rejects.rows) == 4 and data.scenes["a1"].objects[0].score == 0.5
    with pytest.raises(GrandError, match="convert multi3drefer reads them"):
        write_json(tmp_path / "c.json", rows[7:8])
        chatscene.convert(questions=tmp_path / "c.json", proposals=graph)
