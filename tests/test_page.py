"""The page of a report: in a real browser, without a script, with everything drawn that was counted."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d import charts
from grand3d.bench import multi3drefer, pope, scanrefer
from grand3d.charts import Mark
from grand3d.evaluate import score
from grand3d.page import page
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Object, Scene
from grand3d.synth import make_data

HOSTILE = "</title><script>alert(1)</script>\"'&<b>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver = shutil.which("chromedriver")
    if driver is None:
        pytest.skip("chromedriver is not installed")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,1600"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


def rooms() -> tuple[Data, list[Reply]]:
    """Generated rooms with references; every other reply names the object, the rest the first one of the room."""
    made = make_data(6, 3, 24)
    samples = tuple(sample for sample in made.samples if sample.task == "object_reference")
    data = Data(made.scenes, samples)
    replies = []
    for k, sample in enumerate(samples):
        ids = made.scenes[sample.scene_id].object_ids
        index = ids.index(sample.target_ids[0]) if k % 2 else 0
        text = f"<refer_expression_grounding><p>it</p>[<obj_{index}>]</refer_expression_grounding>"
        replies.append(Reply(sample.sample_id, sample.scene_id, text, ids, chances=(0.9, 0.1) if k % 2 else (0.4, 0.6)))
    return data, replies


def made_page() -> str:
    data, replies = rooms()
    report = scanrefer.score(data, replies)
    return page(report, report["samples"], data, replies)


COLOURED = """
const [png, done] = arguments, image = new Image();
image.onload = () => {
    const canvas = Object.assign(document.createElement('canvas'), {width: image.width, height: image.height});
    const brush = canvas.getContext('2d');
    brush.drawImage(image, 0, 0);
    const data = brush.getImageData(0, 0, image.width, image.height).data;
    let number = 0;
    for (let k = 0; k < data.length; k += 4) {
        const rgb = [data[k], data[k + 1], data[k + 2]];
        number += Math.max(...rgb) - Math.min(...rgb) > 60;
    }
    done(number);
};
image.src = 'data:image/png;base64,' + png;
"""
"""Counts the pixels of a screenshot that have a colour."""


def test_page_opens_without_an_error_and_no_plot_is_blank(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(made_page(), encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.scripts.length") == 0
    plots = browser.find_elements("tag name", "svg")
    assert len(plots) >= 7
    seen = []
    for plot in plots:
        shapes = browser.execute_script("return arguments[0].querySelectorAll('circle, rect, polygon').length", plot)
        seen.append((plot.get_attribute("aria-label"), shapes, plot.screenshot_as_base64))
    browser.get("about:blank")
    for name, shapes, png in seen:
        assert shapes and browser.execute_async_script(COLOURED, png) >= 20, name


def test_no_text_of_a_plot_is_cut_off(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(made_page(), encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    outside = browser.execute_script(
        "return [...document.querySelectorAll('svg text')].filter(text => {"
        "const a = text.getBoundingClientRect(), b = text.ownerSVGElement.getBoundingClientRect();"
        "return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1"
        "}).map(text => text.textContent)"
    )
    assert outside == []


def test_a_wrong_answer_more_is_seen(browser: Any, tmp_path: Path) -> None:
    data, replies = rooms()
    right = next(k for k, row in enumerate(scanrefer.score(data, replies)["samples"]) if row["acc25"])
    planted = [replace(reply, text="I cannot tell") if k == right else reply for k, reply in enumerate(replies)]
    seen = []
    for answers in (replies, planted):
        report = scanrefer.score(data, answers)
        (tmp_path / "page.html").write_text(page(report, report["samples"], data, answers), encoding="utf-8")
        browser.get((tmp_path / "page.html").as_uri())
        plots = {plot.get_attribute("aria-label"): plot.text for plot in browser.find_elements("tag name", "svg")}
        assert f"{report['rows'][0]['acc25']:.1f}" in plots["acc25"]
        kinds = [row["error"] for row in report["samples"]]
        assert (
            f"{kinds.count('no usable answer')} " in plots["errors by kind"] or "no usable answer" not in plots["errors by kind"]
        )
        seen.append(plots)
    assert "no usable answer" in seen[1]["errors by kind"] and seen[0]["acc25"] != seen[1]["acc25"]
    category = data.scenes[data.samples[right].scene_id][data.samples[right].target_ids[0]].category
    if category in seen[0]["acc25 by category"]:
        assert seen[0]["acc25 by category"] != seen[1]["acc25 by category"]


def test_page_is_read_by_keys_and_in_the_dark(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(made_page(), encoding="utf-8")
    light, dark = [], []
    for colours, scheme in ((light, "light"), (dark, "dark")):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get((tmp_path / "page.html").as_uri())
        for name in ("backgroundColor", "color"):
            rgb = browser.execute_script(f"return getComputedStyle(document.body).{name}")
            colours.append(sum(map(int, re.findall(r"[0-9]+", rgb)[:3])))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert light[0] - light[1] > 400 and dark[1] - dark[0] > 400
    tables = browser.find_elements("css selector", "div.wide")
    assert tables and all(table.get_attribute("tabindex") == "0" and table.get_attribute("aria-label") for table in tables)


def test_page_fits_a_narrow_screen(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(made_page(), encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    browser.set_window_size(500, 900)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.set_window_size(1300, 1600)


def test_page_says_what_was_scored() -> None:
    data, replies = rooms()
    report = scanrefer.score(data, replies)
    text = page(report, report["samples"], data, replies)
    row = report["rows"][0]
    assert f"all: {row['acc25']:.1f} %" in text and f"[{row['acc25_low']:.1f}, {row['acc25_high']:.1f}]" in text
    for error in {sample["error"] for sample in report["samples"]} - {""}:
        assert error in text
    for name in ("acc25 by number of distractors", "acc25 by category", "Worst scenes", "How sure", "first mention"):
        assert name in text
    wrong = {sample["scene_id"] for sample in report["samples"] if not sample["acc25"]}
    assert set(re.findall(r"<h3>(.*?)</h3>", text)) <= wrong


def test_the_figure_of_a_group_is_that_of_its_samples() -> None:
    data, replies = rooms()
    report = scanrefer.score(data, replies)
    text = page(report, report["samples"], data, replies)
    category = data.scenes[data.samples[0].scene_id][data.samples[0].target_ids[0]].category
    of = {sample.sample_id: data.scenes[sample.scene_id][sample.target_ids[0]].category for sample in data.samples}
    hits = [row["acc25"] for row in report["samples"] if of[row["sample_id"]] == category]
    found = re.search(rf"<title>{category}: ([0-9.]+) %[^<]*n {len(hits)}</title>", text)
    assert found is None or float(found[1]) == pytest.approx(100 * np.mean(hits), abs=0.06)


def test_hostile_words_stay_words(browser: Any, tmp_path: Path) -> None:
    scene = Scene("room", (Object("1", 'a chair & "co"', (0, 0, 0.5), (1, 1, 1)), Object("2", "chair", (3, 0, 0.5), (1, 1, 1))))
    sample = Sample(HOSTILE, "room", "object_reference", HOSTILE, target_ids=("1",))
    reply = Reply(HOSTILE, "room", f"<refer_expression_grounding><p>{HOSTILE}</p>[<obj_1>]", ("1", "2"))
    data = Data({"room": scene}, (sample,))
    report = scanrefer.score(data, [reply])
    (tmp_path / "page.html").write_text(page(report, report["samples"], data, [reply]), encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.execute_script("return document.scripts.length") == 0
    assert "alert(1)" in browser.find_element("tag name", "main").text and browser.get_log("browser") == []


@pytest.mark.parametrize("bench", [pope, multi3drefer], ids=["pope", "multi3drefer"])
def test_every_kind_of_report_has_a_page(bench: Any) -> None:
    made = make_data(4, 5, 16, none_or_several=0.4)
    kinds = ("zt_wo_d", "st_wo_d", "mt")
    samples = tuple(
        replace(sample, meta={"eval_type": kinds[min(2, len(sample.target_ids))]})
        for sample in made.samples
        if sample.task in bench.TASKS
    )
    text = "Yes" if bench is pope else "<refer_expression_grounding><p>it</p>[<obj_0>]</refer_expression_grounding>"
    replies = [Reply(s.sample_id, s.scene_id, text, made.scenes[s.scene_id].object_ids) for s in samples]
    data = Data(made.scenes, samples)
    report = score(bench.__name__.rsplit(".")[-1], data, replies)
    assert page(report, report["samples"], data, replies).count("<svg") >= 2


def test_a_page_of_ten_thousand_samples_is_small_and_soon_made() -> None:
    scenes = {f"s{k}": Scene(f"s{k}", (Object("1", f"thing {k}", (0, 0, 0), (1, 1, 1)),)) for k in range(300)}
    samples = tuple(Sample(f"q{k}", f"s{k % 300}", "object_reference", "it", target_ids=("1",)) for k in range(10_000))
    rows = [
        {"sample_id": s.sample_id, "scene_id": s.scene_id, "acc25": float(k % 3 == 0), "error": f"kind {k % 4}"}
        for k, s in enumerate(samples)
    ]
    report = {
        "benchmark": "scanrefer",
        "counts": {"n": 10_000},
        "rules": {},
        "rows": [{"name": "all", "acc25": 33.3, "acc25_low": 30.0}],
    }
    start = time.perf_counter()
    text = page(report, rows, Data(scenes, samples))
    assert len(text) < 200_000 and "kind 3" in text and "285 rarer ones are left out" in text
    assert time.perf_counter() - start < 60  # a page that takes minutes is no page; it is made in about a second


figures = st.floats(0, 100, allow_nan=False)


@given(
    st.lists(st.builds(Mark, st.text(max_size=40), figures, st.none() | figures, st.none() | figures), max_size=12), st.booleans()
)
def test_dots_lie_inside_their_plot(marks: list[Mark], zero: bool) -> None:
    text = charts.dots(marks, "any", zero)
    places = [float(x) for x in re.findall(r'<circle cx="([^"]*)"', text)]
    assert len(places) == len(marks)
    assert all(charts.LEFT <= x <= charts.WIDTH - charts.RIGHT for x in places)
    order = sorted(range(len(marks)), key=lambda k: marks[k].value)
    assert all(places[a] <= places[b] for a, b in itertools.pairwise(order))
