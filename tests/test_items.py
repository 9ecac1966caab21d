"""Rows of JSON lines and JSON arrays, one at a time."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d import items
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.items import read_items

leaf = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8)
values = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3))


@given(st.lists(values, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]))
def test_an_array_gives_its_rows_whatever_the_chunks(
    tmp_path_factory: Any, rows: list[Any], chunk: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("items") / "rows.json"
    text = json.dumps(rows, ensure_ascii=False, indent=indent).replace("\\u0000", "0").replace("\0", "0")
    path.write_bytes(text.encode("utf-8", "replace"))
    before, items.CHUNK = items.CHUNK, chunk
    try:
        assert [value for _, value in read_items(path, lambda row: row)] == json.loads(path.read_text())
    finally:
        items.CHUNK = before


def test_lines_and_packed_arrays_are_read_alike(tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": [2, {"b": "]"}]}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(rows).encode())
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    for name in ("a.jsonl", "a.json", "a.json.gz"):
        assert [row for _, row in read_items(tmp_path / name, lambda row: row)] == rows


@pytest.mark.parametrize("text", ['[{"a": 1}', '[{"a": "x', "[1, 2] 3", "[1, 2", "{", "", "nonsense"])
def test_broken_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    if text == "":
        assert list(read_items(path, lambda row: row)) == []
        return
    with pytest.raises(GrandError, match="expected"):
        list(read_items(path, lambda row: row))


def test_bad_rows_are_collected_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": }, , {"a": 1, "a": 2}, {"a": 3}]')
    rejects = Rejects(skip_bad=True)
    assert [row for _, row in read_items(path, lambda row: row, rejects)] == [{"a": 1}, {"a": 3}]
    assert [row["where"].rpartition(" ")[2] for row in rejects.rows] == ["1", "2", "3"]


def test_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write("[" + ",".join(json.dumps({"row": k, "text": "x" * 400}) for k in range(20_000)) + "]")
    assert path.stat().st_size > 8 * items.CHUNK
    tracemalloc.start()
    assert sum(1 for _ in read_items(path, lambda row: row["row"])) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 6 * items.CHUNK
    tracemalloc.stop()
