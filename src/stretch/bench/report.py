"""What a bench hands back: figures with their goals, every repetition, and the machine, as a table or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from stretch.errors import StretchError

Say = Callable[[str], None]
"""How a bench that takes long says what it is at."""

_PACKAGES = ("stretch", "numba", "numpy", "pyarrow", "polars", "duckdb", "pyspark", "apache-flink-libraries")


@dataclass(frozen=True)
class Figure:
    """A number, and whether it is what it should be; goal and holds are None where nothing was promised."""

    name: str
    value: float
    unit: str
    goal: str | None = None
    holds: bool | None = None


@dataclass(frozen=True)
class Chart:
    """Values of repetitions, by what was measured; `plot` draws them as dots with their median."""

    title: str
    unit: str
    rows: dict[str, list[float]]
    is_logarithmic: bool = False


@dataclass(frozen=True)
class Plot:
    """Curves over some quantity, with the values of all repetitions: a line at their median, a band from end to end."""

    title: str
    across: str  # what the horizontal axis is
    unit: str
    curves: Mapping[str, Mapping[Any, Sequence[float]]]
    is_logarithmic: bool = False
    is_logarithmic_across: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of numbers or words under a header."""

    title: str
    header: list[str]
    rows: list[list[Any]]


@dataclass
class Report:
    """Everything that a bench measured."""

    bench: str
    figures: list[Figure] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader has to know: what was left out and why, what was derived and not measured."""

    def add(
        self, name: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Add a figure, with its goal if it has one."""
        value = rounded(value)
        if at_least is not None:
            self.figures.append(Figure(name, value, unit, f">= {at_least:g}", value >= at_least))
        elif at_most is not None:
            self.figures.append(Figure(name, value, unit, f"<= {at_most:g}", value <= at_most))
        else:
            self.figures.append(Figure(name, value, unit))

    def add_run(self, what: str, **measured: Any) -> None:
        """Add one repetition: what ran, and everything that was measured."""
        kept = {name: rounded(value) if isinstance(value, float) else value for name, value in measured.items()}
        self.runs.append({"what": what, **kept})

    def to_json(self) -> str:
        """Return the report as JSON, for files."""
        content = {
            "bench": self.bench,
            "machine": machine(),
            "notes": self.notes,
            "figures": [asdict(figure) for figure in self.figures],
            "charts": [asdict(chart) for chart in self.charts],
            "plots": [asdict(plot) for plot in self.plots],
            "tables": [asdict(table) for table in self.tables],
            "runs": self.runs,
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that `to_json` wrote."""
        content = json.loads(text)
        for plot in content["plots"]:  # keys of JSON are text
            for name, curve in plot["curves"].items():
                plot["curves"][name] = {float(place): values for place, values in curve.items()}
        return cls(
            content["bench"],
            [Figure(**figure) for figure in content["figures"]],
            content["runs"],
            [Chart(**chart) for chart in content["charts"]],
            [Plot(**plot) for plot in content["plots"]],
            [Table(**table) for table in content["tables"]],
            content["notes"],
        )


def rounded(value: float) -> float:
    """Keep four digits: more than any of these measurements can tell apart."""
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))


def per_second(count: int, seconds: Sequence[float]) -> float:
    """Return the median rate."""
    return count / median(seconds)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)]


def machine() -> dict[str, Any]:
    """Describe the machine, as far as it decides about speed."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": rounded(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "load": rounded(os.getloadavg()[0]),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def optional(package: str) -> ModuleType:
    """Import a package that only benches need."""
    try:
        return __import__(package)
    except ImportError as problem:
        raise StretchError(
            f"{package} is not installed",
            why="rivals and plots are not needed to use stretch, so they are not installed with it",
            do='pip install "stretch[bench]"',
        ) from problem


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cache_folder() -> Path:
    """Return where things are kept that are made once: the user's cache."""
    root = Path(os.environ.get("STRETCH_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "stretch"
