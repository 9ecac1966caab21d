"""The place that a reply to a placement gives, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d.bench import reref3d


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<place>1.20, -0.45, 0.80</place>", (1.2, -0.45, 0.8)),
        ("Near [<obj_3>], at <place>(1, 2, 3)</place>.", (1, 2, 3)),
        ("1. Move it to (0.5, -1.25, .35).", (0.5, -1.25, 0.35)),
        ("[1 2 3]", (1, 2, 3)),
        ("(1, 2) or rather (3, 4, 5)", (3, 4, 5)),
        ("Object 3 goes to (1.0, 2.0).", (1, 2, 0.35)),
        ("x = 1.5, y = -2.0, z = 0.35", (1.5, -2, 0.35)),
        ("x=1.5m y=2m z=0.35m", (1.5, 2, 0.35)),
        ("1.5 and 2", (1.5, 2, 0.35)),
        ("\N{MINUS SIGN}1, 2e-1, 3 and 4", (-1, 0.2, 3)),
        ("obj_3 beside obj_4, at 2", None),
        ("to the left, 3rd row, 2nd seat, 1.5x", None),
        ("<place>1, 2</place>", (1, 2, 0.35)),
        ("nan, inf, 1", None),
        ("1e999, 2, 3", None),
        ("", None),
    ],
)
def test_read_place(text: str, place: tuple[float, float, float] | None) -> None:
    assert reref3d.read_place(text, 0.35) == place


@given(st.text(alphabet="0123456789.,-+e()[]<>/ placembj_\n", max_size=60) | st.text(max_size=40))
def test_read_place_never_raises(text: str) -> None:
    found = reref3d.read_place(text, 0.35)
    assert found is None or len(found) == 3


@given(st.tuples(*[st.floats(-50, 50).map(lambda x: round(x, 3))] * 3))
def test_read_place_reads_what_is_written(point: tuple[float, float, float]) -> None:
    x, y, z = point
    for text in (f"<place>{x}, {y}, {z}</place>", f"at ({x}, {y}, {z})", f"{x} {y} {z}"):
        assert reref3d.read_place(text, 0.35) == point


# scores
