"""One batch cut in several ways, over rows and over two real processes, must train the same adapter."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("accelerate")
safetensors = pytest.importorskip("safetensors.torch")

SCRIPT = Path(__file__).with_name("split_training.py")


def start(out: Path, *arguments: object, processes: int = 1, zero: bool = False) -> subprocess.Popen:
    launcher = []
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={port}"]
        if zero:
            launcher = ["-m", "accelerate.commands.launch", "--config_file", "launch/zero2_cpu.yaml"]
            launcher += ["--num_processes", str(processes), "--main_process_port", str(port)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PATH": path}
    command = [sys.executable, *launcher, str(SCRIPT), str(out), *map(str, arguments)]
    return subprocess.Popen(
        command, env=env, cwd=SCRIPT.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def adapter(out: Path, run: subprocess.Popen):
    said, _ = run.communicate(timeout=500)
    assert run.returncode == 0, said
    (file,) = out.glob("checkpoints/step_*/adapter.safetensors")
    return safetensors.load_file(file), log(out), said


def log(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"), [("fp64", 1, 1e-10), pytest.param("fp32", 20, 1e-5, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(600)
def test_shared_prefix_step_is_the_same_as_one_row_of_8_as_8_rows_of_1_and_as_2_processes_of_4(tmp_path, dtype, steps, tolerance):
    """Adam's first step depends on no factor of the gradient, so the gradient's norm is compared too, before any clipping; and
    that of the first step with what anyone's loop over separate samples gives."""
    one = start(tmp_path / "one", dtype, steps, 1, 1_000_000)
    eight = start(tmp_path / "eight", dtype, steps, 1)
    expected, steps_of_one, said = adapter(tmp_path / "one", one)
    found = {"8 x 1": adapter(tmp_path / "eight", eight)}
    found["2 x 4"] = adapter(tmp_path / "two", start(tmp_path / "two", dtype, steps, 1, processes=2))
    found["2 x 1 row"] = adapter(tmp_path / "rows", start(tmp_path / "rows", dtype, steps, 1, 1000, processes=2))
    size = sum(value.double().norm() ** 2 for value in expected.values()) ** 0.5
    assert steps_of_one[0]["grad_norm"] == pytest.approx(float(said.rpartition("plain norm:")[2]), rel=tolerance), said
    for name, (weights, taken, _) in found.items():
        for ours, theirs in zip(taken, steps_of_one, strict=True):
            assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=tolerance), f"{name}: {ours} {theirs}"
        assert weights.keys() == expected.keys()
        off = sum((weights[key].double() - value.double()).norm() ** 2 for key, value in expected.items()) ** 0.5
        assert off <= tolerance * size, f"{name}: {off / size:.1e}"


def need_deepspeed() -> None:
    pytest.importorskip("deepspeed", reason="deepspeed is not installed (extra deepspeed)")
    if not shutil.which("g++"):
        pytest.skip("DeepSpeed builds an operation at first use, and there is no g++")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_zero_2_in_bf16_adds_gradients_up_in_fp32_and_writes_the_weights_that_it_steps(tmp_path):
    need_deepspeed()
    said, _ = (run := start(tmp_path, "bf16", 3, 1, processes=2, zero=True)).communicate(timeout=800)
    assert run.returncode == 0, said
    assert said.count("sums in: {'torch.float32'}") == 2, said
    written = safetensors.load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    rounded = [name for name, value in written.items() if value.equal(value.bfloat16().half())]
    assert not rounded, "these hold no more than bf16 does"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_zero_2_over_processes_with_different_numbers_of_rows_learns_as_one_process_does(tmp_path):
    """Loss and gradient of each step are those of the adapter that the steps before it made, so they tell it exactly."""
    need_deepspeed()
    logs = []
    for name, processes in (("one", 1), ("two", 2)):
        out = tmp_path / name
        run = start(out, "fp32", 4, 1, 1500, processes=processes, zero=processes > 1)
        said, _ = run.communicate(timeout=800)
        assert run.returncode == 0, said
        logs.append(log(out))
    stand_ins = [int(number) for number in re.findall(r"stand-ins: (\d+)", said)]
    assert len(stand_ins) == 2 and max(stand_ins) > 0, said  # else the rows were equally many
    assert len(logs[0]) == len(logs[1]) == 4
    for one, two in zip(*logs, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-6)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-5)
        assert all(two[key] == one[key] for key in ("tokens", "label_tokens", "samples"))
