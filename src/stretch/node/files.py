"""The format of a file of the state log: a header, sections of bytes, a checksum.

    magic (8 bytes) | length of the header (4) | header, JSON in UTF-8 | sections, back to back | CRC-32 of it all (4)

All numbers are little endian. The header has the names and sizes of the sections, so a file cannot be shorter than it
ought to be without being found out; what else is in it is up to the writer. Sections are written and read piece by
piece.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.runtime.compiled.image import Section

MAGIC = b"STRETCH\x01"
_HEAD = struct.Struct("<8sI")
_TAIL = struct.Struct("<I")
HEADER_BYTES_MAX = 1 << 30
PIECE_BYTES = 1 << 22

NEW_CHECKPOINT = "start with a new checkpoint, which begins with empty state"  # what to do if a log is of no use


class DamagedFileError(Exception):
    """A file is not what was written; the text says why."""


def write_file(stream: pa.NativeFile, header: Mapping[str, Any], sections: Iterable[Section]) -> int:
    """Write a file; return its size."""
    listed = list(sections)
    sizes = [[section.name, section.bytes] for section in listed]
    text = json.dumps({**header, "sections": sizes}, separators=(",", ":")).encode()
    head = _HEAD.pack(MAGIC, len(text)) + text
    stream.write(head)
    crc, size = zlib.crc32(head), len(head)
    for section in listed:
        written = 0
        for piece in section.pieces():
            data = _bytes_of(np.ascontiguousarray(piece))
            stream.write(data)
            crc = zlib.crc32(data, crc)
            written += len(data)
        assert written == section.bytes, f"{section.name} gave {written} bytes, not {section.bytes}"
        size += written
    stream.write(_TAIL.pack(crc))
    return size + _TAIL.size


def rows_section(name: str, rows: pa.RecordBatch) -> Section:
    """Return rows as a section, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    data = np.frombuffer(sink.getvalue(), np.uint8)
    return Section(name, data.nbytes, lambda: iter([data]))


class FileReader:
    """Reads a file: the header at once, then the sections in order, then `finish`, which checks all of it."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._crc = 0
        magic, size = _HEAD.unpack(self.read(_HEAD.size))
        if magic != MAGIC:
            raise DamagedFileError("it does not begin as a file of a state log does")
        if size > HEADER_BYTES_MAX:
            raise DamagedFileError("its header cannot be read")
        text = self.read(size)
        try:
            self.header: dict[str, Any] = json.loads(text)
            self.sizes: dict[str, int] = dict(self.header["sections"])
        except (ValueError, KeyError, TypeError) as problem:
            raise DamagedFileError("its header cannot be read") from problem

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(size)
        if len(data) < size:
            raise DamagedFileError(f"it ends {size - len(data):,} bytes too early")
        self._crc = zlib.crc32(data, self._crc)
        return bytes(data)

    def fill(self, array: npt.NDArray[Any]) -> None:
        """Fill an array with the next bytes."""
        data = _bytes_of(array)
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            got = self._stream.readinto(piece)
            if got < len(piece):
                raise DamagedFileError(f"it ends at least {len(piece) - got:,} bytes too early")
            self._crc = zlib.crc32(piece, self._crc)

    def rows(self, name: str) -> pa.RecordBatch | None:
        """Return the rows of the section that comes next; None if there is no such section."""
        if name not in self.sizes:
            return None
        data = np.empty(self.sizes[name], np.uint8)
        self.fill(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_next_batch()

    def finish(self) -> None:
        """Raise DamagedFileError unless everything that was read is what was written."""
        expected = self._crc
        if _TAIL.unpack(self.read(_TAIL.size))[0] != expected:
            raise DamagedFileError("its checksum is wrong")


def _bytes_of(array: npt.NDArray[Any]) -> Any:
    """Return the bytes of a contiguous array, in place."""
    return array.reshape(-1).view(np.uint8)
