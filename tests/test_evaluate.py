"""Replies files that survive interruptions, figures over all tasks, and the tables of a report."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grand3d import evaluate, figures
from grand3d import replies as replies_file
from grand3d.decoding import Decoding
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.report import render, table
from grand3d.sample import Data, Reply, Sample, load_replies
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig
from grand3d.synth import make_data


@pytest.fixture(scope="module")
def rooms() -> Data:
    return make_data(3, 11, 6)


@pytest.fixture
def tiny_predict(tiny_base: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``predict`` with the tiny model, which is loaded once for all tests."""
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    monkeypatch.setattr(evaluate, "load_model", lambda name, dtype="fp32": (*tiny_base, PromptConfig()))

    def run(data: Data, out: Path, **options: Any) -> evaluate.Predicted:
        from grand3d.generate import Decoding

        tokens = options.pop("max_new_tokens", 4)
        return evaluate.predict("base:tiny", data, out, Decoding(tokens, constrained=False), **options)

    return run


def test_predict_writes_one_reply_a_sample_with_the_objects_it_saw(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    done = tiny_predict(rooms, tmp_path / "replies.jsonl")
    replies = load_replies(tmp_path / "replies.jsonl")
    assert {r.sample_id for r in replies} == {s.sample_id for s in rooms.samples} and done.num_new == len(replies)
    for reply in replies:
        assert reply.object_ids and set(reply.object_ids) <= set(rooms.scenes[reply.scene_id].object_ids)
    note = json.loads((tmp_path / "replies.jsonl.run.json").read_text())
    assert note["adapter"] == "base:tiny" and note["max_new_tokens"] == 4 and note["prompt"]["top_k"] == 40


def test_predict_goes_on_behind_a_half_written_line(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    tiny_predict(rooms, whole)
    lines = whole.read_text().splitlines(keepends=True)
    broken.write_text("".join(lines[:5]) + lines[5][:30])
    (tmp_path / "broken.jsonl.run.json").write_text((tmp_path / "whole.jsonl.run.json").read_text())
    done = tiny_predict(rooms, broken)
    assert (done.num_kept, done.num_new) == (5, len(lines) - 5)
    assert broken.read_text() == "".join(lines)
    again = tiny_predict(rooms, broken)
    assert (again.num_kept, again.num_new) == (len(lines), 0) and broken.read_text() == "".join(lines)


def test_predict_stopped_by_ctrl_c_leaves_whole_lines_and_can_go_on(
    rooms: Data, tiny_predict: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grand3d.generate

    out, ask = tmp_path / "replies.jsonl", grand3d.generate.ask

    def stopped(*args: Any) -> Iterator[Reply]:
        for number, reply in enumerate(ask(*args)):
            if number == 4:
                raise KeyboardInterrupt
            yield reply

    monkeypatch.setattr(grand3d.generate, "ask", stopped)
    with pytest.raises(KeyboardInterrupt):
        tiny_predict(rooms, out)
    assert len(load_replies(out)) == 4
    monkeypatch.setattr(grand3d.generate, "ask", ask)
    assert tiny_predict(rooms, out).num_kept == 4
    assert len(load_replies(out)) == len(rooms.samples)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"max_new_tokens": 5}, "max_new_tokens was 4, is 5"), ({"dtype": "bf16"}, "dtype was 'fp32'"), ({"data": 1}, "data was ")],
)
def test_predict_into_the_file_of_another_run_is_refused(
    rooms: Data, tiny_predict: Any, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    tiny_predict(rooms, tmp_path / "r.jsonl", num_samples=2)
    data = replace(rooms, samples=rooms.samples[1:]) if "data" in change else rooms
    options = {key: value for key, value in change.items() if key != "data"}
    with pytest.raises(GrandError, match=re.escape(named)):
        tiny_predict(data, tmp_path / "r.jsonl", **options)


def test_predict_into_a_file_of_unknown_origin_is_refused_and_kept(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("mine\n")
    with pytest.raises(GrandError, match=r"no r\.jsonl\.run\.json beside it"):
        tiny_predict(rooms, tmp_path / "r.jsonl")
    assert (tmp_path / "r.jsonl").read_text() == "mine\n"


@pytest.mark.parametrize("note", ["[]", "3", "null", '"x"', "", "{", "[" * 5000])
def test_predict_beside_a_note_that_says_nothing_is_refused(rooms: Data, tiny_predict: Any, tmp_path: Path, note: str) -> None:
    out = tmp_path / "r.jsonl"
    tiny_predict(rooms, out, num_samples=1)
    before = out.read_text()
    Path(f"{out}.run.json").write_text(note)
    with pytest.raises(GrandError, match=r"r\.jsonl\.run\.json: "):
        tiny_predict(rooms, out)
    assert out.read_text() == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a folder, expected a file for the replies"),
        ("file/r.jsonl", "a part of the path is a file, where a folder is expected"),
        ("x" * 300, "the name is too long for this file system"),
        ("a\0b", "the name holds a NUL character"),
    ],
)
def test_predict_into_an_impossible_place_is_one_message(
    rooms: Data, tiny_predict: Any, tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(GrandError, match=reason):
        tiny_predict(rooms, tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_predict_onto_a_full_disk_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").symlink_to("/dev/full")
    with (
        pytest.raises(GrandError, match=r"r\.jsonl: cannot be written \(No space left on device\)"),
        replies_file.only_writer(tmp_path / "r.jsonl") as write,
    ):
        write(Reply("a", "s", "Yes"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_predict_into_a_pipe_is_refused_before_it_is_opened(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GrandError, match="is a device or pipe, expected a file"):
        tiny_predict(rooms, tmp_path / "pipe")


def test_predict_with_too_few_tokens_for_a_valid_reply_leaves_no_file(
    rooms: Data, tiny_base: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(evaluate, "load_model", lambda name, dtype="fp32": (*tiny_base, PromptConfig()))
    with pytest.raises(GrandError, match=r"a reply to object_reference takes \d+ tokens at least, expected"):
        evaluate.predict("base:tiny", rooms, tmp_path / "r.jsonl", Decoding(9))
    assert not list(tmp_path.iterdir())


def test_predict_of_a_part_can_be_completed(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    assert tiny_predict(rooms, out, num_scenes=2, num_samples=8).num_new == 8
    assert {r.sample_id for r in load_replies(out)} == {s.sample_id for s in rooms.samples[:8]}
    assert tiny_predict(rooms, out, num_scenes=2).num_kept == 8
    assert {r.scene_id for r in load_replies(out)} == set(list(rooms.scenes)[:2])
    tiny_predict(rooms, out)
    assert len(load_replies(out)) == len(rooms.samples)


def test_encode_questions_drops_proposals_for_the_long_question_only(tiny_base: Any) -> None:
    from grand3d.generate import encode_questions

    objects = tuple(Object(str(n), "office chair", (n, 2.5, 0.5), (0.6, 0.6, 1.0), score=1 - n / 40) for n in range(40))
    scene = Scene("s", objects)
    short, long, endless = (
        Sample(name, scene.scene_id, "question", "word " * count) for name, count in (("a", 1), ("b", 300), ("c", 2000))
    )
    rejects = Rejects(skip_bad=True)
    whole = len(encode_questions(tiny_base[1], scene, [short], PromptConfig(), 4096)[0][2])
    rows = encode_questions(tiny_base[1], scene, [short, long, endless], PromptConfig(), whole + 20, rejects)
    assert [sample.sample_id for sample, _, _ in rows] == ["a", "b"]
    assert rows[0][1].num_dropped == 0 < rows[1][1].num_dropped
    assert all(len(encoded) <= whole + 20 for _, _, encoded in rows)
    assert rejects.counts() == {"too long for the context": 1} and "'c'" in rejects.rows[0]["where"]
    assert re.search(r"20\d\d tokens of question", rejects.rows[0]["reason"])


def test_encode_questions_too_long_is_refused_without_skip(rooms: Data, tiny_base: Any) -> None:
    from grand3d.generate import encode_questions

    scene = next(iter(rooms.scenes.values()))
    sample = Sample("s1", scene.scene_id, "question", "word " * 5000)
    with pytest.raises(GrandError, match=r"^sample 's1': too long for the context: 50\d\d tokens of question"):
        encode_questions(tiny_base[1], scene, [sample], PromptConfig(), 3840)


def test_heldout_figures_are_numbers_for_every_task_that_has_some(
    rooms: Data, tiny_base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "HELDOUT_TOKENS", 4)
    values = evaluate.heldout(*tiny_base, rooms, PromptConfig())
    assert values["n"] == len(rooms.samples)
    assert 0 <= values["parsed"] <= 100
    assert {"existence_accuracy", "object_reference_accuracy", "object_reference_acc25"} <= set(values)


SCENE = Scene("s", (Object("7", "chair", (0, 0, 0), (1, 1, 1)), Object("8", "desk", (3, 0, 0), (1, 1, 1))), id_space="x")
ASKED = Data(
    {"s": SCENE},
    (
        Sample("r0", "s", "object_reference", "the chair", target_ids=("7",)),
        Sample("r1", "s", "object_reference", "the desk", target_ids=("8",)),
        Sample("e0", "s", "existence", "Are there any chairs?", "Yes", ("7",)),
        Sample("e1", "s", "existence", "Are there any lamps?", "No"),
        Sample("c0", "s", "counting", "How many chairs?", "1 <p>chair</p>[<7>]", ("7",)),
        Sample("c1", "s", "counting", "How many lamps?", "0"),
        Sample("d0", "s", "object_description", "", "<p>the chair</p>[<7>]", ("7",)),
    ),
)
BLOCK = "<refer_expression_grounding><p>it</p>[<obj_{}>]</refer_expression_grounding>"
TEXTS = {
    "r0": BLOCK.format(0),
    "r1": BLOCK.format(0),
    "e0": "Yes",
    "e1": "Maybe.",
    "c0": "There is one <p>chair</p>[<obj_0>].",
    "c1": "two",
    "d0": "<p>the chair</p>[<obj_5>]",
}


def replies_of(texts: dict[str, str]) -> list[Reply]:
    return [Reply(sample_id, "s", text, ("7", "8")) for sample_id, text in texts.items()]


def test_score_synth_gives_each_task_its_figures() -> None:
    report = evaluate.score("synth", ASKED, replies_of(TEXTS))
    rows = {row["name"]: row for row in report["rows"]}
    nothing = dict.fromkeys(("missing", "extra", "unfinished", "partial_scenes", "dropped_objects", "dropped_targets"), 0)
    assert report["counts"] == {"n": 7, "parsed": 5} | nothing
    assert (rows["object_reference"]["accuracy"], rows["object_reference"]["acc25"]) == (50.0, 50.0)
    assert (rows["existence"]["accuracy"], rows["existence"]["parsed"]) == (50.0, 50.0)
    assert (rows["counting"]["accuracy"], rows["counting"]["parsed"]) == (50.0, 100.0)
    assert rows["object_description"] == {"name": "object_description", "n": 1, "parsed": 0.0}  # obj_5 is not in the prompt
    assert {"existence: look-up", "object_reference: first mention"} <= {row["name"] for row in report["baselines"]}


def test_score_synth_counts_missing_replies_as_told() -> None:
    some = replies_of({key: text for key, text in TEXTS.items() if key in ("r0", "e0", "c0", "d0")})
    with pytest.raises(GrandError, match=r"^3 of 7 samples have no reply \(first: r1\)\. Pass --missing=wrong"):
        evaluate.score("synth", ASKED, some)
    for missing, counting, n in (("wrong", 50.0, 7), ("skip", 100.0, 4)):
        report = evaluate.score("synth", ASKED, some, missing)
        rows = {row["name"]: row for row in report["rows"]}
        assert (report["counts"]["n"], report["counts"]["missing"]) == (n, 3)
        assert rows["counting"]["accuracy"] == counting == rows["object_reference"]["accuracy"]


def test_score_synth_without_replies_to_a_task_leaves_the_task_out_when_skipping() -> None:
    report = evaluate.score("synth", ASKED, replies_of({"r0": TEXTS["r0"]}), "skip")
    assert [row["name"] for row in report["rows"]] == ["object_reference"]


def test_score_synth_refuses_two_replies_to_a_sample() -> None:
    with pytest.raises(GrandError, match="'r0' has two replies"):
        evaluate.score("synth", ASKED, [*replies_of(TEXTS), *replies_of({"r0": "x"})])


def test_score_of_an_unknown_benchmark_names_the_known_ones() -> None:
    with pytest.raises(GrandError, match="expected one of synth, scanrefer, pope"):
        evaluate.score("scanreefer", ASKED, [])


@pytest.mark.parametrize(
    ("text", "count"),
    [("2 <p>chairs</p>[<obj_3>, <obj_4>]", 2), ("There are three.", 3), ("No chairs.", 0), ("0", 0), ("many", None), ("", None)],
)
def test_read_count_takes_the_first_number_and_no_id(text: str, count: int | None) -> None:
    assert figures.read_count(text) == count


def test_data_hash_tells_data_apart(rooms: Data) -> None:
    assert (
        replies_file.data_hash(rooms)
        == replies_file.data_hash(make_data(3, 11, 6))
        != replies_file.data_hash(make_data(3, 12, 6))
    )


def test_table_shows_intervals_and_gaps() -> None:
    rows = [{"name": "a", "n": 3, "f1": 50.0, "f1_low": 40.0, "f1_high": 60.04}, {"name": "long name", "n": 12, "acc": 7.126}]
    assert table(rows).splitlines() == [
        "name        n                  f1   acc",
        "a           3  50.00 [40.0, 60.0]     -",
        "long name  12                   -  7.13",
    ]
    assert table(rows, markdown=True).splitlines()[1] == "| --------- | -: | -----------------: | ---: |"


def test_render_says_counts_rules_and_rows() -> None:
    text = render(evaluate.score("synth", ASKED, replies_of(TEXTS)))
    assert text.startswith("synth: n 7, missing 0, extra 0, parsed 5, unfinished 0")
    assert "Without a model" in text and "As published" not in text and "interval: 95 %" in text


def test_predict_of_a_sample_that_cannot_be_asked_is_counted_by_its_cause(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    scene_id = rooms.samples[0].scene_id
    lost = Sample("lost", scene_id, "object_description", "", "a chair", ("no such object",))
    rejects = Rejects(skip_bad=True)
    done = tiny_predict(replace(rooms, samples=(rooms.samples[0], lost)), tmp_path / "r.jsonl", rejects=rejects)
    assert done.num_new == 1 and rejects.counts() == {"target not in the prompt": 1}
    assert (rejects.rows[0]["where"], rejects.rows[0]["reason"][:11]) == ("sample 'lost'", "the targets")  # named once


def test_predict_into_a_file_that_another_run_writes_is_refused(rooms: Data, tiny_predict: Any, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system has no fcntl, so there are no locks")
    out = tmp_path / "r.jsonl"
    with out.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GrandError, match=r"r\.jsonl: another run is writing to it"):
            tiny_predict(rooms, out)
        assert not Path(f"{out}.run.json").exists() and out.read_text() == ""
    assert tiny_predict(rooms, out, num_samples=2).num_new == 2


@pytest.mark.parametrize("missing", [True, False], ids=["no fcntl", "no locks on this file system"])
def test_predict_where_there_are_no_locks_says_so_once_and_goes_on(
    rooms: Data, tiny_predict: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fake = None if missing else SimpleNamespace(flock=none, LOCK_EX=2, LOCK_NB=4)
    monkeypatch.setattr(replies_file, "fcntl", fake)
    with pytest.warns(UserWarning, match=r"r\.jsonl: cannot be locked \(.*lock.*\); see to it that no second run") as said:
        assert tiny_predict(rooms, tmp_path / "r.jsonl", num_samples=2).num_new == 2
    assert len(said) == 1


def test_score_synth_baselines_are_over_the_scored_samples() -> None:
    some = replies_of({key: TEXTS[key] for key in ("r0", "e0", "e1")})
    for missing, counts in (("skip", (1, 2)), ("wrong", (2, 2))):
        rows = {row["name"]: row["n"] for row in evaluate.score("synth", ASKED, some, missing)["baselines"]}
        assert (rows["object_reference: best box"], rows["existence: look-up"]) == counts


def test_resume_of_a_packed_replies_file_leaves_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    packed = gzip.compress(b'{"sample_id": "a"}\n' * 9, mtime=0) + b"\nrest"
    path.write_bytes(packed)
    with pytest.raises(GrandError, match="left as it is"):
        replies_file.cut_last_line(path)
    assert path.read_bytes() == packed


def test_resume_of_a_half_written_first_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_bytes(b'{"sample_id": "a", "sc')
    replies_file.cut_last_line(path)
    assert path.read_bytes() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_predict_into_a_device_is_refused_before_anything_is_written(rooms: Data, tiny_predict: Any) -> None:
    with pytest.raises(GrandError, match="device or pipe"):
        tiny_predict(rooms, Path("/dev/full"))
    assert not Path("/dev/full.run.json").exists()
