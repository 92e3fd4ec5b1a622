"""The paper's evaluation: its experiments one after the other, each in a process of its own, and one page of them all.

Beside the page lies the JSON of every experiment. The page is made from these files, so that one experiment can be run
again without the others.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from stretch.bench import NAMES
from stretch.bench.page import Section, page
from stretch.bench.report import Report, Say, machine

TITLES = {
    "fit": "Data",
    "q1": "Q1: word and pair count",
    "q2": "Q2: forwarder",
    "q3": "Q3: join",
    "q4": "Q4: reconfigurations",
    "q5": "Q5: changing rates",
    "q6": "Q6: trades",
}
EXPERIMENTS = tuple(name for name in TITLES if name in NAMES)
PAGE = "evaluation.html"

_ABOUT = """The six experiments of the paper "STRETCH: Virtual Shared-Nothing Parallelism for Scalable and Elastic
Stream Processing", scaled to this machine. Contestants take turns within one run; lines are medians over repetitions
and bands reach from the least to the largest. Compare ratios: speed differs from machine to machine, and from minute
to minute on a shared one."""


def evaluate(folder: Path, experiments: Sequence[str], *, quick: bool, say: Say) -> list[str]:
    """Run experiments, write their JSON and the page of all that are there; return the names of those that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in experiments:
        say(f"{name} begins")
        result = folder / f"{name}.json"
        result.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-m", "stretch.cli", *_command(name, quick), "--json", str(result)])
        if done.returncode != 0 or not result.exists():
            say(f"{name} failed with status {done.returncode}")
            failed.append(name)
    write_page(folder, failed, quick=quick)
    return failed


def write_page(folder: Path, failed: Sequence[str], *, quick: bool) -> Path:
    """Write the page from the JSON files of a folder."""
    sections = []
    for name in EXPERIMENTS:
        result = folder / f"{name}.json"
        command = f"stretch {' '.join(_command(name, quick))}"
        if result.exists():
            sections.append(
                Section(Report.from_json(result.read_text(encoding="utf-8")), TITLES[name], _about(name), command)
            )
        elif name in failed:
            report = Report(name, notes=["This experiment failed; run it alone to see why."])
            sections.append(Section(report, TITLES[name], _about(name), command))
    path = folder / PAGE
    path.write_text(page("Evaluation of stretch", _ABOUT, machine(), sections), encoding="utf-8")
    return path


def _command(name: str, quick: bool) -> list[str]:
    return ["bench", name, *(["--quick"] if quick else [])]


def _about(name: str) -> str:
    """Return what a bench says of itself, after its first line, which the title repeats."""
    found = find_spec(f"stretch.bench.{name}")
    if found is None or found.origin is None:
        return ""
    return ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8"))) or ""
