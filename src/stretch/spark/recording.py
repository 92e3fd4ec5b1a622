"""A recording: Parquet files, in the order of their names, as one numbered sequence of rows. Knows nothing of Spark."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from stretch.errors import DefinitionError

NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class RowGroup:
    """Some neighbouring rows of one file; the state of the file is part of it, so that caches notice a new one."""

    path: str
    modified: int
    number: int
    rows: int


@dataclass(frozen=True)
class Piece:
    """The rows of a row group from `start` up to, not including, `stop`."""

    group: RowGroup
    start: int
    stop: int


class Recording:
    """What the metadata of the files say; rows are read when they are asked for."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.schema = pa.schema([])
        self.groups: list[RowGroup] = []
        for number, info in enumerate(_files(location)):
            with _open(_name(location, info.path)) as file:
                schema, metadata = file.schema_arrow.remove_metadata(), file.metadata
            if number and not schema.equals(self.schema):
                raise DefinitionError(
                    f"{info.path} has other columns than the files before it",
                    why=f"it has {_columns(schema)}; they have {_columns(self.schema)}",
                    do="replay files of one schema: move the others, or read and write them once with Spark",
                )
            self.schema = schema
            self.groups += [
                RowGroup(_name(location, info.path), info.mtime_ns or 0, n, metadata.row_group(n).num_rows)
                for n in range(metadata.num_row_groups)
            ]
        self._ends = list(accumulate(group.rows for group in self.groups))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._ends[-1] if self._ends else 0

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield where the rows from `start` up to `stop` are, in order."""
        index = bisect_right(self._ends, start)
        while start < stop:
            group, end = self.groups[index], self._ends[index]
            first = end - group.rows
            yield Piece(group, start - first, min(stop, end) - first)
            start, index = end, index + 1

    def time(self, row: int, column: str) -> int:
        """Return the event time of a row, in ticks; NEVER where it is null."""
        (piece,) = self.pieces(row, row + 1)
        return int(_times(piece.group, column)[piece.start])

    def due(self, start: int, stop: int, column: str, until: int) -> int:
        """Return the first row from `start` on whose event time is after `until`; `stop` if there is none before."""
        for piece in self.pieces(start, stop):
            is_later = _times(piece.group, column)[piece.start : piece.stop] > until
            if is_later.any():
                return start + int(is_later.argmax())
            start += piece.stop - piece.start
        return stop


def read(piece: Piece, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows, with the columns and types of `schema`."""
    table = _group(piece.group, tuple(schema.names)).slice(piece.start, piece.stop - piece.start)
    yield from table.cast(schema, safe=False).combine_chunks().to_batches(max_chunksize=batch_rows)


# One row group is kept for the micro-batches that follow: they mostly go on in it.


@lru_cache(maxsize=1)
def _group(group: RowGroup, columns: tuple[str, ...]) -> pa.Table:
    with _open(group.path) as file:
        return file.read_row_group(group.number, columns=list(columns)).select(list(columns))


@lru_cache(maxsize=1)
def _times(group: RowGroup, column: str) -> npt.NDArray[np.int64]:
    """Return event times in ticks: microseconds of a timestamp, a long's own units."""
    with _open(group.path) as file:
        values = file.read_row_group(group.number, columns=[column])[column]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    ticks: npt.NDArray[np.int64] = pc.fill_null(values.cast(pa.int64()), int(NEVER)).to_numpy()
    return ticks


def _files(location: str) -> list[fs.FileInfo]:
    """Return the Parquet files of a location, leaving out what Spark marks as its own by name."""
    system, path = _system(location)
    info = system.get_file_info(path)
    found = [info]
    if info.type == fs.FileType.Directory:
        found = [each for each in system.get_file_info(fs.FileSelector(path, recursive=True)) if each.is_file]
        found = sorted((each for each in found if _is_data(each.path, path)), key=lambda each: each.path)
    if info.type == fs.FileType.NotFound or not found:
        raise DefinitionError(
            f"there are no Parquet files at {location!r}",
            why="no file below it has a name that ends in .parquet" if not found else "the path does not exist",
            do="name a Parquet file, or a directory of files that end in .parquet",
        )
    return found


def _is_data(path: str, directory: str) -> bool:
    parts = path.removeprefix(directory).strip("/").split("/")
    return path.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in parts)


def _system(location: str) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path within it."""
    if "://" in location or location.startswith("file:"):
        system, path = fs.FileSystem.from_uri(location)
        return system, path
    return fs.LocalFileSystem(), str(Path(location).absolute())


def _name(location: str, path: str) -> str:
    """Return what `_system` understands for a file found at a location."""
    scheme, mark, _ = location.partition("://")
    return f"{scheme}://{path}" if mark and scheme != "file" else path


def _open(location: str) -> pq.ParquetFile:
    system, path = _system(location)
    return pq.ParquetFile(system.open_input_file(path))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
