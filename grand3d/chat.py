"""A conversation about one scene, for the terminal and for viewers; and finding the scene that is to be talked about."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grand3d import markup
from grand3d.convert.graphs import read_graphs
from grand3d.decoding import Decoding
from grand3d.errors import GrandError, place, shown
from grand3d.files import read_text
from grand3d.grammar import reply_grammar
from grand3d.jsons import decode
from grand3d.prompts import Turn, chat_dialogue, reference_question
from grand3d.scene import Object, Region, Scene, load_scenes
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText, fit_scene

if TYPE_CHECKING:
    from grand3d.generate import Memory

DEMO = Path(__file__).parent / "data" / "demo_room.jsonl"
MIN_QUESTION = 64  # tokens that must be left for a question


@dataclass(frozen=True, slots=True)
class Mention:
    """A phrase of a reply with the real objects it names.

    Attributes:
        unknown: Ids that no object and no region of the prompt bears.
        is_answer: Whether it stands in the answer block.
        start: Where it begins in the reply.
        end: Behind its id list.
        regions: Named in the list, such as rooms.
    """

    phrase: str
    objects: tuple[Object, ...]
    unknown: tuple[str, ...]
    is_answer: bool
    start: int
    end: int
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply in a conversation.

    Attributes:
        text: As the model wrote it.
        finished: False when the token limit cut it.
        num_forgotten: Oldest turns that are no longer shown to the model because the context was full.
    """

    question: str
    text: str
    mentions: tuple[Mention, ...]
    finished: bool
    num_forgotten: int


class Conversation:
    """One scene, one model and the turns so far; every conversation has its own.

    The scene text is read by the model once. When the context is full, the oldest turns are left out of the prompt.

    Args:
        turns: How many earlier turns the model sees with a question. Models trained on single questions, as the shipped
            adapter, answer worse behind other turns, so none is shown unless asked for. ``history`` holds all turns anyway.

    Raises:
        GrandError: With token counts, if the scene alone, or the reply, does not fit the context.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        prompt: PromptConfig,
        scene: Scene,
        decoding: Decoding | None = None,
        turns: int = 0,
    ) -> None:
        from grand3d.generate import prompt_limit

        if turns < 0:
            raise GrandError(f"turns is {turns}, expected 0 (each question alone) or more")

        self.model, self.tokenizer, self.prompt, self.scene = model, tokenizer, prompt, scene
        self.decoding, self.turns = decoding or Decoding(), turns
        self.limit = prompt_limit(model, prompt.max_tokens, self.decoding.max_new_tokens)
        self.scene_text = self._fit()
        self.history: tuple[Turn, ...] = ()
        self.num_forgotten = 0
        self._memory: Memory = {}

    def ask(self, question: str, on_token: Callable[[str], None] | None = None, kind: str = "any") -> Answer:
        """Ask a question as it is; the turn joins the history once it is answered.

        Args:
            kind: Of reply, see ``grammar.reply_grammar``.

        Raises:
            GrandError: With token counts, if the question does not fit the context.
        """
        from grand3d.generate import generate

        window = self.history[max(self.num_forgotten, len(self.history) - self.turns) :]
        kept = window
        encoded = self._encode(kept, question)
        while len(encoded) > self.limit and kept:
            kept = kept[1:]
            encoded = self._encode(kept, question)
        if len(encoded) > self.limit:
            raise GrandError(
                f"the question is too long: {len(encoded.suffix)} tokens beside {len(encoded.prefix)} of scene and instructions, "
                f"and {self.limit} fit beside a reply of {self.decoding.max_new_tokens}"
            )
        tokens, sampling = self.decoding.max_new_tokens, self.decoding.sampling
        grammars = None
        if self.decoding.constrained:
            ids = [f"obj_{k}" for k in range(len(self.scene_text.object_ids))]
            ids += [f"region_{k}" for k in range(len(self.scene_text.region_ids)) if kind != "reference"]
            grammars = [reply_grammar(kind, ids, self.prompt.grounding)]
        ((_, text, finished),) = generate(
            self.model, self.tokenizer, [encoded], tokens, 1, sampling, on_token, self._memory, grammars
        )
        if len(kept) < len(window):
            self.num_forgotten = len(self.history) - len(kept)
        self.history = (*self.history, Turn(question, text))
        return Answer(question, text, resolve(text, self.scene, self.scene_text), finished, self.num_forgotten)

    def ground(self, expression: str, on_token: Callable[[str], None] | None = None) -> Answer:
        """Ask which object an expression refers to, in the words the model was trained with."""
        return self.ask(reference_question(expression, self.prompt), on_token, "reference")

    def reset(self) -> None:
        """Forget all turns."""
        self.history, self.num_forgotten = (), 0

    def _encode(self, history: tuple[Turn, ...], question: str) -> Any:
        from grand3d.tokens import encode

        return encode(self.tokenizer, chat_dialogue(history, question, self.scene_text, self.prompt))

    def _fit(self) -> SceneText:
        """The scene text, with so many proposals left out that a question still fits."""
        from grand3d.tokens import counter, scene_budget

        count = counter(self.tokenizer)
        self.scene_text = fit_scene(self.scene, self.prompt.serializer, self.prompt.top_k, overlap=self.prompt.merge_overlap)
        prompt_tokens, limit = len(self._encode((), "")), self.limit - MIN_QUESTION
        if prompt_tokens <= limit:
            return self.scene_text
        budget = scene_budget(count, self.scene_text.text, prompt_tokens, limit)
        try:
            return fit_scene(self.scene, self.prompt.serializer, self.prompt.top_k, budget, count, (), self.prompt.merge_overlap)
        except GrandError:
            tokens = count(self.scene_text.text)
            around, reply = prompt_tokens - tokens, self.decoding.max_new_tokens
            raise GrandError(
                f"scene {self.scene.scene_id!r} does not fit the context: {tokens} tokens of scene, {around} of instructions, "
                f"{MIN_QUESTION} for a question and {reply} for a reply; {self.limit + reply} fit"
            ) from None


def resolve(text: str, scene: Scene, scene_text: SceneText) -> tuple[Mention, ...]:
    """The phrases of a reply, in reading order, with what its ``<obj_k>`` and ``<region_k>`` mean. Never raises."""
    parsed = markup.parse(text, lenient=True)
    objects = {f"obj_{k}": scene[object_id] for k, object_id in enumerate(scene_text.object_ids)}
    listed = {region.region_id: region for region in scene.regions}
    regions = {f"region_{k}": listed[region_id] for k, region_id in enumerate(scene_text.region_ids)}
    answer = {span.start for span in parsed.answer or ()}
    return tuple(
        Mention(
            phrase=span.phrase,
            objects=tuple(objects[i] for i in span.ids if i in objects),
            unknown=tuple(i for i in span.ids if i not in objects and i not in regions),
            is_answer=span.start in answer,
            start=span.start,
            end=span.end,
            regions=tuple(regions[i] for i in span.ids if i in regions),
        )
        for span in parsed.spans
    )


def open_scenes(name: str) -> tuple[dict[str, Scene], str]:
    """The scenes a name stands for, and the id of the one meant.

    Args:
        name: ``demo``; a scenes file (JSON lines), a graph file (JSON), or a data folder; each with ``:SCENE_ID`` behind it,
            or without for the first scene.

    Raises:
        GrandError: If there is no such file or scene, with names that are near.
    """
    if name == "demo":
        return load_scenes(DEMO), "demo"
    path, wanted = Path(name), None
    if not os.path.exists(path) and ":" in name:
        head, _, wanted = name.rpartition(":")
        path = Path(head)
    if os.path.isdir(path):
        path = path / "scenes.jsonl"
    if not os.path.exists(path):
        if os.path.isfile(path.parent):
            raise GrandError(
                f"{place(path)}: {place(path.parent)} is a file, expected a folder; a scene of a file is FILE:SCENE_ID"
            )
        around = [str(item) for item in path.parent.glob("*")] if os.path.isdir(path.parent) else []
        expected = "'demo', a scenes.jsonl, a graph .json, or a data folder, each also as PLACE:SCENE_ID"
        raise GrandError(f"no scene {shown(name)}: expected {expected}{nearest(name, ['demo', *around])}")
    scenes = load_scenes(path) if _is_jsonl(path) else read_graphs(path, "graph")
    if not scenes:
        raise GrandError(f"{place(path)}: holds no scene, expected at least one")
    wanted = next(iter(scenes)) if wanted is None else wanted
    if wanted not in scenes:
        raise GrandError(f"{place(path)}: {unknown_scene(wanted, scenes)}")
    return scenes, wanted


def unknown_scene(scene_id: str, scenes: Iterable[str]) -> str:
    """What to say about a scene id that is not among the scenes."""
    names = list(scenes)
    if not scene_id:
        return f"the scene id is empty, expected one of {len(names)}: {', '.join(names[:5])}" + (
            ", ..." if len(names) > 5 else ""
        )
    hint = nearest(scene_id, names) or f"; there are {', '.join(names[:5])}" + (", ..." if len(names) > 5 else "")
    return f"no scene {shown(scene_id)} among {len(names)}{hint}"


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` with up to three names like this one, or nothing."""
    near = difflib.get_close_matches(name, list(known), 3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _is_jsonl(path: Path) -> bool:
    """Whether the first line is one scene; a graph file is one JSON document of scenes."""
    first = next((line for line in read_text(path).split("\n") if line.strip()), "")
    try:
        row = decode(first)
    except GrandError:
        return path.suffix == ".jsonl"
    return isinstance(row, dict) and ("scene_id" in row or path.suffix == ".jsonl")
