"""Broken data as a user may have it: whatever is wrong with a file, one message says where, what was seen, what expected."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sample import SAMPLE

from grand3d import checks, files
from grand3d.cli import main
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import load_replies, load_samples, sample_from_dict, sample_to_dict
from grand3d.scene import load_scenes, scene_from_dict, scene_to_dict

OBJECT = {"object_id": "1", "category": "desk", "centroid": [0, 0, 0.5], "extent": [1, 1, 1]}
SCENE: dict[str, Any] = {
    "scene_id": "room",
    "objects": [OBJECT | {"score": 0.5, "attributes": {"colour": "brown"}, "region_id": "bay"}],
    "regions": [{"region_id": "bay", "name": "bay", "polygon": [[0, 0], [1, 0], [1, 1]], "object_ids": ["1"]}],
}
GRAPH = {"room": {"obj_0": {"category": "desk", "centroid": [0, 0, 0.5], "extent": [1, 1, 1], "score": 1.0}}}
TALK = [{"id": "a", "scene_id": "room", "conversations": [{"from": "human", "value": "Hm?"}, {"from": "gpt", "value": "Ah."}]}]


def _error(argv: list[Any], capsys: Any) -> str:
    """The one message of a command that must fail."""
    assert main([str(word) for word in argv]) == 2
    out, err = capsys.readouterr()
    message = (out + err).rstrip("\n")
    assert "Traceback" not in message and "expected" in message, message
    return message


SCENE_LINE = json.dumps(SCENE)


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (SCENE_LINE.replace("0.5", "9" * 5000), "a number of 5,000 digits at line 1, column "),
        (gzip.compress(gzip.compress(SCENE_LINE.encode(), mtime=0), mtime=0), "gzip inside gzip"),
        (gzip.compress(SCENE_LINE.encode(), mtime=0)[:-9], "expected a whole gzip file; is it cut off"),
        (SCENE_LINE + "\r" + SCENE_LINE.replace("room", "other") + "\r", "lines end with CR alone, where LF or CRLF is expected"),
        (SCENE_LINE + SCENE_LINE, "two objects on one line?"),
        (SCENE_LINE[:100], "it ends inside a text: is it cut off?"),
        (SCENE_LINE[:90], "it ends too early: is it cut off?"),
        (SCENE_LINE + "]", "expected the end"),
        (SCENE_LINE.replace("brown", "bro\\u0000wn"), "holds a NUL character"),
        (SCENE_LINE.replace('"brown"', "7"), "attributes: 'colour' is 7, expected text"),
        (SCENE_LINE.replace('{"colour": "brown"}', '["brown"]'), "attributes is ['brown'], expected a JSON object"),
        (SCENE_LINE.replace("0.5]", "NaN]"), "centroid is [0, 0, nan], expected 3 finite numbers"),
        (SCENE_LINE.replace("0.5]", "1e999]"), "centroid is [0, 0, inf], expected 3 finite numbers"),
        (SCENE_LINE.replace('"room"', '""'), "scene_id is '', expected visible text"),
        (SCENE_LINE.replace('"desk"', '""'), "category is '', expected a name with something to see in it"),
        (SCENE_LINE.encode("latin-1") + "ä".encode("latin-1"), "is not UTF-8, expected UTF-8"),
        ("", "holds no scenes, expected at least one"),
    ],
)
def test_check_of_a_broken_scenes_file_says_where_what_was_seen_and_expected(
    tmp_path: Path, capsys: Any, raw: str | bytes, seen: str
) -> None:
    path = tmp_path / "scenes.jsonl"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    message = _error(["check", path], capsys)
    assert str(path) in message and seen in message, message


@pytest.mark.parametrize(
    ("graphs", "conversations", "seen"),
    [
        ("", None, "it is empty"),
        ("{}", None, "expected one JSON object of scenes {scene: {key: {category, centroid, extent}}}, seen {}"),
        ("[]", None, "expected one JSON object of scenes"),
        (json.dumps(GRAPH)[:60], None, "is it cut off?"),
        (json.dumps(GRAPH)[:-1], None, "seen the end at line 1, column "),
        (json.dumps(GRAPH).replace("desk", "de\\u0000sk"), None, "holds a NUL character"),
        (json.dumps(GRAPH).replace('"desk"', "[]"), None, "category is [], expected text"),
        (json.dumps(GRAPH).replace("0.5", "9" * 5000), None, "a number of 5,000 digits"),
        (json.dumps({"": GRAPH["room"]}), None, "scene_id is '', expected visible text"),
        (json.dumps(GRAPH), "[]", "expected a list of rows, seen []"),
        (json.dumps(GRAPH), json.dumps(TALK)[:50], "is it cut off?"),
        (json.dumps(GRAPH), json.dumps(TALK).replace("Hm?", "\\u0000"), "holds a NUL character"),
        (json.dumps(GRAPH), json.dumps(TALK) + "\n" + json.dumps(TALK), "it looks like JSON lines"),
        (json.dumps(GRAPH), json.dumps(TALK).replace("room", "hall"), "'hall' is not among the graphs"),
    ],
)
def test_convert_of_broken_or_empty_files_fails_and_writes_no_data(
    tmp_path: Path, capsys: Any, graphs: str, conversations: str | None, seen: str
) -> None:
    (tmp_path / "g.json").write_text(graphs)
    argv = ["convert", "grand3d", tmp_path / "out", "--graphs", tmp_path / "g.json"]
    if conversations is not None:
        (tmp_path / "c.json").write_text(conversations)
        argv += ["--conversations", tmp_path / "c.json"]
    name = "g.json" if conversations is None else "c.json"
    for more in ([], ["--skip-bad"]):
        assert main([str(word) for word in (*argv, *more)]) == 2
        message = capsys.readouterr().err
        assert name in message and seen in message and "Traceback" not in message, message
        assert not (tmp_path / "out").exists()
    assert "expected" in message


def test_convert_that_rejects_all_rows_fails_and_keeps_them(tmp_path: Path, capsys: Any) -> None:
    files.write_json(tmp_path / "g.json", GRAPH)
    files.write_json(tmp_path / "q.json", [TALK[0], TALK[0]])
    argv = ["convert", "pope", tmp_path / "out", "--questions", tmp_path / "q.json", "--proposals", tmp_path / "g.json"]
    message = _error([*argv, "--skip-bad"], capsys)
    assert "expected at least one good row, all were rejected (2 x " in message and "q.json: row 0" in message
    assert len((tmp_path / "out.rejected.jsonl").read_text().splitlines()) == 2


def test_a_file_with_cr_line_ends_is_refused_whole_even_when_skipping(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\r{"a": 2}\r')
    with pytest.raises(GrandError, match="CR alone"):
        list(files.read_jsonl(path, lambda row: row, Rejects(skip_bad=True)))


def test_replies_may_hold_what_a_model_can_write(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"sample_id": "s", "scene_id": "room", "text": "a\\u0000b", "seconds": NaN}\n')
    assert load_replies(path)[0].text == "a\0b"


# --- any JSON value in the place of any part of a row


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a JSON value: itself, its members, theirs."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, child in inner for found in _places(child, (*place, key)))]


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return value


any_text = st.text(max_size=5) | st.sampled_from(["\0", "\u200b", "a\nb", "<p>", "room", "1", "x" * 300])
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**4000)])
    | st.floats()
    | any_text.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("row", "read", "write", "load"),
    [
        (SCENE, scene_from_dict, scene_to_dict, lambda path: load_scenes(path).values()),
        (SAMPLE, sample_from_dict, sample_to_dict, load_samples),
    ],
    ids=["scene", "sample"],
)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_json_in_any_place_of_a_row_gives_a_valid_value_or_a_grand_error(
    tmp_path_factory: pytest.TempPathFactory, row: Any, read: Any, write: Any, load: Any, data: st.DataObject
) -> None:
    changed = _put(row, data.draw(st.sampled_from(_places(row))), data.draw(any_json))
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(changed) + "\n", encoding="utf-8")
    try:
        (value,) = load(path)
    except GrandError as error:
        assert str(error).startswith(f"{path}:1: ") and error.cause and len(str(error)) < 2000
        return
    text = json.dumps(write(value), allow_nan=False)  # what was read can be written, for any reader of JSON: no NaN, no NUL
    assert read(json.loads(text)) == value and "\\u0000" not in text


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_check_of_a_folder_with_any_json_in_any_place_raises_nothing_but_grand_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    rows = {"scenes.jsonl": SCENE, "samples.jsonl": SAMPLE}
    name = data.draw(st.sampled_from(sorted(rows)))
    rows[name] = _put(rows[name], data.draw(st.sampled_from(_places(rows[name]))), data.draw(any_json))
    for name, row in rows.items():
        (folder / name).write_text(json.dumps(row) + "\n", encoding="utf-8")
    rejects = Rejects(skip_bad=True)
    found = checks.check_data(folder, rejects)
    assert len(found.samples) == 1 or rejects.rows
    assert checks.listing(rejects, all_of_them=True) or not rejects.rows
