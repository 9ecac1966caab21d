"""The pages of a human check in a real browser: by mouse and keyboard, two people at once, undo, ban, killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import right, served, started, study_of, work_through

from grand3d.annotate.review.desk import Desk
from grand3d.annotate.review.study import FALSE, HONEYPOT, TRUE, Study, Task, save_study
from grand3d.annotate.review.tally import tally
from grand3d.scene import Object, Scene

Browse = Callable[[], Any]
HOSTILE = "</mark><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"

COLOURS = """
return [...document.querySelectorAll('mark .p')].map(phrase => {
    const boxes = document.querySelectorAll(`svg .hit[data-k='${phrase.dataset.k}'] polygon:first-of-type`);
    return [getComputedStyle(phrase).color, ...[...boxes].map(box => getComputedStyle(box).stroke)];
});
"""
"""The colour of each phrase, and those of its boxes in all views."""


@pytest.fixture(scope="module")
def browse() -> Iterator[Browse]:
    """Gives browsers; two of them are two people."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver = shutil.which("chromedriver")
    if driver is None:
        pytest.skip("chromedriver is not installed")
    open_ones: list[Any] = []

    def make() -> Any:
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1000"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        open_ones.append(webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)))
        return open_ones[-1]

    yield make
    for item in open_ones:
        item.quit()


@pytest.fixture(scope="module")
def anna(browse: Browse) -> Any:
    return browse()


@pytest.fixture(scope="module")
def ben(browse: Browse) -> Any:
    return browse()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def report_of(study: Study, folder: Path) -> dict[str, Any]:
    return tally(Desk(study, rows_of(folder)))


def before(browser: Any) -> str:
    """The id of the task on the page; empty where there is none."""
    found = browser.find_elements("name", "task")
    return found[0].get_attribute("value") if found else ""


def begin(browser: Any) -> None:
    browser.find_element("css selector", ".begin").click()
    wait(browser, lambda: before(browser))


def wait(browser: Any, seen: Callable[[], Any]) -> None:
    from selenium.common.exceptions import StaleElementReferenceException, WebDriverException

    end = time.monotonic() + 15
    while time.monotonic() < end:
        try:
            if seen():
                return
        except (StaleElementReferenceException, WebDriverException):
            pass
        time.sleep(0.01)
    raise AssertionError(browser.page_source[:2000])


def press(browser: Any, key: str) -> None:
    """Press a key and wait for the next page."""
    page = browser.find_element("tag name", "html")
    browser.find_element("tag name", "body").send_keys(key)
    wait(browser, lambda: browser.find_element("tag name", "html") != page)


def vote(browser: Any, answer: str, by_key: bool) -> None:
    page = browser.find_element("tag name", "html")
    if by_key:
        browser.find_element("tag name", "body").send_keys({TRUE: "t", FALSE: "n"}.get(answer, "c"))
    else:
        browser.find_element("css selector", f'button[value="{answer}"]').click()
    wait(browser, lambda: browser.find_element("tag name", "html") != page)


def sit(browser: Any, study: Study, answer: Callable[[Task], str], by_key: bool = True, most: int = 100) -> int:
    tasks = {task.task_id: task for task in study.tasks}
    for number in range(most):
        if not before(browser):
            return number
        vote(browser, answer(tasks[before(browser)]), by_key)
    return most


def test_two_people_at_once_by_mouse_and_keyboard_give_the_tables_they_should(
    toy_scene: Scene, tmp_path: Path, anna: Any, ben: Any
) -> None:
    study, folder = study_of(toy_scene, 6, 2), tmp_path / "s"
    tasks = {task.task_id: task for task in study.tasks}

    def says(task: Task) -> str:
        return task.expected or (FALSE if task.task_id == "w1" else TRUE)

    with served(study, folder) as (_, links):
        for browser, who in ((anna, "anna"), (ben, "ben")):
            browser.get(links[who])
            begin(browser)
        left = {"anna": anna, "ben": ben}
        while left:  # in turn, each with their own page open
            for who, browser in list(left.items()):
                if not before(browser):
                    del left[who]
                else:
                    vote(browser, says(tasks[before(browser)]), by_key=who == "anna")
        assert "Thank you" in anna.page_source and "Thank you" in ben.page_source
        work_through(links["cara"], study, right)
    report = report_of(study, folder)
    assert report["counts"]["n"] == 6 and report["counts"]["votes"] == 18 and report["counts"]["no_agreement"] == 0
    row = report["tables"]["Verdicts"][0]
    assert row["true"] == pytest.approx(500 / 6) and row["not_true"] == pytest.approx(100 / 6)
    assert report["tables"]["Agreement of people"][0]["all_agree"] == pytest.approx(500 / 6)
    people = {row["who"]: row for row in report["tables"]["People"]}
    assert {row["qualifiers_right"] for row in people.values()} == {100} and people["anna"]["honeypots_right"] == 100
    assert anna.get_log("browser") == [] == ben.get_log("browser")


def test_who_fails_the_qualifiers_or_the_honeypots_is_sent_away(toy_scene: Scene, tmp_path: Path, anna: Any, ben: Any) -> None:
    study, folder = study_of(toy_scene, 20, 4), tmp_path / "s"
    with served(study, folder) as (_, links):
        anna.get(links["anna"])
        begin(anna)
        assert "of 4 first tasks" in anna.page_source
        assert sit(anna, study, lambda task: FALSE) == 4  # two of four are right
        assert "ended early" in anna.page_source and not anna.find_elements("id", "undo")
        ben.get(links["ben"])
        begin(ben)
        sit(ben, study, lambda task: (FALSE if task.expected == TRUE else TRUE) if task.role == HONEYPOT else right(task))
        assert "ended early" in ben.page_source
    counts = report_of(study, folder)["counts"]
    assert (counts["failed"], counts["banned"], counts["n"]) == (1, 1, 0) and counts["votes_of_banned"] == counts["votes"] > 0


def test_undo_progress_and_time(toy_scene: Scene, tmp_path: Path, anna: Any) -> None:
    study, folder = study_of(toy_scene, 3, votes=1), tmp_path / "s"
    with served(study, folder) as (_, links):
        anna.get(links["anna"])
        begin(anna)
        first = before(anna)
        assert not anna.find_element("id", "undo").is_enabled() and anna.find_element("id", "done").text == "0"
        time.sleep(0.4)
        press(anna, "t")
        assert before(anna) != first and anna.find_element("id", "done").text == "1"
        press(anna, "u")
        assert before(anna) == first and anna.find_element("id", "done").text == "0"
        press(anna, "n")
        assert sit(anna, study, right) == 2
        anna.find_element("id", "undo").click()
        wait(anna, lambda: before(anna))
        press(anna, "c")
    answers = [row for row in rows_of(folder) if row["do"] == "answer"]
    assert answers[0]["task"] == first == answers[1]["task"] and answers[1]["answer"] == FALSE
    assert 0.3 < answers[0]["seconds"] < 5
    report = report_of(study, folder)
    assert report["counts"]["undone"] == 2 and sorted(row["verdict"] for row in report["samples"]) == [
        "cannot decide",
        FALSE,
        TRUE,
    ]
    assert report["tables"]["Time"][0]["votes"] == 3


def test_server_killed_under_two_people_who_then_go_on(toy_scene: Scene, tmp_path: Path, anna: Any, ben: Any) -> None:
    study, folder = study_of(toy_scene, 8, votes=1), tmp_path / "s"
    save_study(folder, study)
    with started(folder, "anna,ben") as (process, links):
        for browser, who in ((anna, "anna"), (ben, "ben")):
            browser.get(links[who])
            begin(browser)
            vote(browser, TRUE, by_key=True)
        kept, open_tasks = rows_of(folder), {before(anna), before(ben)}
        os.kill(process.pid, signal.SIGKILL)
    assert sum(row["do"] == "answer" for row in kept) == 2 and len(open_tasks) == 2
    with started(folder, "anna,ben") as (_, links):
        for browser, who in ((anna, "anna"), (ben, "ben")):
            browser.get(links[who])
        assert {before(anna), before(ben)} == open_tasks
        assert sit(anna, study, right) + sit(ben, study, right) == 6
    rows = rows_of(folder)
    assert rows[: len(kept)] == kept and report_of(study, folder)["counts"]["n"] == 8


def test_hostile_texts_do_nothing_and_every_phrase_has_its_boxes(toy_scene: Scene, tmp_path: Path, anna: Any) -> None:
    label = HOSTILE.replace("\n", "")
    strange = Object("10", label, (2, 2, 1), (0.5, 0.5, 0.5), attributes={"colour": label})
    room = replace(toy_scene, objects=(*toy_scene.objects, strange))
    study = study_of(room, 1, votes=1)
    text = study.tasks[0].text.replace("are on", f"{HOSTILE} are on")
    task = replace(study.tasks[0], text=text, end=len(text), question=HOSTILE)
    with served(replace(study, tasks=[task]), tmp_path / "s") as (_, links):
        anna.get(links["anna"])
        begin(anna)
        assert "onerror" in anna.find_element("tag name", "mark").text and anna.title == "Is it true?"
        assert anna.execute_script("return document.scripts.length") == 1
        colours = anna.execute_script(COLOURS)
        assert [len(row) for row in colours] == [1 + 2 * 4, 1 + 4]  # two pillows and a bed, in four views
        assert all(len(set(row)) == 1 for row in colours) and colours[0][0] != colours[1][0]
        assert anna.get_log("browser") == []


def test_plan_is_put_right_by_keys_and_form(toy_scene: Scene, tmp_path: Path, anna: Any) -> None:
    study, folder = study_of(toy_scene, 3, check="steps", votes=1), tmp_path / "s"
    with served(study, folder) as (_, links):
        anna.get(links["anna"])
        begin(anna)
        mend, body = anna.find_element("id", "mend"), anna.find_element("tag name", "body")
        assert not mend.is_displayed() and "No step is wrong" in anna.find_element("id", "go").text
        body.send_keys("2")
        assert mend.is_displayed() and anna.find_element("name", "text").get_attribute("value") == "Switch on the lamp."
        anna.find_element("name", "text").clear()
        anna.find_element("name", "text").send_keys("Dim the lamp, unless it is 1 am.")
        page = anna.find_element("tag name", "html")
        anna.find_element("id", "go").click()
        wait(anna, lambda: anna.find_element("tag name", "html") != page)
        anna.find_element("tag name", "body").send_keys("13")
        assert "2 steps are wrong" in anna.find_element("id", "go").text
        press(anna, "\ue007")
        press(anna, "\ue007")
    answers = [row for row in rows_of(folder) if row["do"] == "answer"]
    assert [row["answer"] for row in answers] == ["revise 2", "drop", "keep"]
    assert answers[0]["text"] == "Dim the lamp, unless it is 1 am." and "text" not in answers[1]
