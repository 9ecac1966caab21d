"""Whatever JSON stands in a file, readers of questions, answers and judgements give rows or one message."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grand3d.bench import beacon3d, mmscan_caption, mmscan_qa, scan2cap, scanqa, sqa3d
from grand3d.convert import beacon3d as read_beacon3d
from grand3d.convert import chatscene, leo, mmscan
from grand3d.errors import GrandError
from grand3d.files import Rejects, write_json
from grand3d.sample import Data, Sample
from grand3d.scene import Scene

ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(-2, 2) | st.text("a1 <>-_", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1_", max_size=4), inner, max_size=3),
    max_leaves=6,
)
DATA = Data(
    {"s": Scene("s", ())}, (Sample("a", "s", "question", "What?", "red", meta={"answers": ["red"], "captions": ["red"]}),)
)
POSE = {"position": [[0, 0, 0]], "rotation": [[0, 0, 0, 1]]}
POINTS = {"All key points": ["x"], "Correct Number": 1, "Wrong/Missing Number": 0}
READERS: dict[str, tuple[Callable[[Path, Rejects], Any], Any]] = {
    "scanqa": (lambda path, r: scanqa.read_replies(path, DATA, r), [{"question_id": "a", "answer_top10": ["red"]}]),
    "scan2cap": (
        lambda path, r: scan2cap.read_replies(path, DATA, r),
        {"s|1|x": {"caption": "x", "box": [[0, 0, 0], [1, 1, 1]]}},
    ),
    "beacon3d": (lambda path, r: beacon3d.read_replies(path, DATA, r), [{"item_id": "a", "correct": 1}]),
    "beacon3d judge": (beacon3d.read_judge, [{"obj_id": "s-1", "question": "what?", "score": 3}]),
    "mmscan_qa judge": (mmscan_qa.read_judge, {"a": POINTS}),
    "mmscan_qa human": (mmscan_qa.read_human, {"a": 0.5, "b": "right"}),
    "mmscan_caption judge": (mmscan_caption.read_judge, {"a": {"Type": 1}}),
    "sqa3d poses": (sqa3d.read_poses, {"a": POSE}),
    "convert beacon3d": (
        lambda path, r: read_beacon3d.convert(questions=path, rejects=r),
        {"s": {"x": {"1": {"chain_1": [{"text": "x", "obj_id": ["1"], "tag": "class"}]}}}},
    ),
    "convert mmscan": (
        lambda path, r: mmscan.convert(questions=path, rejects=r),
        {"QA_OR__s__1": {"question": "x?", "gt": ["y"]}},
    ),
    "convert leo": (
        lambda path, r: leo.convert(questions=path, truth=path.with_name("graph.json"), rejects=r),
        {
            "s": {
                "response": [
                    {"Q": "x?", "T": "wall-1", "A": ["y"]},
                    [{"role": "Human", "content": "x"}, {"role": "Robot", "content": "y"}],
                ]
            }
        },
    ),
    "convert chatscene": (
        lambda path, r: chatscene.convert(questions=path, proposals=path.with_name("graph.json"), rejects=r),
        [{"scene_id": "s", "prompt": "Which?", "caption": "<OBJ001>."}],
    ),
}


def changed(document: Any, place: list[int], value: Any) -> Any:
    """A document in which one thing, found by going down it by those numbers, is something else."""
    document = copy.deepcopy(document)
    inner = document
    for index, number in enumerate(place):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys:
            return document
        key = keys[number % len(keys)]
        if index == len(place) - 1:
            inner[key] = value
        inner = inner[key]
    return document


@pytest.mark.parametrize("name", READERS)
@given(place=st.lists(st.integers(0, 3), max_size=5), value=ANY)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_a_good_file_is_read_or_refused_in_one_message(
    name: str, place: list[int], value: Any, tmp_path: Path
) -> None:
    read, good = READERS[name]
    path = tmp_path / "f.json"
    write_json(
        tmp_path / "graph.json", {"s": {"1": {"category": "wall", "centroid": [0, 0, 0], "extent": [1, 1, 1], "score": 0.5}}}
    )
    write_json(path, changed(good, place, value) if place else value)
    rejects = Rejects(skip_bad=True)
    with contextlib.suppress(GrandError):
        read(path, rejects)
    write_json(path, good)
    assert read(path, Rejects())
