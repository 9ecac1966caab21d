"""Stores on the hub, for which a local folder stands here."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from grand3d.cli import main
from grand3d.sample import load_data, save_data
from grand3d.store import open_store, read_manifest
from grand3d.synth import make_data

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra train)")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (extra train)")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub as a folder ``OWNER/NAME``; what it does with patterns is as documented."""
    place = tmp_path / "hub"

    def create_repo(repo: str, private: bool, **_: Any) -> None:
        if not (place / repo).exists():
            (place / repo).mkdir(parents=True)
            (place / repo / ".private").write_text(str(private))

    def upload_folder(repo_id: str, folder_path: str, delete_patterns: list[str], **_: Any) -> None:
        for file in (place / repo_id).iterdir():
            if any(fnmatch.fnmatch(file.name, pattern) for pattern in delete_patterns):
                file.unlink()
        shutil.copytree(folder_path, place / repo_id, dirs_exist_ok=True)

    def snapshot_download(repo: str, allow_patterns: list[str], **_: Any) -> str:
        if not (place / repo).exists():
            raise FileNotFoundError(f"no data set {repo}\nmore that a user need not read")
        out = tmp_path / "cache" / repo
        out.mkdir(parents=True, exist_ok=True)
        for file in (place / repo).iterdir():
            if any(fnmatch.fnmatch(file.name, pattern) for pattern in allow_patterns):
                shutil.copy(file, out)
        return str(out)

    api = create_autospec(huggingface_hub.HfApi, instance=True)  # refuses arguments that the real ones do not take
    api.create_repo.side_effect, api.upload_folder.side_effect = create_repo, upload_folder
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    fetched = create_autospec(huggingface_hub.snapshot_download, side_effect=snapshot_download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    return place


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    save_data(tmp_path / "rooms", make_data(3, 5, 12))
    assert main(["store", str(tmp_path / "store"), str(tmp_path / "rooms"), "--licence", "CC BY 4.0"]) == 0
    return tmp_path / "store"


def test_what_is_pushed_comes_back_the_same(hub: Path, stored: Path, tmp_path: Path) -> None:
    assert main(["export", "parquet", str(stored), "hub:lab/rooms"]) == 0
    assert (hub / "lab" / "rooms" / ".private").read_text() == "True"
    assert main(["store", str(tmp_path / "again"), "hub:lab/rooms"]) == 0
    assert read_manifest(tmp_path / "again")["sha256"] == read_manifest(stored)["sha256"]
    wanted = sorted(load_data(tmp_path / "rooms").samples, key=lambda sample: sample.scene_id)
    assert list(open_store(tmp_path / "again").samples) == wanted
    assert read_manifest(tmp_path / "again")["licence"] == "CC BY 4.0"


def test_an_upload_that_was_changed_is_refused(hub: Path, stored: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["export", "parquet", str(stored), "hub:lab/rooms@v2"]) == 0
    path = hub / "lab" / "rooms" / "samples-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    assert main(["store", str(tmp_path / "again"), "hub:lab/rooms@v2"]) == 2
    assert "samples-00000-of-00001.parquet is not what manifest.json says, expected" in capsys.readouterr().err


def test_a_smaller_upload_leaves_nothing_of_the_larger_one(hub: Path, stored: Path) -> None:
    assert main(["export", "parquet", str(stored), "hub:lab/rooms", "--public"]) == 0
    (hub / "lab" / "rooms" / "samples-00001-of-00002.parquet").write_text("of an earlier one")
    assert (hub / "lab" / "rooms" / ".private").read_text() == "False"
    assert main(["export", "parquet", str(stored), "hub:lab/rooms"]) == 0
    assert sorted(path.name for path in (hub / "lab" / "rooms").glob("samples*")) == ["samples-00000-of-00001.parquet"]


def test_the_card_tells_datasets_which_files_are_which(hub: Path, stored: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    assert main(["export", "parquet", str(stored), "hub:lab/rooms"]) == 0
    for name, number in (("samples", len(open_store(stored).samples)), ("scenes", 3)):
        found = datasets.load_dataset(str(hub / "lab" / "rooms"), name, split="train", cache_dir=str(tmp_path / "c"))
        assert len(found) == number
    assert "- licence: CC BY 4.0\n" in (hub / "lab" / "rooms" / "README.md").read_text()


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["store", "{out}", "hub:lab/none"], "hub:lab/none: no data set lab/none, expected a data set of the hub"),
        (["store", "{out}", "hub:rooms"], "'hub:rooms' names no data set of the hub, expected hub:OWNER/NAME"),
        (["export", "parquet", "{store}", "hub:a/b/c"], "'hub:a/b/c' names no data set of the hub, expected"),
        (["export", "messages", "{store}", "hub:a/b"], "only parquet goes to the hub, expected"),
        (["export", "parquet", "{store}", "{out}", "--public"], "--public belongs to an upload, expected"),
    ],
)
def test_wrong_names_get_one_message(stored: Path, tmp_path: Path, capsys: Any, argv: list[str], said: str) -> None:
    capsys.readouterr()
    assert main([word.format(out=tmp_path / "out", store=stored) for word in argv]) == 2
    err = capsys.readouterr().err
    assert said in err and "more that a user" not in err and not (tmp_path / "out").exists()
