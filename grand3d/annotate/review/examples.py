"""The examples of the instructions: sentences about one small room, true and not true, each with the reason."""

from __future__ import annotations

from grand3d.annotate.review.pages import example
from grand3d.annotate.review.study import DROP, FALSE, GROUNDING, KEEP, STEPS, TRUE, TRUTH
from grand3d.scene import Object, Scene

ROOM = Scene(
    "example",
    (
        Object("0", "desk", (0.9, 2.5, 0.37), (1.6, 0.7, 0.74), attributes={"colour": "white"}),
        Object("1", "office chair", (0.9, 1.7, 0.45), (0.6, 0.6, 0.9), attributes={"colour": "black"}),
        Object("2", "table lamp", (0.4, 2.6, 0.94), (0.25, 0.25, 0.4)),
        Object("3", "bed", (3.1, 1.1, 0.28), (1.5, 2.0, 0.56)),
        Object("4", "pillow", (2.8, 1.85, 0.62), (0.5, 0.35, 0.14)),
        Object("5", "pillow", (3.4, 1.85, 0.62), (0.5, 0.35, 0.14)),
        Object("6", "bookshelf", (2.6, 2.7, 0.9), (0.8, 0.3, 1.8)),
    ),
    id_space="synthetic",
)

EXAMPLES = {
    TRUTH: (
        ("<p>The table lamp</p>[<2>] stands on <p>the desk</p>[<0>].", TRUE, "The lamp's box rests on top of the desk's."),
        ("There are <p>two pillows</p>[<4>] on <p>the bed</p>[<3>].", TRUE, "Only one is coloured, but the sentence is true."),
        ("<p>The office chair</p>[<1>] is next to <p>the bed</p>[<3>].", FALSE, "The chair is at the desk, across the room."),
        ("<p>A brown desk</p>[<0>] is in the corner.", FALSE, "The desk is white, as the list says: one wrong part is enough."),
    ),
    GROUNDING: (
        ("<p>The pillows</p>[<4>, <5>] lie on <p>the bed</p>[<3>].", TRUE, "Both pillows and the bed have their colours."),
        ("<p>The bookshelf</p>[<6>] is shorter than <p>the bed</p>[<3>].", TRUE, "Not so, but the boxes are the right ones."),
        ("<p>The pillows</p>[<4>] lie on <p>the bed</p>[<3>].", FALSE, "One of the two pillows is left out."),
        ("<p>The table lamp</p>[<6>] is beside <p>the desk</p>[<0>].", FALSE, "The phrase points at the bookshelf."),
    ),
    STEPS: (
        (
            "Read in bed: 1. Take a book from <p>the bookshelf</p>[<6>]. 2. Lie down on <p>the bed</p>[<3>].",
            KEEP,
            "Both steps fit.",
        ),
        (
            "Read in bed: 1. Take a book from <p>the bookshelf</p>[<6>]. 2. Lie down on <p>the bed</p>[<0>].",
            "revise 2",
            "The second step points at the desk: mark it, and choose the bed.",
        ),
        (
            "Read in bed: 1. Open <p>the bookshelf</p>[<2>]. 2. Sleep on <p>the chair</p>[<1>].",
            DROP,
            "Both steps are wrong: mark both.",
        ),
    ),
}


def examples(check: str) -> str:
    """The examples of a check as HTML."""
    drawn = GROUNDING if check == STEPS else check
    return "".join(example(text, ROOM, verdict, why, drawn) for text, verdict, why in EXAMPLES[check])
