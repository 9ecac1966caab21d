"""Files as they come from elsewhere: the rule of docs/formats.md for each, and nothing lost, whichever way data are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.cli import main
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Sample, load_data, sample_to_dict, save_data
from grand3d.scene import Object, Scene

SCENE = Scene("room", (Object("1", "desk", (0, 0, 0.5), (1, 1, 1)),))
SAMPLES = tuple(Sample(str(k), "room", "question", f"Größe {k}?", "Yes", meta={"k": k}) for k in range(4))
LINES = [json.dumps(sample_to_dict(sample), ensure_ascii=False).encode() for sample in SAMPLES]
NEW = json.dumps(sample_to_dict(Sample("new", "room", "question", "?", "No"))).encode()


def _folder(path: Path, rejects: Rejects) -> tuple[Sample, ...]:
    return tuple(load_data(path, rejects).samples)


def _store(path: Path, rejects: Rejects) -> tuple[Sample, ...]:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra train)")
    from grand3d.store import build, folder_source, open_store

    build(path.parent / "store", [folder_source(path)], rejects=rejects)
    return tuple(open_store(path.parent / "store").samples)


READERS = pytest.mark.parametrize("read", [_folder, _store])
Read = Callable[[Path, Rejects], tuple[Sample, ...]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_data(tmp_path / "data", Data({"room": SCENE}, SAMPLES))
    return tmp_path / "data"


@READERS
@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf" + b"\n".join(LINES) + b"\n",
        b"\r\n".join(LINES) + b"\r\n",
        b"\xef\xbb\xbf" + b"\r\n\r\n".join(LINES),
        b"\n".join(LINES),
        gzip.compress(b"\n".join(LINES)),
        gzip.compress(LINES[0] + b"\n") + gzip.compress(b"\r\n".join(LINES[1:])),  # parts, as `cat a.gz b.gz` makes
    ],
    ids=["BOM", "CRLF", "BOM and CRLF and blank lines", "no last line end", "gz under another name", "gz of two parts"],
)
def test_harmless_oddities_are_read_and_nothing_is_rejected(folder: Path, read: Read, raw: bytes) -> None:
    (folder / "samples.jsonl").write_bytes(raw)
    rejects = Rejects(skip_bad=True)
    assert read(folder, rejects) == SAMPLES and rejects.rows == []


@READERS
@pytest.mark.parametrize(
    ("bad", "cause", "said"),
    [
        (NEW[: len(NEW) // 2], "not JSON", "is it cut off?"),
        (NEW.replace(b'"?"', b'"\0"'), "NUL character", "NUL"),
        (NEW.replace(b'"?"', b'"\\u0000"'), "NUL character", "NUL"),
        (b"\0" * 4096, "NUL character", "NUL"),
        (b"[1, 2]", "wrong type", "[1, 2] is no sample, expected a JSON object"),
        (b"null", "wrong type", "None is no sample, expected a JSON object"),
        (NEW.replace(b'"new"', b"7"), "wrong type", "sample_id is 7, expected text"),
        (NEW.replace(b'"?"', b"[1]"), "wrong type", "text is [1], expected text"),
        (NEW.replace(b'"?"', b'"\xff"'), "not UTF-8", "expected UTF-8"),
        (b'{"text": "' + b"x" * (8 << 20), "not JSON", "is it cut off?"),
        (NEW.replace(b'"?"', b'"' + b"x" * (8 << 20) + b'", "more": 1'), "unknown key", "unknown keys ['more']"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:12].decode("latin-1"),
)
def test_a_broken_line_is_refused_or_counted_and_kept_whole(
    folder: Path, tmp_path: Path, read: Read, bad: bytes, cause: str, said: str
) -> None:
    """First in the midst, then as the last line, which has no end."""
    for number, raw in ((3, [*LINES[:2], bad, *LINES[2:]]), (5, [*LINES, bad])):
        (folder / "samples.jsonl").write_bytes(b"\n".join(raw))
        with pytest.raises(GrandError) as found:
            read(folder, Rejects())
        assert f"samples.jsonl:{number}: " in str(found.value) and said in str(found.value)
        assert found.value.cause == cause and len(str(found.value)) < 700
    rejects = Rejects(skip_bad=True)
    assert read(folder, rejects) == SAMPLES and rejects.counts() == {cause: 1}
    saved = rejects.save(tmp_path / "out")
    assert saved is not None
    (row,) = (json.loads(line) for line in saved.read_text().splitlines())
    kept = row["row"] if isinstance(row["row"], str) else json.dumps(row["row"])
    assert len(kept) >= len(bad) - 10 and row["cause"] == cause  # the whole line, be it of 8 MB


@READERS
def test_a_good_line_of_8_mb_is_a_row(folder: Path, read: Read) -> None:
    long = Sample("long", "room", "question", "é" * (4 << 20), "Yes")
    with open(folder / "samples.jsonl", "ab") as file:
        file.write(json.dumps(sample_to_dict(long), ensure_ascii=False).encode())
    assert read(folder, Rejects()) == (*SAMPLES, long)


@READERS
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (gzip.compress(b"\n".join(LINES))[:-12], "expected a whole gzip file; is it cut off"),
        (gzip.compress(gzip.compress(b"\n".join(LINES))), "gzip inside gzip"),
        (b"\n".join(LINES).decode().encode("utf-16"), "the file is UTF-16, expected UTF-8"),
        (b"\r".join(LINES), "lines end with CR alone"),
        (json.dumps([json.loads(line) for line in LINES], indent=1).encode(), "looks like one JSON document"),
    ],
    ids=["cut gz", "gz in gz", "UTF-16", "CR alone", "one JSON list"],
)
def test_a_file_that_cannot_be_trusted_is_refused_even_when_skipping(folder: Path, read: Read, raw: bytes, said: str) -> None:
    (folder / "samples.jsonl").write_bytes(raw)
    with pytest.raises(GrandError, match="expected") as found:
        read(folder, Rejects(skip_bad=True))
    assert said in str(found.value) and "samples.jsonl" in str(found.value)


def test_check_of_all_of_them_at_once_counts_each(folder: Path, capsys: Any) -> None:
    bad = [b"[1]", b"\xff", b'{"text": "' + b"x" * (8 << 20), NEW.replace(b'"?"', b'"\0"'), NEW[:20]]
    (folder / "samples.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([*LINES, *bad]))
    assert main(["check", str(folder)]) == 2
    out = capsys.readouterr().out
    assert out.startswith("1 scenes, 4 samples") and len(out) < 3000
    for counted in ("2 x not JSON", "1 x wrong type", "1 x not UTF-8", "1 x NUL character"):
        assert counted in out
