"""``grand3d score`` on published files: the figures that are known, and files with everything wrong in them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.bench import scanrefer
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.scoring import report


def row_of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row.get(key) == value for key, value in wanted.items()))


def test_leo_rows_come_out_of_the_public_files(real: Callable[[str], Path]) -> None:
    with real("3dpope/leo_expected_random.csv").open() as file:
        expected = {row["Template"]: row for row in csv.DictReader(file)}
    for number in range(1, 5):
        questions = real(f"3dpope/scannet200/random_template_{number}.json")
        replies = real(f"3dpope/leo_replies/leo-sft_noact_scannet200_random_template_{number}.json")
        found = report("pope", questions, replies)
        row, theirs = row_of(found["rows"], rule="strict"), expected[f"template_{number}"]
        names = {"precision": "Precision", "recall": "Recall", "f1": "F1 Score", "accuracy": "Accuracy"}
        for ours, name in names.items():
            assert row[ours] == pytest.approx(100 * float(theirs[name]), abs=1e-9)
        assert row["yes"] == pytest.approx(float(theirs["Yes (%)"]), abs=1e-9) and found["counts"]["missing"] == 0
        assert [line["name"] for line in found["baselines"]] == ["always yes"]  # nothing to look up in


@pytest.fixture
def dev(real: Callable[[str], Path]) -> tuple[Path, dict[str, Path]]:
    return real("scanrefer/val_descriptions_dev.json"), {
        "truth": real("scanrefer/val_ground_truth_objects.json"),
        "ids": real("scanrefer/object_id_to_graph_key_dev.json"),
        "proposals": real("mask3d/scannet_val_proposals.json"),
    }


def test_upper_bounds_and_first_mention_come_out_of_the_public_files(dev: Any, tmp_path: Path) -> None:
    questions, files = dev
    (tmp_path / "none.json").write_text("[]")
    found = report("scanrefer", questions, tmp_path / "none.json", "wrong", more=files)
    rows = {row["name"]: row for row in found["baselines"]}
    assert [round(rows["best box"][key], 1) for key in ("acc25", "acc50")] == [80.5, 60.4]
    assert [round(rows["first mention"][key], 2) for key in ("acc25", "acc50")] == [35.64, 26.01]
    assert found["counts"]["missing"] == found["counts"]["n"] == 4955
    with pytest.raises(GrandError, match="needs --truth, expected truth"):
        report("scanrefer", questions, tmp_path / "none.json")


def test_scanrefer_upload_with_everything_wrong_is_counted(dev: Any, tmp_path: Path) -> None:
    questions, files = dev
    rows = json.loads(questions.read_text())[:6]
    truth = json.loads(files["truth"].read_text())
    ids = json.loads(files["ids"].read_text())
    scene, target = rows[0]["scene_id"], str(rows[0]["object_id"])
    box = truth[scene][ids[scene][target]]
    (x, y, z), (w, d, h) = box["centroid"], box["extent"]
    corners = [[x + a * w / 2, y + b * d / 2, z + c * h / 2] for c in (1, -1) for a in (1, -1) for b in (-1, 1)]
    right = {"scene_id": scene, "object_id": target, "ann_id": "0", "bbox": corners, "unique_multiple": 1, "others": 0}
    broken = [right, right, {**right, "ann_id": "zz"}, {**right, "ann_id": "1", "bbox": [[1, 2, 3]]}, {**right, "bbox": None}, 7]
    (tmp_path / "pred.json").write_text(json.dumps(broken))
    rejects = Rejects(skip_bad=True)
    found = report("scanrefer", questions, tmp_path / "pred.json", "wrong", rejects, more=files)
    assert found["counts"]["extra"] == 1 and found["counts"]["missing"] == 4954 and len(rejects.rows) == 4
    assert row_of(found["rows"], name="all")["acc50"] == pytest.approx(100 / 4955)
    alone = report("scanrefer", questions, tmp_path / "pred.json", "skip", Rejects(skip_bad=True), more=files)
    assert row_of(alone["rows"], name="all")["acc50"] == 100


def test_scanrefer_upload_is_read_back(dev: Any, tmp_path: Path, real: Callable[[str], Path]) -> None:
    from grand3d.convert import scanrefer as source
    from grand3d.sample import Reply

    questions, files = dev
    data = source.convert(descriptions=questions, **files)
    labels = scanrefer.read_labels(real("scannet/scannetv2-labels.combined.ScanRefer.CRLF.tsv"))
    answers = []
    for sample in data.samples[:40]:
        ids = data.scenes[sample.scene_id].object_ids
        text = "<refer_expression_grounding><p>it</p>[<obj_0>]</refer_expression_grounding>"
        answers.append(Reply(sample.sample_id, sample.scene_id, text if len(answers) else "nothing", ids))
    assert scanrefer.write_upload(tmp_path / "pred.json", data, answers, labels) == 1
    back = scanrefer.read_replies(tmp_path / "pred.json", data)
    ours, theirs = (scanrefer.score(data, rows, "skip")["samples"] for rows in (answers[1:], back))
    # a row of boxes does not say which object was named, so what went wrong is told less closely
    assert [row | {"error": ""} for row in ours] == [row | {"error": ""} for row in theirs] and len(ours) == 39
    rows = json.loads((tmp_path / "pred.json").read_text())
    assert {row["unique_multiple"] for row in rows} <= {0, 1} and all(len(row["bbox"]) == 8 for row in rows)


@pytest.mark.parametrize(
    ("bench", "more", "message"),
    [
        ("nope", {}, "expected one of synth"),
        ("mmscan", {"truth": "x"}, "expected no other option"),
        ("pope", {"rows": "all"}, "expected no such option"),
    ],
)
def test_what_does_not_belong_is_refused(tmp_path: Path, bench: str, more: dict[str, Any], message: str) -> None:
    row = {"id": "a", "scene_id": "s", "conversations": [{"from": "human", "value": "Are there any chairs in the room?"}]}
    row |= {"ground_truth_answer": "yes", "question_type": "random", "template": "template_1"}
    (tmp_path / "q.json").write_text(json.dumps([row]))
    (tmp_path / "r.json").write_text("[]")
    with pytest.raises(GrandError, match=message):
        report(bench, tmp_path / "q.json", tmp_path / "r.json", "wrong", more=more)
