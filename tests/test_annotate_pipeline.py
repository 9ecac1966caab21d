"""Annotation of many scenes: what a language model writes is counted by cause, a killed run goes on, templates fill a folder."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed (extra annotate)")

from loopback import Reply, serving

from grand3d.annotate import pipeline
from grand3d.annotate.client import Asker, Terms, load_answers
from grand3d.cli import main
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import load_data
from grand3d.scene import Scene, save_scenes
from grand3d.server import Server

NONE = {"question": "Is there a <p>zebra</p>[] in the room?", "answer": "No, there is no <p>zebra</p>[] here."}


def items(*rows: dict[str, str]) -> Reply:
    return Reply(json.dumps({"items": rows}))


def ids_in(body: dict[str, Any]) -> dict[str, str]:
    """Which ``obj_k`` the prompt lists, by category (the last of each)."""
    lines = body["messages"][1]["content"].splitlines()
    return {line.split(" ", 1)[1].split(":")[0]: line.split(" ")[0] for line in lines if line.startswith("obj_")}


ANSWERS: tuple[tuple[str, Any], ...] = (
    ("empty answer", Reply("")),
    ("empty answer", items()),
    ("answer cut off", Reply('{"items": [{"question": "Is', finish="length")),
    ("answer not JSON", Reply("Sure! Here are some questions.")),
    ("answer not JSON", Reply('{"items": [{"question": "Is')),
    ("answer of another form", Reply("[1, 2]")),
    ("answer of another form", Reply('{"texts": []}')),
    ("item of another form", items({"question": "Is there a desk?"})),
    ("item of another form", items({"question": "Is there a desk?", "answer": " "})),
    ("unknown id", items({"question": "Is there <p>a desk</p>[<obj_77>]?", "answer": "Yes."})),
    ("existence", items({"question": NONE["question"], "answer": "Yes, there is <p>a zebra</p>[] here."})),
    ("malformed markup", items({"question": "Is there <p>a desk[]?", "answer": "No."})),
    ("", items(NONE)),
    ("", Reply(f"```json\n{json.dumps({'items': [NONE]})}\n```")),
)


def test_what_a_model_writes_wrong_is_counted_by_its_cause(toy_scene: Scene, tmp_path: Path) -> None:
    scenes = {f"s{k}": replace(toy_scene, scene_id=f"s{k}") for k in range(len(ANSWERS))}

    def script(_: int, body: dict[str, Any]) -> Reply:
        number = int(body["messages"][1]["content"].split(",")[0].removeprefix("Room s"))
        return ANSWERS[number][1]

    with serving(script) as server:
        asker = Asker(Server("m", server.url), Terms(parallel=4))
        samples, rejects = pipeline.by_server(scenes, pipeline.Job(("existence",), 4), tmp_path, asker)
    assert rejects.counts() == dict(Counter(cause for cause, _ in ANSWERS if cause))
    assert [sample.scene_id for sample in samples] == ["s12", "s13"] and samples[0].answer == NONE["answer"]
    assert samples[0].text == "Is there a zebra in the room?" and samples[0].meta["question"] == NONE["question"]
    by_scene = {row["where"].split(" ")[0].strip(","): row["cause"] for row in rejects.rows}
    assert by_scene == {f"s{k}": cause for k, (cause, _) in enumerate(ANSWERS) if cause}


def test_a_reference_that_fits_two_objects_is_ambiguous(toy_scene: Scene, tmp_path: Path) -> None:
    def script(_: int, body: dict[str, Any]) -> Reply:
        ids = ids_in(body)
        chair, desk, lamp = ids["office chair"], ids["desk"], ids["table lamp"]
        plain = {"target": chair, "text": f"This is <p>an office chair</p>[<{chair}>]."}
        by_desk = {
            "target": chair,
            "text": f"<p>The office chair</p>[<{chair}>] is the one farthest from <p>the desk</p>[<{desk}>].",
        }
        lone = {"target": lamp, "text": f"<p>The lamp</p>[<{lamp}>] is on <p>the desk</p>[<{desk}>]."}
        return items(plain, by_desk, lone)

    with serving(script) as server:
        asker = Asker(Server("m", server.url), Terms())
        samples, rejects = pipeline.by_server({"toy_room": toy_scene}, pipeline.Job(("object_reference",), 3), tmp_path, asker)
    assert rejects.counts()["ambiguous reference"] == 1
    assert [sample.meta["label"] for sample in samples][-1] == "table lamp" and samples[-1].target_ids == ("3",)


def test_looks_seen_in_pictures_join_the_scene(toy_scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / "toy_room"
    folder.mkdir(parents=True)
    (folder / "0_front.png").write_bytes(b"picture")
    (folder / "1.jpg").write_bytes(b"other")
    (folder / "10.jpg").write_bytes(b"no object of the room")

    def script(_: int, body: dict[str, Any]) -> Reply:
        text, image = body["messages"][0]["content"]
        if "desk" not in text["text"]:
            return Reply("a chair, I think")
        assert image["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(b"picture").decode()
        return Reply(json.dumps({"colour": "Brown", "material": "", "shape": "square", "description": "A desk with drawers."}))

    rejects = Rejects(skip_bad=True)
    with serving(script) as server:
        asker = Asker(Server("m", server.url), Terms())
        scenes = pipeline.with_seen_looks({"toy_room": toy_scene}, tmp_path / "pictures", asker, tmp_path, rejects)
    assert dict(scenes["toy_room"]["0"].attributes) == {"colour": "brown", "shape": "square"}
    assert scenes["toy_room"]["0"].description == "A desk with drawers." and len(server.seen) == 2
    assert rejects.counts() == {"answer not JSON": 1} and scenes["toy_room"]["1"] == toy_scene["1"]
    with pytest.raises(GrandError, match="holds no picture"):
        pipeline.with_seen_looks({"toy_room": toy_scene}, tmp_path / "nowhere", asker, tmp_path, rejects)


def annotate(scenes: Path, out: Path, url: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "grand3d", "annotate", str(scenes), str(out), "--server", f"m@{url}"]
    return [*command, "--parallel", "2", "--number", "1", "--kinds", "existence,counting", *more]


def test_a_run_that_is_killed_asks_no_answered_request_again_and_loses_no_record(toy_scene: Scene, tmp_path: Path) -> None:
    scenes = tmp_path / "scenes.jsonl"
    save_scenes(scenes, [replace(toy_scene, scene_id=f"s{k}") for k in range(10)])

    def script(number: int, _: dict[str, Any]) -> Reply:
        time.sleep(0.15)
        return items(NONE) if number % 5 else Reply("no JSON")

    out = tmp_path / "out"
    with serving(script) as server:
        process = subprocess.Popen(annotate(scenes, out, server.url), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while len(server.seen) < 8 and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = list(server.seen)
        kept = load_answers(out / "answers.jsonl")
        assert 4 <= len(kept) <= len(before) < 20
        done = subprocess.run(annotate(scenes, out, server.url), capture_output=True, text=True, timeout=120)
        after = server.seen[len(before) :]
        third = subprocess.run(annotate(scenes, out, server.url), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(after) == 20 - len(kept) and len(before) - len(kept) <= 2  # what was on its way is asked again, and no more
    assert third.returncode == 0 and len(server.seen) == len(before) + len(after)
    answers = load_answers(out / "answers.jsonl")
    assert len(answers) == 20 and answers.items() >= kept.items()
    data = load_data(out)
    rejected = [json.loads(line) for line in (tmp_path / "out.rejected.jsonl").read_text().splitlines()]
    assert len(data.samples) + len(rejected) == 20 and "rejected:" in done.stderr and "asked" in done.stderr
    assert main(["check", str(out)]) == 0


def test_a_dry_run_says_what_is_left_and_asks_nothing(
    toy_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_scenes(tmp_path / "scenes.jsonl", [toy_scene])
    line = ["annotate", str(tmp_path / "scenes.jsonl"), str(tmp_path / "out"), "--server", "m@http://127.0.0.1:9/v1"]
    assert main([*line, "--dry-run", "--price", "0.5,2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["to_ask"] == found["requests"] == 8 and found["dollars_at_most"] > 0 and not (tmp_path / "out").exists()


def test_templates_go_on_where_they_were_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["annotate", "rooms:12", str(tmp_path / "out"), "--number", "2"]
    assert main(line) == 0
    whole = (tmp_path / "out" / "samples.jsonl").read_bytes()
    work = tmp_path / "out" / "work.jsonl"
    work.write_bytes(work.read_bytes()[: len(work.read_bytes()) // 2])  # as a kill leaves it
    (tmp_path / "out" / "samples.jsonl").unlink()
    assert main(line) == 0 and (tmp_path / "out" / "samples.jsonl").read_bytes() == whole
    page = (tmp_path / "out" / "statistics.html").read_text()
    assert "vocabulary" in page and "<script" not in page
    assert main([*line[:-1], "3"]) == 2 and "number was 2, is 3" in capsys.readouterr().err
    assert main([*line[:-1], "3", "--force"]) == 0


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--kinds", "poem"], "the kind is 'poem', expected grand3d, mmscan, all"),
        (["--budget", "3"], "--budget belongs to --server"),
        (["--server", "m@http://x/v1", "--processes", "2"], "expected neither beside --server"),
        (["--server", "m@http://x/v1", "--kinds", "mmscan"], "which only templates make"),
        (["--server", "m@ftp://x"], "expected openai:MODEL@"),
        (["--price", "1"], "expected two numbers"),
    ],
)
def test_wrong_arguments_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], named: str) -> None:
    assert main(["annotate", "rooms:1", str(tmp_path / "out"), *more]) == 2
    assert named in capsys.readouterr().err


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_text("mine")
    assert main(["annotate", "rooms:1", str(tmp_path)]) == 2
    assert "holds something else; expected a new folder" in capsys.readouterr().err
    assert main(["annotate", "rooms:x", str(tmp_path / "out")]) == 2
    assert "expected rooms:N" in capsys.readouterr().err


def test_scenes_shared_out_over_ray_are_written_as_in_one_process(toy_scene: Scene, tmp_path: Path, monkeypatch: Any) -> None:
    """With a stand-in for Ray, which is seldom installed; ``test_ray_itself`` runs where it is."""
    begun: list[str | None] = []

    class Ray:
        init = staticmethod(lambda address, **_: begun.append(address))
        shutdown = staticmethod(lambda: None)
        remote = staticmethod(lambda function: type("Remote", (), {"remote": staticmethod(lambda *args: function(*args))}))
        wait = staticmethod(lambda refs: (refs[-1:], refs[:-1]))  # whichever is ready first
        get = staticmethod(lambda refs: refs)

    monkeypatch.setitem(sys.modules, "ray", Ray)
    scenes = {f"s{k}": replace(toy_scene, scene_id=f"s{k}") for k in range(20)}
    one, _ = pipeline.by_templates(scenes, pipeline.Job(("comparison",), 2), tmp_path / "one", pipeline.in_processes(1))
    many, _ = pipeline.by_templates(scenes, pipeline.Job(("comparison",), 2), tmp_path / "many", pipeline.on_ray("local"))
    assert one == many and len(one) == 40 and begun == [None]


def test_ray_itself(toy_scene: Scene, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed (extra ray)")
    scenes = {f"s{k}": replace(toy_scene, scene_id=f"s{k}") for k in range(20)}
    found, _ = pipeline.by_templates(scenes, pipeline.Job(("comparison",), 2), tmp_path, pipeline.on_ray("local"))
    assert len(found) == 40


def test_processes_give_what_one_gives(toy_scene: Scene, tmp_path: Path) -> None:
    scenes = {f"s{k}": replace(toy_scene, scene_id=f"s{k}") for k in range(20)}
    job = pipeline.Job(("existence",), 2)
    one, _ = pipeline.by_templates(scenes, job, tmp_path / "one", pipeline.in_processes(1))
    assert one == pipeline.by_templates(scenes, job, tmp_path / "two", pipeline.in_processes(2))[0]
