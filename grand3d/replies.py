"""The file a run of predict writes replies to: one line a reply, one run at a time, whole after any interruption.

Beside it lies ``<file>.run.json``, which says what made the replies. Processes that run together each write to a file of their
own, ``<file>.<number>.part``; the parts are joined at the end, or by the next run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from grand3d.errors import GrandError, place, shown, unusable, writing
from grand3d.files import read_json, write_json
from grand3d.sample import Data, Reply, load_replies, reply_to_dict, sample_to_dict
from grand3d.scene import scene_to_dict

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def only_writer(out: Path) -> Iterator[Callable[[Reply], None]]:
    """Puts replies at the end of the file, as ``appending`` does with rows."""
    with appending(out) as write:
        yield lambda reply: write(reply_to_dict(reply))


@contextlib.contextmanager
def appending(out: Path, sync: bool = False) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Puts JSON lines at the end of a file, each at once, while a second run is kept out of it.

    Args:
        sync: Each is on the disk before the next: it outlives a power cut, not only the end of the process.

    Raises:
        GrandError: If the file cannot be written, or another run is writing to it.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = open(out, "a", encoding="utf-8", newline="\n")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise unusable(out, error, "written") from None

    def write(row: dict[str, Any]) -> None:
        try:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            if sync:
                os.fsync(file.fileno())
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


def _lock(file: IO[Any], out: Path) -> None:
    reason = "this system has no locks"
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            raise GrandError(
                f"{place(out)}: another run is writing to it, expected one at a time; wait for its end, or give another file"
            ) from None
        except OSError as error:  # some network file systems have no locks; a single run is still fine there
            reason = error.strerror or str(error)
    warnings.warn(f"{place(out)}: cannot be locked ({reason}); see to it that no second run writes to it", stacklevel=2)


def resume(out: Path, about: dict[str, Any], data: Data) -> set[str]:
    """Sample ids that have a reply already; what an interrupted run left in parts is joined, half-written lines are cut off.

    Args:
        about: What makes the replies: the file's note, or to be compared with it.

    Raises:
        GrandError: If the file holds replies of another run or of other data, or something else.
    """
    note, parts = _note(out), parts_of(out)
    if parts or (out.exists() and out.stat().st_size):
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
        if out.exists() and out.stat().st_size:
            cut_last_line(out)
    else:
        write_json(note, about)
    join(out)
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
    parts = parts_of(Path(replies))
    if parts:
        raise GrandError(
            f"{place(replies)}: beside it lies {parts[0].name}, so several processes were stopped while they answered; expected "
            "the replies whole: run predict again, which joins the parts and answers the rest"
        )
    note = _note(replies)
    if not note.exists():
        return
    about = _read_note(note)
    if not isinstance(about.get("data"), str):
        raise GrandError(
            f"{place(note)}: does not say which data the replies were made for, expected the key data; is it damaged? To score "
            "these replies all the same, move it away"
        )
    made_for, now = about["data"], data_hash(data)
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


def cut_last_line(path: Path) -> None:
    with open(path, "rb+") as file:
        raw = file.read()
        whole = raw.rfind(b"\n") + 1
        if not raw.startswith(b"{") or (not whole and b"\r" in raw):  # packed, or other line ends: not ours to cut
            raise GrandError(f"{path}: does not begin with a line of JSON; left as it is. Unpack it or name another file")
        file.truncate(whole)


def data_hash(data: Data) -> str:
    """A short hash of scenes and samples, the same wherever the folder lies."""
    digest = hashlib.sha256()
    for scene in data.scenes.values():
        digest.update(json.dumps(scene_to_dict(scene), sort_keys=True).encode())
    for sample in data.samples:
        digest.update(json.dumps(sample_to_dict(sample), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def refuse_no_file(out: Path) -> None:
    """Refuse what replies cannot be kept in; opening a pipe, or reading a device, might never end.

    Raises:
        GrandError: For a folder, a device or a pipe.
    """
    if os.path.exists(out) and not os.path.isfile(out):
        raise GrandError(f"{place(out)}: is a {'folder' if out.is_dir() else 'device or pipe'}, expected a file for the replies")


def part_of(out: Path, number: int) -> Path:
    """The file of one of several processes."""
    return out.with_name(f"{out.name}.{number}.part")


def join(out: Path) -> None:
    """Move the replies of all parts to the end of the file; those that are there already, from a join that was interrupted, stay
    once.
    """
    parts = parts_of(out)
    if not parts:
        return
    done = {reply.sample_id for reply in load_replies(out)} if out.exists() and out.stat().st_size else set()
    with writing(out):
        with open(out, "a", encoding="utf-8", newline="\n") as file:
            for path in parts:
                with open(path, "rb") as part:
                    _lock(part, path)  # where only some of the processes were killed, the others still write
                if path.stat().st_size:
                    cut_last_line(path)
                for reply in load_replies(path) if path.stat().st_size else ():
                    if reply.sample_id not in done:
                        done.add(reply.sample_id)
                        file.write(json.dumps(reply_to_dict(reply), ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        for path in parts:
            path.unlink()


def parts_of(out: Path) -> list[Path]:
    """The parts that lie beside a replies file."""
    pattern = re.compile(re.escape(out.name) + r"\.[0-9]+\.part")
    return sorted(path for path in out.parent.glob("*.part") if pattern.fullmatch(path.name))
