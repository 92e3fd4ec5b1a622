"""The state log: versions of a node's state as files, one per micro-batch (DESIGN section 6).

What
    A version is one file. A *snapshot* holds the whole state; a *delta* holds the rows of its micro-batch, and names
    the snapshot, its *base*, from which all deltas up to it lead to the state. `files` has the format.

Invariants
    V1  A file is written under another name and renamed, so it is there whole or not at all. Writing a version again,
        in another attempt, replaces it: whichever stays leads on from the version before.
    V2  Every version from the base of the oldest one to be kept on is there. What is older is deleted.
    V3  Nothing is deleted that is not older than that: not even what seems to be from the future, which another attempt
        may have written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from stretch.errors import DefinitionError, StateError
from stretch.node.files import NEW_CHECKPOINT, DamagedFileError, FileReader, write_file
from stretch.runtime.compiled.image import Section

_SUFFIX = ".state"
_TEMPORARY = ".tmp"


@dataclass(frozen=True)
class CommitRecord:
    """What a commit has written."""

    version: int
    kind: str
    """"delta": the rows of the micro-batch; "snapshot": the whole state."""
    bytes: int
    seconds: float
    log_bytes: int
    """What all files of the log take now."""


class StateLog:
    """The log of one shard: a directory of its own on any filesystem that pyarrow.fs reaches.

    `location` is a path, or a URI such as "hdfs://..." or "s3://..."; or a path with its `filesystem`. The directory is
    made when something is written. `min_versions` is how many of the latest versions can be restored, as Spark's
    `spark.sql.streaming.minBatchesToRetain`; what none of them needs is deleted by later commits. A snapshot is written
    when to process the deltas again would take `replay_seconds`, or twice as long as writing the last snapshot did.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        filesystem: pafs.FileSystem | None = None,
        min_versions: int = 100,
        replay_seconds: float = 1.0,
    ) -> None:
        if min_versions < 2:
            raise DefinitionError(
                f"min_versions={min_versions!r} is too few",
                why="a micro-batch that is done again begins with the version before the last one",
                do="pass a number from 2 up",
            )
        self.location = str(location)
        self.min_versions = min_versions
        self.replay_seconds = replay_seconds
        if filesystem is not None:
            self._filesystem, self._directory = filesystem, self.location
        elif "://" in self.location:
            self._filesystem, self._directory = pafs.FileSystem.from_uri(self.location)
        else:
            self._filesystem, self._directory = pafs.LocalFileSystem(), str(Path(location).absolute())
        self._known: dict[str, int] | None = None  # size of each file, by name; None: not looked yet
        self._bases: list[int] = []  # snapshots that are known as such, in order

    def versions(self) -> list[int]:
        """Return the versions that are there, in order."""
        return sorted(int(name.removesuffix(_SUFFIX)) for name in self._files() if name.endswith(_SUFFIX))

    # --- What a node calls

    def write(self, header: Mapping[str, Any], sections: Sequence[Section]) -> CommitRecord:
        """Write a version, and delete what is not needed any more. The header has `version`, `kind` and `base`."""
        begun = time.perf_counter()
        version, files = int(header["version"]), self._files()
        name = _name(version)
        temporary = f"{version:012d}.{os.urandom(8).hex()}{_TEMPORARY}"
        if not files:
            self._filesystem.create_dir(self._directory, recursive=True)
        with self._filesystem.open_output_stream(self._path(temporary)) as stream:
            files[name] = size = write_file(stream, header, sections)
        self._replace(temporary, name)
        self._note_base(int(header["base"]))
        self._collect(version - self.min_versions + 1)
        return CommitRecord(version, str(header["kind"]), size, time.perf_counter() - begun, sum(files.values()))

    def header(self, version: int) -> dict[str, Any]:
        """Return the header of a version, once it is clear that nothing is missing from its base on."""
        with self.read(version) as file:
            base = int(file.header["base"])
        self._note_base(base)
        missing = [each for each in range(base, version) if _name(each) not in self._files()]
        if missing:
            raise self._missing(missing[0], f"version {version} needs it")
        return file.header

    @contextmanager
    def read(self, version: int) -> Iterator[FileReader]:
        """Open a version; who reads it to its end calls `finish`."""
        if _name(version) not in self._files():
            raise self._missing(version, self._has())
        path = self._path(_name(version))
        try:
            with self._filesystem.open_input_stream(path) as stream:
                yield FileReader(stream)
        except (DamagedFileError, FileNotFoundError, pa.ArrowInvalid) as problem:
            raise StateError(
                "the state log is damaged",
                where=path,
                why=str(problem),
                do=f"put the file back from a copy; or {NEW_CHECKPOINT}",
            ) from problem

    def _missing(self, version: int, why: str) -> StateError:
        return StateError(
            f"version {version} is not in the state log",
            where=self.location,
            why=why,
            do=f"put the directory back as it was; or {NEW_CHECKPOINT}",
        )

    def _has(self) -> str:
        versions = self.versions()
        return f"it has versions {versions[0]} to {versions[-1]}" if versions else "it is empty"

    # --- Files

    def _files(self) -> dict[str, int]:
        """Return the sizes of all files by name, as far as this object knows: it looks once, then keeps count."""
        if self._known is None:
            selector = pafs.FileSelector(self._directory, allow_not_found=True)
            found = self._filesystem.get_file_info(selector)
            self._known = {
                each.base_name: each.size or 0 for each in found if each.is_file and _is_ours(each.base_name)
            }
        return self._known

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _replace(self, name: str, final: str) -> None:
        """Rename a file, over another one if there is one."""
        try:
            self._filesystem.move(self._path(name), self._path(final))
        except OSError:  # some filesystems do not rename over a file
            if self._filesystem.get_file_info(self._path(final)).type == pafs.FileType.NotFound:
                raise
            self._filesystem.delete_file(self._path(final))
            self._filesystem.move(self._path(name), self._path(final))

    def _note_base(self, base: int) -> None:
        if base not in self._bases:
            self._bases = sorted([*self._bases, base])

    def _collect(self, oldest: int) -> None:
        """Delete what no version from `oldest` on needs (V2, V3)."""
        files = self._files()
        if _name(oldest) not in files:
            return
        if self._bases[0] > oldest:  # written before this object was made
            with self.read(oldest) as file:
                self._note_base(int(file.header["base"]))
        base = max(each for each in self._bases if each <= oldest)
        self._bases = [each for each in self._bases if each >= base]
        for name in [name for name in files if int(name.split(".")[0]) < base]:
            with suppress(FileNotFoundError):  # another attempt may have been faster
                self._filesystem.delete_file(self._path(name))
            del files[name]


def _name(version: int) -> str:
    return f"{version:012d}{_SUFFIX}"


def _is_ours(name: str) -> bool:
    return name.endswith((_SUFFIX, _TEMPORARY)) and name.split(".")[0].isdigit()
