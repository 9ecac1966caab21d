"""Replies of a model to the questions of a data folder, and figures from replies. Scoring needs no model and no torch."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from grand3d.bench import BENCHMARKS
from grand3d.config import PromptConfig, to_dict
from grand3d.errors import GrandError, import_extra, place, shown, unusable
from grand3d.files import Rejects, read_json, write_json
from grand3d.sample import Data, Reply, Sample, load_replies, reply_to_dict, sample_to_dict
from grand3d.scene import scene_to_dict

if TYPE_CHECKING:
    from grand3d.generate import Decoding

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BASE = "base:"
HELDOUT_TOKENS = 160  # synthetic answers have at most about 120


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a run of ``predict`` did.

    Attributes:
        num_new: Replies written now.
        num_kept: Replies to the samples asked for that an earlier run had written.
        num_unfinished: New replies that the token limit cut.
        num_dropped: Objects that top_k or the token budget kept out of the prompts, summed over the scenes read now.
    """

    num_new: int
    num_kept: int
    num_unfinished: int
    num_dropped: int


def load_model(name: str, dtype: str = "fp32") -> tuple[Any, Any, PromptConfig]:
    """A model to ask, its tokenizer and prompt settings, on the GPU where there is one.

    Args:
        name: ``default``, an adapter or run folder, or ``base:NAME`` for an untrained base with the default prompt.

    Raises:
        GrandError: If it cannot be loaded.
    """
    torch = import_extra("torch", "train")
    import_extra("transformers", "train")
    from grand3d.model import load_adapter, load_base

    if name.startswith(BASE):
        model, tokenizer = load_base(name.removeprefix(BASE), dtype)
        prompt = PromptConfig()
    else:
        model, tokenizer, prompt = load_adapter(name, dtype=dtype)
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer, prompt


def predict(
    adapter: str,
    data: Data,
    out: str | Path,
    decoding: Decoding | None = None,
    dtype: str = "fp32",
    num_scenes: int | None = None,
    num_samples: int | None = None,
    rejects: Rejects | None = None,
) -> Predicted:
    """Write one reply for each sample of the data to a replies file; an interrupted run goes on where it stopped.

    Beside the file lies ``<out>.run.json``, which says what made it. A half-written last line is cut off and done again.

    Args:
        adapter: See ``load_model``.
        decoding: How the replies are made; None for the defaults.
        num_scenes: Ask only about the first scenes that samples name; a later run may go on with the rest.
        num_samples: Ask only the first samples (of those scenes).
        rejects: Where samples go that cannot be asked, such as a question longer than the context. None raises.

    Raises:
        GrandError: If the file holds replies of another model, of other settings or to other data, or another run is writing
            to it; or see ``rejects``.
    """
    from grand3d.generate import Decoding, ask, prompt_limit

    out = Path(out)
    if os.path.isdir(out):  # said before the model is loaded
        raise GrandError(f"{place(out)}: is a folder, expected the name of a replies file")
    model, tokenizer, prompt = load_model(adapter, dtype)
    decoding = decoding or Decoding()
    prompt_limit(model, prompt.max_tokens, decoding.max_new_tokens)  # before there is a file
    about = {
        "adapter": adapter,
        "weights": _weights_hash(model),
        "data": data_hash(data),
        "prompt": to_dict(prompt),
        "dtype": dtype,
    } | {key: value for key, value in asdict(decoding).items() if key != "batch_size"}
    wanted = _first(data.samples, num_scenes, num_samples)
    num_new = num_unfinished = 0
    dropped: dict[str, int] = {}
    with _only_writer(out) as write:
        done = _resume(out, about, data)
        samples = [sample for sample in wanted if sample.sample_id not in done]
        progress = _progress(len(wanted), len(wanted) - len(samples))
        try:
            for reply in ask(model, tokenizer, prompt, data, samples, decoding, rejects):
                write(reply)
                progress(1)
                num_new += 1
                num_unfinished += not reply.finished
                dropped[reply.scene_id] = reply.num_dropped
        finally:
            progress(0)
    return Predicted(num_new, len(wanted) - len(samples), num_unfinished, sum(dropped.values()))


@contextlib.contextmanager
def _only_writer(out: Path) -> Iterator[Callable[[Reply], None]]:
    """Puts replies at the end of the file, each at once, while a second run is kept out of it."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = open(out, "a", encoding="utf-8", newline="\n")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise unusable(out, error, "written") from None

    def write(reply: Reply) -> None:
        try:
            file.write(json.dumps(reply_to_dict(reply), ensure_ascii=False) + "\n")
            file.flush()
        except OSError as error:
            raise unusable(out, error, "written") from None

    try:
        _lock(file, out)
        yield write
    finally:
        try:
            file.close()
        except OSError as error:
            raise unusable(out, error, "written") from None


def _lock(file: IO[str], out: Path) -> None:
    reason = "this system has no locks"
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            raise GrandError(f"{place(out)}: another run is writing to it; wait for its end, or give another file") from None
        except OSError as error:  # some network file systems have no locks; a single run is still fine there
            reason = error.strerror or str(error)
    warnings.warn(f"{place(out)}: cannot be locked ({reason}); see to it that no second run writes to it", stacklevel=2)


def _first(samples: Sequence[Sample], num_scenes: int | None, num_samples: int | None) -> list[Sample]:
    scenes = set(list(dict.fromkeys(sample.scene_id for sample in samples))[:num_scenes])
    return [sample for sample in samples if sample.scene_id in scenes][:num_samples]


def score(bench: str, data: Data, replies: Sequence[Reply], missing: str | None = None, **options: Any) -> dict[str, Any]:
    """The report of a benchmark on replies.

    Args:
        bench: ``synth`` (every task in the data, see ``figures``) or a key of ``bench.BENCHMARKS``.
        missing: ``wrong`` or ``skip`` for samples without a reply; None refuses them.
        options: What the benchmark's own ``score`` takes beside these.

    Raises:
        GrandError: If the benchmark is unknown, or data and replies do not fit together.
    """
    known = {"synth": "grand3d.figures"} | BENCHMARKS
    if bench not in known:
        raise GrandError(f"benchmark {shown(bench)} is unknown, expected one of {', '.join(known)}")
    return importlib.import_module(known[bench]).score(data, replies, missing, **options)


def heldout(model: Any, tokenizer: Any, data: Data, prompt: PromptConfig, rejects: Rejects | None = None) -> dict[str, Any]:
    """Figures of a model on held-out data, in percent, for the log of a training run.

    Args:
        rejects: Where samples go that cannot be asked; they are left out of the figures. None raises.

    Returns:
        ``n``; ``parsed``, the share of replies that could be read; and one figure for each task there is.
    """
    from grand3d.generate import Decoding, ask

    decoding = Decoding(HELDOUT_TOKENS, constrained=False)  # whether replies can be read is among what is learnt
    replies = list(ask(model, tokenizer, prompt, data, data.samples, decoding, rejects))
    if not replies:  # the training goes on
        return {"n": 0, "parsed": 0.0}
    report = score("synth", data, replies, "skip" if rejects is not None and rejects.skip_bad else None)
    counts = report["counts"]
    figures: dict[str, Any] = {"n": counts["n"], "parsed": 100 * counts["parsed"] / max(1, counts["n"])}
    for row in report["rows"]:
        figures |= {f"{row['name']}_{key}": row[key] for key in ("accuracy", "acc25") if row.get(key) is not None}
    return figures


def data_hash(data: Data) -> str:
    """A short hash of scenes and samples, the same wherever the folder lies."""
    digest = hashlib.sha256()
    for scene in data.scenes.values():
        digest.update(json.dumps(scene_to_dict(scene), sort_keys=True).encode())
    for sample in data.samples:
        digest.update(json.dumps(sample_to_dict(sample), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _weights_hash(model: Any) -> str:
    """A short hash of the first numbers of every weight: tells models apart, not every single number of them."""
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        digest.update(name.encode() + weight.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _resume(out: Path, about: dict[str, Any], data: Data) -> set[str]:
    """Sample ids that have a reply already; a half-written last line is cut off."""
    if out.exists() and not out.is_file():  # reading a device might never end
        raise GrandError(f"{out}: is a {'folder' if out.is_dir() else 'device or pipe'}, expected a file for the replies")
    note = _note(out)
    if out.exists() and out.stat().st_size:
        if not note.exists():
            raise GrandError(f"{out}: holds something, and no {note.name} beside it says what wrote it; give another file")
        before = _read_note(note)
        changed = [
            f"{key} was {shown(before.get(key))}, is {shown(value)}"
            for key, value in about.items()
            if before.get(key) != value and key != "adapter"  # the weights say which it was, wherever its folder lies now
        ]
        if changed:
            raise GrandError(f"{out}: holds replies of another run ({'; '.join(changed)}); give another file")
        _cut_last_line(out)
    else:
        write_json(note, about)
    done = {reply.sample_id for reply in load_replies(out)} if out.exists() else set()
    strangers = done - {sample.sample_id for sample in data.samples}
    if strangers:
        raise GrandError(f"{out}: {len(strangers)} replies are to samples that the data do not hold (first: {min(strangers)})")
    return done


def refuse_stale(replies: str | Path, data: Data) -> None:
    """Refuse replies that were made for other data. Where no ``<replies>.run.json`` says what they were made for, as beside
    those of other programs, nothing is refused.

    Args:
        data: As ``predict`` would be given them.

    Raises:
        GrandError: If the note names other data, or says nothing.
    """
    note = _note(replies)
    if not note.exists():
        return
    made_for, now = _read_note(note).get("data"), data_hash(data)
    if made_for != now:
        raise GrandError(
            f"{place(replies)}: the replies were made for other data: {note.name} says {shown(made_for)}, these data are "
            f"{shown(now)}, expected the same. Were the data made anew or changed? Run predict again into another file; to "
            f"score these replies all the same, move {note.name} away"
        )


def _note(replies: str | Path) -> Path:
    """The file that says what made replies."""
    return Path(f"{replies}.run.json")


def _read_note(note: Path) -> dict[str, Any]:
    about = read_json(note)
    if not isinstance(about, dict):
        raise GrandError(
            f"{place(note)}: holds {shown(about)}, expected the JSON object that predict writes beside its replies; "
            "give another replies file"
        )
    return about


def _cut_last_line(path: Path) -> None:
    with open(path, "rb+") as file:
        raw = file.read()
        whole = raw.rfind(b"\n") + 1
        if not raw.startswith(b"{") or (not whole and b"\r" in raw):  # packed, or other line ends: not ours to cut
            raise GrandError(f"{path}: does not begin with a line of JSON; left as it is. Unpack it or name another file")
        file.truncate(whole)


def _progress(total: int, done: int) -> Callable[[int], None]:
    """Call it with 1 for each reply and with 0 at the end: a bar on a terminal, else a line every half minute."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=total, initial=done, unit=" replies", dynamic_ncols=True)
        return lambda num: bar.update(num) if num else bar.close()
    start = last = time.monotonic()
    count = 0

    def step(num: int) -> None:
        nonlocal last, count
        count += num
        now = time.monotonic()
        if count and (now - last >= 30 or not num):
            last = now
            rate = count / max(now - start, 1e-9)
            print(f"{done + count} of {total} replies, {rate:.1f} a second", file=sys.stderr, flush=True)

    return step
