"""`stretch bench`: measure the figures of the project on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from stretch.bench import NAMES
from stretch.bench.plot import draw
from stretch.bench.report import Figure, Report, machine
from stretch.cli.text import emphasis, table

HELP = "measure speed, CPU time, reconfigurations and memory on this machine, next to Polars and DuckDB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", choices=NAMES, help="what to measure")
    parser.add_argument("--quick", action="store_true", help="measure less: at most 45 seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and all repetitions to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw all repetitions into FILE (.png, .svg, .pdf)")


def run(options: argparse.Namespace) -> int:
    """Measure; 0 whether goals are reached or not."""
    bench = import_module(f"stretch.bench.{options.name}")
    report: Report = bench.run(bench.QUICK if options.quick else bench.FULL, Progress())
    print(shown(report))
    if options.json is not None:
        options.json.write_text(report.to_json(), encoding="utf-8")
    if options.plot is not None:
        draw(report, options.plot)
    return 0


class Progress:
    """Says on stderr what a bench is at, and since when."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", file=sys.stderr, flush=True)


def shown(report: Report) -> str:
    """Format the figures for a terminal."""
    stress = emphasis(sys.stdout)
    about = machine()
    rows = [[one.name, f"{one.value:,.10g}", one.unit, one.goal or "", _verdict(one)] for one in report.figures]
    head = f"{stress(report.bench)}: {about['cores']} cores, {about['processor']}, load {about['load']:g}"
    return f"{head}\n\n{table(['figure', 'value', 'unit', 'goal', ''], rows)}"


def _verdict(figure: Figure) -> str:
    if figure.holds is None:
        return ""
    return "holds" if figure.holds else "MISSED"
