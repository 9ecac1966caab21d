"""Commands over data folders: synth, convert, export, check, show."""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from grand3d import exports
from grand3d.audit import audit, leaks
from grand3d.chat import open_scenes
from grand3d.checks import check_data, check_scenes, check_store, listing
from grand3d.commands.common import keeping, need_models, refuse_no_samples, say
from grand3d.config import dump_yaml, load_config
from grand3d.convert import CONVERTERS
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_text
from grand3d.hub import fetch, is_hub, push
from grand3d.prompts import dialogue
from grand3d.report import table
from grand3d.sample import Data, save_data
from grand3d.schema import PromptConfig
from grand3d.serial import fit_scene
from grand3d.store import is_data, is_store, open_data, write_parquet


def synth(options: argparse.Namespace) -> None:
    {"rooms": _synth_rooms, "pope": _synth_pope, "tabletop": _synth_tabletop}[options.kind](options)


def _synth_tabletop(options: argparse.Namespace) -> None:
    from grand3d.synth.tabletop import balance, iter_tables

    number = options.instructions if options.instructions is not None else 34 * options.scenes
    scenes, samples, said = {}, [], time.monotonic()
    for scene, rows in iter_tables(options.scenes, number, options.seed):
        scenes[scene.scene_id] = scene
        samples += rows
        if time.monotonic() - said >= 10:
            say(f"{len(scenes)} of {options.scenes} tables")
            said = time.monotonic()
    _write_data(options.out, Data(scenes, tuple(samples)), options.force)
    print(table(balance(samples)))


def _synth_pope(options: argparse.Namespace) -> None:
    from grand3d.synth.pope import pope_samples

    if options.of is None:
        raise GrandError("synth pope asks about scenes that are there, expected --of with a scenes file or data folder")
    scenes, _ = open_scenes(options.of)
    labels = None if options.labels is None else [line.strip() for line in read_text(options.labels).splitlines() if line.strip()]
    samples, counts = pope_samples(scenes, labels, options.seed)
    asked = {sample.scene_id for sample in samples}
    _write_data(
        options.out, Data({name: scene for name, scene in scenes.items() if name in asked}, tuple(samples)), options.force
    )
    say(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counts.items()))


def _synth_rooms(options: argparse.Namespace) -> None:
    from grand3d.synth import iter_data

    scenes, samples, said = {}, [], time.monotonic()
    rooms = iter_data(
        options.scenes, options.seed, options.questions, none_or_several=options.none_or_several, num_objects=options.objects
    )
    for scene, rows in rooms:
        scenes[scene.scene_id] = scene
        samples += rows
        if time.monotonic() - said >= 10:
            say(f"{len(scenes)} of {options.scenes} rooms")
            said = time.monotonic()
    _write_data(options.out, Data(scenes, tuple(samples)), options.force)
    lacking = options.scenes * options.questions - len(samples)
    if lacking:
        say(f"{lacking} questions fewer than asked for: in some rooms there is little to ask about")


def convert(options: argparse.Namespace) -> None:
    if options.list and options.source is not None:
        raise GrandError(f"--list stands alone, expected nothing beside it; seen {shown(options.source)}")
    if options.list or options.source is None:
        for name, module in CONVERTERS.items():
            print(f"{name:14}{(importlib.import_module(module).__doc__ or '').strip().splitlines()[0]}")
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
    settings = getattr(module, "SETTINGS", {"task": str})
    for name, parameter in inspect.signature(module.convert).parameters.items():
        if name in module.INPUTS:
            needed = parameter.default is inspect.Parameter.empty
            default = None if needed else parameter.default
            kind = settings.get(name, str)
            metavar = "|".join(kind) if isinstance(kind, tuple) else name.upper() if name in settings else "FILE"
            option, reader = f"--{name.replace('_', '-')}", _number if kind is float else str
            sub.add_argument(option, required=needed, default=default, metavar=metavar, help=module.INPUTS[name], type=reader)
    sub.add_argument("--skip-bad", action="store_true", help="leave out and count broken rows")
    sub.add_argument("--force", action="store_true", help="write into a folder that holds something else")
    inputs = vars(sub.parse_args(options.rest))
    out, force, rejects = inputs.pop("out"), inputs.pop("force"), Rejects(inputs.pop("skip_bad"))
    with keeping(rejects, out):
        _write_data(out, module.convert(**inputs, rejects=rejects), force)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"seen {shown(text)}, expected a number") from None


def _write_data(out: str, data: Data, force: bool) -> None:
    written = save_data(out, data, force)
    say(f"{out}: {_size(data)}" + ("" if written else ", there already"))


def store(options: argparse.Namespace) -> None:
    from grand3d.store import MANIFEST, build, folder_source, read_manifest

    folders = [fetch(path) if is_hub(path) else Path(path) for path in options.data]
    # what a single source says of itself holds for the copy too, unless it is said anew
    known = read_manifest(folders[0]) if len(folders) == 1 and (folders[0] / MANIFEST).is_file() else {}
    about = {name: getattr(options, name) or known.get(name) for name in ("source", "licence", "version")}
    about = {name: text for name, text in about.items() if text}
    rejects = Rejects(options.skip_bad)
    with keeping(rejects, options.out):
        sources = [folder_source(path) for path in folders]
        manifest = build(options.out, sources, about, rejects)
    say(f"{options.out}: {', '.join(f'{number} {name}' for name, number in manifest['counts'].items())}")


def export(options: argparse.Namespace) -> None:
    if options.form == "parquet":
        if not is_store(options.data):
            raise GrandError(f"{place(options.data)}: is no store, expected what `grand3d store` made")
        if options.public and not is_hub(options.out):
            raise GrandError("--public belongs to an upload, expected hub:OWNER/NAME to write to")
        names = (
            push(options.data, options.out, options.public) if is_hub(options.out) else write_parquet(options.data, options.out)
        )
        say(f"{options.out}: {len(names)} files")
        return
    if is_hub(options.out) or options.public:
        raise GrandError(f"only parquet goes to the hub, expected a file to write; seen the form {options.form}")
    data, rejects = open_data(options.data), Rejects(options.skip_bad)
    refuse_no_samples(options.data, data)
    prompt = load_config(options.config).prompt if options.config else PromptConfig()
    out = Path(options.out)
    with keeping(rejects, options.out):
        count = exports.FORMS[options.form](out, data, prompt, rejects)
    say(f"{options.out}: {count} samples")


def check(options: argparse.Namespace) -> int:
    path, rejects = Path(options.what), Rejects(skip_bad=True)
    if path.suffix in (".yaml", ".yml"):
        if options.all:
            raise GrandError("--all belongs to the check of data; all faults of a configuration are listed without it")
        if options.rows is not None:
            raise GrandError("--rows belongs to the check of data, expected none with a configuration; it has no rows")
        config = load_config(path, options.overrides)
        print(dump_yaml(config), end="")
        if config.data.heldout is not None and is_data(config.data.heldout):
            for source in config.data.train:
                if is_data(source.path):
                    _told(
                        leaks(open_data(source.path, Rejects(True)), open_data(config.data.heldout, Rejects(True))),
                        "held-out data: ",
                    )
        return 0
    if options.overrides:
        what = f"check takes one place, and key=value only behind a configuration (.yaml): {shown(options.overrides[0])}"
        raise GrandError(f"{what} stands behind {place(path)}")
    if os.path.isdir(path):
        data = check_store(path, rejects) if is_store(path) else check_data(path, rejects)
        print(_size(data))
        _told(audit(data), "doubtful: ")
        if options.against is not None:
            _told(leaks(open_data(options.against, Rejects(True)), data), f"with {options.against}: ")
    elif path.suffix == ".jsonl":
        print(f"{len(check_scenes(path, rejects))} scenes")
    else:
        seen = "is none of these" if os.path.exists(path) else "no such file or folder"
        raise GrandError(f"{place(path)}: {seen}; expected a configuration (.yaml), a scenes file (.jsonl) or a data folder")
    if rejects.rows:
        print(listing(rejects, options.all))
    if options.rows is not None:
        rejects.write(options.rows)
    return 2 if rejects.rows else 0


def _told(notes: dict[str, dict[str, Any]], head: str) -> None:
    for kind, note in notes.items():
        print(f"{head}{note['count']} x {kind}")
        print("".join(f"  {example}\n" for example in note["examples"]), end="")


def show(options: argparse.Namespace) -> None:
    data = open_data(options.data)
    refuse_no_samples(options.data, data)
    if not 0 <= options.index < len(data.samples):
        raise GrandError(f"{options.data}: --index is {options.index}, expected 0 to {len(data.samples) - 1}")
    sample = data.samples[options.index]
    config = load_config(options.config) if options.config else None
    prompt = config.prompt if config else PromptConfig()
    need_models()
    from grand3d.model import load_tokenizer
    from grand3d.tokens import colour, encode

    tokenizer = load_tokenizer(config.model.base if config else options.base or "smollm2", serializer=prompt.serializer)
    learnable = data.truth is None  # targets among true objects are not among those shown
    keep = sample.target_ids if learnable else ()
    text = fit_scene(data.scenes[sample.scene_id], prompt.serializer, prompt.top_k, keep=keep, overlap=prompt.merge_overlap)
    encoded = encode(tokenizer, dialogue(sample, text, prompt, with_answer=learnable))
    print(colour(tokenizer, encoded))
    counts = f"{len(encoded.prefix)} tokens of scene, {len(encoded.suffix)} of question and answer, {sum(encoded.mask)} trained"
    say(f"sample {sample.sample_id} ({sample.task}): {counts}, {text.num_dropped} objects left out")


def _size(data: Data) -> str:
    tasks = ", ".join(f"{number} {task}" for task, number in Counter(sample.task for sample in data.samples).most_common())
    return f"{len(data.scenes)} scenes, {len(data.samples)} samples" + (f" ({tasks})" if tasks else "")
