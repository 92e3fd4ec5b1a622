"""Traces: what arrived at an operator and what it cost, recorded or made up, in a file of JSON or CSV."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from stretch.controllers.costs import Costs, learn
from stretch.errors import InputError
from stretch.metrics import Load

_FITTED_TO = 60  # intervals of a recording that costs are fitted to


@dataclass(frozen=True)
class Moment:
    """From here on, until the next moment: rates and costs."""

    seconds: float
    """Since the trace began."""
    rates: tuple[float, ...]
    """Tuples per second of each input; two for a join."""
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True)
class Trace:
    """What arrives at an operator; a join's windows are `window_seconds` long."""

    moments: tuple[Moment, ...]
    seconds: float
    window_seconds: float = 0.0

    def write(self, path: Path | str) -> None:
        """Write it to a file, as JSON or, if it is called .csv, as CSV."""
        path = Path(path)
        if path.suffix == ".csv":
            _write_csv(self, path)
        else:
            path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Read a file of JSON, or CSV with at least the columns `seconds` and `rate`."""
        path = Path(path)
        try:
            made = _read_csv(path) if path.suffix == ".csv" else _of_record(json.loads(path.read_text("utf-8")))
            times = [moment.seconds for moment in made.moments]
            if not times or times[0] != 0 or times != sorted(set(times)) or made.seconds <= times[-1]:
                raise ValueError("its times do not begin at 0 and rise")
            if len({len(moment.rates) for moment in made.moments}) != 1 or not 1 <= len(made.moments[0].rates) <= 2:
                raise ValueError("it has neither one rate at each moment nor two")
            return made
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(
                f"{path.name} is not a trace",
                why=f"{type(problem).__name__}: {problem}",
                do="write one with Trace.write, or a CSV file with the columns seconds and rate",
            ) from problem

    @classmethod
    def of(cls, loads: Sequence[Load], window_seconds: float | None = None) -> Trace:
        """Make a trace of the loads of a job; windows are as long as what they held says, unless you know better."""
        worked = [load for load in loads if load.seconds > 0]
        if not worked or not any(load.work.tuples for load in worked):
            raise InputError(
                "there is no trace of a job that processed nothing",
                why=f"{len(worked)} intervals were recorded",
                do="record while tuples arrive, for several intervals",
            )
        begin = worked[0].time - worked[0].seconds
        moments = [
            Moment(
                round(load.time - load.seconds - begin, 6),
                tuple(count / load.seconds for count in load.arrived),
                learn(worked[max(0, number - _FITTED_TO) : number + 1]) or Costs(),
            )
            for number, load in enumerate(worked)
        ]
        return cls(
            tuple(moments),
            worked[-1].time - begin,
            _window_of(worked) if window_seconds is None else window_seconds,
        )


def phases(
    seed: int = 0,
    seconds: float = 1200.0,
    rates: tuple[float, float] = (500.0, 8000.0),
    lengths: tuple[float, float] = (100.0, 300.0),
    window_seconds: float = 60.0,
    costs: Costs | None = None,
) -> Trace:
    """Make the paper's phases: random rates for random lengths of time, with abrupt changes (Paper: Q_5).

    The default cost keeps 69 instances busy at the highest rate, for good.
    """
    chance = random.Random(seed)
    chosen = costs or Costs(
        tuple_ns=2000.0, update_ns=0.0, comparison_ns=35.0, output_ns=200.0, outputs_per_comparison=1e-5
    )
    moments, begin = [], 0.0
    while begin < seconds:
        rate = chance.uniform(*rates)
        sides = (rate / 2, rate / 2) if window_seconds else (rate,)
        moments.append(Moment(round(begin, 3), sides, chosen))
        begin += chance.uniform(*lengths)
    return Trace(tuple(moments), seconds, window_seconds)


def _window_of(loads: Sequence[Load]) -> float:
    """Return how long windows are that hold what was stored, at the rate of that time."""
    last = loads[-1]
    return sum(last.stored) / last.arrival_rate if last.stored and last.arrival_rate > 0 else 0.0


def _of_record(record: dict[str, Any]) -> Trace:
    moments = tuple(
        Moment(float(one["seconds"]), tuple(map(float, one["rates"])), Costs(**one.get("costs", {})))
        for one in record["moments"]
    )
    return Trace(moments, float(record["seconds"]), float(record.get("window_seconds", 0.0)))


# --- CSV: one line per moment, the last of them only to say when the trace ends


def _write_csv(trace: Trace, path: Path) -> None:
    last = trace.moments[-1]
    rows = [_flat(moment, trace) for moment in (*trace.moments, Moment(trace.seconds, last.rates, last.costs))]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _flat(moment: Moment, trace: Trace) -> dict[str, float]:
    names = ["rate"] if len(moment.rates) == 1 else ["rate_0", "rate_1"]
    rates = dict(zip(names, moment.rates, strict=True))
    return {"seconds": moment.seconds, **rates, "window_seconds": trace.window_seconds, **asdict(moment.costs)}


def _read_csv(path: Path) -> Trace:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    if len(rows) < 2:
        raise ValueError("it has fewer than two lines of numbers; the last one says when it ends")
    moments = tuple(_of_row(row) for row in rows[:-1])
    return Trace(moments, rows[-1]["seconds"], rows[0].get("window_seconds", 0.0))


def _of_row(row: dict[str, float]) -> Moment:
    rates = (row["rate"],) if "rate" in row else (row["rate_0"], row["rate_1"])
    costs: Iterable[str] = [one.name for one in fields(Costs) if one.name in row]
    return Moment(row["seconds"], rates, Costs(**{name: row[name] for name in costs}))
