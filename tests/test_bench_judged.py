"""Beacon3D and MMScan's questions and captions: their rules, judgements, and files with everything wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from referred import reply_text

from grand3d import scoring
from grand3d.bench import beacon3d, mmscan_caption, mmscan_qa
from grand3d.convert import beacon3d as read_beacon3d
from grand3d.convert import mmscan as read_mmscan
from grand3d.errors import GrandError
from grand3d.files import Rejects, write_json
from grand3d.sample import Data, Reply, Sample, load_data, save_data, save_replies
from grand3d.scene import Scene


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR's Java program takes seconds to start; tests/test_textmetrics.py runs it."""
    monkeypatch.setattr("grand3d.bench.texts.meteor", lambda *texts: None)


def row_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in report["rows"] if row["name"] == name)


# Beacon3D: two lamps in one scan; "lamp" stands in four chains, and is one sample.
def step(text: str, ids: str, tag: str) -> dict[str, Any]:
    return {"text": text, "obj_id": ids.split(), "tag": tag}


LAMP = step("Lamp", "7 8", "class")
CHAINS = {
    "7": {
        "chain_1": [step("Red lamp", "7", "class-appearance"), LAMP],
        "chain_2": [step("Lamp by the bed", "7", "class-spatial"), LAMP],
    },
    "8": {
        "chain_1": [step("Tall lamp", "8", "class-geometry"), LAMP],
        "chain_2": [step("Lamp at the door", "8", "class-spatial"), LAMP],
    },
}


def question(text: str, answer: str, tag: str, extra: int = 0) -> dict[str, Any]:
    return {"question": text, "answer": answer, "tag": tag, "extra_knowledge": extra}


WHERE = question("Which room is it?", "Bedroom", "spatial")
ASKED = {
    "7": {
        "grounding_text": [],
        "qa": [question("Is the lamp red?", "No", "appearance"), question("What is near it?", "Piano", "class"), WHERE],
    },
    "8": {
        "grounding_text": [],
        "qa": [question("How many like it?", "Two", "existence", 1), question("Any shade?", "Yes", "geometry"), WHERE],
    },
}


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    write_json(tmp_path / "g.json", {"scene0000_00": {"lamp": CHAINS}})
    write_json(tmp_path / "q.json", {"scene0000_00": {"lamp": ASKED}})
    return tmp_path


def test_beacon3d_repeated_text_is_one_sample_and_stands_in_every_chain(lamps: Path) -> None:
    data = read_beacon3d.convert(questions=lamps / "g.json")
    assert [sample.text for sample in data.samples] == ["Red lamp", "Lamp", "Lamp by the bed", "Tall lamp", "Lamp at the door"]
    shared = data.samples[1]
    assert shared.sample_id == "scene0000_00_7_chain_1_1_class" and shared.target_ids == ("7", "8")
    assert len(shared.meta["places"]) == 4 and data.scenes["scene0000_00"].id_space == "scannet"


def test_beacon3d_grounding_by_case_chain_and_object(lamps: Path) -> None:
    data = read_beacon3d.convert(questions=lamps / "g.json")
    right = {"Red lamp": 1, "Lamp": 0, "Lamp by the bed": True, "Tall lamp": 1, "Lamp at the door": False}
    write_json(lamps / "r.json", [{"correct": right[sample.text]} for sample in data.samples])  # in order, as the script has it
    report = beacon3d.score(data, beacon3d.read_replies(lamps / "r.json", data))
    figures = {row["name"]: row["accuracy"] for row in report["rows"]}
    assert figures["grounding: all"] == 60 and figures["grounding: class"] == 60
    assert figures["grounding: spatial"] == 50 and figures["grounding: geometry"] == 100
    assert "grounding: functionality" not in figures  # the released script divides by zero there
    assert figures["grounding: chain"] == 0 and figures["grounding: object"] == 50
    assert figures["grounding: chain, coarse wrong, fine right"] == 75
    replies = [Reply(s.sample_id, s.scene_id, reply_text("0"), s.target_ids) for s in data.samples]
    report = beacon3d.score(data, replies)
    assert row_of(report, "grounding: object")["accuracy"] == 100
    assert row_of(report, "grounding: all")["all of them"] == 80  # "Lamp" means two


def test_beacon3d_proposals_stand_for_the_true_object_they_overlap(lamps: Path) -> None:
    box = {"category": "lamp", "extent": [1, 1, 1], "centroid": [0, 0, 0]}
    write_json(lamps / "t.json", {"scene0000_00": {"7": box, "8": box | {"centroid": [5, 0, 0]}}})
    seen = {"obj_8": box | {"score": 0.9}, "obj_1": box | {"score": 0.8, "centroid": [9, 0, 0]}}  # 8 is where true object 7 is
    write_json(lamps / "p.json", {"scene0000_00": seen})
    data = read_beacon3d.convert(questions=lamps / "g.json", truth=lamps / "t.json", proposals=lamps / "p.json")
    texts = {"Red lamp": "0", "Tall lamp": "0", "Lamp": "1", "Lamp by the bed": "0", "Lamp at the door": "1"}
    replies = [Reply(s.sample_id, s.scene_id, reply_text(texts[s.text]), ("8", "1")) for s in data.samples]
    save_data(lamps / "data", data)
    save_replies(lamps / "replies.jsonl", replies)
    report = scoring.report("beacon3d", lamps / "data", lamps / "replies.jsonl")  # "lamp" means two objects
    right = {s.text: row["accuracy"] for s, row in zip(data.samples, report["samples"], strict=True)}
    assert right == {"Red lamp": 1, "Tall lamp": 0, "Lamp": 0, "Lamp by the bed": 1, "Lamp at the door": 0}


def answers(data: Data, *texts: str) -> list[Reply]:
    asked = [sample for sample in data.samples if sample.task == "question"]
    return [Reply(sample.sample_id, sample.scene_id, text) for sample, text in zip(asked, texts, strict=True)]


def test_beacon3d_binary_by_letters_gives_full_marks_for_nothing(lamps: Path) -> None:
    """The released script finds "no" in "piano" and in "I do not know", and an empty answer in every reference."""
    data = read_beacon3d.convert(questions=lamps / "q.json")
    report = beacon3d.score(data, answers(data, "I do not know", "", "bedroom", "two", "yes, it has"))
    by_text = {sample.text: row for sample, row in zip(data.samples, report["samples"], strict=True)}
    assert by_text["Is the lamp red?"]["score"] == 1 and by_text["Is the lamp red?"]["score, mended"] == 0
    assert by_text["What is near it?"]["score"] == 1 and by_text["What is near it?"]["score, mended"] == 0
    assert by_text["Any shade?"]["score"] == by_text["Any shade?"]["score, mended"] == 1
    assert (report["counts"]["unjudged"], report["counts"]["empty"]) == (1, 1)
    found = row_of(report, "questions: object")
    assert (found["score"], found["score, mended"], found["n"]) == (100, 50, 2)
    assert row_of(report, "questions: all")["n"] == 6  # the one that stands under both objects is a case of each


def test_beacon3d_judge_is_asked_last_and_its_output_is_read(lamps: Path) -> None:
    data = read_beacon3d.convert(questions=lamps / "q.json")
    replies = answers(data, "no", "a guitar", "sleeping room", "2", "none of it")
    rows = [
        {"obj_id": "scene0000_00-7", "question": "what is near it?", "score": 2},
        {"obj_id": "scene0000_00-8", "question": "which room is it?", "score": 4},
        {"obj_id": "scene0000_00-8", "question": "any shade?", "score": 9},
        {"question_id": "scene0000_00_7_0_appearance_0", "score": 1},
    ]
    write_json(lamps / "j.json", rows)
    with pytest.raises(GrandError, match="expected a question and its score from 1 to 5"):
        beacon3d.read_judge(lamps / "j.json")
    rejects = Rejects(skip_bad=True)
    judge = beacon3d.read_judge(lamps / "j.json", rejects)
    report = beacon3d.score(data, replies, judge=judge)
    assert len(rejects.rows) == 1 and report["counts"]["unjudged"] == 1  # "none of it" for yes
    scores = {sample.text: row["score, mended"] for sample, row in zip(data.samples, report["samples"], strict=True)}
    assert scores == {
        "Is the lamp red?": 1,
        "What is near it?": 0.25,
        "Which room is it?": 0.75,
        "How many like it?": 1,
        "Any shade?": 0,
    }
    assert row_of(report, "questions: object")["score, mended"] == 0


def test_beacon3d_both_together_tell_what_rests_on_grounding(lamps: Path) -> None:
    data = read_beacon3d.convert(questions=lamps / "g.json", more=lamps / "q.json")
    save_data(lamps / "data", data)
    grounded = [Reply(s.sample_id, s.scene_id, reply_text("0"), ("7",)) for s in data.samples if s.task == "object_reference"]
    report = beacon3d.score(data, [*grounded, *answers(data, "yes", "piano", "bedroom", "two", "yes")])
    assert row_of(report, "grounding: object")["accuracy"] == 50  # 7, not 8
    assert (row_of(report, "R1: wrong answers about a grounded object")["accuracy"]) == 100
    second = row_of(report, "R2: right answers about an object not grounded")
    assert (second["n"], second["accuracy"]) == (5, 60)
    alone = beacon3d.score(data, grounded, "skip")  # the questions were not asked
    assert (alone["counts"]["n"], alone["counts"]["missing"]) == (5, 5)


def test_beacon3d_derived_files_are_refused_by_name(lamps: Path) -> None:
    write_json(lamps / "flat.json", [{"question_id": "x"}])
    with pytest.raises(GrandError, match=r"expected metadata_\*\.json"):
        read_beacon3d.convert(questions=lamps / "flat.json")


def test_beacon3d_broken_metadata_and_answers_are_counted(lamps: Path) -> None:
    bad = {
        "7": {"chain_1": [{"text": "x", "obj_id": [], "tag": "class"}]},
        "8": {"chain_1": [step("Lamp", "8", "class")]},
        "9": 3,
    }
    write_json(lamps / "b.json", {"scene0000_00": {"lamp": bad, "bed": 4}, "s": 5})
    rejects = Rejects(skip_bad=True)
    data = read_beacon3d.convert(questions=lamps / "b.json", rejects=rejects)
    assert [sample.text for sample in data.samples] == ["Lamp"] and len(rejects.rows) == 4
    name = data.samples[0].sample_id
    rows = [
        {"item_id": name, "object_id": 8},
        {"item_id": name, "object_id": 7},
        {"item_id": "zz", "correct": 1},
        {"item_id": name},
        3,
    ]
    write_json(lamps / "r.json", rows)
    rejects = Rejects(skip_bad=True)
    report = beacon3d.score(data, beacon3d.read_replies(lamps / "r.json", data, rejects))
    assert len(rejects.rows) == 3 and report["counts"]["extra"] == 1 and row_of(report, "grounding: all")["accuracy"] == 100
    write_json(lamps / "r.json", [{"correct": 1}, {"correct": 1}])
    with pytest.raises(GrandError, match="2 rows without item_id or question_id, expected one for each of 1"):
        beacon3d.read_replies(lamps / "r.json", data)


@pytest.fixture
def real_qa(real: Callable[[str], Path]) -> Path:
    return real("mmscan/example_QA.json")


def test_mmscan_example_is_question_and_answer_file_in_one(real_qa: Path) -> None:
    data = read_mmscan.convert(questions=real_qa)
    report = mmscan_qa.score(data, mmscan_qa.read_replies(real_qa, data))
    row = row_of(report, "all")
    assert row["n"] == 7 and row["em (mmscan)"] == pytest.approx(400 / 7)  # "2 baskets" for 2, "yes" for no, 4 for 7
    assert row_of(report, "ST-attr")["n"] == 7 and "other" not in {row["name"] for row in report["rows"]}
    assert row["em_r (mmscan)"] == pytest.approx(500 / 7)


def test_mmscan_example_captions_are_read_and_scored(real: Callable[[str], Path]) -> None:
    path = real("mmscan/example_cap.json")
    data = read_mmscan.convert(questions=path)
    assert {s.scene_id for s in data.samples} == {"scene0231_01", "scene0246_00"}
    assert [s.meta.get("region_id") for s in data.samples][-3:] == ["1", "0", "2"]
    report = mmscan_caption.score(data, mmscan_caption.read_replies(path, data))
    assert report["counts"]["n"] == 7 and 10 < report["rows"][0]["bleu1"] < 60


@pytest.mark.parametrize(
    ("name", "column"),
    [
        *(("QA_Single_EQ", "ST-attr"), ("QA_Single_Attribute_common", "ST-attr"), ("QA_Single_Space_OR", "OR")),
        *(("QA_Inter_Attribute_OO", "OO-attr"), ("QA_Inter_Space_OO", "OO-space"), ("QA_Single_Space", "ST-space")),
        *(("QA_Advanced", "Advanced"), ("QA_new", "other")),
    ],
)
def test_mmscan_sub_classes_by_the_devkits_order(name: str, column: str) -> None:
    assert mmscan_qa.paper_class(name) == column


def three() -> Data:
    rows = (("a", "red", ["red", "dark red"]), ("b", "yes", ["Yes."]), ("c", "two", ["2"]))
    samples = (Sample(name, f"s{name}", "question", "What?", text, meta={"answers": known}) for name, text, known in rows)
    return Data({f"s{name}": Scene(f"s{name}", ()) for name in "abc"}, tuple(samples))


def test_mmscan_judgement_that_failed_is_left_out_by_the_devkit_and_wrong_here(tmp_path: Path) -> None:
    (tmp_path / "judged").mkdir()
    good = {"All key points": ["x", "y"], "Correct Number": 1, "Wrong/Missing Number": "1", "Reasons": ""}
    write_json(tmp_path / "judged" / "gpt_QA_thread0.json", {"a": good, "b": good | {"Correct Number": 2}})
    write_json(
        tmp_path / "judged" / "gpt_QA_thread1.json", {"c": {"All key points": [], "Correct Number": 0, "Wrong/Missing Number": 0}}
    )
    rejects = Rejects(skip_bad=True)
    judge = mmscan_qa.read_judge(tmp_path / "judged", rejects)
    assert judge == {"a": 0.5} and len(rejects.rows) == 2
    data = three()
    replies = [Reply(name, f"s{name}", "red") for name in "abc"]
    report = mmscan_qa.score(data, replies, judge=judge)
    row = row_of(report, "all")
    assert row["judge"] == 50 and row["judge, all"] == pytest.approx(50 / 3) and report["counts"]["unjudged"] == 2
    with pytest.raises(GrandError, match="expected both"):
        mmscan_qa.score(data, replies, human={"a": 1.0})
    report = mmscan_qa.score(data, replies, judge=judge, human={"a": 0.5, "b": 1.0})
    assert report["agreement"][0]["n"] == 1 and report["agreement"][0]["same"] == 100


def test_agreement_of_judge_and_people() -> None:
    people = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 1.0}
    same = mmscan_qa.agreement(people, people)
    assert (same["same"], same["kappa"], same["correlation"]) == (100, pytest.approx(1), pytest.approx(1))
    other = mmscan_qa.agreement({"a": 0.9, "b": 0.0, "c": 0.4, "d": 1.0}, people)
    assert other["same"] == 75 and other["kappa"] == pytest.approx((0.75 - 5 / 16) / (11 / 16))
    assert other["correlation"] == pytest.approx(np.corrcoef([0.9, 0, 0.4, 1], [1, 0, 0.5, 1])[0, 1])


def test_mmscan_embeddings_take_the_most_alike_reference() -> None:
    vectors = {"red": [1.0, 0], "dark red": [1.0, 1], "blue": [0.0, 2], "yes": [1.0, 0], "two": [0.0, 1]}
    replies = [Reply("a", "sa", "blue"), Reply("b", "sb", "yes"), Reply("c", "sc", "")]
    report = mmscan_qa.score(three(), replies, embed=lambda texts: np.array([vectors.get(text, [9, 9]) for text in texts]))
    assert [row["cosine"] for row in report["samples"]] == pytest.approx([2**-0.5, 1, 0])
    with pytest.raises(GrandError, match="expected one vector each"):
        mmscan_qa.score(three(), replies, embed=lambda texts: np.zeros((2, 2)))


def test_mmscan_caption_aspects(tmp_path: Path) -> None:
    write_json(
        tmp_path / "j.json", {"a": {"Type": 1, "color": -1}, "b": {"Type": 1, "Shape": 0}, "c": {"Type": 2}, "d": {"Size": 1}}
    )
    rejects = Rejects(skip_bad=True)
    judge = mmscan_caption.read_judge(tmp_path / "j.json", rejects)
    assert len(rejects.rows) == 2
    report = mmscan_caption.score(
        three(), [Reply("a", "sa", "a red lamp"), Reply("b", "sb", "a lamp"), Reply("c", "sc", "x")], judge=judge
    )
    assert report["counts"]["unjudged"] == 1
    kind, colour = row_of(report, "Type"), row_of(report, "Color")
    assert (kind["n"], kind["right"], kind["precision"]) == (2, 100, 100)
    assert (colour["right"], colour["wrong"], colour["absent"], colour["precision"]) == (0, 50, 50, 0)
    assert row_of(report, "all")["right"] == pytest.approx(100 * 2 / 12)
    missing = mmscan_caption.score(three(), [Reply("a", "sa", "a red lamp")], "wrong", judge)
    assert row_of(missing, "Type")["n"] == 3 and missing["counts"]["unjudged"] == 0  # nothing said names no aspect


@pytest.mark.parametrize("bench", [mmscan_qa, mmscan_caption])
def test_mmscan_answers_with_everything_wrong_in_the_file(bench: Any, tmp_path: Path) -> None:
    rows = [{"ID": "a", "pred": ["red"]}, {"ID": "a", "pred": ["x"]}, {"ID": "b", "pred": [""]}, {"ID": "zz", "pred": ["red"]}]
    write_json(tmp_path / "r.json", [*rows, {"ID": "c", "pred": []}, {"ID": "c", "pred": 3}, "row", {"pred": ["red"]}])
    rejects = Rejects(skip_bad=True)
    report = bench.score(three(), bench.read_replies(tmp_path / "r.json", three(), rejects), "wrong")
    counts = report["counts"]
    assert (counts["n"], counts["missing"], counts["extra"], counts["empty"], len(rejects.rows)) == (3, 1, 1, 1, 5)
    assert [row["error"] for row in report["samples"]] == ["", "empty", "missing"]
    with pytest.raises(GrandError, match="Pass --missing"):
        bench.score(three(), [])


def test_mmscan_upload_is_read_back_as_questions_and_answers(tmp_path: Path) -> None:
    replies = [Reply("a", "sa", "<p>red</p>[<3>]"), Reply("b", "sb", "yes"), Reply("zz", "s", "no")]
    data = three()
    assert mmscan_qa.write_upload(tmp_path / "up.json", data, replies) == 1
    answers = mmscan_qa.read_replies(tmp_path / "up.json", data)
    assert [(answer.sample_id, answer.text) for answer in answers] == [("a", "red"), ("b", "yes")]
    figures = [mmscan_qa.score(data, found, "wrong")["rows"][0]["em (mmscan)"] for found in (answers, replies)]
    assert figures[0] == figures[1] == pytest.approx(200 / 3)


def test_mmscan_file_of_all_splits_and_of_rows(tmp_path: Path) -> None:
    row = {"ID": "QA_Inter_Space_OO__s1__0", "sub_class": "QA_Inter_Space_OO", "scan_id": "s1", "question": "Which?"}
    row |= {"answers": ["The lamp."], "object_ids": [3], "object_names": ["lamp"], "input_bboxes": [[0, 0, 0, 1, 1, 1, 0, 0, 0]]}
    write_json(
        tmp_path / "all.json",
        {"train": [], "val": [row, row | {"ID": "q", "answers": []}, row | {"ID": "nothing", "scan_id": 3}]},
    )
    rejects = Rejects(skip_bad=True)
    data = read_mmscan.convert(questions=tmp_path / "all.json", rejects=rejects)
    assert len(data.samples) == 1 and len(rejects.rows) == 2 and data.samples[0].target_ids == ()
    assert data.samples[0].meta["object_ids"] == ["3"] and len(data.samples[0].meta["input_boxes"][0]) == 9
    with pytest.raises(GrandError, match="holds the splits train, val, expected 'test'"):
        read_mmscan.convert(questions=tmp_path / "all.json", split="test")
    write_json(tmp_path / "rows.json", [row])
    assert read_mmscan.convert(questions=tmp_path / "rows.json").samples[0] == data.samples[0]
    save_data(tmp_path / "data", data)
    assert load_data(tmp_path / "data").samples == data.samples


def test_score_command_takes_judgements(run: Callable[..., tuple[int, str, str]], real_qa: Path, tmp_path: Path) -> None:
    name = "QA_Single_EQ__3rscan0568__0"
    write_json(tmp_path / "j.json", {name: {"Correct Number": 1, "Wrong/Missing Number": 1, "All key points": ["a", "b"]}})
    write_json(tmp_path / "h.json", {name: "partly right"})
    code, out, err = run("score", "mmscan_qa", real_qa, real_qa, "--judge", tmp_path / "j.json", "--human", tmp_path / "h.json")
    assert code == 0 and "Language model and people" in out and "unjudged 6" in out, err
    code, out, err = run("score", "mmscan_caption", real_qa, real_qa, "--human", tmp_path / "h.json")
    assert code == 2 and "--human does not belong to score mmscan_caption" in err and "expected" in err
