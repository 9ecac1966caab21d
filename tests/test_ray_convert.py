"""A store made by Ray's workers is that of one process: rows, order, checksums, rejected rows and refusals."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.errors import GrandError
from grand3d.files import Rejects, read_numbered
from grand3d.sample import save_data
from grand3d.store import build, folder_source, read_manifest
from grand3d.synth import make_data

ROOT = Path(__file__).resolve().parent.parent


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("ray_convert", ROOT / "launch" / "ray_convert.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()


class OnePiece(list):
    """Stands for a Ray job where only the cutting and joining is tried."""

    def map(self, function: Callable[..., Any], fn_args: tuple[Any, ...]) -> OnePiece:
        return OnePiece(function(item, *fn_args) for item in self)

    def iter_rows(self) -> OnePiece:
        return self


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    class Data:
        from_items = staticmethod(lambda items, override_num_blocks: OnePiece(items))

    monkeypatch.setattr(script, "import_extra", lambda *_: Data)


LINE = st.sampled_from([b"", b"\r", b"{}", b"[]", b"\xff", b'{"a": "\xc3\xa9"}', b'{"a": NaN}', b'"\\u0000"', b"{", b"7\r", b" "])


def everything(read: Callable[[Rejects], Any]) -> Any:
    rejects = Rejects(skip_bad=True)
    try:
        return list(read(rejects)), rejects.rows
    except GrandError as error:
        return str(error), rejects.rows


@settings(max_examples=150, deadline=None)
@given(st.lists(LINE, max_size=12), st.booleans(), st.booleans(), st.integers(1, 40), st.booleans())
def test_pieces_of_any_size_give_the_rows_of_the_whole_file(
    tmp_path_factory: Any, lines: list[bytes], bom: bool, ended: bool, size: int, packed: bool
) -> None:
    def parse(row: Any) -> Any:
        if row == []:
            raise GrandError("a list, expected an object", "wrong type")
        return row

    path = tmp_path_factory.mktemp("pieces") / "samples.jsonl"
    raw = b"\xef\xbb\xbf" * bom + b"\n".join(lines) + b"\n" * ended
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(script.PARSERS, "samples", parse)
        patch.setattr(
            script,
            "import_extra",
            lambda *_: type("Data", (), {"from_items": staticmethod(lambda items, override_num_blocks: OnePiece(items))}),
        )
        assert repr(everything(lambda rejects: script._rows(path, "samples", size, rejects))) == repr(
            everything(lambda rejects: read_numbered(path, parse, rejects))
        )


def spoiled(folder: Path) -> Path:
    """Rooms with broken rows in the midst and at the end of their samples."""
    save_data(folder, make_data(5, 2, 24))
    lines = (folder / "samples.jsonl").read_text().splitlines()
    lines.insert(3, '{"sample_id": 3}')
    lines.insert(50, lines[0])
    (folder / "samples.jsonl").write_text("\n".join([*lines, '{"sample_id']))
    return folder


@pytest.mark.usefixtures("no_ray")
def test_refusals_are_those_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra train)")
    folder = spoiled(tmp_path / "rooms")
    errors = []
    for source in (folder_source(folder), script.ray_source(folder, 999)):
        with pytest.raises(GrandError) as found:
            build(tmp_path / "o", [source])
        errors.append((str(found.value), found.value.cause))
    assert errors[0] == errors[1] and "samples.jsonl:4" in errors[0][0]


@pytest.mark.slow  # a Ray cluster takes half a minute to start and end
def test_two_workers_make_the_store_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason="ray is not installed (extra ray)")
    folder = spoiled(tmp_path / "rooms")
    rejects = Rejects(skip_bad=True)
    build(tmp_path / "one", [folder_source(folder)], rejects=rejects)
    argv = [sys.executable, str(ROOT / "launch" / "ray_convert.py"), str(tmp_path / "many"), str(folder), "--skip-bad"]
    done = subprocess.run(
        [*argv, "--workers", "2", "--piece-mb", "0.004"],
        capture_output=True,
        text=True,
        timeout=170,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert len(script.pieces(folder / "samples.jsonl", 4194)) > 5
    one, many = read_manifest(tmp_path / "one"), read_manifest(tmp_path / "many")
    assert one == many and one["counts"]["rejected"] == 3  # checksums of the files among it
    kept = [json.loads(line) for line in (tmp_path / "many.rejected.jsonl").read_text().splitlines()]
    assert kept == json.loads(json.dumps(rejects.rows))
