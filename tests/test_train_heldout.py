"""Held-out data of a training, with rows that cannot be used."""

from __future__ import annotations

import copy
import json

import pytest
from toy_run import config, rows, save_toy_data

for _name in ("torch", "transformers", "peft", "accelerate"):
    pytest.importorskip(_name, reason="extra train")

from grand3d import evaluate  # noqa: E402
from grand3d import train as training  # noqa: E402
from grand3d.cli import main  # noqa: E402
from grand3d.config import dump_yaml  # noqa: E402


def test_train_held_out_rows_that_cannot_be_used_are_left_out_when_told(
    tmp_path, toy_scene, toy_proposals, tiny_base, monkeypatch, capsys
):
    def run(*argv):
        return main(["train", *map(str, argv)]), capsys.readouterr().err

    monkeypatch.setattr(evaluate, "HELDOUT_TOKENS", 2)
    monkeypatch.setattr(training, "load_base", lambda *_: copy.deepcopy(tiny_base))
    folder = save_toy_data(tmp_path / "data", toy_scene, toy_proposals)
    heldout = save_toy_data(tmp_path / "heldout", toy_scene, toy_proposals)
    file = heldout / "samples.jsonl"
    long = {"sample_id": "long", "scene_id": "other", "task": "existence", "text": "word " * 5000, "answer": "Yes"}
    count = {"sample_id": "count", "scene_id": "other", "task": "counting", "text": "How many beds?", "answer": "some"}
    file.write_text(file.read_text() + json.dumps(long) + "\n" + json.dumps(count) + "\n{broken\n")
    settings, out = tmp_path / "c.yaml", tmp_path / "run"
    changes = {"data__heldout": str(heldout), "train__num_steps": 2, "train__eval_every": 1}
    settings.write_text(dump_yaml(config(folder, **changes)))
    code, err = run(settings, "--out", out)
    assert code == 2 and "samples.jsonl:9: sample" in err
    code, err = run(settings, "--out", out, "--skip-bad")
    assert code == 0, err
    assert [row["eval"]["n"] for row in rows(out / "log.jsonl") if "eval" in row] == [7, 7, 7]
    causes = {"not JSON", "bad answer", "too long for the context"}
    left_out = [row["cause"] for row in rows(out / "heldout.rejected.jsonl")]  # asked about three times, and kept once
    assert len(left_out) == 3 and set(left_out) == causes
    assert all(f"left out of the held-out data: 1 x {cause}" in err for cause in causes)
    file.write_text(json.dumps(count) + "\n")
    code, err = run(settings, "--out", tmp_path / "other", "--skip-bad")
    assert code == 2 and "holds no sample that can be scored; left out: 1 x bad answer" in err
    code, err = run(settings, "--out", tmp_path / "other")
    assert code == 2 and "answer is 'some', expected a number first" in err
