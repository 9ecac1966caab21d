"""Replies of a merged model through vLLM: its prefix cache reads a room once, its scheduler fills the GPU.

The prompts, and the grammar of the replies, are those of ``ask``. What differs: vLLM cuts a reply at the token limit instead of
bringing it to its end, so a limit that is too small leaves replies that cannot be read (they say ``"finished": false``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from grand3d import launched
from grand3d.adapter import read_adapter
from grand3d.decoding import Decoding
from grand3d.errors import GrandError, import_extra, shown
from grand3d.files import Rejects
from grand3d.generate.ask import encode_questions, task_grammar
from grand3d.generate.decode import prompt_limit
from grand3d.model import load_tokenizer
from grand3d.sample import Data, Reply, Sample
from grand3d.schema import PromptConfig
from grand3d.server import refuse_own
from grand3d.tokens import decode, stop_ids

AT_ONCE = 2048
"""Questions handed over at a time: what is answered is written down before the next come."""


def open_vllm(folder: str, dtype: str, prompt: PromptConfig) -> tuple[Any, Any, Any]:
    """The engine, a stand-in for the model that carries its configuration, and the tokenizer.

    Args:
        folder: Of a model that ``grand3d merge`` wrote.

    Raises:
        GrandError: If vLLM is missing, the folder is no merged model, or several processes were started.
    """
    found = read_adapter(folder)
    if found.lora:
        reason = "is an adapter, expected a merged model where vLLM is to run it"
        raise GrandError(f"{found.folder} {reason}; make one with: grand3d merge {folder} OUT")
    if launched.count() > 1:
        raise GrandError(f"{launched.count()} processes were started, expected one: vLLM shares out the work by itself")
    vllm = import_extra("vllm", "vllm")
    place = str(found.folder)
    tokenizer = load_tokenizer(place, serializer=prompt.serializer)
    config = import_extra("transformers", "train").AutoConfig.from_pretrained(place)
    engine = vllm.LLM(
        model=place,
        dtype={"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[dtype],
        max_model_len=min(prompt.max_tokens, getattr(config, "max_position_embeddings", prompt.max_tokens)),
        enable_prefix_caching=True,
        structured_outputs_config={"backend": "guidance"},  # the library that the grammars are written for
    )
    return engine, SimpleNamespace(config=config), tokenizer


def ask_vllm(
    engine: Any,
    model: Any,
    tokenizer: Any,
    prompt: PromptConfig,
    data: Data,
    samples: Sequence[Sample],
    decoding: Decoding,
    rejects: Rejects | None = None,
) -> Iterator[Reply]:
    """Replies to samples, scene by scene.

    Args:
        engine: Has vLLM's ``generate``.
        model: Its configuration, in ``config``.

    Raises:
        GrandError: For candidates, which vLLM does not weigh; or if a sample cannot be asked, unless ``rejects`` collects it.
    """
    refuse_own(decoding, "vLLM")
    vllm, params = import_extra("vllm", "vllm"), import_extra("vllm.sampling_params", "vllm")
    limit = prompt_limit(model, prompt.max_tokens, decoding.max_new_tokens)
    stop = sorted(stop_ids(tokenizer))
    by_scene: dict[str, list[Sample]] = {}
    for sample in samples:
        by_scene.setdefault(sample.scene_id, []).append(sample)
    rows = (
        row
        for scene_id, questions in by_scene.items()
        for row in encode_questions(tokenizer, data.scenes[scene_id], questions, prompt, limit, rejects)
    )
    while batch := list(itertools.islice(rows, AT_ONCE)):
        settings = []
        for sample, text, _ in batch:
            nums = len(text.object_ids), len(text.region_ids)
            grammar = task_grammar(sample.task, nums[0], prompt, nums[1]) if decoding.constrained else None
            settings.append(
                vllm.SamplingParams(
                    temperature=decoding.sampling.temperature,
                    top_p=decoding.sampling.top_p,
                    seed=decoding.sampling.seed,
                    max_tokens=decoding.max_new_tokens,
                    stop_token_ids=stop,
                    detokenize=False,
                    structured_outputs=None if grammar is None else params.StructuredOutputsParams(grammar=grammar),
                )
            )
        prompts = [{"prompt_token_ids": encoded.prefix + encoded.suffix} for _, _, encoded in batch]
        outputs = engine.generate(prompts, settings, use_tqdm=False)
        if len(outputs) != len(batch):
            raise GrandError(f"vLLM gave {shown(len(outputs))} outputs, expected one for each of {len(batch)} questions")
        for (sample, text, _), output in zip(batch, outputs, strict=True):
            done = output.outputs[0]
            ids = list(done.token_ids)
            while ids and ids[-1] in stop:
                ids.pop()
            reply, finished = decode(tokenizer, ids), done.finish_reason == "stop"
            yield Reply(
                sample.sample_id, sample.scene_id, reply, text.object_ids, finished, text.num_dropped, (), text.region_ids
            )
