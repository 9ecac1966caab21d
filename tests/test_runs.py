"""Runs beside each other: the mean over seeds with its spread and interval, and leaderboards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grand3d.cli import main
from grand3d.errors import GrandError
from grand3d.runs import leaderboard, over_runs
from grand3d.sample import Data, Reply, load_replies, save_data, save_replies
from grand3d.synth import make_data


def answer(name: str) -> str:
    return f"<refer_expression_grounding><p>it</p>[<{name}>]</refer_expression_grounding>"


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], tuple[Path, list[Path]]]:
    """A data folder with two replies files: ``half`` of them right, all ``right``."""

    def make() -> tuple[Path, list[Path]]:
        made = make_data(6, 3, 24)
        samples = tuple(sample for sample in made.samples if sample.task == "object_reference")
        save_data(tmp_path / "data", Data(made.scenes, samples))
        right = [Reply(s.sample_id, s.scene_id, answer(s.target_ids[0])) for s in samples]
        half = [
            Reply(s.sample_id, s.scene_id, answer(made.scenes[s.scene_id].object_ids[0])) if k % 2 else right[k]
            for k, s in enumerate(samples)
        ]
        paths = [tmp_path / "half.jsonl", tmp_path / "right.jsonl"]
        for path, rows in zip(paths, (half, right), strict=True):
            save_replies(path, rows)
        return tmp_path / "data", paths

    return make


def scored(capsys: pytest.CaptureFixture[str], *args: Any) -> dict[str, Any]:
    assert main(["score", "scanrefer", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_seeds_are_averaged_and_told_apart(
    capsys: pytest.CaptureFixture[str], folder: Callable[[], tuple[Path, list[Path]]]
) -> None:
    data, replies = folder()
    assert main(["score", "scanrefer", str(data), *map(str, replies), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    single = []
    for path in replies:
        assert main(["score", "scanrefer", str(data), str(path), "--json"]) == 0
        single.append(json.loads(capsys.readouterr().out)["rows"][0]["acc25"])
    row = report["rows"][0]
    assert row["acc25"] == pytest.approx(np.mean(single)) and row["acc25_sd"] == pytest.approx(np.std(single, ddof=1))
    assert [run["acc25"] for run in report["runs"]] == pytest.approx(single)
    assert main(["score", "scanrefer", str(data), *map(str, replies)]) == 0
    assert (
        f"{row['acc25']:.2f} ± {row['acc25_sd']:.2f} [{row['acc25_low']:.1f}, {row['acc25_high']:.1f}]" in capsys.readouterr().out
    )
    assert main(["score", "scanrefer", str(data), *map(str, replies), "--samples", "x"]) == 2
    assert "expected one" in capsys.readouterr().err


def test_leaderboard_is_sorted_and_names_what_stands_beside(
    capsys: pytest.CaptureFixture[str], folder: Callable[[], tuple[Path, list[Path]]], tmp_path: Path
) -> None:
    data, replies = folder()
    for path in replies:
        assert main(["score", "scanrefer", str(data), str(path), "--json"]) == 0
        path.with_suffix(".json").write_text(capsys.readouterr().out, encoding="utf-8")
    reports = [str(path.with_suffix(".json")) for path in replies]
    assert main(["leaderboard", *reports, "--json", "--html", str(tmp_path / "board.html")]) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["all"]
    assert [row["acc25"] for row in rows] == sorted((row["acc25"] for row in rows), reverse=True)
    assert {row["run"] for row in rows if row["from"] == "scored here"} == {"right", "half"}
    assert {row["from"] for row in rows} == {"scored here", "without a model", "as published"}
    assert "as published" in (tmp_path / "board.html").read_text(encoding="utf-8")
    Path(reports[0]).write_text('{"rows": 3}', encoding="utf-8")
    assert main(["leaderboard", *reports]) == 2
    assert "expected what" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"benchmark": "x"}',
        '{"benchmark": "x", "rows": [1], "counts": {}, "rules": {}}',
        '{"benchmark": "x", "counts": {"n": "a"}, "rules": {}}',
        '{"benchmark": "x", "counts": {}, "rules": {}, "rows": [{"acc": "y", "acc_low": 1.0}]}',
        '{"benchmark": "x", "counts": {}, "rules": {}, "rows": [{"acc": 1.0, "acc_low": 1.0}, {"acc": []}]}',
        '{"benchmark": "x", "counts": {}, "rules": {}, "rows": [{"acc": 1.0, "acc_low": "1"}]}',
        '{"benchmark": "x", "counts": {}, "rules": {}, "headline": 3}',
        '{"benchmark": "x", "counts": {}, "rules": {}, "headline": [3]}',
    ],
)
def test_leaderboard_of_what_is_no_report(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(text)
    assert main(["leaderboard", str(tmp_path / "r.json")]) == 2
    assert "r.json" in (err := capsys.readouterr().err) and ("expected what" in err or "JSON" in err)


def test_seeds_are_averaged_over_what_every_run_answered(
    capsys: pytest.CaptureFixture[str], folder: Callable[[], tuple[Path, list[Path]]], tmp_path: Path
) -> None:
    data, (half, right) = folder()
    rows = load_replies(right)
    save_replies(tmp_path / "first.jsonl", rows[1:])
    save_replies(tmp_path / "last.jsonl", load_replies(half)[:-2])  # other ones are missing, and another number of them
    report = scored(capsys, data, tmp_path / "first.jsonl", tmp_path / "last.jsonl", "--missing", "skip")
    assert (report["counts"]["n"], report["counts"]["not_in_every_run"]) == (len(rows) - 3, 3)
    common = load_replies(half)[1:-2]
    save_replies(tmp_path / "common.jsonl", common)
    alone = scored(capsys, data, tmp_path / "common.jsonl", "--missing", "skip")["rows"][0]["acc25"]
    assert [run["acc25"] for run in report["runs"]] == pytest.approx([100, alone])
    assert report["rows"][0]["acc25"] == pytest.approx((100 + alone) / 2)
    save_replies(tmp_path / "one.jsonl", rows[:1])
    args = ["score", "scanrefer", *map(str, (data, tmp_path / "one.jsonl", tmp_path / "first.jsonl")), "--missing", "skip"]
    assert main(args) == 2 and "expected the same ones" in capsys.readouterr().err


def test_page_of_seeds_draws_means_and_what_is_wrong_in_every_run(
    capsys: pytest.CaptureFixture[str], folder: Callable[[], tuple[Path, list[Path]]], tmp_path: Path
) -> None:
    data, (half, right) = folder()
    report = scored(capsys, data, half, right, "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    row = report["rows"][0]
    assert f"all: {row['acc25']:.1f} % [{row['acc25_low']:.1f}, {row['acc25_high']:.1f}]" in text and ", 2 runs</h1>" in text
    assert f"right: {report['runs'][1]['acc25']:.1f} %" in text and "acc25 by number of distractors" in text
    assert not re.search(r"<article>", text)  # no sample is wrong in both
    assert {key for error in report["errors"] for key in error} <= {"error", "half", "right"}
    assert sum(error["half"] for error in report["errors"]) > 0 == sum(error["right"] for error in report["errors"])


def test_runs_over_other_questions_are_no_seeds() -> None:
    made = [
        {
            "benchmark": "b",
            "counts": {"n": 1},
            "rules": {},
            "rows": [{"name": "all", "acc": 1.0}],
            "samples": [{"sample_id": name, "acc": 1.0}],
        }
        for name in "xy"
    ]
    with pytest.raises(GrandError, match="expected the same ones"):
        over_runs(made, ["first", "second"])


def report_of(questions: str, value: float, missing: str, n: int = 4) -> dict[str, Any]:
    row = {"name": "all", "n": n, "acc": value, "acc_low": value - 1, "acc_high": value + 1}
    rules = {"missing": missing, "iou": "axis-aligned"}
    return {"benchmark": "b", "questions": questions, "counts": {"n": n}, "rules": rules, "rows": [row]}


def test_leaderboard_ranks_only_what_answered_the_same_questions() -> None:
    reports = [report_of("aa", 1.0, "skip"), report_of("bb", 9.0, "skip"), report_of("aa", 5.0, "wrong")]
    made = leaderboard(reports, ["worst", "other", "best"])
    ranked = {name: [row["run"] for row in rows] for name, rows in made["tables"].items()}
    assert ranked == {"all · 4 samples, questions aa": ["best", "worst"], "all · 4 samples, questions bb": ["other"]}
    assert made["rules"]["missing"] == "skip (worst, other); wrong (best)" and made["rules"]["iou"] == "axis-aligned"
    assert made["counts"]["question_sets"] == 2
    del reports[0]["questions"], reports[2]["questions"]  # of an older version: the numbers of samples must do
    reports[2]["counts"]["n"] = 5
    assert len(leaderboard(reports, ["worst", "other", "best"])["tables"]) == 3
    assert list(leaderboard(reports[:1], ["alone"])["tables"]) == ["all"]
