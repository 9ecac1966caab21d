"""ScanEnts3D: phrases with their objects become grounded text; what is not there is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grand3d import markup
from grand3d.convert import scanents3d
from grand3d.files import Rejects
from grand3d.sample import load_data, save_data

ROW: dict[str, Any] = {
    **{"scene_id": "s", "object_id": "48", "object_name": "shelf", "ann_id": "0"},
    "description": "White trolley, in between of white door and grey sofas.",
    "token": ["white", "trolley", ",", "in", "between", "of", "white", "door", "and", "grey", "sofas", "."],
    "entities": [[[0, 1], ["48_shelf"]], [[9, 10], ["5_sofa", "6_l_shaped_sofa"]], [[6, 7], ["1_door"]]],
}


def convert(tmp_path: Path, rows: list[Any], **more: Any) -> Any:
    (tmp_path / "q.json").write_text(json.dumps(rows))
    return scanents3d.convert(questions=tmp_path / "q.json", **more)


def test_phrases_of_a_row_name_their_objects_in_its_own_words(tmp_path: Path) -> None:
    (sample,) = convert(tmp_path, [ROW]).samples
    assert sample.text == ("<p>White trolley</p>[<48>], in between of <p>white door</p>[<1>] and <p>grey sofas</p>[<5>, <6>].")
    assert (sample.sample_id, sample.target_ids, sample.meta) == ("s_48_0", ("48",), {"ann_id": "0", "object_name": "shelf"})
    assert markup.plain(sample.text) == ROW["description"]


def test_nr3d_table_holds_its_lists_as_text(tmp_path: Path) -> None:
    entities = "[[[0, 1], ['3_chair']], [[3], ['7_table']]]"
    (tmp_path / "nr3d.csv").write_text(
        "assignmentid,stimulus_id,scan_id,target_id,utterance,tokens,entities\n"
        f"""12,s-chair-1-3,s,3,the chair by tables,"['the', 'chair', 'by', 'table']","{entities}"\n"""
        """13,s-chair-1-3,s,3,the chair,"['the', 'chair']",nothing\n"""
    )
    rejects = Rejects(skip_bad=True)
    (sample,) = scanents3d.convert(questions=tmp_path / "nr3d.csv", rejects=rejects).samples
    assert sample.sample_id == "12" and sample.text == "<p>the chair</p>[<3>] by <p>table</p>[<7>]s"
    assert [row["reason"] for row in rejects.rows] == ["entities is 'nothing', expected a list of lists"]


def test_words_that_are_not_the_tokens_give_way_to_the_tokens() -> None:
    tokens = ["a", "chair"]
    assert scanents3d.grounded("this is chair", tokens, [((1,), ("3",))]) == "a <p>chair</p>[<3>]"
    assert scanents3d.grounded("A  Chair!", tokens, [((0, 1), ("3",))]) == "<p>A  Chair</p>[<3>]!"
    assert scanents3d.grounded("İ a", ["İ", "a"], [((1,), ())]) == "İ <p>a</p>[]"


def test_overlapping_phrases_leave_the_longest_and_are_counted(tmp_path: Path) -> None:
    entities = [[[0], ["1_a"]], [[0, 1], ["48_b"]], [[0, 1], ["2_c"]], [[3, 7, 6], ["5_d"]]]
    (sample,) = convert(tmp_path, [ROW | {"entities": entities}]).samples
    assert sample.text == ("<p>White trolley</p>[<48>, <2>], <p>in</p>[<5>] between of <p>white door</p>[<5>] and grey sofas.")
    assert sample.meta["num_overlapping"] == 1


def test_targets_and_phrases_are_checked_against_the_true_objects(tmp_path: Path) -> None:
    item = {"category": "x", "centroid": [0, 0, 0], "extent": [1, 1, 1]}
    (tmp_path / "truth.json").write_text(json.dumps({"s": {f"obj_{k}": item for k in (1, 5, 6, 48)}}))
    rows = [ROW, ROW | {"object_id": 3}, ROW | {"ann_id": 2, "entities": [[[0], ["9_lamp"]]]}, ROW | {"scene_id": "t"}]
    rejects = Rejects(skip_bad=True)
    data = convert(tmp_path, rows, truth=tmp_path / "truth.json", rejects=rejects)
    assert len(data.samples) == 1 and rejects.counts() == {"unknown target": 1, "unknown phrase": 1, "unknown scene": 1}
    assert {scene.id_space for scene in data.scenes.values()} == {"scannet"}
    save_data(tmp_path / "data", data)
    assert load_data(tmp_path / "data").samples == data.samples


def test_broken_rows_are_refused_with_what_was_expected(tmp_path: Path) -> None:
    broken: list[Any] = [
        {"token": "the shelf"},
        {"token": None},
        {"token": ["a", 1]},
        {"entities": None},
        {"entities": [[[0, 99], ["48_shelf"]]]},
        {"entities": [[[-1], ["48_shelf"]]]},
        {"entities": [[["0"], ["48_shelf"]]]},
        {"entities": [[[0], ["shelf_48"]]]},
        {"entities": [[0]]},
        {"entities": ["0"]},
        {"object_id": "shelf"},
        {"description": 3},
        {"token": ["<p>", "a"], "entities": [[[0], ["48_shelf"]]]},
        {},  # the same again
    ]
    rejects = Rejects(skip_bad=True)
    data = convert(tmp_path, [ROW, *(ROW | change for change in broken), 7], rejects=rejects)
    assert len(data.samples) == 1 and len(rejects.rows) == len(broken) + 1
    for row in rejects.rows:
        assert any(word in row["reason"] for word in ("expected", "holds markup", "occurs twice")), row["reason"]


WORDS = st.lists(st.text("abcXY,.é", min_size=1, max_size=4), min_size=1, max_size=8)


@given(WORDS, st.data())
def test_text_stays_itself_and_no_object_is_lost_where_phrases_stand_apart(words: list[str], draw: st.DataObject) -> None:
    ids = draw.draw(st.lists(st.integers(0, 3), min_size=len(words), max_size=len(words)))  # 0: no phrase
    entities = [[[k for k, x in enumerate(ids) if x == i], [f"{i}_thing"]] for i in (1, 2, 3) if i in ids]
    phrases, lost = scanents3d.apart(scanents3d.merged(entities, len(words)))
    text = scanents3d.grounded(" ".join(words), words, phrases)
    parsed = markup.parse(text)
    assert lost == 0 and not parsed.faults and markup.plain(text) == " ".join(words)
    assert {i for span in parsed.spans for i in span.ids} == {str(i) for i in ids if i}
