"""One batch cut in several ways, over rows and over two real processes, must train the same adapter."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("accelerate")
safetensors = pytest.importorskip("safetensors.torch")

SCRIPT = Path(__file__).with_name("split_training.py")


def start(out: Path, *arguments: object, processes: int = 1) -> subprocess.Popen:
    launcher = []
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={port}"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *launcher, str(SCRIPT), str(out), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def adapter(out: Path, run: subprocess.Popen):
    said, _ = run.communicate(timeout=500)
    assert run.returncode == 0, said
    (file,) = out.glob("checkpoints/step_*/adapter.safetensors")
    return safetensors.load_file(file)


@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"), [("fp64", 1, 1e-10), pytest.param("fp32", 20, 1e-5, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(600)
def test_shared_prefix_step_is_the_same_as_one_row_of_8_as_8_rows_of_1_and_as_2_processes_of_4(tmp_path, dtype, steps, tolerance):
    one = start(tmp_path / "one", dtype, steps, 1, 1_000_000)
    eight = start(tmp_path / "eight", dtype, steps, 1)
    expected = adapter(tmp_path / "one", one)
    found = {"8 x 1": adapter(tmp_path / "eight", eight)}
    found["2 x 4"] = adapter(tmp_path / "two", start(tmp_path / "two", dtype, steps, 1, processes=2))
    found["2 x 1 row"] = adapter(tmp_path / "rows", start(tmp_path / "rows", dtype, steps, 1, 1000, processes=2))
    size = sum(value.double().norm() ** 2 for value in expected.values()) ** 0.5
    for name, weights in found.items():
        assert weights.keys() == expected.keys()
        off = sum((weights[key].double() - value.double()).norm() ** 2 for key, value in expected.items()) ** 0.5
        assert off <= tolerance * size, f"{name}: {off / size:.1e}"
