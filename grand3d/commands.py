"""What the command line does, one function a command. What needs torch is imported where it is used."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import inspect
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from grand3d import calibration, launched, repl, runs, server
from grand3d.chat import Conversation, open_scenes
from grand3d.checks import check_data, check_scenes, listing, load_heldout, own_replies
from grand3d.config import PromptConfig, dump_yaml, load_config
from grand3d.convert import CONVERTERS
from grand3d.decoding import Decoding, Sampling
from grand3d.errors import GrandError, import_extra, place, shown
from grand3d.files import Rejects, read_json, write_jsonl, write_text
from grand3d.page import page
from grand3d.prompts import dialogue
from grand3d.report import render
from grand3d.sample import Data, load_data, load_replies, save_data
from grand3d.scene import Scene
from grand3d.serial import fit_scene


def synth(options: argparse.Namespace) -> None:
    from grand3d.synth import iter_data

    scenes, samples, said = {}, [], time.monotonic()
    rooms = iter_data(
        options.scenes, options.seed, options.questions, none_or_several=options.none_or_several, num_objects=options.objects
    )
    for scene, rows in rooms:
        scenes[scene.scene_id] = scene
        samples += rows
        if time.monotonic() - said >= 10:
            _say(f"{len(scenes)} of {options.scenes} rooms")
            said = time.monotonic()
    _write_data(options.out, Data(scenes, tuple(samples)), options.force)
    lacking = options.scenes * options.questions - len(samples)
    if lacking:
        _say(f"{lacking} questions fewer than asked for: in some rooms there is little to ask about")


def convert(options: argparse.Namespace) -> None:
    if options.list and options.source is not None:
        raise GrandError(f"--list stands alone, expected nothing beside it; seen {shown(options.source)}")
    if options.list or options.source is None:
        for name, module in CONVERTERS.items():
            print(f"{name:12}{(importlib.import_module(module).__doc__ or '').strip().splitlines()[0]}")
        if options.source is None and not options.list:
            raise GrandError("a source is needed: grand3d convert SOURCE OUT --FILE ..., see grand3d convert SOURCE --help")
        return
    if options.source not in CONVERTERS:
        near = difflib.get_close_matches(options.source, CONVERTERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise GrandError(f"source {options.source!r} is unknown, expected one of {', '.join(CONVERTERS)}{hint}")
    module = importlib.import_module(CONVERTERS[options.source])
    sub = argparse.ArgumentParser(
        f"grand3d convert {options.source}", description=(module.__doc__ or "").strip().splitlines()[0], allow_abbrev=False
    )
    sub.add_argument("out", help="data folder to write")
    for name, parameter in inspect.signature(module.convert).parameters.items():
        if name in module.INPUTS:
            needed = parameter.default is inspect.Parameter.empty
            default = None if needed else parameter.default
            kind = "TASK" if name == "task" else "FILE"
            sub.add_argument(f"--{name}", required=needed, default=default, metavar=kind, help=module.INPUTS[name])
    sub.add_argument("--skip-bad", action="store_true", help="leave out and count broken rows")
    sub.add_argument("--force", action="store_true", help="write into a folder that holds something else")
    inputs = vars(sub.parse_args(options.rest))
    out, force, rejects = inputs.pop("out"), inputs.pop("force"), Rejects(inputs.pop("skip_bad"))
    with _keeping(rejects, out):
        _write_data(out, module.convert(**inputs, rejects=rejects), force)


def _write_data(out: str, data: Data, force: bool) -> None:
    written = save_data(out, data, force)
    _say(f"{out}: {_size(data)}" + ("" if written else ", there already"))


def check(options: argparse.Namespace) -> int:
    path, rejects = Path(options.what), Rejects(skip_bad=True)
    if path.suffix in (".yaml", ".yml"):
        if options.all:
            raise GrandError("--all belongs to the check of data; all faults of a configuration are listed without it")
        print(dump_yaml(load_config(path, options.overrides)), end="")
        return 0
    if options.overrides:
        what = f"check takes one place, and key=value only behind a configuration (.yaml): {shown(options.overrides[0])}"
        raise GrandError(f"{what} stands behind {place(path)}")
    if os.path.isdir(path):
        print(_size(check_data(path, rejects)))
    elif path.suffix == ".jsonl":
        print(f"{len(check_scenes(path, rejects))} scenes")
    else:
        seen = "is none of these" if os.path.exists(path) else "no such file or folder"
        raise GrandError(f"{place(path)}: {seen}; expected a configuration (.yaml), a scenes file (.jsonl) or a data folder")
    if rejects.rows:
        print(listing(rejects, options.all))
    return 2 if rejects.rows else 0


def show(options: argparse.Namespace) -> None:
    data = load_data(options.data)
    _refuse_no_samples(options.data, data)
    if not 0 <= options.index < len(data.samples):
        raise GrandError(f"{options.data}: --index is {options.index}, expected 0 to {len(data.samples) - 1}")
    sample = data.samples[options.index]
    config = load_config(options.config) if options.config else None
    prompt = config.prompt if config else PromptConfig()
    _need_models()
    from grand3d.model import load_tokenizer
    from grand3d.tokens import colour, encode

    tokenizer = load_tokenizer(config.model.base if config else options.base or "smollm2", serializer=prompt.serializer)
    learnable = data.truth is None  # targets among true objects are not among those shown
    keep = sample.target_ids if learnable else ()
    text = fit_scene(data.scenes[sample.scene_id], prompt.serializer, prompt.top_k, keep=keep, overlap=prompt.merge_overlap)
    encoded = encode(tokenizer, dialogue(sample, text, prompt, with_answer=learnable))
    print(colour(tokenizer, encoded))
    counts = f"{len(encoded.prefix)} tokens of scene, {len(encoded.suffix)} of question and answer, {sum(encoded.mask)} trained"
    _say(f"sample {sample.sample_id} ({sample.task}): {counts}, {text.num_dropped} objects left out")


def train(options: argparse.Namespace) -> None:
    config = load_config(options.config, options.overrides)
    _need_models()
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
            _say(f"left out of the held-out data: {number} x {cause}")
        _say(f"adapter: {adapter}")


def predict(options: argparse.Namespace) -> None:
    rejects, first = Rejects(options.skip_bad), launched.number() == 0
    with _keeping(rejects, options.replies) if first else contextlib.nullcontext():
        data = load_data(options.data, rejects)
        _refuse_no_samples(options.data, data)
        decoding = _decoding(options)
        if not options.adapter.startswith(server.PREFIX):
            _need_models()
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
        _say(f"{options.replies}: {done.num_new} replies written{kept}{cut}{dropped}")


def score(options: argparse.Namespace) -> None:
    from grand3d import scoring

    several = len(options.replies) > 1
    for name in ("samples", "against") if several else ():
        if getattr(options, name) is not None:
            raise GrandError(f"--{name} with {len(options.replies)} replies files, expected one")
    more = {name: getattr(options, name) for name in (*scoring.FILES, *scoring.SETTINGS) if getattr(options, name) is not None}
    reports = []
    for path in options.replies:
        rejects = Rejects(options.skip_bad)
        with _keeping(rejects, f"{path}.score"):
            report, data, answers = scoring.scored(
                options.bench,
                options.questions,
                path,
                options.missing,
                rejects,
                options.calibration,
                options.against,
                more,
            )
        samples = report.pop("samples", [])  # thousands of rows: for comparing, not for reading
        reports.append(report)
    if several:
        report, samples, data, answers = runs.over_runs(reports, _run_names(options.replies)), [], None, []
    if options.samples is not None:
        if not samples:
            raise GrandError(f"score {options.bench} gives no figures of single samples, expected no --samples here")
        write_jsonl(options.samples, samples)
    _show(options, report, lambda: page(report, samples, data, answers))


def leaderboard(options: argparse.Namespace) -> None:
    reports = []
    for path in options.reports:
        report = read_json(path)
        rows = report.get("rows") if isinstance(report, dict) else None
        if not isinstance(rows, list) or not all(isinstance(report.get(key), dict) for key in ("counts", "rules")):
            raise GrandError(f"{place(path)}: is no report, expected what `grand3d score --json` prints", "wrong type")
        reports.append(report)
    made = runs.leaderboard(reports, _run_names(options.reports))
    _show(options, made, lambda: page(made))


def _run_names(paths: Sequence[str]) -> list[str]:
    names = [Path(path).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _show(options: argparse.Namespace, report: dict[str, Any], make_page: Callable[[], str]) -> None:
    if options.html is not None:
        write_text(options.html, make_page())
        _say(f"page: {options.html}")
    print(json.dumps(report, ensure_ascii=False, indent=1) if options.json else render(report, options.markdown))


def calibrate(options: argparse.Namespace) -> None:
    data = load_data(options.data)
    replies = own_replies(options.replies, data, load_replies(options.replies), Rejects())
    found = calibration.fit(data, replies, options.score_weight)
    calibration.save_calibration(options.out, found)
    temperatures = ", ".join(f"{task} {value:.2f}" for task, value in found.temperature.items())
    _say(f"{options.out}: temperature {temperatures}; none below {found.none_below}, also above {found.also_above}")


def chat(options: argparse.Namespace) -> int:
    scenes, scene_id = open_scenes(options.scene)
    loaded: list[Any] = []

    def begin(scene: Scene) -> Conversation:
        if not loaded:
            from grand3d.evaluate import load_model

            if sys.stdin.isatty():
                _say("loading the model ...")
            _need_models()
            loaded.extend([*load_model(options.adapter, options.dtype), _decoding(options)])
        model, tokenizer, prompt, decoding = loaded
        return Conversation(model, tokenizer, prompt, scene, decoding, options.turns)

    return repl.run(repl.Session(scenes, scene_id, begin, options.json))


def merge(options: argparse.Namespace) -> None:
    _need_models()
    from grand3d import model

    _say(f"model: {model.merge(options.adapter, options.out)}")


def _need_models() -> None:
    """Name the pip line before an import fails."""
    torch = import_extra("torch", "train")
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed, where installed, warns on stdout that it found no GPU
    for module in ("transformers", "peft"):
        import_extra(module, "train")


def _decoding(options: argparse.Namespace) -> Decoding:
    sampling = Sampling(options.temperature, 1.0 if options.top_p is None else options.top_p, options.seed or 0)
    more = {name: getattr(options, name) for name in ("batch_size", "candidates", "contrast", "orders") if hasattr(options, name)}
    return Decoding(options.max_new_tokens, sampling=sampling, constrained=not options.unconstrained, **more)


def _refuse_no_samples(folder: str, data: Data) -> None:
    if not data.samples:
        raise GrandError(f"{place(Path(folder) / 'samples.jsonl')}: holds no sample that can be used, expected at least one")


def _size(data: Data) -> str:
    tasks = ", ".join(f"{number} {task}" for task, number in Counter(sample.task for sample in data.samples).most_common())
    return f"{len(data.scenes)} scenes, {len(data.samples)} samples" + (f" ({tasks})" if tasks else "")


@contextlib.contextmanager
def _keeping(rejects: Rejects, beside: str) -> Iterator[None]:
    """Save and count the rejected rows at the end, also of work that fails or is interrupted."""
    try:
        yield
    except BaseException:
        try:
            _save_rejects(rejects, beside)
        except GrandError as error:  # the first failure is the one to report
            _say(f"the {len(rejects.rows)} rejected rows are lost: {error}")
        raise
    _save_rejects(rejects, beside)
    if not rejects.rows:
        stale = Path(f"{beside.rstrip('/')}.rejected.jsonl")
        if _are_rejects(stale):  # what an earlier run left no longer holds
            stale.unlink()


def _save_rejects(rejects: Rejects, beside: str) -> None:
    for cause, number in rejects.counts().items():
        _say(f"rejected: {number} x {cause}")
    path = rejects.save(beside)
    if path is not None:
        _say(f"the {len(rejects.rows)} rejected rows are in {path}")


def _are_rejects(path: Path) -> bool:
    """Whether a file is one of ours: a user's own may bear the name."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
    return first.startswith("{") and '"where"' in first and '"reason"' in first


def _say(text: str) -> None:
    """A word about the work; stdout is for what was asked for."""
    print(text, file=sys.stderr, flush=True)
