"""What the command line takes. Nothing heavy is imported here, so that ``--help`` comes at once."""

from __future__ import annotations

import argparse

from grand3d import __version__
from grand3d.bench import BENCHMARKS
from grand3d.review_options import add_review

SKIP_BAD = "leave out broken rows: they go to <output>.rejected.jsonl, and are counted by cause"


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser, commands = _parsers()
    options, extra = parser.parse_known_args(argv)
    if options.command == "train":  # argparse takes key=value only before the first option
        options.overrides += [item for item in extra if not item.startswith("-")]
        extra = [item for item in extra if item.startswith("-")]
    if extra:
        commands[options.command].error(f"unknown arguments: {' '.join(extra)}; expected what the usage names")
    drawing = [f"--{key.replace('_', '-')}" for key in ("top_p", "seed") if getattr(options, key, None) is not None]
    if drawing and getattr(options, "temperature", None) == 0:
        commands[options.command].error(
            f"{' and '.join(drawing)}: expected a --temperature above 0 with it; at 0 nothing is drawn"
        )
    return options


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole line, and that of each command."""
    parser = argparse.ArgumentParser(
        "grand3d", description="Language models that answer questions about 3D rooms in grounded text."
    )
    parser.add_argument("--version", action="version", version=f"grand3d {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(module: str, name: str, summary: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        made.set_defaults(module=module)
        made.register("type", None, _not_empty)  # the type of all arguments for which none is given
        return made

    sub = command(
        "data", "synth", "make a data folder of generated rooms", "grand3d synth rooms data/rooms --scenes 100 --seed 7"
    )
    shown = "rooms with questions, 3D-POPE's questions about given ones, or tables with instructions where to place things"
    sub.add_argument("kind", choices=["rooms", "pope", "tabletop"], help=shown)
    sub.add_argument("out", help="data folder to write")
    sub.add_argument("--scenes", type=_positive, default=100, help="number of rooms (default: 100)")
    sub.add_argument("--seed", type=int, default=0, help="the same seed gives the same rooms and texts (default: 0)")
    sub.add_argument("--questions", type=_positive, default=32, help="questions a room (default: 32)")
    shown = "share of the references that fit nothing or several things (default: 0)"
    shown_objects = "proposals of every room, 1 to 100 (default: 5 to 36, as real rooms have)"
    sub.add_argument("--objects", type=_positive, metavar="N", help=shown_objects)
    sub.add_argument("--none-or-several", type=_share, default=0.0, metavar="SHARE", help=shown)
    shown = "tabletop: instructions over all tables, half of them templated (default: 34 a table)"
    sub.add_argument("--instructions", type=_positive, metavar="N", help=shown)
    sub.add_argument("--of", metavar="SCENES", help="pope: a scenes file, graph or data folder")
    sub.add_argument(
        "--labels", metavar="FILE", help="pope: what may be asked for, a line each (default: all that the scenes hold)"
    )
    sub.add_argument("--force", action="store_true", help="write into a folder that holds something else")

    example = "grand3d convert pope data/pope --questions scannet200/ --proposals proposals.json"
    sub = command("data", "convert", "make a data folder of a published data set", example)
    sub.add_argument("--list", action="store_true", help="list the sources")
    sub.add_argument("source", nargs="?", help="which data set; grand3d convert SOURCE --help names its files")
    sub.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="OUT and the files of the source")

    _add_annotate(
        command(
            "annotate",
            "annotate",
            "write grounded texts about scenes, from templates or by a language model, and let through only what holds",
            "grand3d annotate data/rooms data/texts --kinds all --number 16",
        )
    )

    sub = command("review", "review", "let people check made texts", "grand3d review make data/texts review --number 50")
    for step in add_review(sub, SKIP_BAD):
        step.register("type", None, _not_empty)

    sub = command("data", "store", "make one store of data folders of any size", "grand3d store data/store data/rooms data/grand")
    sub.add_argument("out", help="folder to write; it must not be there yet")
    sub.add_argument("data", nargs="+", help="data folders, folders that export parquet wrote, or hub:OWNER/NAME")
    for name, shown in (("source", "where the data are from"), ("licence", "their licence"), ("version", "their version")):
        sub.add_argument(f"--{name}", help=f"{shown}, for the manifest")
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD)

    sub = command("data", "export", "write data in the form of another trainer", "grand3d export messages data/rooms rooms.jsonl")
    shown = (
        "messages (TRL, LLaMA-Factory: JSON lines), sharegpt (LLaVA: one JSON), grand3d (3D-GRAND's conversations and graphs), "
        "parquet (a store as Parquet files, for the hub and datasets)"
    )
    sub.add_argument("form", choices=["messages", "sharegpt", "grand3d", "parquet"], metavar="form", help=shown)
    sub.add_argument("data", help="data folder or store")
    sub.add_argument("out", help="file to write; parquet: folder, or hub:OWNER/NAME")
    sub.add_argument("--public", action="store_true", help="hub: a new data set is open to everybody (default: private)")
    sub.add_argument("--config", help="YAML whose prompt section decides how scenes and answers are written")
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD)

    sub = command("data", "check", "check a configuration, a scenes file or a data folder", "grand3d check configs/smollm2.yaml")
    sub.add_argument("what", help="a .yaml, a .jsonl of scenes, or a data folder")
    sub.add_argument("overrides", nargs="*", metavar="key=value", help="settings that replace those of the configuration")
    sub.add_argument("--all", action="store_true", help="list all faults, not the first of each kind")
    shown = "data that these must share no room with, such as those learnt from; a .yaml is looked at for that by itself"
    sub.add_argument("--against", metavar="DATA", help=shown)
    sub.add_argument("--rows", metavar="FILE", help="also write every row with a fault, whole, with its reasons, as JSON lines")

    sub = command(
        "data", "show", "print a sample as the model sees it, trained tokens in green", "grand3d show data/rooms --index 3"
    )
    sub.add_argument("data", help="data folder")
    sub.add_argument("--index", type=int, default=0, help="which sample, from 0 (default: 0)")
    either = sub.add_mutually_exclusive_group()
    either.add_argument("--base", help="whose tokenizer and chat template (default: smollm2)")
    either.add_argument("--config", help="take base and prompt settings from a configuration")

    sub = command(
        "models", "train", "train an adapter", "grand3d train configs/smollm2.yaml train.learning_rate=1e-4 --out runs/mine"
    )
    sub.add_argument("config", help="a .yaml; grand3d check CONFIG prints it with all defaults")
    sub.add_argument("overrides", nargs="*", metavar="key=value", default=[], help="settings that replace those of the file")
    sub.add_argument("--out", help="run folder (default: runs/<name of the configuration>)")
    sub.add_argument("--resume", metavar="latest|PATH", help="go on from the newest checkpoint, or from this one")
    sub.add_argument("--dry-run", action="store_true", help="check all that needs no weights and print what a step costs")
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD)

    sub = command(
        "models", "predict", "answer all questions of a data folder", "grand3d predict default data/rooms replies.jsonl"
    )
    sub.add_argument(
        "adapter", help="default (the shipped one), a run or adapter folder, base:NAME, openai:MODEL@URL, or vllm:FOLDER"
    )
    sub.add_argument("data", help="data folder")
    sub.add_argument("replies", help="replies file; one that an interrupted run left is completed")
    shown = "prompt settings in place of the adapter's own, such as prompt.top_k=100"
    sub.add_argument("overrides", nargs="*", metavar="prompt.key=value", default=[], help=shown)
    sub.add_argument("--limit", type=_positive, help="only the first samples (score then needs --missing=skip)")
    sub.add_argument("--scenes", type=_positive, help="only the first scenes")
    sub.add_argument("--batch-size", type=_positive, default=96, help="questions of a scene at a time (default: 96)")
    shown = "choose each answer among the scene's objects, or yes and no, by probability, which goes with the reply"
    sub.add_argument("--candidates", action="store_true", help=shown)
    shown = "take off so much of what the model says with all boxes dealt out anew (default: 0)"
    sub.add_argument("--contrast", type=float, default=0.0, metavar="WEIGHT", help=shown)
    shown = "ask with the objects listed in so many orders, and take what most of them say (default: 1)"
    sub.add_argument("--orders", type=_positive, default=1, metavar="N", help=shown)
    shown = "placements: a thing is put only where it has room on the table among the others"
    sub.add_argument("--free-places", action="store_true", help=shown)
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD)
    _add_reply_options(sub)

    sub = command(
        "scores", "score", "print the figures of a replies file", "grand3d score scanrefer data/scanrefer replies.jsonl"
    )
    sub.add_argument("bench", help=f"synth (every task of a data folder), {', '.join(BENCHMARKS)}")
    sub.add_argument("questions", help="data folder, or the benchmark's published file of questions")
    shown = "replies file: of predict, or in the benchmark's published form; several, such as seeds: their mean and spread"
    sub.add_argument("replies", nargs="+", help=shown)
    sub.add_argument("--missing", choices=["wrong", "skip"], help="what a sample without a reply is; without this it is refused")
    shown = "also the difference to these replies, sample by sample, with its interval"
    sub.add_argument("--against", metavar="REPLIES", help=shown)
    shown = "also rows by the language of the question: attributes, relations, anchors, negation ... as analyze finds them"
    sub.add_argument("--language", action="store_true", help=shown)
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--markdown", action="store_true", help="tables in Markdown")
    _add_files(sub)
    for name, shown in (
        ("rows", "referit3d: which rows count: all, referit3d, butd or univlg"),
        ("rule", "multi3drefer: m3dref (the official script's numbers), torchmetrics_ext or exact; referit3d: id or m3dref"),
        ("shares", "vigil3d: JSON {subgroup: its share in other data}, adds rows weighed by them"),
        ("judge", "beacon3d, mmscan_qa, mmscan_caption: a language model's judgements"),
        ("human", "mmscan_qa: people's judgements, to hold the language model's against"),
        ("poses", "sqa3d: where the asker was found, by question"),
        ("samples", "also write what each sample scored, as JSON lines"),
        ("html", "also write a page of plots, tables and the worst scenes, to open in a browser"),
    ):
        sub.add_argument(f"--{name}", metavar="NAME" if name in ("rows", "rule") else "FILE", help=shown)
    sub.add_argument(
        "--calibration", metavar="FILE", help="decide again by what calibrate wrote (replies of predict --candidates)"
    )
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD.replace("<output>", "<replies>.score"))

    sub = command(
        "scores",
        "leaderboard",
        "many models in one table, beside the published rows",
        "grand3d leaderboard ours.json theirs.json",
    )
    sub.add_argument(
        "reports", nargs="+", help="reports of one benchmark, as score --json prints them; a run is called by its file"
    )
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the table as JSON")
    form.add_argument("--markdown", action="store_true", help="tables in Markdown")
    sub.add_argument("--html", metavar="FILE", help="also write a page of it, to open in a browser")

    sub = command(
        "scores",
        "upload",
        "write replies in the form of a benchmark's own evaluator or server",
        "grand3d upload scanrefer data/scanrefer replies.jsonl pred.json --labels scannetv2-labels.combined.tsv",
    )
    sub.add_argument("bench", choices=list(BENCHMARKS), metavar="bench", help=", ".join(BENCHMARKS))
    sub.add_argument("questions", help="data folder, or the benchmark's published file of questions")
    sub.add_argument("replies", help="replies file, of predict")
    sub.add_argument("out", help="file to write; multi3drefer without .json at its end: a folder, a file a scene")
    _add_files(sub)
    sub.add_argument("--form", metavar="NAME", help="vigil3d: leaderboard (default) or paper")
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD)

    sub = command(
        "scores",
        "calibrate",
        "fit how far the probabilities of replies may be believed, on held-out data",
        "grand3d calibrate data/heldout chosen.jsonl calibration.json",
    )
    sub.add_argument("data", help="data folder, neither learnt from nor to be reported")
    sub.add_argument("replies", help="replies to it, of predict --candidates")
    sub.add_argument("out", help="file to write, for score --calibration")
    shown = "power of the detector's scores that chances are multiplied by; 1 takes them at their word (default: 0)"
    sub.add_argument("--score-weight", type=_weight, default=0.0, metavar="POWER", help=shown)

    sub = command(
        "language", "analyze", "say what the language of expressions is like", "grand3d analyze vigil3d_scannet.csv --labels"
    )
    shown = "data folder, CSV, JSON or JSON lines with texts in them, or a file with an expression a line; several are compared"
    sub.add_argument("texts", nargs="+", help=shown)
    sub.add_argument("--task", help="of a data folder, only the samples of this task")
    sub.add_argument("--labels", action="store_true", help="also precision and recall against the labels of ViGiL3D's file")
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--markdown", action="store_true", help="tables in Markdown")
    for name, shown in (
        ("csv", "also write a row an expression, with the columns of ViGiL3D's file"),
        ("parses", "also write what was understood of each expression, as JSON lines"),
        ("shares", "also write the shares of the patterns, for score vigil3d --shares"),
        ("html", "also write a page of plots, to open in a browser"),
    ):
        sub.add_argument(f"--{name}", metavar="FILE", help=shown)
    sub.add_argument("--skip-bad", action="store_true", help=SKIP_BAD.replace("<output>", "<texts>.analyze"))

    sub = command("models", "chat", "talk about a scene", "grand3d chat demo")
    sub.add_argument("scene", help="demo, a scenes.jsonl, a graph .json, or a data folder; PLACE:SCENE_ID names one")
    sub.add_argument("--adapter", default="default", help="as in predict (default: the shipped one)")
    sub.add_argument("--json", action="store_true", help="answers as JSON lines")
    shown = "earlier turns that the model sees with a question (default: 0, since adapters learn from single questions)"
    sub.add_argument("--turns", type=_not_negative, default=0, metavar="N", help=shown)
    _add_reply_options(sub)

    sub = command("models", "merge", "write base and adapter as one model folder", "grand3d merge runs/mine models/mine")
    sub.add_argument("adapter", help="default, a run or adapter folder")
    sub.add_argument("out", help="folder to write")
    return parser, commands.choices


def _add_annotate(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("scenes", help="a scenes file, graph or data folder; or rooms:N, so many made-up rooms with looks")
    sub.add_argument("out", help="data folder to write; one that an interrupted run left is gone on with")
    shown = "by commas: grand3d (eight kinds), mmscan (its hierarchy), all, or single ones (default: grand3d)"
    sub.add_argument("--kinds", default="grand3d", help=shown)
    sub.add_argument("--number", type=_positive, default=8, help="texts of each kind about a scene (default: 8)")
    sub.add_argument("--seed", type=int, default=0, help="the same seed gives the same texts (default: 0)")
    sub.add_argument("--processes", type=_positive, default=1, help="templates: processes of this machine (default: 1)")
    sub.add_argument(
        "--ray", metavar="ADDRESS", help="templates: share the scenes out over a Ray cluster; auto, local, or its address"
    )
    shown = "ask a language model of OpenAI's protocol; without it texts are made from templates"
    sub.add_argument("--server", metavar="MODEL@URL", help=shown)
    sub.add_argument("--images", metavar="FOLDER", help="server: looks of objects from SCENE_ID/OBJECT_ID*.png, asked first")
    sub.add_argument("--dry-run", action="store_true", help="server: say what would be asked and cost, ask nothing")
    shown = "server: US dollars for a million tokens read, and written, for the estimate and the count"
    sub.add_argument("--price", type=_price, default=(0.0, 0.0), metavar="READ,WRITTEN", help=shown)
    sub.add_argument("--budget", type=_weight, metavar="DOLLARS", help="server: stop once this run has spent so much")
    sub.add_argument("--per-minute", type=_positive, metavar="N", help="server: requests a minute at most")
    sub.add_argument("--parallel", type=_positive, default=8, metavar="N", help="server: requests on their way (default: 8)")
    sub.add_argument("--max-tokens", type=_positive, default=1024, help="server: an answer is cut here (default: 1024)")
    sub.add_argument("--temperature", type=float, default=0.7, help="server: of the draw (default: 0.7)")
    shown = "server: how long a request waits for one that is busy or away (default: 600)"
    sub.add_argument("--patience", type=_positive, default=600, metavar="SECONDS", help=shown)
    sub.add_argument("--force", action="store_true", help="begin anew in a folder that holds something else")


def _price(text: str) -> tuple[float, float]:
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        read = written = -1.0
    if not (0 <= read < 1e6 and 0 <= written < 1e6):
        raise argparse.ArgumentTypeError(f"{text!r} is no price, expected two numbers such as 0.15,0.60")
    return read, written


def _add_files(sub: argparse.ArgumentParser) -> None:
    """Further files of a benchmark's questions."""
    for name, shown in (
        ("labels", "scanrefer: ScanNet's label table (TSV), for rows by the official unique/multiple rule"),
        ("truth", "graph of the true objects, where the questions are a published file"),
        ("proposals", "graph of a detector's proposals, likewise"),
        ("ids", "scanrefer: {scene: {ScanNet object id: obj_k}}, likewise"),
        ("annotations", "sqa3d: the file of answers, likewise"),
        ("scenes", "reref3d: scene files of CLEVR, likewise"),
        ("split", "mmscan_qa: train, val or test, where the questions hold all of them (default: val)"),
    ):
        sub.add_argument(f"--{name}", metavar="NAME" if name == "split" else "FILE", help=shown)


def _add_reply_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--max-new-tokens", type=_positive, default=256, help="a reply is cut here (default: 256)")
    sub.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token, always (default: 0)")
    sub.add_argument("--top-p", type=float, help="draw from the likeliest tokens of this probability (default: 1)")
    sub.add_argument("--seed", type=int, help="of the draw (default: 0)")
    shown = "let the model write what it likes; without this every reply follows the grammar of docs/markup.md"
    sub.add_argument("--unconstrained", action="store_true", help=shown)
    sub.add_argument("--dtype", choices=["fp32", "bf16", "fp16"], default="fp32", help="number format (default: fp32)")


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a power, expected a number from 0 to 100")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, expected a number from 0 to 1")
    return value


def _not_empty(text: str) -> str:
    """Refuse what a shell makes of a variable that is not set, as in ``--out "$OUT"``: as a path it would mean this folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty, expected a name; is a shell variable not set?")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is not 0 or more")
    return number


_positive.__name__ = _not_negative.__name__ = "whole number"  # argparse names the type in its message
