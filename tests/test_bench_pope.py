from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.bench import nouns, pope
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Reply, Sample, save_replies
from grand3d.scene import Object, Scene


def _object(object_id: str, category: str) -> Object:
    return Object(object_id, category, (0, 0, 0.5), (1, 1, 1))


def _row(report: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in report["rows"] if all(row[k] == v for k, v in wanted.items())]
    return row


# nouns


@pytest.mark.parametrize(
    ("said", "category"),
    [
        ("mice", "mouse"), ("people", "person"), ("furniture", "furniture"), ("shelves", "shelf"), ("bookshelves", "bookshelf"),
        ("clothes", "clothes"), ("toilet papers", "toilet paper"), ("cases of water bottles", "case of water bottles"),
        ("bathroom vanities", "bathroom vanity"), ("tissue boxes", "tissue box"), ("couches", "couch"), ("stairs", "stairs"),
        ("TVs", "tv"), ("trash_cans", "trash can"), ("mattresses", "mattress"), ("luggage", "luggage"),
        ("coffee tables", "coffee_table"), ("chair", "office chair/chair"),
    ],
)  # fmt: skip
def test_forms_of_a_plural_meet_those_of_its_category(said: str, category: str) -> None:
    assert nouns.forms(said) & nouns.forms(category)


@pytest.mark.parametrize(("said", "category"), [("office chairs", "chair"), ("glass", "glas"), ("boxes", "bo"), ("", "chair")])
def test_forms_of_different_things_do_not_meet(said: str, category: str) -> None:
    assert not nouns.forms(said) & nouns.forms(category)


def test_forms_of_every_asked_noun_lead_to_a_scannet200_class(real: Callable[[str], Path]) -> None:
    with real("scannet/scannet200_classes.derived.tsv").open() as file:
        known = {form for row in csv.DictReader(file, delimiter="\t") for form in nouns.forms(row["name"])}
    asked = set()
    for kind in ("random", "popular", "adversarial"):
        for row in json.loads(real(f"3dpope/scannet200/{kind}_template_1.json").read_text()):
            asked.add(pope.asked_noun(row["conversations"][0]["value"].replace("<image>", "")))
    assert len(asked) == 195
    assert not {noun for noun in asked if not noun or not nouns.forms(noun) & known}


def test_first_mention_takes_the_earliest_and_of_those_the_longest() -> None:
    categories = ["chair", "office chair", "desk", "trash can"]
    assert nouns.first_mention("The office-chairs at the desk", categories) == {"office chair"}
    assert nouns.first_mention("behind the desk, the chair", categories) == {"desk"}
    assert nouns.first_mention("trash_cans!", categories) == {"trash can"}
    assert nouns.first_mention("the armchair", categories) == set()
    assert nouns.first_mention("", categories) == nouns.first_mention("the desk", []) == set()


# 3D-POPE


@pytest.mark.parametrize(
    ("text", "strict", "said"),
    [
        ("yes", True, True),
        (" YES. ", True, True),
        ("No", False, False),
        ("Yes, there are <p>chairs</p>[<obj_3>].", None, True),
        ("No, there is no chair", None, False),
        ("Nothing indicates that.", None, False),
        ("I know there isn't one", None, False),
        ("I know there isn\u2019t one", None, False),
        ("Yes and no", None, None),
        ("yes/no", None, None),
        ("not sure", None, None),
        ("I cannot tell.", None, None),
        ("there is a notebook", None, True),
        ("You can find <p>corner cabinets</p>[<obj_1>, <obj_2>] in this area.", None, True),
        ("The knots are north of the notebook", None, None),
        ("", None, None),
        ("[<obj_3>]", None, None),
        ("No doubt, there are chairs.", None, True),
        ("Without a doubt there are no chairs.", None, False),
        ("There are three chairs and not a single table.", None, True),
        ("There are no tables and three chairs.", None, False),
        ("There are currently no chairs.", None, False),
        ("You can find no chairs here", None, False),
        ("In this room, there are chairs.", None, True),
        ("There is nothing but one chair.", None, False),
        ("There are chairs, none of them red.", None, True),
        ("There are chairs without arms.", None, None),
        ("I am afraid that there are no chairs.", None, False),
    ],
)
def test_read_rules_of_known_replies_are_fixed(text: str, strict: bool | None, said: bool | None) -> None:
    assert pope.read_strict(text) is strict
    assert pope.read_words(text) is said


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=40))
def test_read_words_never_contradicts_the_strict_rule(text: str) -> None:
    strict = pope.read_strict(text)
    assert strict is None or pope.read_words(text) is strict


@pytest.mark.parametrize(
    ("question", "noun"),
    [
        ("Are there any trash cans in the room?", "trash cans"),
        ("Does the room contain any cases of water bottles?", "cases of water bottles"),
        ("Have you noticed any people in the room?", "people"),
        ("Can you see any TVs in the room?\n", "TVs"),
        ("Is there a refrigerator in the room?", "refrigerator"),
        ("Is there an office chair?", "office chair"),
        ("How do you do?", None),
    ],
)
def test_asked_noun_of_a_question_is_found(question: str, noun: str | None) -> None:
    assert pope.asked_noun(question) == noun


def _questions(*rows: tuple[str, str, str, str]) -> Data:
    samples = []
    for scene, template, noun, answer in rows:
        question, meta = f"Are there any {noun} in the room?", {"type": "random", "template": template}
        samples.append(Sample(f"{scene}{template}{noun}", scene, "existence", question, answer, meta=meta))
    scenes = {s: Scene(s, (_object("0", "mouse"), _object("1", "office chair"))) for s, *_ in rows}
    return Data(scenes, tuple(samples))


QUESTIONS = _questions(
    ("a", "t1", "mice", "Yes"), ("a", "t1", "beds", "No"), ("b", "t1", "chairs", "Yes"), ("b", "t1", "tables", "No"),
    ("a", "t2", "mice", "Yes"), ("a", "t2", "beds", "No"), ("b", "t2", "chairs", "Yes"), ("b", "t2", "tables", "No"),
)  # fmt: skip


def _answers(*texts: str) -> list[Reply]:
    return [Reply(s.sample_id, s.scene_id, text) for s, text in zip(QUESTIONS.samples, texts, strict=False)]


def test_score_pope_gives_both_rules_side_by_side() -> None:
    replies = _answers("yes", "no", "Yes, there are.", "Hm.", "yes", "yes", "yes", "yes")
    report = pope.score(QUESTIONS, replies)
    strict, words = (_row(report, rule=rule, template="t1") for rule in ("strict", "words"))
    assert (strict["unknown"], strict["recall"], strict["precision"], strict["accuracy"]) == (2, 50, 100, 75)
    assert (words["unknown"], words["recall"], words["precision"]) == (1, 100, 100)
    assert (words["accuracy"], words["accuracy_answered"]) == (75, 100)  # an unknown "no" is not right
    assert report["counts"]["unknown_strict"] == 2
    json.dumps(report, allow_nan=False)


def test_score_pope_row_mean_is_the_mean_and_spread_over_templates() -> None:
    report = pope.score(QUESTIONS, _answers("yes", "no", "yes", "no", "yes", "yes", "yes", "yes"))
    row = _row(report, rule="strict", template="mean")
    assert row["n"] == 8
    assert (row["f1_min"], row["f1_max"]) == (pytest.approx(200 / 3), 100)
    assert row["f1"] == pytest.approx((100 + 200 / 3) / 2)
    assert row["accuracy"] == 75
    assert row["f1_low"] <= row["f1"] <= row["f1_high"]


def test_score_pope_missing_reply_to_a_no_question_is_wrong_or_left_out() -> None:
    replies = _answers("yes", "no", "yes")  # nothing for the second "no" of t1, and nothing for t2
    data = replace(QUESTIONS, samples=QUESTIONS.samples[:4])
    wrong = pope.score(data, replies, missing="wrong")
    skip = pope.score(data, replies, missing="skip")
    for rule in ("strict", "words"):
        assert _row(wrong, rule=rule, template="t1")["accuracy"] == 75
        assert _row(wrong, rule=rule, template="t1")["accuracy_answered"] == 100
        assert _row(skip, rule=rule, template="t1")["accuracy"] == 100
    assert wrong["counts"]["missing"] == skip["counts"]["missing"] == 1


def test_score_pope_of_samples_without_type_and_template_makes_one_row(toy_data: Data) -> None:
    replies = [Reply("toy_1", "toy_room", "Yes"), Reply("toy_2", "toy_room", "Yes")]
    row = _row(pope.score(toy_data, replies), rule="words")
    assert (row["type"], row["template"], row["n"], row["accuracy"]) == ("all", "-", 2, 50)
    odd = replace(toy_data, samples=(replace(toy_data.samples[1], answer="Perhaps"),))
    with pytest.raises(GrandError, match="expected Yes or No first"):
        pope.score(odd, replies[:1])


def test_baselines_pope_look_the_noun_up_and_do_not_take_a_chair_for_an_office_chair() -> None:
    look_up, yes = (
        next(r for r in pope.baselines(QUESTIONS) if r["name"] == n and r["template"] == "t1") for n in ("look-up", "always yes")
    )
    assert (look_up["recall"], look_up["precision"], look_up["yes"]) == (50, 100, 25)
    assert (yes["recall"], yes["accuracy"]) == (100, 50)


def _results(*answers: str) -> list[dict[str, str]]:
    return [
        {"source": "x", "scene_id": s.scene_id, "situation": "", "instruction": s.text, "response": answer}
        for s, answer in zip(QUESTIONS.samples[:4], answers, strict=False)
    ]


def test_read_replies_of_a_result_file_answers_by_scene_and_question(tmp_path: Path) -> None:
    path, data = tmp_path / "leo.json", replace(QUESTIONS, samples=QUESTIONS.samples[:4])
    rows = [*_results("yes", "no", "Yes", "no"), *_results("yes"), _results("no")[0] | {"scene_id": "other"}]
    for document in (rows, {"model": rows}):
        path.write_text(json.dumps(document))
        replies = pope.read_replies(path, data)
        assert [r.text for r in replies[:4]] == ["yes", "no", "Yes", "no"]
        assert pope.score(data, replies)["counts"]["extra"] == len(replies[4:]) == 1  # to another scan
    assert _row(pope.score(data, pope.read_replies(path, data)), rule="strict", template="t1")["accuracy"] == 100


@pytest.mark.parametrize(
    ("row", "cause"),
    [(_results("no")[0], "contradiction"), (3, "wrong type"), ({"scene_id": "a", "instruction": "x"}, "missing key")],
)
def test_read_replies_of_a_result_file_refuses_contradictions_and_broken_rows(tmp_path: Path, row: Any, cause: str) -> None:
    path = tmp_path / "leo.json"
    path.write_text(json.dumps([*_results("yes"), row]))
    with pytest.raises(GrandError, match=r"leo\.json: row 1"):
        pope.read_replies(path, QUESTIONS)
    rejects = Rejects(skip_bad=True)
    assert {r.text for r in pope.read_replies(path, QUESTIONS, rejects)} == {"yes"}
    assert rejects.counts() == {cause: 1}


def test_read_replies_takes_our_own_file_and_refuses_any_other(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    save_replies(path, _answers("yes", "no"))
    assert pope.read_replies(path, QUESTIONS) == _answers("yes", "no")
    path.write_text('{"a": [], "b": []}')
    with pytest.raises(GrandError, match="results of one model"):
        pope.read_replies(path, QUESTIONS)


@pytest.mark.parametrize(
    ("before", "cause"),
    [("\n \n", ""), ("\ufeff\n", ""), ('{"sample_id": "cut off', "not JSON"), ("junk\n", "not JSON"), ("[]\n", "wrong type")],
)
def test_read_replies_knows_our_own_file_by_any_of_its_lines(tmp_path: Path, before: str, cause: str) -> None:
    path = tmp_path / "replies.jsonl"
    own = {"more": 1, "sample_id": QUESTIONS.samples[0].sample_id, "scene_id": "a", "text": "yes"}
    path.write_text(before + ("\n" if cause else "") + json.dumps(own) + "\n")
    rejects = Rejects(skip_bad=True)
    assert [reply.text for reply in pope.read_replies(path, QUESTIONS, rejects)] == ["yes"]
    assert rejects.counts() == ({cause: 1} if cause else {})


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", " \r\n\n"])
def test_read_replies_of_an_empty_file_gives_none_and_missing_ones_are_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "replies.jsonl").write_text(text)
    replies = pope.read_replies(tmp_path / "replies.jsonl", QUESTIONS)
    assert replies == []
    report = pope.score(QUESTIONS, replies, missing="wrong")
    assert report["counts"]["missing"] == len(QUESTIONS.samples) == report["counts"]["n"]
    assert {row["accuracy"] for row in report["rows"]} == {0}
    with pytest.raises(GrandError, match="samples have no reply"):
        pope.score(QUESTIONS, replies)


def test_read_replies_of_a_result_file_that_is_cut_off_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "leo.json"
    path.write_text(json.dumps(_results("yes", "no"), indent=1)[:-3])
    with pytest.raises(GrandError, match=r"leo\.json: not JSON: .* at line"):
        pope.read_replies(path, QUESTIONS, Rejects(skip_bad=True))


def test_score_pope_baselines_are_over_the_scored_samples() -> None:
    report = pope.score(QUESTIONS, _answers("yes", "no", "yes"), missing="skip")
    rows = {row["name"]: (row["template"], row["n"], row["recall"]) for row in report["baselines"]}
    assert rows == {"look-up": ("t1", 3, 50), "always yes": ("t1", 3, 100)}


def test_a_folder_of_result_files_is_one_model_each_file_of_its_type(tmp_path: Path) -> None:
    def sample(kind: str, answer: str) -> Sample:
        meta = {"type": kind, "template": "template_1"}
        return Sample(f"{kind} {answer}", "s", "existence", f"Are there any {answer} things?", answer, meta=meta)

    data = Data({"s": Scene("s", ())}, tuple(sample(kind, say) for kind in ("random", "popular") for say in ("yes", "no")))
    for kind, said in (("random", "yes"), ("popular", "no")):
        rows = [
            {"scene_id": "s", "instruction": f"Are there any {word} things?\n<image>", "response": said} for word in ("yes", "no")
        ]
        (tmp_path / f"leo_{kind}_template_1.json").write_text(json.dumps({"model": rows}))
    replies = pope.read_replies(tmp_path, data)
    assert {reply.sample_id: reply.text for reply in replies} == {
        "random yes": "yes",
        "random no": "yes",
        "popular yes": "no",
        "popular no": "no",
    }
    assert len(pope.read_replies(tmp_path / "leo_random_template_1.json", data)) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(GrandError, match="expected result files"):
        pope.read_replies(tmp_path / "empty", data)


def test_every_figure_has_the_interval_of_its_mean_over_templates(real: Callable[[str], Path]) -> None:
    from grand3d.convert.pope import convert

    data = convert(questions=real("3dpope/scannet200"))
    report = pope.score(data, pope.read_replies(real("3dpope/leo_replies"), data), "skip")
    row = _row(report, rule="strict", template="mean")
    figures = [round(row[name], 1) for name in ("precision", "recall", "f1", "accuracy", "yes")]
    assert figures == [54.5, 97.9, 70.0, 57.9, 90.0]  # the averages of the public script
    assert all(row[f"{name}_low"] < row[name] < row[f"{name}_high"] for name in ("precision", "recall", "f1", "accuracy", "yes"))
    assert {sample["type"] for sample in report["samples"]} == {"random"}
