"""Replies of a server that speaks OpenAI's protocol: vLLM, ``transformers serve``, llama.cpp, or OpenAI itself.

The scene text comes first in every prompt here too, so a server that keeps prefixes reads a room once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from grand3d.decoding import Decoding
from grand3d.errors import GrandError, import_extra, shown
from grand3d.files import Rejects
from grand3d.markup import span
from grand3d.prompts import dialogue, messages
from grand3d.sample import Data, Reply, Sample, sample_to_dict
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText, fit_scene

PREFIX = "openai:"
EXPECTED = f"expected {PREFIX}MODEL@http://HOST:PORT/v1, or {PREFIX}MODEL for OpenAI's own"
NO_KEY = "none"  # servers of one's own ask for none, but the client wants one

# What trained models have learnt, a model behind a server must be told.
FORMATS = {
    "object_reference": "Answer with the object that is meant, in this form and nothing else: "
    f"<refer_expression_grounding>{span('its name', ('obj_0',))}</refer_expression_grounding> "
    "(with the id of your object; [] in place of an id when nothing fits).",
    "existence": "Answer with Yes or No and nothing else.",
    "counting": f"Begin your answer with the number, then name what you counted, as in: 2 {span('chairs', ('obj_0', 'obj_4'))}",
}


@dataclass(frozen=True, slots=True)
class Server:
    """Where to ask, and for which model."""

    model: str
    url: str | None


def read_server(name: str) -> Server:
    """The server that ``openai:MODEL@URL`` names.

    Raises:
        GrandError: If it names none.
    """
    model, _, url = name.removeprefix(PREFIX).partition("@")
    if not model.strip() or (url and not url.startswith(("http://", "https://"))) or ("@" in name and not url):
        raise GrandError(f"the server is {shown(name)}, {EXPECTED}")
    return Server(model, url or None)


def ask_server(
    server: Server,
    prompt: PromptConfig,
    data: Data,
    samples: Sequence[Sample],
    decoding: Decoding,
    rejects: Rejects | None = None,
) -> Iterator[Reply]:
    """Replies to samples in their order; ``decoding.batch_size`` requests are on their way at a time (at most 32).

    The key is read from ``OPENAI_API_KEY``. Requests that fail for a while are repeated by the client.

    Raises:
        GrandError: If the server cannot be reached or refuses; or a sample cannot be asked, unless ``rejects`` collects it.
    """
    refuse_own(decoding, "a server")
    openai = import_extra("openai", "annotate")
    client = openai.OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or NO_KEY, base_url=server.url, max_retries=4)
    rejects = rejects if rejects is not None else Rejects()
    asked = []
    texts: dict[str, SceneText] = {}
    for sample in samples:
        scene = data.scenes[sample.scene_id]
        try:
            if sample.scene_id not in texts:
                texts[sample.scene_id] = fit_scene(scene, prompt.serializer, prompt.top_k, overlap=prompt.merge_overlap)
            asked.append((sample, texts[sample.scene_id], _messages(sample, texts[sample.scene_id], prompt)))
        except GrandError as error:
            rejects.add(f"sample {sample.sample_id!r}", str(error), sample_to_dict(sample), error.cause)

    def send(messages: list[dict[str, str]]) -> Any:
        return client.chat.completions.create(
            model=server.model,
            messages=messages,
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.sampling.temperature,
            top_p=decoding.sampling.top_p,
            seed=decoding.sampling.seed,
        )

    pool = ThreadPoolExecutor(min(32, decoding.batch_size))
    try:
        waiting = [(sample, text, pool.submit(send, messages)) for sample, text, messages in asked]
        for sample, text, future in waiting:
            try:
                choice = future.result().choices[0]
            except (openai.OpenAIError, IndexError) as error:
                raise GrandError(_failure(server, error)) from None
            finished = choice.finish_reason != "length"
            reply = choice.message.content or ""
            yield Reply(
                sample.sample_id, sample.scene_id, reply, text.object_ids, finished, text.num_dropped, (), text.region_ids
            )
    finally:
        pool.shutdown(cancel_futures=True)


def refuse_own(decoding: Decoding, whose: str) -> None:
    """Refuse what only the own engine can do.

    Raises:
        GrandError: Naming it.
    """
    asked = {"--candidates": decoding.candidates, "--contrast": decoding.contrast, "--orders": decoding.orders > 1}
    for name, wanted in asked.items():
        if wanted:
            raise GrandError(
                f"{name} needs the probabilities inside the model, which {whose} does not give; expected no {name} here"
            )


def _messages(sample: Sample, scene_text: SceneText, prompt: PromptConfig) -> list[dict[str, str]]:
    said = messages(dialogue(sample, scene_text, prompt, with_answer=False))
    if sample.task in FORMATS:
        said[-1]["content"] += f"\n{FORMATS[sample.task]}"
    return said


def _failure(server: Server, error: Exception) -> str:
    where = f"{server.url or 'the server of OpenAI'}, model {shown(server.model)}"
    kind = type(error).__name__
    likely = {
        "APIConnectionError": "is it running, and is the address right?",
        "AuthenticationError": "is OPENAI_API_KEY set to a valid key?",
        "NotFoundError": "does the server know a model of that name?",
        "RateLimitError": "ask with a smaller --batch-size, or later; what was answered is kept",
    }.get(kind, "")
    return f"{where}: {kind}: {' '.join(str(error).split())[:300]}; expected a reply" + (f"; {likely}" if likely else "")
