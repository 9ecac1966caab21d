"""The terminal loop around a conversation: commands, printing, Ctrl-C and Ctrl-D. No model code."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grand3d.chat import Answer, Conversation, Mention, unknown_scene
from grand3d.errors import GrandError
from grand3d.markup import plain
from grand3d.scene import Object, Scene

DIM, RESET = "\x1b[2m", "\x1b[0m"

COMMANDS = {
    "/ground": ("/ground EXPRESSION", "find the object that an expression refers to: /ground the chair by the door"),
    "/scene": ("/scene [SCENE_ID]", "list the scenes, or change to another one (the history is left behind)"),
    "/objects": ("/objects", "list the objects of the scene"),
    "/json": ("/json", "answers as JSON lines, on and off"),
    "/history": ("/history [N]", "show the last N turns, all without N"),
    "/reset": ("/reset", "forget the turns so far"),
    "/help": ("/help", "this list"),
    "/quit": ("/quit", "leave; so does Ctrl-D"),
}


@dataclass(slots=True)
class Session:
    """What the loop holds: the scenes there are, the one talked about, how a conversation is begun, whether a line failed."""

    scenes: Mapping[str, Scene]
    scene_id: str
    begin: Callable[[Scene], Conversation]
    as_json: bool = False
    terminal: bool = False
    conversation: Conversation | None = None
    failed: bool = False


def run(session: Session) -> int:
    """Read lines until the input ends or the user leaves; a wrong line is answered by a word on what is expected.

    Returns:
        The exit code: 0, or 2 where piped input held a question or a command that could not be answered.

    Raises:
        GrandError: If the input is closed, the model cannot be loaded or the first scene does not fit it.
    """
    if sys.stdin is None:  # closed by the shell (<&-)
        raise GrandError("standard input is closed; chat reads its questions from it")
    session.terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not session.terminal and hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    if session.terminal:
        _print(f"scene {session.scene_id}: {len(session.scenes[session.scene_id].objects)} objects; /help lists the commands")
        _talk(session)
    for line in _lines(session):
        words = line.strip()
        if not words:
            continue
        if words.startswith("/"):
            if words.split()[0] in ("/quit", "/exit"):
                break
            _command(session, words)
        else:
            _ask(session, words, lambda c, on_token, question=words: c.ask(question, on_token))
    return 2 if session.failed and not session.terminal else 0


def _lines(session: Session) -> Iterator[str]:
    """Lines of the terminal, with editing where prompt_toolkit is installed; or of a pipe."""
    if not session.terminal:
        while line := _piped_line():
            yield line
        return
    read = _prompt()
    while True:
        try:
            yield read("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            _print("Ctrl-D leaves")


def _piped_line() -> str:
    try:
        return sys.stdin.readline()
    except OSError as error:  # a folder, or open for writing only
        raise GrandError(f"standard input cannot be read ({error.strerror or error}); chat reads its questions from it") from None


def _prompt() -> Callable[[str], str]:
    if importlib.util.find_spec("prompt_toolkit") is None:
        return input
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    return PromptSession(completer=WordCompleter(list(COMMANDS), sentence=True), complete_while_typing=False).prompt


def _command(session: Session, line: str) -> None:
    name, *words = line.split(maxsplit=1)
    rest = "".join(words)
    if name not in COMMANDS:
        _fail(session, line, f"unknown command {name}, expected one of {', '.join(COMMANDS)}")
        return
    done = {
        "/ground": _ground,
        "/scene": _scene,
        "/objects": _objects,
        "/json": _json,
        "/history": _history,
        "/reset": _reset,
        "/help": _help,
    }[name](session, rest)
    if not done:
        usage, meaning = COMMANDS[name]
        _fail(session, line, f"expected {usage}   {meaning}")


def _ground(session: Session, rest: str) -> bool:
    if rest:
        _ask(session, f"/ground {rest}", lambda c, on_token: c.ground(rest, on_token))
    return bool(rest)


def _scene(session: Session, rest: str) -> bool:
    if not rest:
        for scene_id, scene in session.scenes.items():
            _say(session, f"{'*' if scene_id == session.scene_id else ' '} {scene_id}  {len(scene.objects)} objects")
    elif rest not in session.scenes:
        _fail(session, f"/scene {rest}", unknown_scene(rest, session.scenes))
    else:
        before = session.scene_id, session.conversation
        session.scene_id, session.conversation = rest, None
        try:
            _talk(session)
        except GrandError as error:  # such as a scene too large for the context
            session.scene_id, session.conversation = before
            _fail(session, f"/scene {rest}", f"{error}; the scene is still {session.scene_id}")
        else:
            _say(session, f"scene {rest}: {len(session.scenes[rest].objects)} objects")
    return True


def _objects(session: Session, rest: str) -> bool:
    if not rest:
        for item in session.scenes[session.scene_id].objects:
            _say(session, _object_line(item))
    return not rest


def _json(session: Session, rest: str) -> bool:
    if not rest:
        session.as_json = not session.as_json
        _note(f"answers as {'JSON lines' if session.as_json else 'text'}")
    return not rest


def _history(session: Session, rest: str) -> bool:
    if rest and not (rest.isascii() and rest.isdigit()):
        return False
    turns = session.conversation.history if session.conversation is not None else ()
    first = len(turns) - int(rest[:9]) if rest else 0
    for turn in turns[max(0, first) :]:
        _say(session, f"> {turn.question}\n{turn.answer}")
    if not turns:
        _say(session, "no turns yet")
    return True


def _reset(session: Session, rest: str) -> bool:
    if not rest:
        if session.conversation is not None:
            session.conversation.reset()
        _note("the turns so far are forgotten")
    return not rest


def _help(session: Session, rest: str) -> bool:
    if not rest:
        for usage, meaning in COMMANDS.values():
            _say(session, f"{usage:20} {meaning}")
        _say(session, "anything else is a question about the scene")
    return not rest


def _talk(session: Session) -> Conversation:
    """The conversation about the present scene; the first call loads the model."""
    if session.conversation is None:
        conversation = session.begin(session.scenes[session.scene_id])
        if conversation.scene_text.num_dropped:
            _note(f"{conversation.scene_text.num_dropped} objects of lowest score are not shown to the model")
        session.conversation = conversation
    return session.conversation


def _ask(session: Session, line: str, ask: Callable[[Conversation, Any], Answer]) -> None:
    conversation = _talk(session)
    if not session.terminal and not session.as_json:
        _print(f"> {line}")
    streamed: list[str] = []

    def on_token(piece: str) -> None:
        streamed.append(piece)
        sys.stdout.write(DIM + _clean(piece) + RESET)
        sys.stdout.flush()

    before = conversation.num_forgotten
    try:
        answer = ask(conversation, on_token if session.terminal and not session.as_json else None)
    except KeyboardInterrupt:
        _print("\ncancelled" if streamed else "cancelled")
        return
    except GrandError as error:
        _fail(session, line, str(error))
        return
    if streamed:
        print()
    if session.as_json:
        print(json.dumps(answer_to_dict(answer, line, session.scene_id)), flush=True)
    else:
        _print(render(answer))
    if answer.num_forgotten > before:
        _note(f"the context is full: the oldest {answer.num_forgotten} turns are no longer shown to the model")


def render(answer: Answer) -> str:
    """A reply for people: phrases with the ids of the real objects, then one line for each of these objects."""
    blocks = [mention for mention in answer.mentions if mention.is_answer]
    if blocks:
        lines = [", ".join(map(_named, blocks))]
        others = [mention for mention in answer.mentions if not mention.is_answer]
        if others:
            lines.append("mentioned: " + ", ".join(map(_named, others)))
    else:
        pieces, position = [], 0
        for mention in answer.mentions:
            pieces += [plain(answer.text[position : mention.start]), _named(mention)]
            position = mention.end
        lines = [("".join(pieces) + plain(answer.text[position:])).strip() or "(an empty reply)"]
    if not answer.finished:
        lines.append("(cut off: the reply is longer than the limit)")
    objects = {item.object_id: item for mention in answer.mentions for item in mention.objects}
    unknown = dict.fromkeys(i for mention in answer.mentions for i in mention.unknown)
    lines += map(_object_line, objects.values())
    regions = {region.region_id: region for mention in answer.mentions for region in mention.regions}
    lines += (f"  [{name}] {region.name}: region with {len(region.object_ids)} objects" for name, region in regions.items())
    lines += [f"  [{name}] is not in the scene" for name in unknown]
    return "\n".join(lines)


def answer_to_dict(answer: Answer, line: str, scene_id: str) -> dict[str, Any]:
    """One JSON line: what was typed, the reply as written, its phrases with the real objects; boxes are in metres."""
    return {
        "scene_id": scene_id,
        "question": line,
        "text": answer.text,
        "mentions": [
            {
                "phrase": mention.phrase,
                "objects": [
                    {
                        "object_id": item.object_id,
                        "category": item.category,
                        "centroid": list(item.centroid),
                        "extent": list(item.extent),
                    }
                    for item in mention.objects
                ],
                "regions": [{"region_id": region.region_id, "name": region.name} for region in mention.regions],
                "unknown": list(mention.unknown),
                "is_answer": mention.is_answer,
            }
            for mention in answer.mentions
        ],
        "finished": answer.finished,
    }


def _named(mention: Mention) -> str:
    ids = [item.object_id for item in mention.objects] + [region.region_id for region in mention.regions]
    ids += [f"{name}?" for name in mention.unknown]
    return f"{mention.phrase} [{', '.join(ids) or 'none'}]".strip()


def _object_line(item: Object) -> str:
    x, y, z = item.centroid
    long, wide, high = item.extent
    size = f"{long:.2f} x {wide:.2f} x {high:.2f} m"
    return f"  [{item.object_id}] {item.category}: centre {x:.2f}, {y:.2f}, {z:.2f}, size {size}"


def _fail(session: Session, line: str, error: str) -> None:
    session.failed = True
    if session.as_json:
        print(json.dumps({"question": line, "error": error}), flush=True)
    else:
        _note(f"error: {error}")


def _note(text: str) -> None:
    """A word beside the answers, kept out of what a pipe reads."""
    print(_clean(text), file=sys.stderr, flush=True)


def _say(session: Session, text: str) -> None:
    """A word that is no answer: it stays out of the JSON lines."""
    (_note if session.as_json else _print)(text)


def _print(text: str) -> None:
    print(_clean(text), flush=True)


def _clean(text: str) -> str:
    """Without control characters: labels and replies come from anywhere and must not steer the terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")
