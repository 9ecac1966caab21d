"""The pages that people see. Plain HTML with one small script and style of our own: they load nothing, and work without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from grand3d.annotate.review.looks import SCRIPT, STYLE
from grand3d.annotate.review.study import DROP, GROUNDING, STEPS, TRUTH, VERDICTS, Task
from grand3d.annotate.review.views import VIEWS, colour, draw_views, told
from grand3d.markup import STEP, STEP_END, Span, parse, plain
from grand3d.scene import Object, Scene

_NUMBER = re.compile(r"^\s*\d+\.\s*")
MOST_LISTED = 6
"""Objects of a phrase that the key lists; the rest are counted."""
ASKED = {
    TRUTH: "Is the marked sentence true of this room?",
    GROUNDING: "Does every coloured phrase point at the right boxes?",
    STEPS: "Which steps are wrong?",
}
TITLES = {TRUTH: "Is it true?", GROUNDING: "Are the right boxes meant?", STEPS: "Do the steps make sense?"}
KEYS = dict(zip(VERDICTS, "TNC", strict=True))
SAID = {"true": "True", "not true": "Not true", "cannot decide": "Cannot decide"}
MEANT = {
    TRUTH: (
        "Read the marked sentence and look at the room. Things are drawn as boxes; what a box is and how it looks stands in the "
        "list on the right, and shows when the pointer rests on it.",
        "Choose <b>True</b> if everything that the sentence says holds for this room, <b>Not true</b> if any part of it does "
        "not. The colours only help to find things: whether they point at the right boxes does not matter here.",
        "Choose <b>Cannot decide</b> only if the drawings and the list really do not tell.",
    ),
    GROUNDING: (
        "In the marked sentence, every coloured phrase has a number; its boxes have the same colour and number.",
        "Choose <b>True</b> if each phrase points at the thing, or at all the things, that it names. Choose <b>Not true</b> if "
        "any phrase points at a wrong thing, at too many or too few, or at no box though the thing is there.",
        "Whether the sentence is true does not matter here. Choose <b>Cannot decide</b> only if the drawings really do not tell.",
    ),
    STEPS: (
        "Somebody wants to do what stands at the top. Each step names the object it is done with; its box has the step's number.",
        "Mark every step that is wrong: it makes no sense here, comes at the wrong place, or points at the wrong object.",
        "If one step alone is wrong, write it as it should be or choose the right object. If more are wrong, the plan is "
        "dropped. If none is, just go on.",
    ),
}


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a task.

    Attributes:
        done: Tasks that the person has done, of ``of``.
        can_undo: There is an answer to take back.
        trial: It is one of the first tasks, which decide who may go on.
        said: A message, such as why an answer was not taken.
    """

    done: int = 0
    of: int = 0
    can_undo: bool = False
    trial: bool = False
    said: str = ""


def task_page(task: Task, scene: Scene, around: Around, nonce: str) -> str:
    """The page of one task."""
    spans = numbered(task)
    marked = marks_of(spans)
    views = draw_views(scene, marked, task.viewpoint)
    drawn = "".join(
        f'<figure tabindex="0"><figcaption>{escape(view.name)}</figcaption>{svg}</figure>'
        for view, svg in zip(VIEWS, views, strict=True)
    )
    undo = "" if around.can_undo else " disabled"
    of = max(around.of, 1)
    head = (
        f"<header><h1>{TITLES[task.check]}</h1>"
        f'<label class="done"><progress max="{of}" value="{min(around.done, of)}"></progress> '
        f'<b id="done">{around.done}</b> of {of}'
        f"{' first tasks' if around.trial else ''}</label>"
        f'<form method="post" action="undo"><button id="undo" accesskey="u"{undo}>&#8630; Undo <kbd>U</kbd></button></form>'
        f'<a href="how/{task.check}" target="_blank">Instructions</a></header>'
    )
    said = f'<p class="said" role="alert">{escape(around.said)}</p>' if around.said else ""
    body = _steps_form(task, scene, spans) if task.check == STEPS else _verdict_form(task, spans)
    key = _key(scene, spans) + _inventory(scene)
    side = f'<section class="side">{said}{_asked(task, spans, scene)}{body}{key}</section>'
    return document(TITLES[task.check], f'{head}<main class="task"><section class="views">{drawn}</section>{side}</main>', nonce)


def numbered(task: Task) -> list[tuple[int, Span]]:
    """The phrases of what is to be judged with their numbers, from 1; those that name the same things share one.

    Of a plan, the number is that of the step.
    """
    parsed = parse(task.text)
    if task.check == STEPS:
        return [(k, item) for k, step in enumerate(parsed.steps, 1) for item in step.spans]
    numbers: dict[tuple[str, ...], int] = {}
    out = []
    for item in parsed.spans:
        if task.start <= item.start and item.end <= task.end:
            out.append((numbers.setdefault(item.ids, len(numbers) + 1), item))
    return out


def marks_of(spans: Sequence[tuple[int, Span]]) -> dict[str, list[int]]:
    """Numbers of the phrases that name an object, by its id."""
    out: dict[str, list[int]] = {}
    for number, item in spans:
        for object_id in item.ids:
            if number not in out.setdefault(object_id, []):
                out[object_id].append(number)
    return out


def _asked(task: Task, spans: Sequence[tuple[int, Span]], scene: Scene) -> str:
    """What is to be judged, in its context."""
    numbers = {item.start: number for number, item in spans}
    lead = "To be done" if task.check == STEPS else "Asked"
    question = f'<p class="question"><b>{lead}:</b> {escape(plain(task.question))}</p>' if task.question.strip() else ""
    note = '<p class="small">The arrow in the plan shows where the speaker stands and looks.</p>' if task.viewpoint else ""
    if task.check == STEPS:
        return f"<h2>{ASKED[STEPS]}</h2>{question}{note}"
    before, after = (escape(_words(part)) for part in (task.text[: task.start], task.text[task.end :]))
    said = coloured(task.text, task.start, task.end, numbers, scene)
    return f'<h2>{ASKED[task.check]}</h2>{question}<p class="text">{before} <mark>{said}</mark> {after}</p>{note}'


def _words(text: str) -> str:
    """Context without markup; an id list without words leaves nothing."""
    return re.sub(r"\s+", " ", plain(text)).strip()


def coloured(text: str, start: int, end: int, numbers: Mapping[int, int], scene: Scene) -> str:
    """A part of a grounded text as HTML: each phrase in its colour, with its number; one that names nothing says so."""
    known = {item.object_id: item.category for item in scene.objects} | {r.region_id: r.name for r in scene.regions}
    out, at = [], start
    for item in parse(text).spans:
        if item.start < at or item.end > end:
            continue
        out.append(escape(plain(text[at : item.start])))
        number = numbers.get(item.start, 0)
        here = [i for i in item.ids if i in known]
        words = item.phrase or ", ".join(dict.fromkeys(known[i] for i in here)) or "?"
        if not item.listed:
            out.append(escape(words))
        else:
            none = "" if here else '<i class="none">no box</i>'
            style = colour(number) if here else "void"
            out.append(
                f'<span class="p {style}" data-k="{number}">{escape(words)}<sup>{number if here else ""}</sup>{none}</span>'
            )
        at = item.end
    out.append(escape(plain(text[at:end])))
    return "".join(out)


def step_words(text: str) -> str:
    """What a step says, without its number and, where it stands behind the sentence, the name of its object."""
    spans = parse(text).spans
    if len(spans) == 1 and not text[spans[0].end :].strip() and re.search(r"[.!?]\s*$", text[: spans[0].start]):
        text = text[: spans[0].start]
    return _NUMBER.sub("", plain(text)).strip()


def _verdict_form(task: Task, spans: Sequence[tuple[int, Span]]) -> str:
    buttons = "".join(
        f'<button name="answer" value="{name}" class="v{k}" data-key="{KEYS[name].lower()}">'
        f"{SAID[name]} <kbd>{KEYS[name]}</kbd></button>"
        for k, name in enumerate(VERDICTS)
    )
    return f'<form id="vote" method="post" action="answer">{_hidden(task)}<div class="vote">{buttons}</div></form>'


def _hidden(task: Task) -> str:
    name = f'<input type="hidden" name="task" value="{escape(task.task_id)}">'
    return f'{name}<input type="hidden" name="seconds" id="seconds" value="0">'


def _steps_form(task: Task, scene: Scene, spans: Sequence[tuple[int, Span]]) -> str:
    """The steps as boxes to tick, and below the one that is wrong to be put right."""
    numbers = {item.start: number for number, item in spans}
    rows = []
    for k, step in enumerate(parse(task.text).steps, 1):
        start, end = step.start + len(STEP), step.end - len(STEP_END)
        said = _NUMBER.sub("", coloured(task.text, start, end, numbers, scene))
        key = f"<kbd>{k}</kbd>" if k < 10 else ""
        words = escape(step_words(step.text), quote=True)
        rows.append(
            f'<li><label><input type="checkbox" name="wrong" value="{k}" data-words="{words}"> {said} '
            f'<span class="w">wrong {key}</span></label></li>'
        )
    options = "".join(
        f'<option value="{escape(item.object_id)}">{escape(item.category)} ({escape(item.object_id)})</option>'
        for item in sorted(scene.objects, key=lambda item: (item.category, item.object_id))
    )
    mend = (
        '<fieldset id="mend"><legend>If one step alone is wrong, put it right</legend>'
        '<label>How it should read <textarea name="text" rows="2" maxlength="2000"></textarea></label>'
        f'<label>The right object <select name="object_id"><option value="">as it is</option>{options}</select></label>'
        "</fieldset>"
    )
    button = '<div class="vote"><button class="v0" id="go">No step is wrong <kbd>Enter</kbd></button></div>'
    inside = f"{_hidden(task)}<ol>{''.join(rows)}</ol>{mend}{button}"
    return f'<form id="vote" class="steps" method="post" action="answer">{inside}</form>'


def _key(scene: Scene, spans: Sequence[tuple[int, Span]]) -> str:
    """What the numbered boxes are."""
    known = {item.object_id: item for item in scene.objects}
    names = {region.region_id: region.name for region in scene.regions}
    ids: dict[int, list[str]] = {}
    for number, item in spans:
        ids.setdefault(number, []).extend(i for i in item.ids if i not in ids.get(number, ()))
    rows = []
    for number, listed in ids.items():
        texts = [told(known[i]) if i in known else f"{names[i]} (area)" if i in names else f"no box {i}" for i in listed]
        more = f"<li>and {len(texts) - MOST_LISTED} more</li>" if len(texts) > MOST_LISTED else ""
        items = "".join(f"<li>{escape(text)}</li>" for text in texts[:MOST_LISTED]) or "<li>no box</li>"
        style = colour(number) if listed else "void"
        rows.append(f'<div class="p {style}" data-k="{number}"><b>{number}</b><ul>{items}{more}</ul></div>')
    return f'<div class="key">{"".join(rows)}</div>' if rows else ""


def _inventory(scene: Scene) -> str:
    """All that is in the room, by kind; long lists are folded."""
    kinds: dict[str, list[Object]] = {}
    for item in scene.objects:
        kinds.setdefault(item.category, []).append(item)
    parts = []
    for name, items in sorted(kinds.items()):
        about = escape("; ".join(told(item) for item in items[:12]), quote=True)
        parts.append(f'<span title="{about}">{len(items)} &times; {escape(name)}</span>')
    head = f"<summary>Everything in the room ({len(scene.objects)})</summary>"
    return f'<details class="all" open>{head}<p>{", ".join(parts)}</p></details>'


def instructions_page(check: str, examples: str, nonce: str, trial: int, begin: bool) -> str:
    """What a check is about, with examples; with a button to begin, or to be read again."""
    told = "".join(f"<li>{text}</li>" for text in MEANT[check])
    keys = (
        "".join(f"<li><kbd>{KEYS[name]}</kbd> {SAID[name]}</li>" for name in VERDICTS)
        if check != STEPS
        else ("<li><kbd>1</kbd> to <kbd>9</kbd> mark a step</li><li><kbd>Enter</kbd> go on</li>")
    )
    keys += "<li><kbd>U</kbd> take back the last answer</li><li>a click on a drawing enlarges it, another makes it small</li>"
    first = (
        f"<p>The first {trial} tasks show whether these instructions are clear: who answers most of them rightly goes on. Later, "
        "now and then, a task of which the answer is known comes again.</p>"
        if trial
        else ""
    )
    button = (
        f'<form method="post" action="start"><input type="hidden" name="check" value="{check}">'
        '<button class="v0 begin" autofocus>Begin</button></form>'
        if begin
        else ""
    )
    body = f"<h1>{TITLES[check]}</h1><ol>{told}</ol>{examples}<h2>Keys</h2><ul class=keys>{keys}</ul>{first}{button}"
    return document(TITLES[check], f"<main class=how>{body}</main>", nonce)


def example(text: str, scene: Scene, verdict: str, why: str, check: str) -> str:
    """An example with its verdict and the reason, for the instructions."""
    task = Task("", check, "work", "", scene.scene_id, "", text, 0, len(text))
    spans = numbered(task)
    plan = draw_views(scene, marks_of(spans))[0]
    said = coloured(text, 0, len(text), {item.start: number for number, item in spans}, scene)
    style = "good" if verdict not in ("not true", DROP) else "bad"
    head = f'<p><b class="{style}">{escape(SAID.get(verdict, verdict))}</b> {said}</p>'
    return f'<article class="{style}">{plan}<div>{head}<p>{escape(why)}</p></div></article>'


def message_page(title: str, text: str, nonce: str, reload: bool = False, undo: bool = False) -> str:
    """A page that says something, such as that all is done."""
    again = '<meta http-equiv="refresh" content="10">' if reload else ""
    back = (
        '<form method="post" action="undo"><button id="undo">&#8630; Undo the last answer <kbd>U</kbd></button></form>'
        if undo
        else ""
    )
    return document(title, f"<main class=how><h1>{escape(title)}</h1><p>{escape(text)}</p>{back}</main>", nonce, again)


def document(title: str, body: str, nonce: str, head: str = "") -> str:
    meta = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return (
        f'<!doctype html><html lang="en"><head>{meta}{head}<link rel="icon" href="data:,">'
        f'<style nonce="{nonce}">{STYLE}</style></head><body>{body}<script nonce="{nonce}">{SCRIPT}</script></body></html>\n'
    )
