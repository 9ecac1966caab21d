"""The recipe for a user's own scan, as it is shipped: made up, then with a table of boxes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grand3d.frames import source_objects
from grand3d.scene import load_scenes


def _recipe(root: Path, tmp_path: Path, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, command in (("grand3d", '-m grand3d "$@"'), ("python", '"$@"')):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}\n')
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(root), "OUT": str(tmp_path / "out"), "ADAPTER": "base:tiny", **settings}
    script = [str(item) for item in ("bash", root / "recipes" / "own_scan.sh", *arguments)]
    done = subprocess.run(script, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def test_the_made_up_scan_stands_upright_and_can_be_asked_about(root: Path, tmp_path: Path) -> None:
    done = _recipe(root, tmp_path)
    scene = load_scenes(tmp_path / "out/data/scenes.jsonl")["study"]
    assert [item.category for item in scene.objects] == ["desk", "office chair", "bed", "bookshelf"]
    desk = scene["0"]
    assert desk.extent == pytest.approx((1.6, 0.8, 0.74), abs=0.03) and desk.centroid == pytest.approx((0.9, 0.5, 0.37), abs=0.05)
    assert "> /ground the bed" in done.stdout
    own = source_objects(scene)[0]  # y up and centimetres again
    assert own.centroid[1] == pytest.approx(37, abs=3) and sorted(own.extent) == pytest.approx([74, 80, 160], abs=3)


def test_a_table_of_boxes_goes_the_same_way(root: Path, tmp_path: Path) -> None:
    table = tmp_path / "lab.csv"
    table.write_text("category,x,y,z,dx,dy,dz,score\ndesk,1000,500,370,1600,800,740,0.9\n")
    _recipe(root, tmp_path, "none.ply", table, UNITS="mm")
    (desk,) = load_scenes(tmp_path / "out/data/scenes.jsonl")["lab"].objects
    assert desk.centroid == pytest.approx((1.0, 0.5, 0.37)) and desk.score == 0.9
