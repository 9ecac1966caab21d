"""Shared fixtures: toy rooms built in code, real and golden files when they are there, a tiny random model."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import Script
from toy_run import save_toy_data

from grand3d.cli import main
from grand3d.sample import Data, Sample, save_data
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig

ROOT = Path(__file__).resolve().parent.parent

# Before any test imports numpy or torch: one thread a process, threads that sleep when they wait, and no network.
for _name, _value in (
    ("OMP_NUM_THREADS", "1"),
    ("OMP_WAIT_POLICY", "passive"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("HF_HUB_OFFLINE", "1"),
):
    os.environ.setdefault(_name, _value)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked ``gpu`` is skipped, with the reason, where torch sees no CUDA device."""
    if item.get_closest_marker("gpu"):
        torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def real() -> Callable[[str], Path]:
    """``real("mask3d/x.json")`` is a file under GRAND3D_REAL (default ../shared/real); without that the test is skipped."""
    return _outside("GRAND3D_REAL", ROOT.parent / "shared" / "real")


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Path]:
    """``golden("grand/x.json")`` is a file under GRAND3D_GOLDEN (default ../shared/golden), found or skipped alike."""
    return _outside("GRAND3D_GOLDEN", ROOT.parent / "shared" / "golden")


def _outside(variable: str, default: Path) -> Callable[[str], Path]:
    folder = Path(os.environ.get(variable) or default)

    def find(name: str) -> Path:
        if not folder.is_dir():
            pytest.skip(f"no folder {folder}; set {variable}")
        path = folder / name
        assert path.exists(), f"{variable} is {folder}, but {name} is not in it"
        return path

    return find


@pytest.fixture
def toy_scene() -> Scene:
    """A 4 x 3 m study of ten true objects: two chairs (one at the desk), a lamp on the desk, two pillows on the bed, ..."""
    rows = (
        ("0", "desk", (1.0, 0.4, 0.375), (1.6, 0.8, 0.75)),
        ("1", "office chair", (1.0, 1.2, 0.5), (0.6, 0.6, 1.0)),
        ("2", "office chair", (3.6, 0.4, 0.5), (0.6, 0.6, 1.0)),
        ("3", "table lamp", (0.4, 0.4, 0.95), (0.3, 0.3, 0.4)),
        ("4", "bed", (3.0, 2.2, 0.3), (2.0, 1.6, 0.6)),
        ("5", "pillow", (3.7, 1.8, 0.7), (0.4, 0.6, 0.2)),
        ("6", "pillow", (3.7, 2.6, 0.7), (0.4, 0.6, 0.2)),
        ("7", "bookshelf", (0.2, 2.0, 1.0), (0.4, 1.0, 2.0)),
        ("8", "rug", (1.5, 1.5, 0.01), (1.4, 1.0, 0.02)),
        ("9", "window", (2.0, 0.0, 1.6), (1.2, 0.1, 1.0)),
    )
    return Scene("toy_room", tuple(Object(*row) for row in rows), id_space="synthetic")


@pytest.fixture
def toy_proposals() -> Scene:
    """What a detector might make of the toy room: scores, a box twice under two labels, a wrong label, no window."""
    rows = (
        ("p0", "desk", (1.02, 0.41, 0.37), (1.58, 0.8, 0.74), 0.97),
        ("p1", "bed", (3.01, 2.19, 0.31), (1.96, 1.6, 0.62), 0.95),
        ("p2", "office chair", (1.0, 1.21, 0.49), (0.61, 0.58, 0.98), 0.91),
        ("p3", "office chair", (3.58, 0.42, 0.5), (0.6, 0.62, 1.0), 0.88),
        ("p4", "chair", (3.58, 0.42, 0.5), (0.6, 0.62, 1.0), 0.61),
        ("p5", "lamp", (0.4, 0.39, 0.94), (0.28, 0.3, 0.4), 0.8),
        ("p6", "pillow", (3.7, 1.81, 0.7), (0.4, 0.58, 0.2), 0.72),
        ("p7", "cabinet", (0.2, 2.01, 1.0), (0.4, 0.98, 1.98), 0.7),
        ("p8", "rug", (1.5, 1.5, 0.01), (1.4, 1.0, 0.02), 0.35),
    )
    objects = tuple(Object(i, label, centroid, extent, score=score) for i, label, centroid, extent, score in rows)
    return Scene("toy_room", objects, id_space="synthetic_proposals")


@pytest.fixture
def toy_data(toy_scene: Scene) -> Data:
    """The toy room with one sample of each of four tasks; prompts show its true objects."""
    samples = (
        Sample(
            "toy_0",
            "toy_room",
            "object_reference",
            "The <p>office chair</p>[<1>] at the <p>desk</p>[<0>].",
            target_ids=("1",),
        ),
        Sample("toy_1", "toy_room", "existence", "Are there any pillows in the room?", "Yes", ("5", "6")),
        Sample("toy_2", "toy_room", "existence", "Is there a refrigerator in the room?", "No"),
        Sample("toy_3", "toy_room", "counting", "How many office chairs are there?", "2", ("1", "2")),
    )
    return Data({toy_scene.scene_id: toy_scene}, samples)


@pytest.fixture
def toy_folder(tmp_path: Path, toy_scene: Scene, toy_proposals: Scene) -> Path:
    """The data folder of a short training, see toy_run.py."""
    return save_toy_data(tmp_path / "data", toy_scene, toy_proposals)


@pytest.fixture(scope="session")
def tiny_base() -> tuple[Any, Any]:
    """(model, tokenizer) of the random four-layer Llama, shared by the session: read it, never change it."""
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    from grand3d.model import load_base

    return load_base("tiny")


@pytest.fixture(scope="session")
def lively(tiny_base: tuple[Any, Any]) -> tuple[Any, Any]:
    """The tiny model with larger random weights: its likeliest token depends on all of what it read."""
    import torch

    model, tokenizer = tiny_base
    model = copy.deepcopy(model)
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.3, generator=rng)
    return model, tokenizer


@pytest.fixture
def tiny_training_base(tiny_base: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every training of a test starts from a copy of the one tiny model."""
    from grand3d import train

    model, tokenizer = tiny_base
    monkeypatch.setattr(train, "load_base", lambda *_: (copy.deepcopy(model), tokenizer))


@pytest.fixture
def tiny_model(tiny_base: tuple[Any, Any]) -> tuple[Any, Any]:
    """A copy of ``tiny_base`` that a test may train or attach an adapter to."""
    model, tokenizer = tiny_base
    return copy.deepcopy(model), tokenizer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr of a command."""

    def call(*argv: Any) -> tuple[int, str, str]:
        code = main([str(item) for item in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def tiny(tiny_base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that ask a model get the tiny one, loaded once."""
    from grand3d import evaluate

    monkeypatch.setattr(evaluate, "load_model", lambda name, dtype="fp32": (*tiny_base, PromptConfig()))


@pytest.fixture
def folder(tmp_path: Path, toy_data: Data) -> Path:
    """A data folder of the toy room."""
    save_data(tmp_path / "data", toy_data)
    return tmp_path / "data"


@pytest.fixture
def script(tiny_base: Any, monkeypatch: pytest.MonkeyPatch) -> Script:
    """What conversations are answered by."""
    import grand3d.generate

    made = Script(tiny_base[1])
    monkeypatch.setattr(grand3d.generate, "generate", made)
    return made


@pytest.fixture
def begin(tiny_base: Any) -> Callable[..., Any]:
    """Conversations with the tiny model."""
    from grand3d.chat import Conversation
    from grand3d.decoding import Decoding

    def make(scene: Scene, max_new_tokens: int = 32, turns: int = 100, **prompt: Any) -> Conversation:
        return Conversation(*tiny_base, PromptConfig(**prompt), scene, Decoding(max_new_tokens), turns)

    return make
