"""Data folders for other trainers, and answers for benchmarks' own evaluators."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import markup
from grand3d.bench import BENCHMARKS, beacon3d, mmscan, pope, referit3d, sg3d, sqa3d
from grand3d.cli import main
from grand3d.convert.grand3d import convert as from_grand3d
from grand3d.exports import dialogues
from grand3d.files import Rejects
from grand3d.prompts import SCENE_END, messages
from grand3d.sample import Data, Reply, Sample, save_data, save_replies
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig
from grand3d.synth import make_data
from grand3d.tokens import PLAIN_TEMPLATE, encode

TURN = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))


@pytest.fixture
def rooms(tmp_path: Path) -> tuple[Path, Data]:
    data = make_data(3, 5, 24)
    save_data(tmp_path / "rooms", data)
    return tmp_path / "rooms", data


def test_messages_load_as_a_data_set_and_are_what_is_trained(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    folder, data = rooms
    assert main(["export", "messages", str(folder), str(tmp_path / "rooms.jsonl")]) == 0
    found = datasets.load_dataset(
        "json", data_files=str(tmp_path / "rooms.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(found) == len(data.samples)
    wanted = [messages(said) for _, said in dialogues(data, PromptConfig(), Rejects())]
    assert [row["messages"] for row in found] == wanted
    assert {tuple(turn["role"] for turn in row["messages"]) for row in found} == {("system", "user", "assistant")}


def test_messages_through_a_chat_template_are_the_training_text(rooms: tuple[Path, Data], tiny_base: Any) -> None:
    _, tokenizer = tiny_base
    _, data = rooms
    for _, said in list(dialogues(data, PromptConfig(), Rejects()))[:10]:
        encoded = encode(tokenizer, said)
        text = tokenizer.apply_chat_template(
            messages(said), tokenize=False, chat_template=tokenizer.chat_template or PLAIN_TEMPLATE
        )
        assert tokenizer.decode(encoded.prefix + encoded.suffix).strip() == text.strip()


def test_sharegpt_has_humans_and_models_in_turn(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    folder, data = rooms
    assert main(["export", "sharegpt", str(folder), str(tmp_path / "rooms.json")]) == 0
    rows = json.loads((tmp_path / "rooms.json").read_text(encoding="utf-8"))
    assert [row["id"] for row in rows] == [sample.sample_id for sample in data.samples]
    for row, (_, said) in zip(rows, dialogues(data, PromptConfig(), Rejects()), strict=True):
        assert [turn["from"] for turn in row["conversations"]] == ["human", "gpt"]
        assert row["conversations"][0]["value"] == said.scene + SCENE_END + said.turns[0].question
        assert row["conversations"][1]["value"] == said.turns[0].answer


def test_grand3d_form_comes_back_the_same(tmp_path: Path) -> None:
    made = make_data(4, 7, 24)
    samples = tuple(sample for sample in made.samples if sample.task in ("object_reference", "question", "existence", "counting"))
    data = Data(made.scenes, samples)
    save_data(tmp_path / "rooms", data)
    out = tmp_path / "out.json"
    assert main(["export", "grand3d", str(tmp_path / "rooms"), str(out)]) == 0
    back = from_grand3d(graphs=tmp_path / "out.graphs.json", conversations=out)
    assert len(back.samples) == len(samples) > 60
    for ours, theirs in zip(samples, back.samples, strict=True):
        assert (ours.sample_id, ours.scene_id, ours.target_ids if ours.task == "object_reference" else ()) == (
            theirs.sample_id,
            theirs.scene_id,
            theirs.target_ids,
        )
        assert ours.text.strip() == theirs.text and ours.answer.strip() == theirs.answer
    for name, scene in back.scenes.items():
        assert [(o.object_id, o.category, o.centroid, o.extent, o.score) for o in scene.objects] == [
            (o.object_id, o.category, o.centroid, o.extent, o.score) for o in data.scenes[name].objects
        ]


def test_real_rows_of_3d_grand_come_back_the_same(real: Callable[[str], Path], tmp_path: Path) -> None:
    rows = json.loads(real("grand3d/website_samples.json").read_text(encoding="utf-8"))["scene1"]
    text = rows["reference"]["text"]
    keys = sorted(set(re.findall(r"<([a-z /-]+-[0-9]+)>", text)))
    scene = Scene(
        "scene1", tuple(Object(key, key.rsplit("-", 1)[0], (k, 0.0, 0.5), (0.5, 0.5, 1.0)) for k, key in enumerate(keys))
    )
    sample = Sample("a", "scene1", "object_reference", text, target_ids=("dining chair-2",))
    save_data(tmp_path / "data", Data({"scene1": scene}, (sample,)))
    assert main(["export", "grand3d", str(tmp_path / "data"), str(tmp_path / "o.json")]) == 0
    (back,) = from_grand3d(graphs=tmp_path / "o.graphs.json", conversations=tmp_path / "o.json").samples
    assert back.text == text and back.target_ids == ("dining chair-2",)


def test_rotated_boxes_leave_as_their_hull(tmp_path: Path) -> None:
    scene = Scene("s", (Object("1", "desk", (1, 2, 0.5), (2, 1, 1), TURN),))
    save_data(tmp_path / "d", Data({"s": scene}, (Sample("a", "s", "question", "What is here?", "A <p>desk</p>[<1>].", ("1",)),)))
    assert main(["export", "grand3d", str(tmp_path / "d"), str(tmp_path / "o.json")]) == 0
    graph = json.loads((tmp_path / "o.graphs.json").read_text(encoding="utf-8"))["s"]["obj_1"]
    assert graph["extent"] == [1, 2, 1] and graph["centroid"] == [1, 2, 0.5]


def test_what_cannot_be_learnt_is_refused_or_counted(
    rooms: tuple[Path, Data], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = rooms
    bad = Sample("bad", data.samples[0].scene_id, "question", "Why?")
    save_data(tmp_path / "more", Data(data.scenes, (*data.samples, bad)))
    out = tmp_path / "o.jsonl"
    assert main(["export", "messages", str(tmp_path / "more"), str(out)]) == 2
    assert "expected" in capsys.readouterr().err and not out.exists()
    assert main(["export", "messages", str(tmp_path / "more"), str(out), "--skip-bad"]) == 0
    assert len(out.read_text().splitlines()) == len(data.samples)
    assert "bad" in (tmp_path / "o.jsonl.rejected.jsonl").read_text(encoding="utf-8")
    save_data(tmp_path / "true", Data(data.scenes, data.samples[:1], data.scenes))
    assert main(["export", "messages", str(tmp_path / "true"), str(out)]) == 2
    assert "expected data without truth.jsonl" in capsys.readouterr().err


def answered(data: Data, task: str) -> list[Reply]:
    text = {
        "object_reference": "<refer_expression_grounding><p>it</p>[<obj_0>]</refer_expression_grounding>",
        "existence": "Yes.",
        "plan": "<step>1. Go to the <p>thing</p>[<obj_0>]</step>",
    }.get(task, "a thing")
    return [Reply(s.sample_id, s.scene_id, text, data.scenes[s.scene_id].object_ids) for s in data.samples if s.task == task]


def test_uploads_are_read_back_as_the_same_answers(tmp_path: Path) -> None:
    scene = Scene("scene0000_00", (Object("3", "desk", (0, 0, 0.5), (1, 1, 1)), Object("7", "lamp", (2, 0, 0.5), (1, 1, 1))))
    scenes = {scene.scene_id: scene}

    def data(task: str, **more: Any) -> Data:
        return Data(scenes, (Sample("q1", scene.scene_id, task, "Is it?", **more),))

    cases = (
        (referit3d, data("object_reference", target_ids=("3",)), lambda row: row.object_ids == ("3",)),
        (sg3d, data("plan", meta={"step_ids": ["3"], "steps": ["go"]}), lambda row: row.object_ids == ("3",)),
        (pope, data("existence", answer="Yes"), lambda row: row.text == "Yes."),
        (sqa3d, data("question", answer="yes", meta={"answers": ["yes"]}), lambda row: row.text == "a thing"),
    )
    for bench, asked, fits in cases:
        replies = answered(asked, bench.TASKS[0])
        strange = Reply("other", scene.scene_id, replies[0].text, scene.object_ids)
        assert bench.write_upload(tmp_path / "up.json", asked, [*replies, strange]) == 1
        (row,) = bench.read_replies(tmp_path / "up.json", asked)
        assert row.sample_id == "q1" and fits(row), bench.__name__


def test_every_benchmark_has_an_upload() -> None:
    assert [name for name, module in BENCHMARKS.items() if not hasattr(importlib.import_module(module), "write_upload")] == []


def test_mmscan_upload_is_scored_as_the_boxes_named(tmp_path: Path) -> None:
    desk, lamp = Object("3", "desk", (0, 0, 0.5), (2, 1, 1), TURN), Object("7", "lamp", (5, 0, 0.5), (1, 1, 1))
    scene = Scene("s", (desk, lamp))
    data = Data({"s": scene}, tuple(Sample(name, "s", "object_reference", "It") for name in "abcd"))
    save_data(tmp_path / "data", data)

    def reply(name: str, *ids: str, chances: tuple[float, ...] = ()) -> Reply:
        text = f"<refer_expression_grounding>{markup.span('it', ids)}</refer_expression_grounding>"
        return Reply(name, "s", text, ("3", "7"), chances=chances)

    weighed = reply("c", "obj_1", chances=(0.2, 0.7, 0.1))
    replies = [reply("a", "obj_0"), reply("b", "obj_1", "obj_0"), weighed, reply("d")]
    save_replies(tmp_path / "r.jsonl", [*replies, Reply("strange", "s", "?", ("3", "7"))])
    assert main(["upload", "mmscan", str(tmp_path / "data"), str(tmp_path / "r.jsonl"), str(tmp_path / "o.jsonl")]) == 0
    rows = {row["ID"]: row for row in map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())}
    assert list(rows) == ["a", "b", "c", "d"] and rows["d"]["pred_bboxes"] == []
    assert rows["b"]["pred_scores"] == [1.0, 0.5] and rows["c"]["pred_scores"] == [0.7]
    turned = {"center": desk.centroid, "size": desk.extent, "rot": [list(line) for line in TURN]}
    truth = {"a": [turned], "b": [turned], "c": [[*lamp.centroid, *lamp.extent]], "d": [turned]}
    asked = [{"ID": name, "scan_id": "s", "sub_class": "ST_attribute", "gt_bboxes": boxes} for name, boxes in truth.items()]
    (tmp_path / "q.json").write_text(json.dumps(asked))
    (row, *_) = mmscan.score_files(tmp_path / "q.json", tmp_path / "o.jsonl")["rows"]
    assert row["AP@0.5"] == pytest.approx(100 * (1 + 0.5 + 1 + 0) / 4) and row["gTop-1@0.5"] == 50
    assert main(["upload", "mmscan", str(tmp_path / "q.json"), str(tmp_path / "r.jsonl"), str(tmp_path / "o.jsonl")]) == 2


def test_beacon3d_upload_scores_as_the_replies_do(tmp_path: Path) -> None:
    scene = Scene("s", (Object("3", "desk", (0, 0, 0.5), (2, 1, 1)), Object("7", "lamp", (5, 0, 0.5), (1, 1, 1))))
    found = Scene("s", (Object("0", "light", (5, 0, 0.5), (1, 1, 1)), Object("1", "table", (9, 0, 0.5), (1, 1, 1))))
    asked = [Sample(name, "s", "object_reference", "It", target_ids=("7",), meta={"tags": ["class"]}) for name in "abc"]
    question = Sample("q", "s", "question", "What?", "a lamp", meta={"answers": ["a lamp"], "tags": ["class"]})
    data = Data({"s": found}, (*asked, question), {"s": scene})
    replies = [
        *(Reply(name, "s", f"<refer_expression_grounding><p>it</p>[<obj_{k}>]</refer_expression_grounding>", ("0", "1"))
          for k, name in enumerate("ab")),
        *(Reply("c", "s", "hm", ("0", "1")), Reply("q", "s", "a lamp", ("0", "1"))),
    ]  # fmt: skip
    assert beacon3d.write_upload(tmp_path / "o.json", data, replies) == 1
    rows = json.loads((tmp_path / "o.json").read_text())
    assert [row.get("object_id", row.get("response_pred")) for row in rows] == ["7", "", "a lamp"]
    back = beacon3d.score(data, beacon3d.read_replies(tmp_path / "o.json", data), missing="wrong")
    theirs = beacon3d.score(data, replies)
    assert [row.get("accuracy", row.get("score")) for row in back["rows"]] == [
        row.get("accuracy", row.get("score")) for row in theirs["rows"]
    ]


def test_upload_on_the_command_line(rooms: tuple[Path, Data], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, made = rooms
    data = Data(made.scenes, tuple(sample for sample in made.samples if sample.task == "object_reference"))
    save_data(tmp_path / "refs", data)
    replies = answered(data, "object_reference")
    save_replies(tmp_path / "r.jsonl", replies)
    args = [str(tmp_path / "refs"), str(tmp_path / "r.jsonl"), str(tmp_path / "o.json")]
    assert main(["upload", "scanrefer", *args]) == 2
    assert "--labels" in capsys.readouterr().err
    assert main(["upload", "referit3d", *args]) == 0
    assert f"{len(replies)} answers" in capsys.readouterr().err
    rows = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert rows == {reply.sample_id: reply.object_ids[0] for reply in replies}
