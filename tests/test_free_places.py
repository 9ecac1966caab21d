"""Places where things have room: exact, and what the constrained decoder writes is one of them, whatever the model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import markup
from grand3d.decoding import Decoding, Sampling
from grand3d.errors import GrandError
from grand3d.grammar import reply_grammar
from grand3d.placement import STRICT, Placing, fault, free_at, free_columns
from grand3d.places import grid
from grand3d.sample import Data
from grand3d.schema import PromptConfig
from grand3d.synth.tables import make_table
from grand3d.synth.tabletop import iter_tables


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999), st.floats(-3, 3))
def test_columns_are_exactly_where_there_is_room(index: int, y: float) -> None:
    scene, _ = make_table(1, index)
    thing, *others = scene.objects
    columns = free_columns(thing, others)
    points = grid(STRICT.half_side)
    wanted = free_at(thing, others, points)
    rows = dict(columns)
    for (x, at), free in zip(points.tolist(), wanted.tolist(), strict=True):
        assert any(low - 1e-9 <= at <= high + 1e-9 for low, high in rows[x]) == free
    for x, intervals in columns:
        inside = any(low < y < high for low, high in intervals)
        assert not inside or fault(Placing("near", thing, (), tuple(others), (0, 1)), (x, y), STRICT) == ""
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(intervals))


def test_replies_of_a_random_model_name_a_thing_and_put_it_where_it_has_room(lively: Any) -> None:
    from grand3d.generate.ask import ask

    model, tokenizer = lively
    for scene, samples in iter_tables(2, 12, 4):
        data = Data({scene.scene_id: scene}, tuple(samples))
        decoding = Decoding(110, sampling=Sampling(1.0, 1.0, 3), free_places=True)
        replies = list(ask(model, tokenizer, PromptConfig(), data, samples, decoding))
        assert len(replies) == 6  # brought to their end at the limit, whole all the same
        for reply in replies:
            parsed = markup.parse(reply.text)
            assert not markup.check(parsed, {f"obj_{k}" for k in range(len(reply.object_ids))}), reply.text
            (place,) = parsed.places
            thing = scene[reply.object_ids[int(parsed.spans[0].ids[0].removeprefix("obj_"))]]
            others = tuple(item for item in scene.objects if item is not thing)
            assert fault(Placing("near", thing, (), others, (0.0, 1.0)), place, STRICT) == ""
            assert place[2] == thing.centroid[2]


def test_free_places_need_a_grammar_and_room() -> None:
    with pytest.raises(GrandError, match="expected constrained replies"):
        Decoding(constrained=False, free_places=True)
    with pytest.raises(GrandError, match="expected free space"):
        reply_grammar("place", ["obj_0"], free={"obj_0": ([(0.0, [])], 0.35)})
    text = reply_grammar("place", ["obj_0", "obj_1"], free={"obj_0": ([], 0.35), "obj_1": ([(0.5, [(-1.0, 0.25)])], 0.7)})
    assert "[<obj_1>]" in text and "[<obj_0>]" not in text.split("\n")[1] and np.isfinite(len(text))
