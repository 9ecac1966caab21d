from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.checks import faults_of
from grand3d.errors import GrandError
from grand3d.files import Rejects, visible, write_jsonl
from grand3d.markup import parse
from grand3d.placement import program_from_dict
from grand3d.sample import (
    TASKS,
    Data,
    Reply,
    Sample,
    load_data,
    load_replies,
    load_samples,
    reply_from_dict,
    reply_to_dict,
    sample_from_dict,
    sample_to_dict,
    save_data,
    save_replies,
)
from grand3d.scene import Scene

text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
points = st.tuples(*[st.floats(-99, 99)] * 3)
samples = st.builds(
    Sample,
    text.filter(visible),
    text,
    st.sampled_from(TASKS),
    text,
    text,
    st.lists(text, max_size=3, unique=True).map(tuple),
    st.none() | st.tuples(points, points).filter(lambda pair: pair[0] != pair[1]),
    st.dictionaries(text, st.integers() | text | st.none(), max_size=2),
)
replies = st.builds(Reply, text, text, text, st.lists(text, max_size=3).map(tuple), st.booleans(), st.integers(0, 9))


@settings(max_examples=60, deadline=None)
@given(samples)
def test_sample_from_dict_of_sample_to_dict_through_json_returns_the_sample(sample: Sample) -> None:
    assert sample_from_dict(json.loads(json.dumps(sample_to_dict(sample)))) == sample


@settings(max_examples=60, deadline=None)
@given(replies)
def test_reply_from_dict_of_reply_to_dict_through_json_returns_the_reply(reply: Reply) -> None:
    assert reply_from_dict(json.loads(json.dumps(reply_to_dict(reply)))) == reply


SAMPLE: dict[str, Any] = {
    "sample_id": "s",
    "scene_id": "room",
    "task": "object_reference",
    "text": "the desk",
    "target_ids": ["1"],
    "viewpoint": [[0, 0, 1], [1, 1, 1]],
    "meta": {"ann_id": "0", "more": [{"a": 1.5}]},
}


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("sample_id", ..., "sample_id is missing"),
        ("sample_id", " ", "blank"),
        ("sample_id", 4, "sample_id is 4"),
        ("scene_id", None, "scene_id is None"),
        ("task", "grounding", "expected one of object_reference"),
        ("task", ["existence"], "task is"),
        ("text", ..., "text is missing"),
        ("text", 5, "text is 5"),
        ("answer", ["Yes"], "answer is"),
        ("target_ids", "1", "target_ids is '1'"),
        ("target_ids", [1], "target_ids is [1]"),
        ("target_ids", ["1", "1"], "twice"),
        ("viewpoint", [[0, 0, 1]], "2 points"),
        ("viewpoint", [], "2 points"),
        ("viewpoint", [[0, 0, 1], [0, 0]], "expected 3 finite numbers"),
        ("viewpoint", [[0, 0, 1], None], "expected 3 finite numbers"),
        ("viewpoint", {"position": [0, 0, 0]}, "viewpoint is"),
        ("viewpoint", [[0, 0, float("inf")], [0, 0, 0]], "finite"),
        ("target_ids", ..., "target_ids is missing, expected the ids of the objects meant, or [] where nothing fits"),
        ("target_ids", None, "target_ids is missing"),
        ("viewpoint", [[0, 0, 1], [0, 0, 1.0]], "expected a look-at point other than the position"),
        ("sample_id", "\u200b", "blank"),
        ("text", "the\0desk", "NUL character, expected text"),
        ("meta", {"a": [1, {"b": float("nan")}]}, "a number is nan, expected a finite one"),
        ("meta", {"a": float("-inf")}, "a number is -inf"),
        ("meta", {"a": 10**400}, "expected a finite one"),
        ("meta", {"a": {"b\0": 1}}, "NUL character"),
        ("meta", [1], "meta is [1]"),
        ("targets", ["1"], "unknown keys ['targets']"),
    ],
)
def test_sample_from_dict_with_one_fault_says_what_and_where(key: str, value: Any, word: str) -> None:
    row = {k: v for k, v in (SAMPLE | {key: value}).items() if v is not ...}
    with pytest.raises(GrandError) as caught:
        sample_from_dict(row)
    assert word in str(caught.value)
    assert caught.value.cause


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("sample_id", None, "sample_id is None"),
        ("text", ..., "text is missing"),
        ("object_ids", [1], "object_ids is [1]"),
        ("finished", "yes", "finished is 'yes'"),
        ("num_dropped", "3", "num_dropped is '3'"),
        ("num_dropped", -1, "num_dropped is -1"),
        ("num_dropped", True, "num_dropped is True"),
    ],
)
def test_reply_from_dict_with_one_fault_says_what_and_where(key: str, value: Any, word: str) -> None:
    row = {"sample_id": "s", "scene_id": "room", "text": "", key: value}
    with pytest.raises(GrandError) as caught:
        reply_from_dict({k: v for k, v in row.items() if v is not ...})
    assert word in str(caught.value)


@pytest.mark.parametrize("row", [None, [], "x", 3, {}])
def test_from_dict_of_no_object_is_refused(row: Any) -> None:
    for read in (sample_from_dict, reply_from_dict):
        with pytest.raises(GrandError):
            read(row)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["sample_id", "scene_id", "text", "object_ids", "finished", "num_dropped"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda x: st.lists(x, max_size=3),
        max_leaves=5,
    ),
)
def test_reply_from_dict_with_junk_in_any_field_raises_nothing_but_grand_errors(key: str, value: Any) -> None:
    try:
        reply_from_dict({"sample_id": "s", "scene_id": "room", "text": "x"} | {key: value})
    except GrandError as error:
        assert error.cause


def test_reply_from_dict_passes_over_keys_of_other_programs() -> None:
    assert reply_from_dict({"sample_id": "s", "scene_id": "room", "text": "x", "seconds": 1.5}) == Reply("s", "room", "x")


def test_load_data_of_save_data_returns_the_data(tmp_path: Path, toy_data: Data, toy_proposals: Scene) -> None:
    both = Data({"toy_room": toy_proposals}, toy_data.samples, toy_data.scenes)
    for data in (both, toy_data):  # the second has no truth, and must not inherit that of the first
        save_data(tmp_path / "data", data)
        assert load_data(tmp_path / "data") == data


def test_load_data_checks_targets_against_the_true_objects(tmp_path: Path, toy_data: Data, toy_proposals: Scene) -> None:
    save_data(tmp_path, Data({"toy_room": toy_proposals}, toy_data.samples))
    with pytest.raises(GrandError, match=r"unknown target: \['1'\] not among the 9 synthetic_proposals ids"):
        load_data(tmp_path)


def test_load_data_skipping_counts_what_it_leaves_out(tmp_path: Path, toy_data: Data) -> None:
    first = toy_data.samples[0]
    bad = (replace(first, sample_id="x", scene_id="nowhere"), replace(first, sample_id="y", target_ids=("99",)), first)
    save_data(tmp_path, replace(toy_data, samples=toy_data.samples + bad))
    with (tmp_path / "scenes.jsonl").open("a") as file:
        file.write('{"scene_id": "cut off", "obj\n')
    rejects = Rejects(skip_bad=True)
    assert load_data(tmp_path, rejects) == toy_data
    assert rejects.counts() == {"not JSON": 1, "id twice": 1, "unknown scene": 1, "unknown target": 1}
    with pytest.raises(GrandError, match=r"scenes\.jsonl:2"):
        load_data(tmp_path)


@pytest.mark.parametrize("file", ["scenes.jsonl", "truth.jsonl"])
@pytest.mark.parametrize("damage", [lambda row: row | {"up": "y"}, lambda row: json.dumps(row)[:-20]], ids=["bad", "cut off"])
def test_load_data_leaves_out_samples_of_a_rejected_scene_and_counts_them_by_that(
    tmp_path: Path, toy_data: Data, file: str, damage: Any
) -> None:
    save_data(tmp_path, replace(toy_data, truth=toy_data.scenes))
    bad = damage(json.loads((tmp_path / file).read_text()))
    (tmp_path / file).write_text(bad if isinstance(bad, str) else json.dumps(bad))
    rejects = Rejects(skip_bad=True)
    assert load_data(tmp_path, rejects).samples == ()
    cause = "its scene was rejected"
    if isinstance(bad, str):  # whose line it was cannot be told
        cause = "unknown scene" if file == "scenes.jsonl" else "scene without truth"
    assert rejects.counts()[cause] == len(toy_data.samples) == len(rejects.rows) - 1
    assert rejects.rows[0]["row"] == bad
    assert rejects.rows[-1]["where"] == f"{tmp_path}/samples.jsonl:4"


def test_save_data_without_force_leaves_other_things_alone(tmp_path: Path, toy_data: Data) -> None:
    folder, with_truth = tmp_path / "data", replace(toy_data, truth=toy_data.scenes)
    assert save_data(folder, with_truth, force=False)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert not save_data(folder, with_truth, force=False)  # there already
    assert before == {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for other in (toy_data, replace(with_truth, samples=toy_data.samples[1:])):
        with pytest.raises(GrandError, match=r"data: holds something else \((truth|samples)\.jsonl\); .* --force"):
            save_data(folder, other, force=False)
    assert load_data(folder) == with_truth
    (folder / "samples.jsonl").unlink()  # what an interrupted run leaves is completed
    assert save_data(folder, with_truth, force=False) and load_data(folder) == with_truth
    assert save_data(folder, toy_data, force=True) and load_data(folder) == toy_data


def test_save_data_without_force_takes_an_empty_folder_and_refuses_a_file_or_foreign_files(
    tmp_path: Path, toy_data: Data
) -> None:
    (tmp_path / "empty").mkdir()
    assert save_data(tmp_path / "empty", toy_data, force=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(GrandError, match=r"mine: holds something else \(thesis\.tex\)"):
        save_data(tmp_path / "mine", toy_data, force=False)
    with pytest.raises(GrandError, match="a part of the path is a file, where a folder is expected"):
        save_data(tmp_path / "mine" / "thesis.tex", toy_data, force=False)


def test_load_data_of_a_folder_that_is_none_says_what_a_data_folder_holds(tmp_path: Path) -> None:
    with pytest.raises(GrandError, match=r"scenes\.jsonl and samples\.jsonl"):
        load_data(tmp_path / "absent")
    with pytest.raises(GrandError, match="no such file"):
        load_data(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(GrandError, match="file: is a file, no data folder"):
        load_data(tmp_path / "file")
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(GrandError, match="no such data folder"):
            load_data(tmp_path / name)


def test_load_samples_with_an_id_twice_names_the_line(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "samples.jsonl", [SAMPLE, SAMPLE | {"sample_id": "t"}, SAMPLE])
    with pytest.raises(GrandError, match=r"samples\.jsonl:3: sample 's' occurs twice"):
        load_samples(tmp_path / "samples.jsonl")


def test_load_replies_with_a_second_reply_raises_or_keeps_the_first(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    assert save_replies(path, [Reply("s", "room", "yes"), Reply("t", "room", "no"), Reply("s", "room", "no")]) == 3
    with pytest.raises(GrandError, match=r"replies\.jsonl:3: a second reply to sample 's'"):
        load_replies(path)
    rejects = Rejects(skip_bad=True)
    assert [r.text for r in load_replies(path, rejects)] == ["yes", "no"]
    assert rejects.counts() == {"second reply": 1}


def test_the_examples_of_the_format_page_make_a_data_folder(tmp_path: Path, root: Path) -> None:
    page = (root / "docs" / "formats.md").read_text()
    scene, sample, plan, placement, reply = (part.split("```")[0] for part in page.split("```json\n")[1:])
    (tmp_path / "scenes.jsonl").write_text(scene)
    (tmp_path / "samples.jsonl").write_text(sample + plan)
    (tmp_path / "replies.jsonl").write_text(reply)
    first, second = load_data(tmp_path, inspect=faults_of).samples
    assert first.answer == "Yes"
    assert [step.spans[0].ids[0] for step in parse(second.answer).steps] == second.meta["step_ids"]
    third = sample_from_dict(json.loads(placement))
    assert parse(third.answer).places == (tuple(third.meta["goal"]),)
    assert program_from_dict(third.meta["program"]).family == "left"
    assert load_replies(tmp_path / "replies.jsonl")[0].object_ids == ("0",)


def test_reply_from_dict_of_a_question_is_refused() -> None:
    row = {"sample_id": "a", "scene_id": "s", "task": "existence", "text": "Is there a bed?", "target_ids": []}
    with pytest.raises(GrandError, match="it is a question"):
        reply_from_dict(row)
