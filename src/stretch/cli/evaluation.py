"""`stretch evaluation`: run the paper's experiments and write one page of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from stretch.bench.evaluation import EXPERIMENTS, PAGE, evaluate
from stretch.cli.bench import Progress

HELP = "run the paper's experiments on this machine and write one page of figures, with JSON beside it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--quick", action="store_true", help="measure less: some minutes instead of an hour")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS, help="run only these")
    parser.add_argument(
        "--output", type=Path, default=Path("build/evaluation"), metavar="FOLDER", help="where to write"
    )


def run(options: argparse.Namespace) -> int:
    """Measure; 1 if an experiment could not be run, 0 whether goals are reached or not."""
    failed = evaluate(options.output, options.only, quick=options.quick, say=Progress())
    print(f"\n{options.output / PAGE}")
    return 1 if failed else 0
