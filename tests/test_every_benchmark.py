"""What holds for every benchmark: a replies file with everything wrong in it is counted to the end, and its report has a page."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grand3d.bench import BENCHMARKS
from grand3d.cli import main
from grand3d.sample import Data, Reply, Sample, save_data
from grand3d.scene import Object, Scene

SCENE = Scene(
    "scene0000_00",
    tuple(
        Object(str(k), label, (float(k), 0.0, 0.35), (0.7, 0.7, 0.7)) for k, label in enumerate(("desk", "lamp", "desk", "bed"))
    ),
)
UNIQUE = [{"type": "scene"}, {"type": "filter_shape", "side_inputs": ["lamp"]}, {"type": "unique"}]
BED = [{"type": "scene"}, {"type": "filter_shape", "side_inputs": ["bed"]}, {"type": "unique"}]
META: dict[str, dict[str, Any]] = {
    "pope": {"type": "random", "template": "template_1"},
    "referit3d": {},
    "multi3drefer": {"eval_type": "st_w_d"},
    "sg3d": {"step_ids": ["1"], "steps": ["Go to the lamp."], "dataset": "ScanNet"},
    "reref3d": {"program": {"family": "near", "target": BED, "anchors": [UNIQUE]}, "goal": [0.0, 1.0, 0.35]},
    "scan2cap": {"captions": ["sos a lamp eos"]},
    "beacon3d": {},
}
TEXTS = {
    "object_reference": "<refer_expression_grounding><p>it</p>[<obj_1>]</refer_expression_grounding>",
    "existence": "Yes",
    "plan": "<step>1. Go to the <p>lamp</p>[<obj_1>].</step>",
    "placement": "<place>1.00, 0.90, 0.35</place>",
}


def questions(bench: str) -> Data:
    task = importlib.import_module(BENCHMARKS[bench]).TASKS[0]
    meta = META.get(bench, {"answers": ["a lamp"], "sub_class": "ST_attribute_color"})
    answer = {"existence": "Yes", "question": "a lamp"}.get(task, "")
    view = ((0.0, -5.0, 2.0), (0.0, 0.0, 0.0))
    ids = ("a", "b", "c") if bench != "scan2cap" else ("scene0000_00|1|lamp", "scene0000_00|3|bed", "scene0000_00|0|desk")
    return Data(
        {SCENE.scene_id: SCENE},
        tuple(Sample(name, SCENE.scene_id, task, "the lamp by the bed", answer, ("1",), view, meta) for name in ids),
    )


def mmscan_files(folder: Path) -> tuple[Path, Path]:
    """A file of questions a, b and c, and one of predictions with everything wrong in it, as the other benchmarks get below."""
    box = [1.0, 0.0, 0.35, 0.7, 0.7, 0.7]
    asked = [{"ID": name, "scan_id": SCENE.scene_id, "sub_class": "ST_attribute", "gt_bboxes": [box]} for name in "abc"]
    said = [("a", [box]), ("a", [box]), ("b", []), ("strange", [box])]
    rows = [json.dumps({"ID": name, "pred_bboxes": boxes, "pred_scores": [0.5] * len(boxes)}) for name, boxes in said]
    (folder / "q.json").write_text(json.dumps(asked))
    (folder / "r.jsonl").write_text("\n".join([*rows, '{"ID": 3}', rows[0][:40]]))
    return folder / "q.json", folder / "r.jsonl"


def folder_files(bench: str, folder: Path) -> tuple[Path, Path]:
    """A data folder of three samples; replies: good, a second one, empty, strange, of wrong types, cut off; none to the third."""
    data = questions(bench)
    save_data(folder / "data", data)
    good = TEXTS.get(data.samples[0].task, "a lamp")
    first, second, _ = (sample.sample_id for sample in data.samples)

    def reply(name: str, text: str) -> str:
        return json.dumps({"sample_id": name, "scene_id": SCENE.scene_id, "text": text, "object_ids": ["0", "1", "2", "3"]})

    rows = [reply(first, good), reply(first, good), reply(second, ""), reply("strange", good), '{"sample_id": 3}']
    (folder / "r.jsonl").write_text("\n".join([*rows, reply("z", good)[:40]]))
    return folder / "data", folder / "r.jsonl"


@pytest.mark.parametrize("bench", BENCHMARKS)
def test_replies_with_everything_wrong_are_counted_and_drawn(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java: METEOR is left empty, the rest goes on
    asked, replies = mmscan_files(tmp_path) if bench == "mmscan" else folder_files(bench, tmp_path)
    args = ["score", bench, str(asked), str(replies), "--json"]
    assert main([*args, "--missing", "wrong"]) == 2 and "expected" in capsys.readouterr().err
    assert main([*args, "--skip-bad"]) == 2 and "--missing" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main([*args, "--missing", "wrong", "--skip-bad", "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    counts = report["counts"]
    broken = counts["rejected_rows"] + counts.get("duplicates", 0)
    assert (counts["n"], counts["missing"], counts["extra"], broken) == (3, 1, 1, 3), counts
    assert str(counts["rejected_rows"]) in err and (tmp_path / "r.jsonl.score.rejected.jsonl").exists()
    assert all(row.get("n", 1) <= 3 for row in report["rows"])
    text = page.read_text(encoding="utf-8")
    assert "<table>" in text and "<script" not in text
    plots = re.findall(r"<svg.*?</svg>", text)
    assert plots and all(re.search("<circle|<rect|<polygon", plot) for plot in plots)
    assert main([*args, "--missing", "skip", "--skip-bad"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["missing"] == 1


def published(bench: str) -> Data:
    """The questions with ids as the published forms spell them."""
    data = questions(bench)
    if bench == "scan2cap":
        return data
    spelt = "{}_{}" if bench == "multi3drefer" else "{}_1_{}"
    samples = [
        replace(one, sample_id=spelt.format(one.scene_id, k), text=f"{one.text} {k}", meta=one.meta | {"ann_id": k})
        for k, one in enumerate(data.samples)
    ]
    return replace(data, samples=tuple(samples))


def damaged(document: Any) -> tuple[Any, int]:
    """Published answers: the first and the second, a second one to the first, broken ones; how many are broken for sure."""
    if isinstance(document, list):
        return [*document[:2], document[0], 3, {}, None, "x", []], 5
    first, second, _ = document
    return {first: document[first], second: None, "strange": document[first], "odd": 3.5}, 1  # None is an answer to some


@pytest.mark.parametrize("bench", [name for name in BENCHMARKS if name != "mmscan"])  # whose published form is that above
def test_published_answers_with_everything_wrong_are_counted(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    module, data, out = importlib.import_module(BENCHMARKS[bench]), published(bench), tmp_path / "up.json"
    save_data(tmp_path / "data", data)
    text = TEXTS.get(data.samples[0].task, "a lamp")
    replies = [Reply(sample.sample_id, sample.scene_id, text, SCENE.object_ids) for sample in data.samples]
    assert module.write_upload(out, data, replies, **({"labels": {}} if bench == "scanrefer" else {})) == 0
    args = ["score", bench, str(tmp_path / "data"), str(out), "--json"]
    assert main(args) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert (counts["n"], counts["missing"], counts["extra"], counts.get("rejected_rows", 0)) == (3, 0, 0, 0)
    document, broken = damaged(json.loads(out.read_text(encoding="utf-8")))
    out.write_text(json.dumps(document))
    assert main([*args, "--missing", "wrong"]) == 2 and "expected" in capsys.readouterr().err
    assert main([*args, "--missing", "wrong", "--skip-bad"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts["n"] == 3 and counts["rejected_rows"] >= broken
    assert counts["missing"] + counts.get("empty", 0) >= 1 and counts["extra"] >= isinstance(document, dict)


@pytest.mark.parametrize("bench", BENCHMARKS)
@pytest.mark.parametrize("targets", [("1",), ("1", "3"), ()])
def test_check_finds_no_fault_in_what_a_benchmark_asks(
    bench: str, targets: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One target, several, or none, with true objects beside the proposals and without."""
    made = questions(bench)
    if bench == "scan2cap" and not targets:
        pytest.skip("a description of nothing is a fault")
    samples = tuple(replace(sample, target_ids=targets) for sample in made.samples)
    for name, data in (("alone", Data(made.scenes, samples)), ("true", Data(made.scenes, samples, made.scenes))):
        save_data(tmp_path / name, data)
        assert main(["check", str(tmp_path / name)]) == 0, capsys.readouterr()
