"""`stretch simulate`: play a recorded or made-up trace to controllers, on simulated instances."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from stretch.bench.plot import draw
from stretch.bench.report import Plot, Report
from stretch.cli.text import emphasis, table
from stretch.controllers import Controller, Machine, ModelController, Simulation, ThresholdController, Trace, elastic
from stretch.controllers import phases as random_phases
from stretch.controllers import simulate as play
from stretch.controllers.simulation import Point
from stretch.errors import DefinitionError

HELP = "play a trace (rates, costs) to a controller, on simulated instances: its decisions, backlogs and latency"

CONTROLLERS: dict[str, type[ThresholdController] | type[ModelController]] = {
    "threshold": ThresholdController,
    "model": ModelController,
}
PHASES = "phases"
PHASES_SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("trace", help=f"a file of JSON or CSV, or {PHASES!r}: 20 minutes of random rates")
    parser.add_argument("--controller", choices=[*CONTROLLERS, "all"], default="all", help="who decides (default: all)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the controller: upper=0.85"
    )
    parser.add_argument("--minimum", type=int, default=1, metavar="N", help="instances at least (default: 1)")
    parser.add_argument("--maximum", type=int, default=72, metavar="N", help="instances at most (default: 72)")
    parser.add_argument("--interval", default="1 second", help='between two decisions (default: "1 second")')
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="other noise, and other phases (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write decisions, loads and phases to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw rates, instances and latency into FILE")


def run(options: argparse.Namespace) -> int:
    """Simulate and show it."""
    trace = random_phases(options.seed) if options.trace == PHASES else Trace.read(options.trace)
    names = list(CONTROLLERS) if options.controller == "all" else [options.controller]
    machine = Machine(seed=options.seed)
    made = {name: _made(name, options.set) for name in names}
    limits = {name: elastic(options.minimum, options.maximum, one, options.interval) for name, one in made.items()}
    simulations = {name: play(trace, limit, machine) for name, limit in limits.items()}
    stress = emphasis(sys.stdout)
    for name, simulation in simulations.items():
        print(f"{stress(name)}: {_summary(simulation)}\n")
        print(_phase_table(simulation))
        print()
    if options.json is not None:
        content = {name: simulation.to_record() for name, simulation in simulations.items()}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        draw(Report("simulate", plots=plots(simulations)), options.plot)
    return 0


def plots(simulations: dict[str, Simulation]) -> list[Plot]:
    """Return the curves of simulations of one trace."""

    def curves(value: Callable[[Point], float]) -> dict[str, dict[float, list[float]]]:
        return {
            name: {point.load.time: [value(point)] for point in simulation.points}
            for name, simulation in simulations.items()
        }

    first = next(iter(curves(lambda point: point.load.arrival_rate).values()))
    return [
        Plot("Arriving tuples", "seconds", "tuples/s", {"rate": first}),
        Plot("Instances", "seconds", "", curves(lambda point: point.load.parallelism)),
        Plot("How busy they are on average", "seconds", "%", curves(lambda point: 100 * point.load.average_busy)),
        Plot("How long tuples wait", "seconds", "ms", curves(lambda point: 1000 * point.latency)),
    ]


def _made(name: str, settings: list[str]) -> Controller:
    """Make a controller; settings that it does not have are those of another one."""
    kind = CONTROLLERS[name]
    known = kind.__dataclass_fields__
    given: dict[str, object] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if not text or not any(key in one.__dataclass_fields__ for one in CONTROLLERS.values()):
            raise DefinitionError(
                f"--set {setting} is not possible",
                why=f"the settings of {name} are {', '.join(known)}",
                do="write for example --set upper=0.85",
            )
        if key in known:
            given[key] = _value(text)
    return kind(**given)  # type: ignore[arg-type]


def _value(text: str) -> object:
    """Read a number; anything else is text, as lengths of time are."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _summary(simulation: Simulation) -> str:
    waited = 1000 * simulation.latency
    left = f"{simulation.backlog:,} do in the end"
    return f"{len(simulation.changes)} changes; tuples waited {waited:.1f} ms on average, {left}"


def _phase_table(simulation: Simulation) -> str:
    rows = [
        [
            f"{phase.begin:.0f} s",
            f"{phase.rate:,.0f}",
            "{} .. {}".format(*phase.instances),
            phase.changes,
            phase.reversals,
            f"{phase.settled_after:.1f} s",
            f"{1000 * phase.latency:.1f} ms",
        ]
        for phase in simulation.phases()[:PHASES_SHOWN]
    ]
    return table(["from", "tuples/s", "instances", "changes", "reversals", "settled after", "waited"], rows)
