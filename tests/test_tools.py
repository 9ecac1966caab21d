"""The measuring tools at their smallest: they run, and what they compute by themselves is right."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def tool(name: str) -> Any:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


def run(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(TOOLS / arguments[0]), *arguments[1:]], capture_output=True, text=True, env=os.environ, timeout=170
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_correlation_of_gradients_is_one_where_a_scene_says_it_all_and_zero_where_it_says_nothing() -> None:
    correlation = tool("diversity").correlation
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(400, generator=generator, dtype=torch.double)  # noqa: E731
    same = [[row] * 4 for row in (draw() for _ in range(30))]
    assert correlation(same) == pytest.approx(1)
    assert correlation([[draw() for _ in range(4)] for _ in range(200)]) == pytest.approx(0, abs=0.01)
    mixed = [[shared + draw() for _ in range(4)] for shared in (draw() for _ in range(200))]
    assert correlation(mixed) == pytest.approx(0.5, abs=0.02)


def test_diversity_of_the_tiny_base_gives_a_table() -> None:
    report = run("diversity.py", "--model", "tiny", "--scenes", "3", "--questions", "2", "--json")
    assert [row["questions"] for row in report["table"]] == [1, 2, 4, 8, 16, 32]
    assert report["table"][0] == {"questions": 1, "scenes": 96, "worth": 1.0, "cost": 1.0, "gain": 1.0}
    costs = [row["cost"] for row in report["table"]]
    assert costs == sorted(costs, reverse=True)


def test_scaling_counts_less_work_a_question_the_more_share_a_scene() -> None:
    report = run("bench_scaling.py", "--json", "--repeats", "1", "--smallest")
    rows = report["questions"]
    work = [row["gflop"] / row["questions"] for row in rows]
    assert len(rows) >= 2 and work == sorted(work, reverse=True)


def test_abstention_gives_the_figures_of_both_reports_in_one_object(tmp_path: Path) -> None:
    from grand3d.bench.scanrefer import score
    from grand3d.calibration import Calibration, apply, save_calibration
    from grand3d.markup import reference_reply
    from grand3d.sample import Data, Reply, Sample
    from grand3d.scene import Object, Scene

    chairs = tuple(Object(str(k), "chair", (float(k), 0.0, 0.0), (0.5, 0.5, 1.0)) for k in range(4))
    rooms = {name: Scene(name, chairs) for name in ("a", "b", "c")}
    targets = [("0",), (), ("0", "1")]
    chances = [(0.9, 0.05, 0.02, 0.02, 0.01), (0.3, 0.3, 0.2, 0.15, 0.05), (0.48, 0.46, 0.03, 0.02, 0.01)]
    said = reference_reply([], "chair", ("obj_0",), "none")
    samples, replies = [], []
    for name in rooms:
        for k, (ids, row) in enumerate(zip(targets, chances, strict=True)):
            samples.append(Sample(f"{name}{k}", name, "object_reference", "x", target_ids=ids))
            replies.append(Reply(f"{name}{k}", name, said, ("0", "1", "2", "3"), chances=row))
    data, found = Data(rooms, tuple(samples)), Calibration({}, none_below=0.4, also_above=0.8)
    after = [apply(reply, "object_reference", found, rooms[reply.scene_id]) for reply in replies]
    for name, rows in (("before", replies), ("after", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps(score(data, rows)))
    save_calibration(tmp_path / "calibration.json", found)
    report = run("abstention.py", str(tmp_path))
    assert report["calibration"]["none_below"] == 0.4
    before, after = report["before"], report["after"]
    assert (before["nothing_said"], before["nothing_true"], before["abstention_f1"]) == (0, 3, 0.0)
    assert (after["abstention_f1"], after["abstention_f1_interval"], after["several_set_f1"]) == (100.0, [100.0, 100.0], 100.0)
    assert before["several_exact"] == 0.0 and before["several_set_f1"] == pytest.approx(200 / 3)
