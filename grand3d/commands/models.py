"""Commands that need a model: train, predict, chat, merge. What needs torch is imported where it is used."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from grand3d import launched, repl, server
from grand3d.chat import Conversation, open_scenes
from grand3d.checks import load_heldout
from grand3d.commands.common import keeping, need_models, refuse_no_samples, say
from grand3d.config import load_config
from grand3d.decoding import Decoding, Sampling
from grand3d.files import Rejects
from grand3d.scene import Scene
from grand3d.store import open_data


def train(options: argparse.Namespace) -> None:
    config = load_config(options.config, options.overrides)
    need_models()
    out = options.out or f"runs/{Path(options.config).stem}"
    if options.dry_run:
        from grand3d.plan import plan

        print(plan(config, out=out, skip_bad=options.skip_bad, resume=options.resume))
        return
    from grand3d import evaluate
    from grand3d import train as training
    from grand3d.journal import RejectLog

    figures, rejects = None, RejectLog(options.skip_bad)
    if config.data.heldout:
        heldout = load_heldout(config.data.heldout, rejects)

        def figures(model: Any, tokenizer: Any) -> dict[str, Any]:
            rejects.keep(Path(out) / "heldout.rejected.jsonl")  # the folder is there now, and the main process calls this
            return evaluate.heldout(model, tokenizer, heldout, config.prompt, rejects)

    adapter = training.train(config, out, options.resume, figures, options.skip_bad)
    if launched.number() == 0:
        for cause, number in rejects.counts().items():
            say(f"left out of the held-out data: {number} x {cause}")
        say(f"adapter: {adapter}")


def predict(options: argparse.Namespace) -> None:
    rejects, first = Rejects(options.skip_bad), launched.number() == 0
    with keeping(rejects, options.replies) if first else contextlib.nullcontext():
        data = open_data(options.data, rejects)
        refuse_no_samples(options.data, data)
        decoding = _decoding(options)
        if not options.adapter.startswith(server.PREFIX):
            need_models()
        from grand3d import evaluate

        done = evaluate.predict(
            options.adapter,
            data,
            options.replies,
            decoding,
            options.dtype,
            options.scenes,
            options.limit,
            rejects,
            options.overrides,
        )
        if not first:
            return
        kept = f", {done.num_kept} were there" if done.num_kept else ""
        cut = f", {done.num_unfinished} cut at {options.max_new_tokens} tokens" if done.num_unfinished else ""
        dropped = f", {done.num_dropped} objects left out of prompts" if done.num_dropped else ""
        say(f"{options.replies}: {done.num_new} replies written{kept}{cut}{dropped}")


def chat(options: argparse.Namespace) -> int:
    scenes, scene_id = open_scenes(options.scene)
    loaded: list[Any] = []

    def begin(scene: Scene) -> Conversation:
        if not loaded:
            from grand3d.evaluate import load_model

            if sys.stdin.isatty():
                say("loading the model ...")
            need_models()
            loaded.extend([*load_model(options.adapter, options.dtype), _decoding(options)])
        model, tokenizer, prompt, decoding = loaded
        return Conversation(model, tokenizer, prompt, scene, decoding, options.turns)

    return repl.run(repl.Session(scenes, scene_id, begin, options.json))


def merge(options: argparse.Namespace) -> None:
    need_models()
    from grand3d import model

    say(f"model: {model.merge(options.adapter, options.out)}")


def _decoding(options: argparse.Namespace) -> Decoding:
    sampling = Sampling(options.temperature, 1.0 if options.top_p is None else options.top_p, options.seed or 0)
    more = {
        name: getattr(options, name)
        for name in ("batch_size", "candidates", "contrast", "orders", "free_places")
        if hasattr(options, name)
    }
    return Decoding(options.max_new_tokens, sampling=sampling, constrained=not options.unconstrained, **more)
