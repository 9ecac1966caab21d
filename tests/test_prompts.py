from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grand3d.errors import GrandError
from grand3d.markup import answer_ids, parse
from grand3d.prompts import SYSTEM, Dialogue, Turn, chat_dialogue, dialogue, prompt_ids, system_text
from grand3d.sample import TASKS, Sample
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText, fit_scene, write_scene

PROMPT = PromptConfig()
SCENE = Scene(
    "s",
    (
        Object("4", "chair", (0, 0, 0.5), (1, 1, 1), score=0.9),
        Object("2", "desk", (2, 0, 0.4), (1, 2, 0.8), score=0.8),
        Object("40", "office chair", (0, 0, 0.5), (1, 1, 1), score=0.7),
        Object("a chair-7", "stool", (5, 0, 0.2), (0.4, 0.4, 0.4), score=0.1),
    ),
)
TEXT = write_scene(SCENE)
EXPRESSION = "<p>the chair</p>[<4>] left of <p>the desk</p>[<2>]"


def sample(
    task: str = "object_reference", text: str = EXPRESSION, answer: str = "", targets: tuple[str, ...] = ("4",), **meta: str
) -> Sample:
    return Sample("x", "s", task, text, answer, targets, meta=meta)


def turn(item: Sample, prompt: PromptConfig = PROMPT, with_answer: bool = True, scene_text: SceneText = TEXT) -> Turn:
    (only,) = dialogue(item, scene_text, prompt, with_answer).turns
    return only


def test_dialogue_of_reference_shows_the_plain_expression_and_answers_in_two_blocks() -> None:
    detailed = "<detailed_grounding><p>the chair</p>[<obj_0>] <p>the desk</p>[<obj_1>]</detailed_grounding>"
    answer = "<refer_expression_grounding><p>chair</p>[<obj_0>]</refer_expression_grounding>"
    question = "Ground these sentences: <refer_expression>the chair left of the desk</refer_expression>"
    for grounding, expected in (("first", detailed + answer), ("later", answer + detailed), ("none", answer)):
        assert turn(sample(), replace(PROMPT, grounding=grounding)) == Turn(question, expected)
    assert dialogue(sample(), TEXT, PROMPT, True) == Dialogue(SYSTEM, TEXT.text, (turn(sample()),))


def test_dialogue_without_answer_asks_the_same_question() -> None:
    answers = {"existence": "yes", "counting": "2"}
    for task in TASKS:
        item = sample(task, answer=answers.get(task, "<p>a chair</p>[<4>]"))
        trained, asked = turn(item), turn(item, with_answer=False)
        assert asked == Turn(trained.question, None)
        assert trained.answer
        assert parse(trained.answer).faults == ()


def test_dialogue_of_reference_closes_the_expression_as_the_setting_says() -> None:
    question = turn(sample(), replace(PROMPT, refer_close="<refer_expression>")).question
    assert question.endswith(": <refer_expression>the chair left of the desk<refer_expression>")


def test_dialogue_of_reference_cannot_be_closed_early_by_the_expression() -> None:
    item = sample(text="a</refer_expression> <refer_expression_grounding>[<2>]<p>b</p>[<4>]\n")
    assert turn(item).question == "Ground these sentences: <refer_expression>a b</refer_expression>"


def test_dialogue_of_reference_without_markup_grounds_the_target_alone() -> None:
    answer = turn(sample(text="the one by the window")).answer
    parsed = parse(answer or "")
    assert parsed.detailed is not None
    assert [(item.phrase, item.ids) for item in parsed.detailed] == [("chair", ("obj_0",))]
    assert answer_ids(parsed) == ("obj_0",)


@pytest.mark.parametrize(
    ("item", "phrase"),
    [
        (sample(label="armchair"), "armchair"),
        (sample(), "chair"),
        (sample(targets=("40",)), "chair"),
        (sample(targets=("a chair-7",)), "stool"),
        (sample(targets=(), text="<p>a piano</p>[] by <p>the desk</p>[<2>]"), "a piano"),
        (sample(targets=(), text="a piano"), "a piano"),
        (sample(targets=(), text=""), "object"),
        (sample(label="a <p>b</p> [<obj_1>]"), "a b"),
        (sample(label="see <obj_1>"), "see obj_1"),
    ],
)
def test_dialogue_of_reference_calls_the_target_by_the_first_name_it_has(item: Sample, phrase: str) -> None:
    parsed = parse(turn(item).answer or "")
    assert [found.phrase for found in parsed.answer or ()] == [phrase]
    assert answer_ids(parsed) == tuple(prompt_ids(TEXT)[i] for i in item.target_ids)
    assert parsed.faults == ()


def test_dialogue_of_reference_without_labels_takes_the_phrase_that_carries_the_target() -> None:
    bare = replace(TEXT, labels=())
    parsed = parse(turn(sample(targets=("2",)), scene_text=bare).answer or "")
    assert [(item.phrase, item.ids) for item in parsed.answer or ()] == [("the desk", ("obj_1",))]


def test_dialogue_of_reference_keeps_the_phrase_of_an_object_that_is_not_shown() -> None:
    answer = turn(sample(text="<p>the chair</p>[<4>, <40>] by <p>the lamp</p>[<99>]")).answer
    assert (answer or "").startswith("<detailed_grounding><p>the chair</p>[<obj_0>] <p>the lamp</p>[]</detailed_grounding>")


@pytest.mark.parametrize("task", TASKS)
def test_dialogue_for_training_with_a_target_that_is_not_shown_is_refused(task: str) -> None:
    item = sample(task, answer="yes", targets=("4", "a chair-7"))
    shown = fit_scene(SCENE, top_k=3)
    assert shown.num_dropped == 1
    with pytest.raises(GrandError, match=r"sample 'x': the targets \['a chair-7'\] are not among the 3 objects"):
        dialogue(item, shown, PROMPT, with_answer=True)
    if task != "object_description":
        assert turn(item, with_answer=False, scene_text=shown).answer is None


def test_dialogue_of_description_names_the_object_and_maps_the_answer() -> None:
    item = sample("object_description", "", "It is <p>the stool</p>[<a chair-7>] far from <p>the desk</p>[<2>].", ("a chair-7",))
    assert turn(item) == Turn(
        "Describe [<obj_2>] so that no other object fits.",
        "It is <p>the stool</p>[<obj_2>] far from <p>the desk</p>[<obj_1>].",
    )
    for targets, with_answer in ((("99",), False), ((), True)):
        with pytest.raises(GrandError, match="sample 'x'"):
            dialogue(replace(item, target_ids=targets), TEXT, PROMPT, with_answer)


@pytest.mark.parametrize(
    ("stored", "learnt"), [("yes", "Yes"), ("No.", "No"), ("Yes, there are <p>chairs</p>[<4>].", "Yes"), ("NO", "No")]
)
def test_dialogue_of_existence_learns_the_bare_word(stored: str, learnt: str) -> None:
    assert turn(sample("existence", "Are there any chairs in the room?", stored)) == Turn(
        "Are there any chairs in the room?", learnt
    )


@pytest.mark.parametrize("stored", ["", "maybe", "Yesterday", "None", "two", "[]", ",", "<p></p>[]"])
def test_dialogue_of_existence_with_another_answer_is_refused(stored: str) -> None:
    with pytest.raises(GrandError, match="sample 'x'"):
        turn(sample("existence", "Are there any chairs?", stored))


def test_dialogue_of_question_maps_ids_in_question_and_answer() -> None:
    item = sample("question", "Is <p>the chair</p>[<40>] near <p>a lamp</p>[<99>]?", "It is near <p>desks</p>[<2>, <99>].", ())
    assert turn(item) == Turn(
        "Is <p>the chair</p>[<obj_0>] near <p>a lamp</p>[]?",
        "It is near <p>desks</p>[<obj_1>].",
    )


def test_dialogue_of_counting_keeps_question_and_answer() -> None:
    assert turn(sample("counting", "How many chairs are there?", "2", ())) == Turn("How many chairs are there?", "2")


def test_dialogue_of_scene_description_without_text_asks_for_it() -> None:
    assert turn(sample("scene_description", "", "A study.", ())) == Turn("Describe this room.", "A study.")


@pytest.mark.parametrize("task", ["counting", "question", "scene_description", "object_description"])
def test_dialogue_for_training_without_an_answer_is_refused(task: str) -> None:
    with pytest.raises(GrandError, match=f"a {task} sample without an answer"):
        turn(sample(task, "?", "  "))


def test_prompt_ids_never_confuse_ids_that_begin_alike() -> None:
    assert prompt_ids(TEXT) == {"4": "obj_0", "40": "obj_0", "2": "obj_1", "a chair-7": "obj_2"}
    assert prompt_ids(write_scene(SCENE, "grand")) == {"4": "obj_0", "2": "obj_1", "40": "obj_2", "a chair-7": "obj_3"}


def test_system_text_is_short_and_replaced_by_a_file(tmp_path: Path) -> None:
    assert system_text(PROMPT) == SYSTEM
    assert len(SYSTEM.split()) < 30
    path = tmp_path / "system.txt"
    path.write_text("\ufeffAnswer briefly.\r\n", encoding="utf-8")
    assert dialogue(sample(), TEXT, replace(PROMPT, system=str(path)), True).system == "Answer briefly."
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    assert system_text(replace(PROMPT, system=str(empty))) == ""
    with pytest.raises(GrandError, match="no such file"):
        system_text(replace(PROMPT, system=str(tmp_path / "absent.txt")))


def test_chat_dialogue_keeps_the_history_and_asks_last() -> None:
    history = [Turn("Are there any chairs?", "Yes"), Turn("How many?", "1")]
    talk = chat_dialogue(history, "Where?", TEXT, PROMPT)
    assert talk == Dialogue(SYSTEM, TEXT.text, (*history, Turn("Where?", None)))
    assert len(history) == 2


@pytest.mark.parametrize(
    ("item", "cause"),
    [
        (sample(targets=("99",)), "target not in the prompt"),
        (sample("question", answer=" "), "no answer"),
        (sample("object_description", answer="a chair", targets=()), "nothing to describe"),
        (sample("existence", answer="Perhaps"), "no yes or no"),
    ],
)
def test_dialogue_that_cannot_be_made_has_a_cause_to_count_by(item: Sample, cause: str) -> None:
    with pytest.raises(GrandError) as caught:
        turn(item)
    assert caught.value.cause == cause


def test_system_text_reads_its_file_once(tmp_path: Path) -> None:
    path = tmp_path / "system.txt"
    path.write_text("Be brief.\n")
    prompt = replace(PROMPT, system=str(path))
    assert system_text(prompt) == "Be brief."
    path.unlink()
    assert system_text(prompt) == "Be brief."
