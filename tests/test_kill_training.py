"""Kill -9 at random moments, by the tool that also does it fifty times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra train)")

TOOL = Path(__file__).resolve().parent.parent / "tools" / "kill_training.py"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_training_killed_a_dozen_times_ends_bit_for_bit_like_one_left_alone():
    run = subprocess.run([sys.executable, str(TOOL), "--kills", "12", "--seed", "7"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["kills"] == 12
    assert report["identical"]
