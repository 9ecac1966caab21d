"""ScanQA and SQA3D: golden values, the real test split, broken files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.bench import scan2cap, scanqa, sqa3d
from grand3d.convert import scan2cap as read_scan2cap
from grand3d.convert import scanqa as read_scanqa
from grand3d.convert import sqa3d as read_sqa3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Object, Scene


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR's Java program takes seconds to start; tests/test_textmetrics.py runs it."""
    monkeypatch.setattr("grand3d.bench.texts.meteor", lambda *texts: None)


def test_scanqa_golden(golden: Callable[[str], Path], tmp_path: Path) -> None:
    case = json.loads(next(golden("scanqa/em_top1_top10.json").parent.glob("*.json")).read_text())
    rows = [row | {"object_ids": [], "object_names": []} for row in case["gold"]]
    (tmp_path / "q.json").write_text(json.dumps(rows))
    (tmp_path / "r.json").write_text(json.dumps([{"question_id": key} | value for key, value in case["preds"].items()]))
    data = read_scanqa.convert(questions=tmp_path / "q.json")
    row = scanqa.score(data, scanqa.read_replies(tmp_path / "r.json", data))["rows"][0]
    assert row["em1"] == pytest.approx(case["expected_percent"]["Top1 (EM)"])
    assert row["em10"] == pytest.approx(case["expected_percent"]["Top10 (EM)"])
    assert row["f_value (words)"] == pytest.approx(case["expected_percent"]["Top1 (F-value)"])  # its lemmas were taken out
    for question, name in case["question_class"].items():
        assert scanqa.question_class(question) == name
    assert scanqa.question_class("What is the color of the bed?") == "Color"


def test_scanqa_f_value_by_hand_and_by_lemmas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scanqa.f_value("two brown chairs", ["brown chair"]) == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert scanqa.f_value("two brown chairs", ["brown chair"], lambda word: word.rstrip("s")) == pytest.approx(0.8)
    assert scanqa.f_value("", ["red"]) == scanqa.f_value("red", [""]) == scanqa.f_value("", []) == 0  # the script divides by 0
    assert scanqa.f_value("red red blue", ["red", "blue"]) == pytest.approx(0.8)  # repetitions count, the best reference
    sample = Sample("a", "s", "question", "What?", meta={"answers": ["brown chair"]})
    data, replies = Data({"s": Scene("s", ())}, (sample,)), [Reply("a", "s", "brown chairs")]
    monkeypatch.setattr(scanqa, "wordnet", lambda: lambda word: word.rstrip("s"))
    report = scanqa.score(data, replies)
    assert (report["rows"][0]["f_value"], report["rows"][0]["f_value (words)"]) == (100, 50)
    monkeypatch.setattr(scanqa, "wordnet", lambda: None)
    report = scanqa.score(data, replies)
    assert "f_value" not in report["rows"][0] and "not available" in report["rules"]["f_value"]


def test_wordnet_of_nltk_takes_plurals_to_their_word() -> None:
    lemma = scanqa.wordnet()
    if lemma is None:
        pytest.skip("nltk and its WordNet are not installed")
    assert (lemma("chairs"), lemma("brown"), lemma("shelves")) == ("chair", "brown", "shelf")


def test_scanqa_upload_keeps_ten_answers(tmp_path: Path) -> None:
    samples = tuple(Sample(name, "s", "question", "What?", "red", meta={"answers": ["red"]}) for name in "ab")
    data = Data({"s": Scene("s", ())}, samples)
    many = [str(k) for k in range(10)] + ["red"]
    (tmp_path / "r.json").write_text(
        json.dumps([{"question_id": "a", "answer_top10": many}, {"question_id": "b", "answer": "red"}])
    )
    answers = scanqa.read_replies(tmp_path / "r.json", data)
    assert scanqa.write_upload(tmp_path / "up.json", data, answers) == 0
    rows = json.loads((tmp_path / "up.json").read_text())
    assert rows == [
        {"scene_id": "s", "question_id": "a", "answer_top10": many[:10]},
        {"scene_id": "s", "question_id": "b", "answer_top10": ["red"]},
    ]
    row = scanqa.score(data, answers)["rows"][0]
    assert (row["em1"], row["em10"]) == (50, 50)  # the eleventh answer counts nowhere


def test_sqa3d_golden(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("sqa3d/localization_and_types.json").read_text())
    for question, number in case["question_types"].items():
        assert sqa3d.question_type(question) == (*sqa3d.TYPES, "other")[number], question
    found = sqa3d.localization(case["pred_pos"], case["pred_rot_xyzw"], case["gt_pos"], case["gt_rot_xyzw"])
    assert found == pytest.approx(case["expected"])


def test_sqa3d_poses_of_a_file_and_broken_ones(tmp_path: Path) -> None:
    true = {"position": [0.0, 0.0, 0.0], "rotation": [0.0, 0.0, 0.0, 1.0], "answers": ["red"]}
    samples = tuple(Sample(name, name, "question", "What is it?", "red", meta=true) for name in "abcd")
    data = Data({name: Scene(name, ()) for name in "abcd"}, samples)
    here, away = [0.3, 0.3, 9.0], [5.0, 0.0, 0.0]
    straight, turned = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, math.sin(math.pi / 18), math.cos(math.pi / 18)]  # by 20 degrees
    poses = {"a": {"position": [away, here], "rotation": [turned, turned]}, "b": {"position": [away], "rotation": [straight]}}
    broken = {"c": {"position": [here] * 4, "rotation": [turned] * 4}, "d": {"position": [here], "rotation": [[0, 0, 0, 0]]}}
    (tmp_path / "p.json").write_text(json.dumps(poses | broken))
    rejects = Rejects(skip_bad=True)
    found = sqa3d.read_poses(tmp_path / "p.json", rejects)
    assert [row["cause"] for row in rejects.rows] == ["wrong number", "bad number"]
    report = sqa3d.score(data, [Reply(name, name, "red") for name in "abcd"], poses=found)
    row = report["rows"][0]
    assert (row["acc@0.5m"], row["acc@1.0m"], row["acc@15°"], row["acc@30°"]) == (25, 25, 25, 50)
    assert report["counts"]["unlocalized"] == 2


@pytest.fixture(scope="module")
def situations(real: Callable[[str], Path]) -> Data:
    return read_sqa3d.convert(
        questions=real("sqa3d/v1_balanced_questions_test_scannetv2.json"),
        annotations=real("sqa3d/v1_balanced_sqa_annotations_test_scannetv2.json"),
        alignment=real("scannet/scans_axis_alignment_matrices.json"),
        proposals=real("mask3d/scannet_val_proposals.json"),
    )


def test_sqa3d_real_split_is_read_whole_and_scored(situations: Data) -> None:
    assert len(situations.samples) == 3519 and all(sample.viewpoint for sample in situations.samples)
    replies = [Reply(s.sample_id, s.scene_id, s.answer if k % 2 else "") for k, s in enumerate(situations.samples)]
    report = sqa3d.score(situations, replies)
    row = report["rows"][0]
    assert row["accuracy"] == pytest.approx(50, abs=0.1) and report["counts"]["empty"] == 1760
    assert row["em_r (leo)"] == 100  # an empty answer is held by every reference
    assert row["em_r (all references)"] == pytest.approx(50, abs=0.1)


def test_sqa3d_viewpoints_look_where_the_situation_says(situations: Data) -> None:
    """ "facing the X" has an X within 45 degrees of the line of sight far more often than by chance."""
    import re

    near, seen = [], set()
    for sample in situations.samples:
        text = sample.meta["situation"].lower()
        found = re.search(r"facing (?:a|an|the|two|three) ([a-z ]+?)(?:[,.]| and| with| in| on| that| while| to|$)", text)
        if found is None or (sample.scene_id, text) in seen:
            continue
        seen.add((sample.scene_id, text))
        things = [o for o in situations.scenes[sample.scene_id].objects if o.category.rstrip("s") == found[1].rstrip("s")]
        if not things:
            continue
        (x, y, _), (ahead_x, ahead_y, _) = sample.viewpoint
        heading = math.atan2(ahead_y - y, ahead_x - x)
        off = (math.atan2(o.centroid[1] - y, o.centroid[0] - x) - heading for o in things)
        near.append(min(abs((angle + math.pi) % (2 * math.pi) - math.pi) for angle in off) < math.pi / 4)
    assert len(near) > 150 and sum(near) / len(near) > 0.75


@pytest.mark.parametrize("bench", [scanqa, sqa3d])
def test_a_file_of_answers_with_everything_wrong_in_it(bench: Any, tmp_path: Path) -> None:
    samples = tuple(Sample(name, "s", "question", "What is it?", "red", meta={"answers": ["red", "dark red"]}) for name in "abcd")
    data = Data({"s": Scene("s", ())}, samples)
    rows = [{"question_id": "a", "answer": "red"}, {"question_id": "a", "answer": "blue"}, {"question_id": "b", "answer": ""}]
    rows += [{"question_id": "zz", "answer": "red"}, {"question_id": "c", "answer": 3}, {"answer": "red"}, "row"]
    (tmp_path / "r.json").write_text(json.dumps(rows))
    rejects = Rejects(skip_bad=True)
    report = bench.score(data, bench.read_replies(tmp_path / "r.json", data, rejects), "wrong")
    counts = report["counts"]
    assert (counts["n"], counts["missing"], counts["extra"], counts["empty"], len(rejects.rows)) == (4, 2, 1, 1, 4)
    assert report["rows"][0]["em (all references)"] == 25 and report["rows"][0]["n"] == 4
    with pytest.raises(GrandError, match="Pass --missing"):
        bench.score(data, [])
    (tmp_path / "o.json").write_text(json.dumps({"a": "red", "b": "dark red", "c": "a red", "d": "no"}))
    assert bench.score(data, bench.read_replies(tmp_path / "o.json", data))["rows"][0]["em (all references)"] == 75


def test_sqa3d_script_for_language_models_takes_a_word_in_common_and_leaves_out_what_is_missing() -> None:
    assert sqa3d.lenient("the left side", "left") and sqa3d.lenient("a", "a chair") and not sqa3d.lenient("", "left")
    samples = tuple(Sample(name, name, "question", "Which?", "left", meta={"answers": ["left"]}) for name in "ab")
    data = Data({name: Scene(name, ()) for name in "ab"}, samples)
    replies = [Reply("a", "a", "on the left")]
    assert sqa3d.score(data, replies, "skip")["rows"][0]["lenient"] == 100
    assert sqa3d.score(data, replies, "wrong")["rows"][0]["lenient"] == 50


def test_scanqa_texts_by_leo_are_cleaned_and_not_tokenised() -> None:
    samples = tuple(
        Sample(name, name, "question", "What?", x, meta={"answers": [x]}) for name, x in (("a", "the 2 chairs"), ("b", "it"))
    )
    data = Data({name: Scene(name, ()) for name in "ab"}, samples)
    report = scanqa.score(data, [Reply("a", "a", "Two chairs."), Reply("b", "b", "it")])
    ptb, leo = (next(row for row in report["rows"] if row["name"] == name) for name in ("all", "all, texts as LEO's script"))
    assert leo["rouge_l"] == 100 and ptb["rouge_l"] < 100  # "2" and "two" differ to the tokenizer


def test_sqa3d_broken_rows_are_collected(tmp_path: Path) -> None:
    question = {"scene_id": "s", "situation": "I stand.", "question": "What?", "question_id": 1}
    pose = {"position": {"x": 0, "y": 0, "z": 0}, "rotation": {"_x": 0, "_y": 0, "_z": 0, "_w": 1}}
    annotation = {"scene_id": "s", "question_id": 1, "answers": [{"answer": "it"}], **pose}
    questions = [question, {**question, "question_id": 2}, {**question, "question_id": 3}, {**question, "question_id": 4}, 5]
    annotations = [
        annotation,
        {**annotation, "question_id": 2, "scene_id": "t"},
        {**annotation, "question_id": 3, "answers": []},
        "x",
    ]
    (tmp_path / "q.json").write_text(json.dumps({"questions": questions}))
    (tmp_path / "a.json").write_text(json.dumps({"annotations": annotations}))
    rejects = Rejects(skip_bad=True)
    data = read_sqa3d.convert(questions=tmp_path / "q.json", annotations=tmp_path / "a.json", rejects=rejects)
    assert [sample.sample_id for sample in data.samples] == ["1"] and len(rejects.rows) == 5 and data.samples[0].viewpoint is None


def test_scan2cap_golden(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("scan2cap/kiou_masking.json").read_text())
    samples = tuple(
        Sample(key, "s", "object_description", "", "x", (key.split("|")[1],), meta={"captions": captions})
        for key, captions in case["corpus"].items()
    )
    unit = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    objects = tuple(Object(str(k), "thing", (0.5, 0.5, 0.5), (1.0, 1.0, 1.0)) for k in (1, 2, 3))
    data = Data({"s": Scene("s", objects)}, samples)
    answers = {key: {"caption": text, "box": unit} for key, text in case["candidates"].items()}
    report = scan2cap.score(data, scan2cap_answers(answers))
    expected = case["expected"]
    row = next(row for row in report["rows"] if row["name"] == "m@0.5" and row["rule"] == ">=")
    assert [row[f"bleu{k}"] for k in (1, 2, 3, 4)] == pytest.approx([100 * expected[f"Bleu_{k}"] for k in (1, 2, 3, 4)])
    assert (row["rouge_l"], row["cider"]) == pytest.approx((100 * expected["ROUGE_L"], 100 * expected["CIDEr"]))
    each = [line["rouge_l@0.5>="] for line in report["samples"]]
    assert each == pytest.approx(expected["per_item"]["ROUGE_L"]) and each[2] > 0.4  # the placeholder earns from its marks


def scan2cap_answers(rows: dict[str, Any]) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(rows, file)
        file.flush()
        return scan2cap.read_replies(file.name, Data({}, ()), Rejects(skip_bad=True))


def test_scan2cap_threshold_is_reached_or_passed_and_misses_get_the_placeholder(tmp_path: Path) -> None:
    rows = [{"scene_id": "s", "object_id": str(k), "object_name": "chair", "token": ["a", "red", "chair"]} for k in (1, 1, 2)]
    rows += [
        {"scene_id": "s", "object_id": "x", "object_name": "chair"},
        {"scene_id": "s", "object_id": "3", "object_name": "c", "token": []},
    ]
    (tmp_path / "q.json").write_text(json.dumps(rows))
    box = {"category": "chair", "centroid": [0.5, 0.5, 0.5], "extent": [1, 1, 1]}
    (tmp_path / "t.json").write_text(json.dumps({"s": {"1": box, "2": {**box, "centroid": [5, 5, 5]}}}))
    rejects = Rejects(skip_bad=True)
    data = read_scan2cap.convert(questions=tmp_path / "q.json", truth=tmp_path / "t.json", rejects=rejects)
    assert [s.sample_id for s in data.samples] == ["s|1|chair", "s|2|chair"] and len(rejects.rows) == 2
    half = {"caption": ["sos a red chair eos"], "box": [[0, 0, 0], [1, 1, 0.5]]}  # overlaps by exactly a half
    report = scan2cap.score(data, scan2cap_answers({"s|1|chair": half, "s|9|chair": "x", "s|2|chair": 3}), "wrong")
    kept = {(row["name"], row["rule"]): row["kept"] for row in report["rows"]}
    assert kept == {("m@0.0", ">="): 1, ("m@0.25", ">="): 1, ("m@0.25", ">"): 1, ("m@0.5", ">="): 1, ("m@0.5", ">"): 0}
    assert (report["counts"]["missing"], report["counts"]["extra"]) == (1, 1)
