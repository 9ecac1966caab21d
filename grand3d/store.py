"""Data of any size on disk: Arrow files sorted by scene, mapped into memory, with a manifest that says what they are.

A store is a folder of ``scenes.arrow``, ``samples.arrow``, ``truth.arrow`` where the data have true objects apart, and
``manifest.json``. ``open_data`` opens it wherever a data folder is taken: nothing is read before it is asked for, and processes
and workers share the pages. The Arrow files are streams that ``datasets.Dataset.from_file`` reads too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np

from grand3d import __version__
from grand3d.errors import GrandError, import_extra, place, shown
from grand3d.files import Rejects, read_json, read_numbered, write_json
from grand3d.folders import made_beside
from grand3d.jsons import decode
from grand3d.sample import Data, Sample, load_data, sample_from_dict, sample_to_dict
from grand3d.scene import Scene, scene_from_dict, scene_to_dict
from grand3d.sorting import Rows, Sorter

MANIFEST = "manifest.json"
FORMAT = 1
SCENES = {"scene_id": "text", "first_sample": "int", "num_samples": "int", "scene": "text"}
SAMPLES = {
    **{"sample_id": "text", "scene_id": "text", "task": "text", "text": "text", "answer": "text"},
    **{"target_ids": "texts", "viewpoint": "numbers", "meta": "text"},
}

Pairs = Iterator[tuple[str, Any]]
"""Rows with their places, as ``files.read_numbered`` gives them."""


@dataclass(frozen=True)
class Source:
    """Data to be stored, read once, row by row; ``truth`` is None where targets are ids of ``scenes``."""

    path: Path
    scenes: Callable[[Rejects], Iterator[tuple[str, Scene]]]
    samples: Callable[[Rejects], Iterator[tuple[str, Sample]]]
    truth: Callable[[Rejects], Iterator[tuple[str, Scene]]] | None = None


def folder_source(path: str | Path) -> Source:
    """A data folder of JSON lines, or a folder of Parquet files that ``write_parquet`` wrote."""
    path = Path(path)
    if (path / "samples.jsonl").exists():
        make: Callable[[str, Any], Any] = lambda name, parse: lambda rejects: read_numbered(path / name, parse, rejects)  # noqa: E731
        truth = make("truth.jsonl", scene_from_dict) if (path / "truth.jsonl").exists() else None
        return Source(path, make("scenes.jsonl", scene_from_dict), make("samples.jsonl", sample_from_dict), truth)
    if any(path.glob("samples-*.parquet")):
        from_parquet: Callable[[str, Any], Any] = lambda name, parse: lambda rejects: _parquet(path, name, parse, rejects)  # noqa: E731
        truth = from_parquet("truth", _scene_of_row) if any(path.glob("truth-*.parquet")) else None
        return Source(path, from_parquet("scenes", _scene_of_row), from_parquet("samples", _sample_of_row), truth)
    what = "no such folder" if not os.path.isdir(path) else "holds neither samples.jsonl nor samples-*.parquet"
    raise GrandError(f"{place(path)}: {what}, expected a data folder or one that export parquet wrote")


def build(
    out: str | Path, sources: Sequence[Source], about: Mapping[str, str] | None = None, rejects: Rejects | None = None
) -> dict[str, Any]:
    """Write a store; what is at ``out`` must not be there yet.

    Time is linear in the rows and memory bounded, whatever their number: of each sample a hash of its id is held, of each scene
    its object ids.

    Args:
        sources: One or several, of which scenes of equal id must be equal.
        about: ``source``, ``licence``, ``version``: kept in the manifest.
        rejects: Collects broken rows, second ids, and samples whose scene or target is not there.

    Returns:
        The manifest.

    Raises:
        GrandError: For such a row without ``rejects``; if nothing is left; if ``out`` is there; for sources of which only some
            have true objects apart.
    """
    out, rejects = Path(out), rejects if rejects is not None else Rejects()
    if os.path.lexists(out):
        raise GrandError(f"{place(out)}: is there already, expected a new name; a store is never changed")
    apart = {source.truth is not None for source in sources}
    if len(apart) != 1:
        raise GrandError("some sources have true objects apart (truth.jsonl) and some do not, expected all or none")
    with made_beside(out) as folder:
        ids: dict[str, tuple[str, ...]] = {}
        scenes = _sort_scenes(folder, "scenes", [source.scenes for source in sources], ids, rejects)
        shown_ids = ids
        truth = None
        if apart == {True}:
            ids = {}
            truth = _sort_scenes(folder, "truth", [source.truth for source in sources if source.truth], ids, rejects)
        samples, tasks = _sort_samples(folder, sources, shown_ids, ids, rejects)
        if not samples:
            raise GrandError(f"{place(sources[0].path)}: no sample is left, expected at least one", "no samples")
        counted = samples.finish(folder / "samples.arrow")
        _finish_scenes(folder, "scenes", scenes, counted)
        if truth is not None:
            _finish_scenes(folder, "truth", truth, counted)
        files = [f"{name}.arrow" for name in ("scenes", "samples", "truth") if (folder / f"{name}.arrow").exists()]
        manifest = {
            "format": FORMAT,
            "made_by": f"grand3d {__version__}",
            **dict(about or {}),
            "from": [str(source.path) for source in sources],
            "counts": {"scenes": len(shown_ids), "samples": sum(counted.values()), "rejected": len(rejects.rows), **dict(tasks)},
            "sha256": {name: _checksum(folder / name) for name in files},
        }
        write_json(folder / MANIFEST, manifest)
    return manifest


def _sort_scenes(
    folder: Path, name: str, readers: Sequence[Callable[[Rejects], Any]], ids: dict[str, tuple[str, ...]], rejects: Rejects
) -> Sorter:
    sorter, texts = Sorter(folder, name, SCENES), {}
    for reader in readers:
        for where, scene in reader(rejects):
            text = json.dumps(scene_to_dict(scene), ensure_ascii=False)
            digest = _digest(text)
            if scene.scene_id in ids:
                if texts[scene.scene_id] != digest:
                    reason = (
                        f"scene {shown(scene.scene_id)} occurs twice and differs, expected one scene of that id; the first counts"
                    )
                    rejects.add(where, reason, scene_to_dict(scene), "id twice")
                continue
            ids[scene.scene_id], texts[scene.scene_id] = scene.object_ids, digest
            sorter.add(scene.scene_id, (scene.scene_id, 0, 0, text))
    return sorter


def _sort_samples(
    folder: Path,
    sources: Sequence[Source],
    shown_ids: Mapping[str, tuple[str, ...]],
    ids: Mapping[str, tuple[str, ...]],
    rejects: Rejects,
) -> tuple[Sorter, Counter[str]]:
    sorter, seen, tasks = Sorter(folder, "samples", SAMPLES), set[bytes](), Counter[str]()
    for source in sources:
        for where, sample in source.samples(rejects):
            absent = [item for item in sample.target_ids if item not in ids.get(sample.scene_id, ())]
            name = f"sample {shown(sample.sample_id)}"
            if sample.scene_id not in shown_ids or sample.scene_id not in ids:
                reason = f"{name}: unknown scene: {shown(sample.scene_id)}, expected one of the {len(shown_ids)} that are stored"
                rejects.add(where, reason, sample_to_dict(sample), "unknown scene")
            elif absent:
                reason = f"{name}: unknown target: {absent[:3]}, expected ids of scene {shown(sample.scene_id)}"
                rejects.add(where, reason, sample_to_dict(sample), "unknown target")
            elif (digest := _digest(sample.sample_id)) in seen:
                reason = f"{name} occurs twice, expected each id once; the first one counts"
                rejects.add(where, reason, sample_to_dict(sample), "id twice")
            else:
                seen.add(digest)
                tasks[sample.task] += 1
                sorter.add(sample.scene_id, _sample_row(sample))
    return sorter, tasks


def _finish_scenes(folder: Path, name: str, sorter: Sorter, counted: Mapping[str, int]) -> None:
    """Write the scenes, each with the place of its samples."""
    import_extra("pyarrow", "train")
    beside = folder / f"{name}.sorted"
    sorter.finish(beside)
    starts = dict(zip(counted, np.cumsum([0, *counted.values()]).tolist(), strict=False))
    again = Sorter(folder, f"{name}.placed", SCENES)
    for scene_id, _, _, text in Rows(beside).rows():
        again.add(scene_id, (scene_id, starts.get(scene_id, 0), counted.get(scene_id, 0), text))
    again.finish(folder / f"{name}.arrow")
    beside.unlink()


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _sample_row(sample: Sample) -> tuple[Any, ...]:
    view = None if sample.viewpoint is None else [*sample.viewpoint[0], *sample.viewpoint[1]]
    meta = json.dumps(dict(sample.meta), ensure_ascii=False) if sample.meta else ""
    return sample.sample_id, sample.scene_id, sample.task, sample.text, sample.answer, list(sample.target_ids), view, meta


def _stored_sample(row: Sequence[Any]) -> Sample:
    sample_id, scene_id, task, text, answer, targets, view, meta = row
    viewpoint = None if view is None else (tuple(view[:3]), tuple(view[3:]))
    return Sample(sample_id, scene_id, task, text, answer, tuple(targets), viewpoint, json.loads(meta) if meta else {})


def _sample_of_row(row: dict[str, Any]) -> Sample:
    return sample_from_dict(sample_to_dict(_stored_sample([row[name] for name in SAMPLES])))


def _scene_of_row(row: dict[str, Any]) -> Scene:
    return scene_from_dict(decode(row["scene"]))


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class StoredSamples(Sequence[Sample]):
    """The samples of a store, sorted by scene; each is read when it is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Sample, ...]: ...

    def __getitem__(self, index: int | slice) -> Sample | tuple[Sample, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return _stored_sample(self._rows.row(index % len(self)))

    def __iter__(self) -> Iterator[Sample]:
        return map(_stored_sample, self._rows.rows())

    def scenes_and_tasks(self) -> Iterator[tuple[str, str]]:
        """The scene and the task of each sample, without reading the rest of it."""
        columns = (self._rows.table.column(name).chunks for name in ("scene_id", "task"))
        for scenes, tasks in zip(*columns, strict=True):
            yield from zip(scenes.to_pylist(), tasks.to_pylist(), strict=True)


class StoredScenes(Mapping[str, Scene]):
    """The scenes of a store by id; the last ones read are kept."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._index = {name: k for k, name in enumerate(rows.table.column("scene_id").to_pylist())}
        self._read = lru_cache(maxsize=256)(lambda index: scene_from_dict(json.loads(self._rows.row(index)[3])))

    def __getitem__(self, scene_id: str) -> Scene:
        return self._read(self._index[scene_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def samples_of(self, scene_id: str) -> range:
        """The numbers of a scene's samples."""
        _, first, count, _ = self._rows.row(self._index[scene_id])
        return range(first, first + count)


def is_store(path: str | Path) -> bool:
    return (Path(path) / MANIFEST).is_file() and (Path(path) / "samples.arrow").is_file()


def is_data(path: str | Path) -> bool:
    """Whether there is a data folder or a store."""
    return is_store(path) or (Path(path) / "samples.jsonl").is_file()


def open_store(path: str | Path) -> Data:
    """A store's data; checksums are not looked at (``verify``).

    Raises:
        GrandError: If it is none, of another format, or cut off.
    """
    path = Path(path)
    manifest = read_manifest(path)
    samples = StoredSamples(Rows(path / "samples.arrow"))
    if len(samples) != manifest["counts"]["samples"]:
        seen = f"samples.arrow holds {len(samples)} rows, expected {manifest['counts']['samples']} as {MANIFEST} says"
        raise GrandError(f"{place(path)}: {seen}; is it cut off?")
    truth = StoredScenes(Rows(path / "truth.arrow")) if (path / "truth.arrow").exists() else None
    return Data(StoredScenes(Rows(path / "scenes.arrow")), samples, truth)


def open_data(path: str | Path, rejects: Rejects | None = None, **more: Any) -> Data:
    """Data from a store or a data folder, whichever it is; the further arguments are those of ``sample.load_data``."""
    return open_store(path) if is_store(path) else load_data(path, rejects, **more)


def fingerprint(path: str | Path) -> str:
    """A hash of all that a store or data folder holds."""
    if is_store(path):
        sums = "".join(f"{name}{value}" for name, value in sorted(read_manifest(path)["sha256"].items()))
        return hashlib.sha256(sums.encode()).hexdigest()[:16]
    return "".join(_checksum(file)[:16] for file in sorted(Path(path).glob("*.jsonl")))


def scenes_and_tasks(samples: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    """The scene and task of every sample, without reading the rest of it."""
    if isinstance(samples, StoredSamples):
        return samples.scenes_and_tasks()
    return ((sample.scene_id, sample.task) for sample in samples)


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a store.

    Raises:
        GrandError: If it is broken, or of a later format.
    """
    manifest = read_json(Path(path) / MANIFEST)
    fits = isinstance(manifest, dict) and all(isinstance(manifest.get(key), dict) for key in ("counts", "sha256"))
    if not fits or manifest.get("format") != FORMAT or not isinstance(manifest["counts"].get("samples"), int):
        seen = shown(manifest.get("format") if isinstance(manifest, dict) else manifest)
        raise GrandError(
            f"{place(Path(path) / MANIFEST)}: format is {seen}, expected {FORMAT}; was it written by a later grand3d?"
        )
    return manifest


def verify(path: str | Path) -> dict[str, str]:
    """Files of a store whose content is not what its manifest says, each with the checksum seen (empty where it is gone)."""
    path, wrong = Path(path), {}
    for name, wanted in read_manifest(path)["sha256"].items():
        seen = _checksum(path / name) if (path / name).is_file() else ""
        if seen != wanted:
            wrong[name] = seen
    return wrong


def write_parquet(path: str | Path, out: str | Path, rows_a_file: int = 500_000) -> list[str]:
    """Write a store as Parquet files, the form for exchange: ``<scenes|samples|truth>-00000-of-00001.parquet`` and the manifest.

    ``datasets.load_dataset`` and the hub read it, and ``folder_source`` reads it back.

    Returns:
        The names of the files.
    """
    parquet = import_extra("pyarrow.parquet", "train")
    manifest, path, names = read_manifest(path), Path(path), []
    with made_beside(Path(out)) as folder:
        for name in ("scenes", "samples", "truth"):
            if not (path / f"{name}.arrow").exists():
                continue
            table = Rows(path / f"{name}.arrow").table
            num = max(1, -(-len(table) // rows_a_file))
            for k in range(num):
                names.append(f"{name}-{k:05d}-of-{num:05d}.parquet")
                part = table.slice(k * rows_a_file, rows_a_file)
                with parquet.ParquetWriter(folder / names[-1], table.schema, compression="zstd") as writer:
                    for batch in part.to_batches():
                        writer.write_batch(batch)
        write_json(folder / MANIFEST, manifest | {"sha256": {name: _checksum(folder / name) for name in names}})
    return names


def _parquet(path: Path, name: str, parse: Callable[[dict[str, Any]], Any], rejects: Rejects) -> Iterator[tuple[str, Any]]:
    parquet = import_extra("pyarrow.parquet", "train")
    for file in sorted(path.glob(f"{name}-*.parquet")):
        number = 0
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=2048):
                for row in batch.to_pylist():
                    where = f"{place(file)}: row {number}"
                    number += 1
                    try:
                        value = parse(row)
                    except (GrandError, KeyError, TypeError) as error:
                        rejects.add(where, str(error), str(row), getattr(error, "cause", "broken row"))
                        continue
                    yield where, value
        except OSError as error:
            raise GrandError(f"{place(file)}: cannot be read ({error}), expected a Parquet file; is it cut off?") from None
