"""Rows of any number sorted by a key in bounded memory, into an Arrow file of equal batches that can be read in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.errors import GrandError, import_extra, place

BATCH = 2048
"""Rows of a batch of every file, but for its last one: row ``i`` is row ``i % BATCH`` of batch ``i // BATCH``."""
BUCKET = 100_000
"""Rows sorted at once, in memory."""
MAX_BUCKETS = 500


class Sorter:
    """Takes rows in any order, keeps them in a file, and writes them sorted by key; rows of one key stay in their order.

    Args:
        folder: Where files are kept until ``finish``.
        name: Of the files.
        fields: ``{column: Arrow type as text}``, the row's values in their order.
    """

    def __init__(self, folder: Path, name: str, fields: dict[str, str]) -> None:
        self._arrow = import_extra("pyarrow", "train")
        types = {"text": self._arrow.large_string(), "texts": self._arrow.list_(self._arrow.string())}
        types |= {"numbers": self._arrow.list_(self._arrow.float64()), "int": self._arrow.int64()}
        self.schema = self._arrow.schema([(column, types[kind]) for column, kind in fields.items()])
        self._folder, self._name = folder, name
        self._codes: dict[str, int] = {}
        self._order: list[NDArray[np.int32]] = []
        self._keys: list[int] = []
        self._rows: list[Sequence[Any]] = []
        self._writer = self._open(folder / f"{name}.unsorted")

    def __len__(self) -> int:
        return sum(map(len, self._order)) + len(self._keys)

    def add(self, key: str, row: Sequence[Any]) -> None:
        self._keys.append(self._codes.setdefault(key, len(self._codes)))
        self._rows.append(row)
        if len(self._rows) == BATCH:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [[] for _ in self.schema]
        arrays = [self._arrow.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=True)]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self.schema))
        self._order.append(np.asarray(self._keys, np.int32))
        self._keys, self._rows = [], []

    def _open(self, path: Path) -> Any:
        return self._arrow.ipc.new_stream(str(path), self.schema)

    def finish(self, path: Path) -> dict[str, int]:
        """Write the sorted file.

        Returns:
            ``{key: number of its rows}`` in the order of the file.
        """
        if self._rows or not self._order:
            self._flush()
        self._writer.close()
        unsorted = self._folder / f"{self._name}.unsorted"
        keys = sorted(self._codes)
        rank_of = np.zeros(max(1, len(keys)), np.int32)
        rank_of[[self._codes[key] for key in keys]] = np.arange(len(keys), dtype=np.int32)
        ranks = [rank_of[codes] for codes in self._order]
        counts = np.zeros(max(1, len(keys)), np.int64)
        for part in ranks:
            counts += np.bincount(part, minlength=len(counts))
        last, ordered = -1, True
        for part in ranks:
            ordered &= not len(part) or (part[0] >= last and bool((np.diff(part) >= 0).all()))
            last = int(part[-1]) if len(part) else last
        if ordered:
            unsorted.rename(path)
        else:
            self._sort(unsorted, path, ranks, counts)
            unsorted.unlink()
        return {key: int(counts[rank]) for rank, key in enumerate(keys)}

    def _sort(self, unsorted: Path, path: Path, ranks: list[NDArray[np.int32]], counts: NDArray[np.int64]) -> None:
        """Deal the rows out to buckets of neighbouring keys, then sort each in memory."""
        size = max(BUCKET, int(counts.sum()) // MAX_BUCKETS)
        bucket_of = ((np.cumsum(counts) - 1) // size).astype(np.int32)
        names = [self._folder / f"{self._name}.bucket{k}" for k in range(int(bucket_of[-1]) + 1)]
        writers, dealt = [self._open(name) for name in names], [[] for _ in names]
        with self._arrow.OSFile(str(unsorted)) as file:  # read, not mapped: mapped pages would count as memory
            for batch, part in zip(self._arrow.ipc.open_stream(file), ranks, strict=True):
                buckets = bucket_of[part]
                for k in np.unique(buckets):
                    mask = buckets == k
                    writers[k].write_batch(batch.filter(self._arrow.array(mask)))
                    dealt[k].append(part[mask])
        for writer in writers:
            writer.close()
        with self._open(path) as out:
            rest = None
            for k, name in enumerate(names):
                with self._arrow.OSFile(str(name)) as file:
                    table = self._arrow.ipc.open_stream(file).read_all()
                if dealt[k]:
                    table = table.take(np.argsort(np.concatenate(dealt[k]), kind="stable"))
                table = table if rest is None else self._arrow.concat_tables([rest, table])
                whole = len(table) if k == len(names) - 1 else len(table) // BATCH * BATCH
                for batch in table.slice(0, whole).combine_chunks().to_batches(BATCH):
                    out.write_batch(batch)
                rest = table.slice(whole).combine_chunks()
                name.unlink()


class Rows:
    """A file of equal batches, mapped into memory: any row at once, processes share the pages."""

    def __init__(self, path: Path) -> None:
        arrow = import_extra("pyarrow", "train")
        try:
            self.table = arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all()
        except (arrow.ArrowInvalid, OSError) as error:
            raise GrandError(
                f"{place(path)}: cannot be read ({error}), expected a file of grand3d store; is it cut off?"
            ) from None
        self._batches = self.table.to_batches()
        if any(len(batch) != BATCH for batch in self._batches[:-1]):
            raise GrandError(f"{place(path)}: its batches are not {BATCH} rows each, expected a file of grand3d store")

    def __len__(self) -> int:
        return self.table.num_rows

    def row(self, index: int) -> list[Any]:
        """The values of one row, in the order of the columns."""
        batch = self._batches[index // BATCH]
        return [column[index % BATCH].as_py() for column in batch.columns]

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Rows one after the other, a batch in memory at a time."""
        stop = len(self) if stop is None else min(stop, len(self))
        while start < stop:
            batch = self._batches[start // BATCH]
            first = start % BATCH
            part = batch.slice(first, min(len(batch) - first, stop - start))
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)
            start += len(part)
