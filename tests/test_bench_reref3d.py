"""CLEVR and ReRef-3D: files read, places scored, broken files counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import placement as pl
from grand3d.bench import reref3d
from grand3d.bench.common import Prediction, against
from grand3d.checks import faults_of
from grand3d.cli import main
from grand3d.convert import clevr as read_clevr
from grand3d.convert import reref3d as read_reref3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.markup import parse
from grand3d.placement import PlacementRules
from grand3d.programs import table_of
from grand3d.sample import Data, Reply, Sample, load_data, reply_to_dict, save_data

DIRECTIONS = {"left": [-1, 0, 0], "right": [1, 0, 0], "front": [0, -1, 0], "behind": [0, 1, 0]}
LOOKS = (("large", "red", "cube"), ("small", "blue", "sphere"), ("small", "green", "cube"))


def clevr_scene(index: int = 0, **changes: Any) -> dict[str, Any]:
    places = ((0.0, 0.0, 0.7), (-2.0, 1.0, 0.35), (2.0, 1.5, 0.35))
    objects = [
        {
            "size": size,
            "color": color,
            "material": "metal",
            "shape": shape,
            "3d_coords": list(p),
            "rotation": 1.0,
            "pixel_coords": [1],
        }
        for (size, color, shape), p in zip(LOOKS, places, strict=True)
    ]
    row = {"split": "new", "image_index": index, "image_filename": f"CLEVR_new_{index:06d}.png", "objects": objects}
    return row | {"directions": DIRECTIONS, "relationships": {}} | changes


def named(color: str) -> list[dict[str, Any]]:
    return [{"type": "scene"}, {"type": "filter_color", "side_inputs": [color]}, {"type": "unique"}]


def instruction(pair_id: str, style: str = "templated", **changes: Any) -> dict[str, Any]:
    program = {"family": "right", "target": named("blue"), "anchors": [named("red")]}
    row = {"pair_id": pair_id, "style": style, "scene": "CLEVR_new_000000", "text": "Put the blue sphere right of the red cube."}
    return row | {"program": program, "goal": [1.2, 0.0, 0.35]} | changes


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps({"info": {}, "scenes": [clevr_scene(k) for k in range(3)]}))
    return path


def data_of(tmp_path: Path, scenes: Path, rows: list[Any]) -> Data:
    return read_reref3d.convert(questions=write(tmp_path / "questions.jsonl", rows), scenes=scenes)


def said(data: Data, texts: list[str]) -> list[Reply]:
    return [
        Reply(sample.sample_id, sample.scene_id, text, ("0", "1", "2")) for sample, text in zip(data.samples, texts, strict=True)
    ]


# CLEVR


def test_clevrs_own_files_are_read_in_all_forms(real: Callable[[str], Path]) -> None:
    whole = read_clevr.convert(scenes=real("clevr/CLEVR_scenes.json"))
    assert len(whole.scenes) == 10 and whole.samples == ()
    for name in ("CLEVR_new_000000", "CLEVR_new_000008"):
        (scene,) = read_clevr.convert(scenes=real(f"clevr/{name}.json")).scenes.values()
        assert scene.scene_id == name and scene == whole.scenes[name]
    first = whole.scenes["CLEVR_new_000000"].objects[0]
    assert first.category == "large gray rubber cylinder" and first.attributes["color"] == "gray"
    assert first.extent == pytest.approx((1.4, 1.4, 1.4)) and first.centroid[2] == pytest.approx(0.7)
    # every thing stands on the plane, inside of the table, apart from the others by CLEVR's own gap
    for scene in whole.scenes.values():
        for item in scene.objects:
            others = tuple(o for o in scene.objects if o is not item)
            assert pl.fault(pl.Placing("centre", item, (), others, (0, 1)), item.centroid, PlacementRules(min_gap=0.25)) == ""


def test_clevr_folder_and_questions(tmp_path: Path) -> None:
    folder = tmp_path / "scenes"
    folder.mkdir()
    for k in range(2):
        (folder / f"{k}.json").write_text(json.dumps(clevr_scene(k)))
    rows = [
        {"image_filename": "CLEVR_new_000000.png", "question": "Any cubes?", "answer": "yes", "question_index": 7, "program": []},
        {"image_filename": "CLEVR_new_000000.png", "question": "How many?", "answer": "3", "question_index": 8},
        {"image_filename": "CLEVR_new_000000.png", "question": "What color?", "answer": "red", "question_index": 9},
        {"image_filename": "CLEVR_new_000009.png", "question": "What color?", "answer": "red", "question_index": 10},
        {"image_filename": "CLEVR_new_000000.png", "question": "", "answer": "red"},
        {"image_filename": "CLEVR_new_000000.png", "question": "Twice?", "answer": "no", "question_index": 7},
        "no object",
    ]
    (tmp_path / "q.json").write_text(json.dumps({"questions": rows}))
    rejects = Rejects(skip_bad=True)
    data = read_clevr.convert(scenes=folder, questions=tmp_path / "q.json", rejects=rejects)
    assert [(s.sample_id, s.task, s.answer) for s in data.samples] == [
        ("CLEVR_new_000000_7", "existence", "Yes"),
        ("CLEVR_new_000000_8", "counting", "3"),
        ("CLEVR_new_000000_9", "question", "red"),
    ]
    assert len(rejects.rows) == 4 and list(data.scenes) == ["CLEVR_new_000000"]
    assert not any(list(faults_of(sample, data.scenes[sample.scene_id], None)) for sample in data.samples)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"directions": {**DIRECTIONS, "left": [1, 0, 0]}}, "bad directions"),
        ({"directions": {**DIRECTIONS, "behind": [0, 2, 0]}}, "bad directions"),
        ({"directions": {}}, "wrong type"),
        ({"objects": [{**clevr_scene()["objects"][0], "3d_coords": [0, 0, 0.35]}]}, "bad height"),
        ({"objects": [{**clevr_scene()["objects"][0], "3d_coords": [0, 0, "x"]}]}, "bad number"),
        ({"objects": [{**clevr_scene()["objects"][0], "size": "huge"}]}, "unknown size"),
        ({"objects": [{"size": "large"}]}, "missing key"),
        ({"objects": ["x"]}, "wrong type"),
        ({"image_filename": None, "image_index": "x"}, "wrong type"),
        ({"image_index": 0, "image_filename": "CLEVR_new_000000.png"}, "id twice"),
    ],
)
def test_broken_clevr_scene_is_counted_and_the_rest_goes_on(tmp_path: Path, changes: dict[str, Any], cause: str) -> None:
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps([clevr_scene(0), clevr_scene(5, **changes)]))
    with pytest.raises(GrandError):
        read_clevr.convert(scenes=path)
    rejects = Rejects(skip_bad=True)
    assert list(read_clevr.convert(scenes=path, rejects=rejects).scenes) == ["CLEVR_new_000000"]
    assert rejects.counts() == {cause: 1}


def test_cube_of_the_generator_that_shrinks_it_is_smaller(tmp_path: Path) -> None:
    cube = {**clevr_scene()["objects"][0], "3d_coords": [0, 0, 0.495]}
    path = tmp_path / "scene.json"
    path.write_text(json.dumps(clevr_scene(objects=[cube])))
    (scene,) = read_clevr.convert(scenes=path).scenes.values()
    assert scene.objects[0].extent == pytest.approx((0.99,) * 3)


# questions of ReRef-3D


def test_instructions_become_samples(tmp_path: Path, scenes: Path) -> None:
    data = data_of(tmp_path, scenes, [instruction("a"), instruction("a", "naturalised", text="Blue ball, right of the red one")])
    first, second = data.samples
    assert (first.sample_id, second.sample_id) == ("a_templated", "a_naturalised")
    assert first.task == "placement" and first.target_ids == ("1",) and parse(first.answer).places == ((1.2, 0.0, 0.35),)
    assert table_of(data.scenes[first.scene_id], first.viewpoint).forward == pytest.approx((0, 10))
    save_data(tmp_path / "data", data)
    assert load_data(tmp_path / "data") == data


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"scene": "CLEVR_new_000009"}, "unknown scene"),
        ({"style": "spoken"}, "bad style"),
        ({"text": " "}, "broken row"),
        ({"goal": [1, 2]}, "bad number"),
        ({"program": None}, "bad program"),
        ({"program": {"family": "right", "target": named("blue"), "anchors": [named("pink")]}}, "not unique"),
        ({"hint": 1}, "unknown key"),
        ({"pair_id": "a"}, "id twice"),
    ],
)
def test_broken_instruction_is_counted_and_the_rest_goes_on(
    tmp_path: Path, scenes: Path, changes: dict[str, Any], cause: str
) -> None:
    path = write(tmp_path / "q.jsonl", [instruction("a"), instruction("b") | changes])
    with pytest.raises(GrandError, match=r"q\.jsonl:2"):
        read_reref3d.convert(questions=path, scenes=scenes)
    rejects = Rejects(skip_bad=True)
    assert len(read_reref3d.convert(questions=path, scenes=scenes, rejects=rejects).samples) == 1
    assert rejects.counts() == {cause: 1}


def test_instruction_about_a_rejected_scene_says_so(tmp_path: Path) -> None:
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps([clevr_scene(1), clevr_scene(0, directions={})]))
    rejects = Rejects(skip_bad=True)
    rows = write(tmp_path / "q.jsonl", [instruction("a"), instruction("b", scene="CLEVR_new_000001")])
    read_reref3d.convert(questions=rows, scenes=path, rejects=rejects)
    assert rejects.counts() == {"wrong type": 1, "its scene was rejected": 1}


# reading places


def test_distance_and_acc_at_one_are_those_of_the_proposal(golden: Callable[[str], Path], tmp_path: Path, scenes: Path) -> None:
    case = json.loads(golden("reref3d/distance_and_validity_PROPOSED.json").read_text())
    rows = []
    for k, goal in enumerate(case["goal"]):
        program = {"family": "centre", "radius": goal[2]}
        rows.append(instruction(str(k), goal=goal, program=program))
    data = data_of(tmp_path, scenes, rows)
    texts = ["no idea" if point is None else f"<place>{', '.join(map(str, point))}</place>" for point in case["pred"]]
    report = reref3d.score(data, said(data, texts))
    assert [row["distance"] for row in report["samples"]] == case["distances"]
    assert report["rows"][0]["acc@1.0"] == pytest.approx(100 * case["acc_at_1_le"])
    assert report["rows"][0]["distance"] == case["mean_distance_parsed_only"] and report["counts"]["unparsable"] == 1


ANSWERS = {
    "<place>1.2, 0, 9</place>": "",  # z is reset
    "(1.0, 1.2)": "",  # 50 degrees off: only as wide
    "(0.8, 0.3)": "overlap",
    "(3.1, 0)": "out of bounds",
    "(-1, 0)": "relation",
    "(2.6, 2.9)": "",
    "nowhere": "unparsable",
    "(-2.0, 1.0)": "relation",  # its old place
}


def test_sources_of_error_near_misses_and_far_places(tmp_path: Path, scenes: Path) -> None:
    rows = [instruction(str(k), scene=f"CLEVR_new_{k % 3:06d}") for k in range(len(ANSWERS))]
    data = data_of(tmp_path, scenes, rows)
    report = reref3d.score(data, said(data, list(ANSWERS)))
    assert [row["error"] for row in report["samples"]] == list(ANSWERS.values())
    shares = {row["name"]: row["n"] for row in report["errors"]}
    wanted = {"unparsable": 1, "out of bounds": 1, "relation": 2, "overlap": 1, "right: near miss": 2, "right: far": 1}
    assert shares == wanted
    row = report["rows"][0]
    assert (row["accuracy"], row["accuracy_strict"]) == (37.5, 12.5) and row["accuracy_low"] <= 37.5 <= row["accuracy_high"]
    assert report["counts"]["goals_off"] == 0
    baselines = {line["name"]: line for line in report["baselines"]}
    assert baselines["annotated goal"]["accuracy_strict"] == 100 and baselines["annotated goal"]["distance"] == 0
    assert baselines["left where it is"]["rs"] == 0 and baselines["left where it is"]["pv"] == 100
    assert baselines["random free place"]["pv"] == 100 and baselines["middle of the table"]["pv"] == 0
    for sample in report["samples"]:
        assert sample["accuracy"] == sample["rs"] * sample["pv"] and sample["accuracy_strict"] <= sample["accuracy"]


def test_wrong_referent_is_another_thing_of_the_anchors_shape(tmp_path: Path, scenes: Path) -> None:
    program = {"family": "near", "target": named("blue"), "anchors": [named("red")]}
    data = data_of(tmp_path, scenes, [instruction("a", program=program), instruction("b", program=program)])
    report = reref3d.score(data, said(data, ["(2, 2.4)", "(-2.5, -2.5)"]))
    assert [row["error"] for row in report["samples"]] == ["wrong referent", "relation"]


def test_groups_pairs_and_both_ways_of_training(tmp_path: Path, scenes: Path) -> None:
    program = {"family": "left", "target": named("blue"), "anchors": [named("red")]}
    rows, texts = [], []
    for trained in ("templated", "naturalised"):
        for pair_id, family, goods in (("a", {}, (1, 1)), ("b", {"program": program, "goal": [-1.2, 0, 0.35]}, (1, 0))):
            for style, good in zip(("templated", "naturalised"), goods, strict=True):
                name = f"{pair_id} {style} {trained}"
                rows.append(instruction(pair_id, style, train_style=trained, question_id=name, **family))
                texts.append(f"({rows[-1]['goal'][0]}, 0)" if good else "(9, 9)")
    data = data_of(tmp_path, scenes, rows)
    report = reref3d.score(data, said(data, texts))
    figures = {row["name"]: (row["n"], row["accuracy"]) for row in report["rows"]}
    assert figures["all"] == (8, 75) and figures["family left"] == (4, 50) and figures["family right"] == (4, 100)
    assert figures["style templated"] == (4, 100) and figures["style naturalised"] == (4, 50)
    cells = [name for name in figures if name.startswith("trained on")]
    assert len(cells) == 4 and figures["trained on naturalised, asked in templated"] == (2, 100)
    assert {row["name"]: row["n"] for row in report["pairs"]} == {
        "both right": 2,
        "templated only": 2,
        "naturalised only": 0,
        "neither": 0,
    }
    spread = {row["name"]: row for row in report["places"]}
    assert spread["annotated goals"]["spread"] == pytest.approx(1.2) and spread["read"]["n"] == 8
    names = {row["name"] for row in against(report["samples"], report["samples"])}
    assert names == set(reref3d.FIGURES)


def test_own_rules_replace_the_proposed_ones(tmp_path: Path, scenes: Path) -> None:
    data = data_of(tmp_path, scenes, [instruction("a")])
    replies = said(data, ["(2.8, 0)"])
    assert reref3d.score(data, replies)["rows"][0]["accuracy"] == 100
    assert reref3d.score(data, replies, rules=PlacementRules(whole_inside=True))["rows"][0]["accuracy"] == 0


def test_broken_replies_are_counted(tmp_path: Path, scenes: Path) -> None:
    data = data_of(tmp_path, scenes, [instruction(str(k)) for k in range(6)])
    names = [sample.sample_id for sample in data.samples]
    upload = {
        names[0]: [1.2, 0, 0.35],
        names[1]: "(1.2, 0)",
        names[2]: "",
        names[3]: [1, "x", 2],
        names[4]: None,
        "stranger": [1, 2],
    }
    (tmp_path / "p.json").write_text(json.dumps(upload))
    with pytest.raises(GrandError, match="expected x, y and z"):
        reref3d.read_replies(tmp_path / "p.json", data)
    rejects = Rejects(skip_bad=True)
    answers = reref3d.read_replies(tmp_path / "p.json", data, rejects)
    assert len(rejects.rows) == 2
    with pytest.raises(GrandError, match="have no reply"):
        reref3d.score(data, answers)
    counts = reref3d.score(data, answers, "wrong")["counts"]
    assert {key: counts[key] for key in ("n", "missing", "extra", "unparsable", "empty")} == {
        "n": 6,
        "missing": 3,
        "extra": 1,
        "unparsable": 1,
        "empty": 1,
    }
    assert reref3d.score(data, answers, "skip")["counts"]["n"] == 3
    lines = [json.dumps(reply_to_dict(Reply(names[0], "CLEVR_new_000000", "(1, 0)")))] * 2 + ["{"]
    rejects = Rejects(skip_bad=True)
    assert len(reref3d.read_replies(write(tmp_path / "r.jsonl", lines), data, rejects)) == 1 and len(rejects.rows) == 2
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(GrandError, match="expected an object"):
        reref3d.read_replies(tmp_path / "list.json", data)


def test_upload_is_read_back_as_it_scored(tmp_path: Path, scenes: Path) -> None:
    data = data_of(tmp_path, scenes, [instruction(str(k)) for k in range(3)])
    replies = said(data, ["(1.2, 0)", "<place>0, 1, 2</place>", "none"])
    assert reref3d.write_upload(tmp_path / "up.json", data, replies) == 1
    back = reref3d.read_replies(tmp_path / "up.json", data)
    ours, theirs = (reref3d.score(data, answers, "wrong")["rows"][0] for answers in (replies, back))
    assert ours == theirs


def test_sample_that_cannot_be_judged_is_named(tmp_path: Path, scenes: Path) -> None:
    data = data_of(tmp_path, scenes, [instruction("a")])
    (sample,) = data.samples
    for broken, message in (
        (Sample("a", sample.scene_id, "placement", "x", viewpoint=sample.viewpoint), "program is None"),
        (Sample("a", sample.scene_id, "placement", "x", meta=sample.meta), "viewpoint is missing"),
        (Sample("a", "elsewhere", "placement", "x", viewpoint=sample.viewpoint, meta=sample.meta), "not among the scenes"),
    ):
        with pytest.raises(GrandError, match=f"sample 'a': .*{message}"):
            reref3d.score(Data(data.scenes, (broken,)), [Prediction("a", broken.scene_id, text="(1, 2)")])


def test_papers_figures_fit_together() -> None:
    rows = {row["name"]: row for row in reref3d.PAPER}
    assert rows["LLaVA-3D"]["accuracy"] - 1.6 == pytest.approx(rows["LLaVA-3D, templated text"]["accuracy"])
    for name, row in rows.items():
        if name.endswith("naturalised text"):
            assert row["accuracy"] > rows[name.replace("naturalised", "templated")]["accuracy"]


def test_command_line_from_published_files_to_report(tmp_path: Path, scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = write(tmp_path / "q.jsonl", [instruction("a"), instruction("b", scene="CLEVR_new_000001")])
    (tmp_path / "p.json").write_text(json.dumps({"a_templated": [1.2, 0, 0.35], "b_templated": "nowhere"}))
    assert main(["convert", "reref3d", str(tmp_path / "data"), "--questions", str(questions), "--scenes", str(scenes)]) == 0
    assert main(["check", str(tmp_path / "data")]) == 0
    capsys.readouterr()
    for place, more in ((tmp_path / "data", []), (questions, ["--scenes", str(scenes)])):
        assert main(["score", "reref3d", str(place), str(tmp_path / "p.json"), *more]) == 0
        out = capsys.readouterr().out
        assert "What went wrong" in out and "Where things are put" in out and "unparsable 1" in out
    assert main(["score", "reref3d", str(questions), str(tmp_path / "p.json")]) == 2
    assert "needs --scenes" in capsys.readouterr().err
