"""What ``check`` finds in a data folder, and what ``score`` leaves out of it under ``--skip-bad``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grand3d import checks
from grand3d.cli import main
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Reply, Sample, load_replies, reply_to_dict, save_data, save_replies
from grand3d.scene import Region
from grand3d.synth import make_data


@pytest.fixture
def folder(tmp_path: Path, toy_data: Data) -> Path:
    save_data(tmp_path / "data", toy_data)
    return tmp_path / "data"


def change(folder: Path, number: int, **fields: Any) -> None:
    path = folder / "samples.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[number] |= fields
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("number", "fields", "cause", "named"),
    [
        (0, {"text": "the <p>chair</p>[<77>]"}, "unknown id in the text", "['77'] not among the 10 ids of scene 'toy_room'"),
        (1, {"answer": "Yes, <p>it</p>[<obj_5>]"}, "unknown id in the answer", "['obj_5']"),
        (0, {"text": "the <p>chair at"}, "malformed markup in the text", "text, character 4: <p> is not closed"),
        (3, {"answer": "2 <p>chairs</p>"}, "malformed markup in the answer", "answer, character 2: no id list"),
        (0, {"text": " \n"}, "blank text", "expected what is asked"),
        (0, {"text": "\u200b\n"}, "blank text", "expected what is asked"),
        (0, {"answer": "Yes"}, "answer to a reference", "answer is 'Yes', expected none"),
        (0, {"target_ids": None}, "missing key", "target_ids is missing, expected the ids of the objects meant"),
        (0, {"viewpoint": [[0, 0, 1], [0, 0, 1]]}, "bad number", "expected a look-at point other than the position"),
        (0, {"meta": {"a": float("nan")}}, "bad number", "a number is nan, expected a finite one"),
        (0, {"meta": {"a": "\0"}}, "NUL character", "a NUL character, expected text"),
        (1, {"answer": "maybe"}, "bad answer", "answer is 'maybe', expected Yes or No first"),
        (1, {"answer": ""}, "bad answer", "answer is '', expected Yes or No first"),
        (3, {"answer": ""}, "bad answer", "answer is '', expected a number first"),
        (3, {"answer": "many"}, "bad answer", "answer is 'many', expected a number first"),
        (1, {"task": "object_description", "target_ids": []}, "nothing to describe", "target_ids is empty"),
        (1, {"target_ids": ["77"]}, "unknown target", "['77'] not among the 10 synthetic ids"),
    ],
)
def test_check_finds_what_is_wrong_with_a_sample(
    folder: Path, capsys: Any, number: int, fields: dict[str, Any], cause: str, named: str
) -> None:
    change(folder, number, **fields)
    assert main(["check", str(folder)]) == 2
    out, err = capsys.readouterr()
    size, counted, example = out.splitlines()
    assert size.startswith("1 scenes, 3 samples") and counted == f"1 x {cause}" and err == ""
    assert example.startswith(f"  {folder}/samples.jsonl:{number + 1}: sample 'toy_{number}': ") and named in example


def test_check_lists_all_kinds_at_once_the_first_of_each(folder: Path, toy_data: Data, capsys: Any) -> None:
    bad = [Sample(f"bad_{n}", "toy_room", "counting", "How many?", "<p>none") for n in range(5)]
    save_data(folder, replace(toy_data, samples=(*toy_data.samples, *bad)))
    assert main(["check", str(folder)]) == 2
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "5 x malformed markup in the answer" and len(out) == 1 + 2 * 5 - 5
    assert out[5] == "  ... and 2 more; --all lists them"
    assert main(["check", str(folder), "--all"]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1 + 1 + 5


def test_check_takes_one_place_and_no_option_that_it_would_pass_over(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "c.yaml").write_text("")
    for argv, named in (
        ([folder, tmp_path / "other"], "other' stands behind"),
        ([folder, "x=3"], "'x=3' stands behind"),
        ([folder / "scenes.jsonl", "x=3"], "'x=3' stands behind"),
        ([tmp_path / "c.yaml", "--all"], "--all belongs to the check of data"),
    ):
        assert main(["check", *map(str, argv)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and named in err


@pytest.mark.parametrize("name", ["scenes", "samples"])
def test_check_of_an_empty_file_says_so(folder: Path, capsys: Any, name: str) -> None:
    (folder / f"{name}.jsonl").write_text("\n")
    assert main(["check", str(folder)]) == 2
    out = capsys.readouterr().out
    assert f"1 x no {name}\n  {folder}/{name}.jsonl: holds no {name}" in out
    assert ("4 x unknown scene" in out) == (name == "scenes")
    if name == "scenes":
        assert main(["check", str(folder / "scenes.jsonl")]) == 2
        assert "holds no scenes" in capsys.readouterr().out


def test_check_of_a_folder_with_true_objects_takes_ids_of_both_and_any_number_of_targets(
    folder: Path, toy_data: Data, toy_proposals: Any
) -> None:
    scene = replace(toy_data.scenes["toy_room"], regions=(Region("bay", "bay"),))
    first = toy_data.samples[0]
    samples = (
        first,
        replace(first, sample_id="both", text="<p>the chair</p>[<1>] by <p>the desk</p>[<p0>] in <p>the bay</p>[<bay>]"),
        replace(first, sample_id="two", target_ids=("1", "2")),
        replace(first, sample_id="none", target_ids=()),
    )
    save_data(folder, Data({"toy_room": toy_proposals}, samples, {"toy_room": scene}))
    rejects = Rejects(skip_bad=True)
    assert [sample.sample_id for sample in checks.check_data(folder, rejects).samples] == ["toy_0", "both", "two", "none"]
    assert rejects.rows == []  # Multi3DRefer asks so
    with pytest.raises(GrandError, match="exactly one"):  # training takes ScanRefer's figures of held-out data
        checks.load_heldout(folder, Rejects())


def test_check_finds_nothing_in_generated_rooms(tmp_path: Path) -> None:
    save_data(tmp_path, make_data(8, seed=4))
    rejects = Rejects(skip_bad=True)
    assert len(checks.check_data(tmp_path, rejects).samples) > 200 and rejects.rows == []


# --- score


@pytest.mark.parametrize(
    ("bench", "number", "answer", "left"),
    [("pope", 1, "maybe", 1), ("synth", 1, "maybe", 3), ("synth", 3, "many", 3), ("scanrefer", 1, "maybe", 1)],
)
def test_score_with_skip_bad_leaves_out_samples_without_a_right_answer(
    folder: Path, tmp_path: Path, toy_data: Data, capsys: Any, bench: str, number: int, answer: str, left: int
) -> None:
    change(folder, number, answer=answer)
    replies = tmp_path / "r.jsonl"
    save_replies(replies, [Reply(sample.sample_id, "toy_room", "Yes", ("0",)) for sample in toy_data.samples])
    argv = ["score", bench, str(folder), str(replies), "--json"]
    bad = bench != "scanrefer"  # which does not score these
    assert main(argv) == (2 if bad else 0)
    err = capsys.readouterr().err
    assert (f"samples.jsonl:{number + 1}: sample 'toy_{number}': answer is '{answer}'" in err) == bad
    assert main([*argv, "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    counts = json.loads(out)["counts"]
    assert counts["n"] == left and counts.get("rejected_rows", 0) == bad and ("rejected: 1 x bad answer" in err) == bad


def test_score_counts_a_sample_with_two_faults_once_and_check_lists_both(folder: Path, tmp_path: Path, capsys: Any) -> None:
    change(folder, 1, answer="maybe", target_ids=["77"])
    save_replies(tmp_path / "r.jsonl", [Reply(f"toy_{n}", "toy_room", "Yes", ("0",)) for n in range(4)])
    assert main(["score", "synth", str(folder), str(tmp_path / "r.jsonl"), "--json", "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["counts"]["rejected_rows"] == 1 and "1 x unknown target" in err and "bad answer" not in err
    assert len((tmp_path / "r.jsonl.score.rejected.jsonl").read_text().splitlines()) == 1
    assert main(["check", str(folder)]) == 2
    out = capsys.readouterr().out
    assert "1 x unknown target" in out and "1 x bad answer" in out


def test_score_with_skip_bad_leaves_out_replies_to_other_data(folder: Path, tmp_path: Path, capsys: Any) -> None:
    rows = [Reply("toy_0", "elsewhere", "x"), Reply("toy_1", "toy_room", "Yes", ("p0",)), Reply("toy_2", "toy_room", "No")]
    save_replies(tmp_path / "r.jsonl", [*rows, Reply("toy_3", "toy_room", "2"), Reply("other", "elsewhere", "2")])
    argv = ["score", "synth", str(folder), str(tmp_path / "r.jsonl"), "--missing=wrong", "--json"]
    assert main(argv) == 2
    message = "r.jsonl: reply to 'toy_0': is about scene 'elsewhere', the sample about 'toy_room'; was it made from other data?"
    assert message in capsys.readouterr().err
    assert main([*argv, "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["counts"] == {
        "n": 4,
        "missing": 2,
        "extra": 1,
        "parsed": 2,
        "unfinished": 0,
        "partial_scenes": 0,
        "dropped_objects": 0,
        "dropped_targets": 0,
        "rejected_rows": 2,
    }
    assert "rejected: 1 x reply about another scene" in err and "rejected: 1 x reply made from other scenes" in err
    rejected = [json.loads(line) for line in (tmp_path / "r.jsonl.score.rejected.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rejected] == [reply_to_dict(row) for row in rows[:2]]
    assert len(load_replies(tmp_path / "r.jsonl")) == 5


def test_score_with_skip_bad_counts_broken_and_second_replies(folder: Path, tmp_path: Path, capsys: Any) -> None:
    replies = tmp_path / "r.jsonl"
    rows = [{"sample_id": f"toy_{n}", "scene_id": "toy_room", "text": "Yes", "object_ids": ["0"]} for n in (0, 1, 2, 3, 1)]
    replies.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"sample_id": "toy')
    argv = ["score", "synth", str(folder), str(replies)]
    assert main(argv) == 2
    capsys.readouterr()
    assert main([*argv, "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    assert "rejected rows 2" in out
    assert "1 x second reply" in err and "1 x not JSON" in err
    assert len(Path(f"{replies}.score.rejected.jsonl").read_text().splitlines()) == 2
    assert not Path(f"{replies}.rejected.jsonl").exists()  # that of predict
    replies.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    assert main(argv) == 0
    assert not Path(f"{replies}.score.rejected.jsonl").exists()
