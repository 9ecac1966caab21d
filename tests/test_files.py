from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import files
from grand3d.errors import GrandError, import_extra
from grand3d.files import Rejects, write_text
from grand3d.folders import made_beside

HUGE = "9" * 5000
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def _rows(path: Path, rejects: Rejects | None = None) -> list[Any]:
    return list(files.read_jsonl(path, lambda row: row, rejects))


@settings(max_examples=40, deadline=None)
@given(st.lists(json_values, max_size=4))
def test_read_jsonl_of_write_jsonl_returns_the_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert files.write_jsonl(path, rows) == len(rows)
    assert _rows(path) == rows


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_readers_raise_only_grand_errors_on_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "any"
    path.write_bytes(raw)
    for read in (files.read_text, files.read_json, _rows):
        try:
            read(path)
        except GrandError as error:
            assert str(path) in str(error)
    if raw[:2] != b"\x1f\x8b" and raw.strip() not in (b"[", b"{") and not files._wide_encoding(raw[:4]):
        _rows(path, Rejects(skip_bad=True))


def test_read_text_drops_a_bom_and_unzips_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(gzip.compress(b"\xef\xbb\xbf{}"))
    assert files.read_text(tmp_path / "a.json") == "{}"


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "empty"),
        (b'{"a": 1}\n{"a": 2}\n', "JSON lines"),
        (b'{"a":\n oops}', "line 2, column 2"),
        ("\ufeff{}".encode("utf-16-le"), "is UTF-16, expected UTF-8; save it as UTF-8, or: iconv -f UTF-16 -t UTF-8"),
        ('{"a": 1}'.encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8"),
        ('\ufeff{"a": 1}'.encode("utf-32-le"), "is UTF-32"),
        (gzip.compress('{"a": 1}'.encode("utf-16-le"), mtime=0), "iconv -f UTF-16LE -t UTF-8"),
        (b'{"a": "x\xff"}', "byte 8 is not UTF-8"),
        (b'{"a":\n "b\x00"}', "a NUL character at line 2, column 4; is the file damaged"),
        (b"[" * 101 + b"]" * 101, "nested too deeply: more than 100"),
        (b'{"a": [' * 60 + b"]}" * 60, "nested too deeply: more than 100"),
        (b"\x1f\x8b\x08\x00broken", "cannot be read"),
        (gzip.compress(b'{"a": 1}' * 100, mtime=0)[:-12], "cannot be read"),
        (b"[" * 200_000, "nested too deeply"),
        (HUGE.encode(), "a number of 5,000 digits at line 1, column 1, expected one that fits a float"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'"\\ud800"', "surrogate"),
    ],
)
def test_read_json_of_a_broken_file_says_what_is_wrong(tmp_path: Path, raw: bytes, word: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(raw)
    with pytest.raises(GrandError, match=word) as caught:
        files.read_json(path)
    assert str(path) in str(caught.value)


def test_read_json_keeps_whole_surrogate_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('"\\ud83d\\ude00"')
    assert files.read_json(tmp_path / "a.json") == "\U0001f600"


def test_readers_name_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for read in (files.read_text, files.read_json, _rows):
        with pytest.raises(GrandError, match="no such file"):
            read(tmp_path / "absent")
        with pytest.raises(GrandError, match="is a folder"):
            read(tmp_path)


def test_read_jsonl_with_bom_crlf_blank_lines_and_no_last_newline_reads_every_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff{"a": 1}\r\n\r\n  \n\ufeff{"a": "\ufeffx"}\n{"a": 3}'.encode())
    assert _rows(path) == [{"a": 1}, {"a": "\ufeffx"}, {"a": 3}]


def test_read_jsonl_skipping_keeps_the_good_lines_and_counts_the_bad_ones_by_cause(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [b'{"a": 1}', b'{"a": 1} {"a": 2}', b'{"a"', b"\xff\xfe", b"\x00", b'{"a": 1, "a": 1}', b'{"a": 5}', b'{"a": 6']
    path.write_bytes(b"\n".join(lines))
    rejects = Rejects(skip_bad=True)
    assert _rows(path, rejects) == [{"a": 1}, {"a": 5}]
    assert rejects.counts() == {"not JSON": 3, "not UTF-8": 1, "NUL character": 1, "key twice": 1}
    assert [row["where"].rpartition(":")[2] for row in rejects.rows] == ["2", "3", "4", "5", "6", "8"]
    saved = rejects.save(tmp_path / "out")
    assert saved == tmp_path / "out.rejected.jsonl"
    assert len(_rows(saved)) == 6


def test_read_jsonl_not_skipping_raises_at_the_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": 1} {"a": 2}\n')
    with pytest.raises(GrandError, match=r"rows\.jsonl:2: .*two objects on one line"):
        _rows(path)


def test_read_jsonl_of_one_json_document_says_so_even_when_skipping(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps([{"a": 1}], indent=1))
    with pytest.raises(GrandError, match="one JSON document"):
        _rows(path, Rejects(skip_bad=True))


def test_rejects_without_rows_writes_no_file(tmp_path: Path) -> None:
    assert Rejects(skip_bad=True).save(tmp_path / "out") is None
    assert list(tmp_path.iterdir()) == []


def test_write_text_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(GrandError, match="half a surrogate pair"):
        files.write_text(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/a.txt", "a part of the path is a file, where a folder is expected"),
        ("file/b/a.txt", "a part of the path is a file, where a folder is expected"),
        ("folder", "is a folder, a file was expected"),
        ("x" * 256, "the name is too long for this file system"),
        ("x/" * 3000, "the name is too long for this file system"),
        ("a\0b", "the name holds a NUL character"),
    ],
)
def test_a_path_that_cannot_be_used_gets_one_short_message_from_writers_and_readers(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for write in (files.write_text, files.write_json, lambda path, value: files.write_jsonl(path, [value])):
        with pytest.raises(GrandError) as caught:
            write(tmp_path / name, "x")
        assert "cannot be written" in str(caught.value) and reason in str(caught.value)
        assert len(str(caught.value)) < 450 and str(caught.value).isprintable()
    for read in (files.read_text, files.read_json, _rows):
        with pytest.raises(GrandError) as caught:
            read(tmp_path / name)
        assert reason in str(caught.value) and len(str(caught.value)) < 450 and str(caught.value).isprintable()
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_write_text_takes_a_name_as_long_as_may_be(tmp_path: Path) -> None:
    files.write_text(tmp_path / ("é" * 127), "x")
    assert files.read_text(tmp_path / ("é" * 127)) == "x"


def test_read_jsonl_of_deep_nesting_rejects_the_row_whole_and_goes_on(tmp_path: Path) -> None:
    deep = ["[" * count + "]" * count for count in (100, 101, 900, 100_000)]
    (tmp_path / "rows.jsonl").write_text("\n".join(deep))
    rejects = Rejects(skip_bad=True)
    assert len(_rows(tmp_path / "rows.jsonl", rejects)) == 1 and rejects.counts() == {"nested too deeply": 3}
    assert [row["row"] for row in rejects.rows] == deep[1:]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_read_jsonl_of_wide_encodings_is_refused_even_when_skipping(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes('{"a": 1}\n{"a": 2}\n'.encode(encoding))
    with pytest.raises(GrandError, match=r"the file is UTF-.*iconv -f UTF-") as caught:
        _rows(tmp_path / "rows.jsonl", Rejects(skip_bad=True))
    assert encoding[:6].upper() in str(caught.value)


def test_rejected_rows_are_kept_whole_as_values_or_as_text(tmp_path: Path) -> None:
    long = "x" * 5000

    def parse(row: Any) -> Any:
        raise GrandError("no", "no")

    rows = [{"a": long}, [long], {"b": float("nan")}]
    texts = ['{"cut off": "' + long, '{"twice": 1, "twice": 2}']
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join([*map(json.dumps, rows), *texts]).encode() + b"\n" + b"\xff" * 3000)
    rejects = Rejects(skip_bad=True)
    assert list(files.read_jsonl(path, parse, rejects)) == []
    rejects.add("elsewhere", "no reason", {"c": 1})
    kept = [row["row"] for row in _rows(rejects.save(path))]
    assert kept == [rows[0], rows[1], '{"b": NaN}', *texts, repr(b"\xff" * 3000), {"c": 1}]


def test_rejects_say_a_place_once() -> None:
    rejects = Rejects(skip_bad=True)
    rejects.add("sample 'x'", "sample 'x': too long: 9 tokens", None)
    assert (rejects.rows[0]["where"], rejects.rows[0]["reason"], rejects.counts()) == (
        "sample 'x'",
        "too long: 9 tokens",
        {"too long": 1},
    )
    with pytest.raises(GrandError, match=r"^sample 'x': too long$"):
        Rejects().add("sample 'x'", "sample 'x': too long")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        (True, float),
        (1, bool),
        (1, str),
        ("1", float),
        (None, str),
        ([], dict),
        (float("nan"), float),
        (10**400, float),
    ],
)
def test_field_of_another_type_is_refused(value: Any, kind: type) -> None:
    with pytest.raises(GrandError, match="here: a is ") as caught:
        files.field({"a": value}, "a", kind, "here")
    assert caught.value.cause == "wrong type"


def test_field_absent_or_null_gives_the_default_and_is_refused_without_one() -> None:
    assert files.field({}, "a", str, "here", "x") == "x"
    assert files.field({"a": None}, "a", str, "here", "x") == "x"
    with pytest.raises(GrandError, match="here: a is missing"):
        files.field({"b": 1}, "a", str, "here")


def test_field_of_a_whole_number_comes_back_as_float() -> None:
    assert isinstance(files.field({"a": 2}, "a", float, ""), float)


@pytest.mark.parametrize("value", [None, 3, "123", [1, 2], [1, 2, "3"], [1, 2, True], [1, 2, float("inf")], [1, 2, 10**400], {}])
def test_numbers_of_anything_but_three_finite_numbers_is_refused(value: Any) -> None:
    with pytest.raises(GrandError, match="centroid is"):
        files.numbers(value, 3, "centroid")


def test_shown_of_a_long_or_unshowable_value_is_short() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert files.shown(deep) == "a list too long to show"
    while deep:  # taken apart here, since Python would do it by recursion
        deep = deep[0]
    assert len(files.shown("x" * 500)) == 80
    assert "int" in files.shown(int("9" * 4000) * 10**4000)


def test_import_extra_names_the_pip_line_of_a_missing_package() -> None:
    with pytest.raises(GrandError, match=r"pip install 'grand3d\[view\]'"):
        import_extra("no_such_package_at_all", "view")
    assert import_extra("json", "view") is json


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_made_beside_files_get_the_rights_that_the_user_gives_new_files(tmp_path, mask):
    before = os.umask(mask)
    try:
        with made_beside(tmp_path / "out") as beside:
            (beside / "deep").mkdir()
            for file in (beside / "a", beside / "deep" / "b"):
                file.touch(mode=0o600)
    finally:
        os.umask(before)
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert rights == {"out": 0o777 & ~mask, "deep": 0o777 & ~mask, "a": 0o666 & ~mask, "b": 0o666 & ~mask}


def test_write_text_keeps_links_and_devices(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, ["new", "er"])
    assert link.is_symlink() and target.read_text() == "newer" and os.listdir(tmp_path / "there") == ["file"]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "there" / "second")
    write_text(dangling, "x")
    assert dangling.is_symlink() and (tmp_path / "there" / "second").read_text() == "x"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through" and stat.S_ISFIFO(os.stat(pipe).st_mode)
    os.close(reader)
    if os.path.exists("/dev/full"):
        with pytest.raises(GrandError, match="cannot be written"):
            write_text("/dev/full", "more than it takes")
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
