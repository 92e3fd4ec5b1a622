"""Apache Flink as a rival: Java programs of our own, run in a MiniCluster of a process of their own.

The wheel `apache-flink-libraries` (extra `rivals`) brings Flink's jars and nothing else. The programs beside this file
are compiled with the machine's javac when they are first needed, into the user's cache. `Rival.java` says how tasks and
answers look; this module is the other end of the pipe.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from stretch.bench.report import cache_folder
from stretch.errors import StretchError
from stretch.spark import java

PACKAGE = "apache-flink-libraries"
ALL_WORDS = 1 << 30  # a distance that no tweet exceeds

_HERE = Path(__file__).parent
_MAIN = "stretch.bench.Rival"
_HEAP = "4g"
_OPEN_PACKAGES = ("lang", "lang.invoke", "net", "io", "nio", "text", "time", "util", "util.concurrent")


@dataclass(frozen=True)
class Settings:
    """What a user of Flink sets for latency: how often watermarks go out, how long a network buffer waits for more."""

    name: str
    watermark_ms: int
    buffer_ms: int


PROMPT = Settings("Flink, watermarks every 10 ms", 10, 10)
DEFAULT = Settings("Flink, default settings", 200, 100)


class Answer(NamedTuple):
    """What a run of Flink gave; latencies are None where it ran as fast as it could."""

    seconds: float
    tuples: int
    results: int
    total: int
    work: int
    p50_ms: float | None
    p99_ms: float | None


def missing() -> str | None:
    """Say what Flink lacks to run here, None if it can."""
    if _jars() is None:
        return 'Apache Flink is not installed, so it is left out: pip install "stretch[rivals]", or make rivals'
    found = java.find()
    if found is None:
        return f"Apache Flink is left out: it needs Java {java.OLDEST} or newer, and there is none"
    if not _compiler(found).exists():
        return f"Apache Flink is left out: there is no javac beside {found.program}; install a JDK"
    return None


def version() -> str:
    """Return the version of Flink."""
    return metadata.version(PACKAGE)


class Flink:
    """Flink's process; use it in a `with` statement. Input goes to it in files of a folder of its own."""

    def __init__(self) -> None:
        reason = missing()
        if reason is not None:
            raise StretchError("Apache Flink cannot run", why=reason, do="install what it lacks, or leave it out")
        found = java.find()
        assert found is not None
        classes = _compile(_compiler(found))
        opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPEN_PACKAGES]
        log = f"-Dlog4j.configurationFile={_HERE / 'log4j2.properties'}"
        path = os.pathsep.join(map(str, (classes, *(_jars() or ()))))
        self._folder = tempfile.TemporaryDirectory(prefix="stretch-flink-")
        self._process = subprocess.Popen(
            [found.program, f"-Xmx{_HEAP}", *opens, log, "-cp", path, _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def keep_tweets(self, table: pa.Table, name: str = "tweets") -> str:
        """Write tweets where Flink reads them, under a name that stands for them; return the file."""
        file = Path(self._folder.name) / f"{name}.tsv"
        if file.exists():
            return str(file)
        options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        pyarrow.csv.write_csv(table.select(["ts", "user", "text"]), file, options)
        return str(file)

    def keep_pairs(
        self, times: npt.NDArray[np.int64], firsts: npt.NDArray[np.int32], seconds: npt.NDArray[np.float32]
    ) -> str:
        """Write the tuples of two inputs, in turn left and right; return the file."""
        file = Path(self._folder.name) / f"pairs-{len(times)}.bin"
        columns: tuple[npt.NDArray[Any], ...] = (np.array([len(times)]), times, firsts, seconds)
        widths = ("<i8", "<i8", "<i4", "<f4")
        file.write_bytes(b"".join(part.astype(width).tobytes() for part, width in zip(columns, widths, strict=True)))
        return str(file)

    def count(
        self,
        input: str,
        rows: int,
        *,
        parallelism: int,
        window: tuple[int, int],
        distance: int | None = 0,
        occurrences: bool = True,
        rate: float = 0,
        settings: Settings = PROMPT,
    ) -> Answer:
        """Count words (distance 0) or pairs of words in sliding windows, of a size and an advance."""
        reach = ALL_WORDS if distance is None else distance
        task = {"input": input, "rows": rows, "size": window[0], "advance": window[1], "distance": reach}
        return self._run("count", settings, parallelism, rate, task | {"occurrences": int(occurrences)})

    def forward(self, input: str, *, parallelism: int, rate: float = 0, settings: Settings = PROMPT) -> Answer:
        """Forward all tuples of two sorted inputs to all instances."""
        return self._run("forward", settings, parallelism, rate, {"input": input})

    def join(
        self,
        input: str,
        *,
        parallelism: int,
        window: int,
        measured_from: int,
        rate: float = 0,
        settings: Settings = PROMPT,
    ) -> Answer:
        """Join on two bands; the tuples before `measured_from` fill the windows."""
        task = {"input": input, "window": window}
        return self._run("join", settings, parallelism, rate, task, measured_from)

    def _run(
        self,
        job: str,
        settings: Settings,
        parallelism: int,
        rate: float,
        task: Mapping[str, object],
        measured_from: int = 0,
    ) -> Answer:
        common: dict[str, object] = {
            "job": job,
            "parallelism": parallelism,
            "rate": repr(float(rate)),
            "from": measured_from,
        }
        waits = {"watermark_ms": settings.watermark_ms, "buffer_ms": settings.buffer_ms}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # the missing answer says so
            print(*(f"{name}={value}" for name, value in {**common, **waits, **task}.items()), file=self._process.stdin)
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise StretchError(
                f"Flink did not finish {job}",
                why=f"its process ended with status {self._process.wait()}; its own error is above",
                do="check that there is enough memory, and that it is the version of constraints.txt",
            )
        return Answer(**json.loads(answer))

    def __enter__(self) -> Flink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if kind is not None:
            self._process.kill()  # it may be in the middle of a run
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


def _jars() -> list[Path] | None:
    """Return the jars that a program needs: Flink itself, and its logging."""
    try:
        found = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file("pyflink/lib")))
    return [*folder.glob("flink-dist-*.jar"), *folder.glob("log4j-*.jar")]


def _compiler(found: java.Java) -> Path:
    return Path(found.program).resolve().with_name("javac")


def _compile(compiler: Path) -> Path:
    """Compile the programs, unless they have been; return the folder of the classes."""
    sources = sorted(_HERE.glob("*.java"))
    content = [version().encode(), str(compiler).encode(), *(source.read_bytes() for source in sources)]
    classes = cache_folder() / f"flink-{hashlib.sha256(b''.join(content)).hexdigest()[:16]}"
    if classes.exists():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=classes.parent))  # renamed when whole: others may be compiling
    jars = os.pathsep.join(map(str, _jars() or ()))
    done = subprocess.run(
        [str(compiler), "-d", str(fresh), "-cp", jars, *map(str, sources)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise StretchError("javac refuses the programs for Flink", why=done.stderr, do="install Java 17 or newer")
    with suppress(OSError):  # somebody else was first
        fresh.rename(classes)
    return classes
