"""Make a store with many processes or machines: `grand3d store`, its reading and checking of rows done by a Ray Data job.

    python launch/ray_convert.py OUT DATA [DATA ...]                    (all cores of this machine)
    python launch/ray_convert.py OUT DATA --address auto                (the cluster this machine belongs to)

Files are cut at line ends into pieces, which workers read by themselves, so every machine must see the files under the same
paths; a gzip file is one piece. Pieces come back in the order of the file, and one process joins, sorts and writes as
`grand3d store` does: rows, order, rejected rows and checksums are the same, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grand3d.commands.common import keeping, say  # noqa: E402
from grand3d.errors import GrandError, import_extra, place  # noqa: E402
from grand3d.files import GZIP, Rejects, opened, parse_lines  # noqa: E402
from grand3d.sample import sample_from_dict  # noqa: E402
from grand3d.scene import scene_from_dict  # noqa: E402
from grand3d.store import Source, build  # noqa: E402

BLANK = b"\r\n\t \xef\xbb\xbf"
PARSERS: dict[str, Callable[[Any], Any]] = {"scenes": scene_from_dict, "samples": sample_from_dict, "truth": scene_from_dict}


def pieces(path: Path, size: int) -> list[dict[str, Any]]:
    """Where the pieces of a file begin and end, and the number of the first line of each.

    Args:
        size: Bytes of a piece, which goes on to the end of its last line.
    """
    with opened(path):  # refuses what cannot be read at all
        pass
    found, start, line = [], 0, 1
    with open(path, "rb") as file:
        if file.read(2) == GZIP:
            return [{"path": str(path), "start": 0, "bytes": -1, "line": 1}]
        file.seek(0)
        while block := file.read(size):
            block += file.readline() if not block.endswith(b"\n") else b""
            # the first row of a file tells whether it is JSON lines at all, so it is in the first piece
            while not found and not block.strip(BLANK) and (more := file.readline()):
                block += more
            found.append({"path": str(path), "start": start, "bytes": len(block), "line": line})
            start, line = start + len(block), line + block.count(b"\n")
    return found


def read_piece(piece: dict[str, Any], kind: str) -> dict[str, bytes]:
    """The rows of a piece, those refused, and the error that ends the file if there is one; packed by this program for itself."""
    rejects, rows, error = Rejects(skip_bad=True), [], None
    try:
        with opened(Path(piece["path"])) as file:
            lines = file
            if piece["bytes"] >= 0:
                file.seek(piece["start"])
                lines = BytesIO(file.read(piece["bytes"]))
            for where, value in parse_lines(lines, piece["path"], PARSERS[kind], rejects, piece["line"]):
                # the number of rows refused before this one, so that refusals come back in their order too
                rows.append((len(rejects.rows), where, value))
    except GrandError as found:
        error = (str(found), found.cause)
    return {"packed": pickle.dumps((rows, rejects.rows, error))}


def ray_source(folder: Path, size: int) -> Source:
    """A data folder whose rows are read by Ray's workers."""

    def reader(kind: str) -> Callable[[Rejects], Iterator[tuple[str, Any]]]:
        return lambda rejects: _rows(folder / f"{kind}.jsonl", kind, size, rejects)

    if not (folder / "samples.jsonl").exists():
        raise GrandError(f"{place(folder)}: holds no samples.jsonl, expected a data folder")
    truth = reader("truth") if (folder / "truth.jsonl").exists() else None
    return Source(folder, reader("scenes"), reader("samples"), truth)


def _rows(path: Path, kind: str, size: int, rejects: Rejects) -> Iterator[tuple[str, Any]]:
    ray_data = import_extra("ray.data", "ray")
    found = pieces(path.absolute(), size)
    if not found:
        return
    job = ray_data.from_items(found, override_num_blocks=len(found)).map(read_piece, fn_args=(kind,))
    for piece in job.iter_rows():
        rows, refused, error = pickle.loads(piece["packed"])
        done = 0
        for before, where, value in [*rows, (len(refused), "", None)]:
            for row in refused[done:before]:
                rejects.add(_here(row["where"], path), _here(row["reason"], path), row["row"], row["cause"])
            done = before
            if where:
                yield _here(where, path), value
        if error is not None:
            raise GrandError(_here(error[0], path), error[1])


def _here(text: str, path: Path) -> str:
    """A message with the path as the user wrote it; workers know the absolute one."""
    return text.replace(place(path.absolute()), place(path))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("out", help="folder to write; it must not be there yet")
    parser.add_argument("data", nargs="+", help="data folders")
    for name, shown in (("source", "where the data are from"), ("licence", "their licence"), ("version", "their version")):
        parser.add_argument(f"--{name}", help=f"{shown}, for the manifest")
    parser.add_argument("--skip-bad", action="store_true", help="leave out, count and keep broken rows")
    parser.add_argument("--address", help="cluster to use, such as auto (default: one of this machine's own)")
    parser.add_argument("--workers", type=int, help="processes of a cluster of its own (default: all cores)")
    parser.add_argument("--piece-mb", type=float, default=8.0, help="size of a piece (default: 8)")
    options = parser.parse_args()
    try:
        if options.address and options.workers is not None:
            raise GrandError("--workers is for a cluster of this machine's own, expected none beside --address")
        if not 0 < options.piece_mb <= 1024 or (options.workers is not None and options.workers < 1):
            raise GrandError("--piece-mb or --workers is out of range, expected 0 to 1024, and 1 or more")
        ray = import_extra("ray", "ray")
        import_extra("ray.data", "ray")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {} if options.address else {"num_cpus": options.workers, "include_dashboard": False}
        ray.init(address=options.address, log_to_driver=False, logging_level="error", **own)
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        about = {name: getattr(options, name) for name in ("source", "licence", "version") if getattr(options, name)}
        rejects = Rejects(options.skip_bad)
        size = max(1, int(options.piece_mb * 2**20))
        with keeping(rejects, options.out):
            manifest = build(options.out, [ray_source(Path(path), size) for path in options.data], about, rejects)
        say(f"{options.out}: {', '.join(f'{number} {name}' for name, number in manifest['counts'].items())}")
    except GrandError as error:
        say(f"error: {error}")
        return 2
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
