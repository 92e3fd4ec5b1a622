"""Whatever happens between and during micro-batches, the committed ones give the results of the reference, once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as some

from stretch.node import Node, StateLog
from tests.node.streams import SCHEMA, Model, Tuple, batch, operator, rows_of

POOL = 3
TEXTS = ["a", "b", "", "seventeen letters", "a text that is too long to be kept in a record", "ä" * 9]
FATES = ["well", "well", "well", "before", "amid", "uncommitted", "torn", "committed"]


@dataclass(frozen=True)
class Step:
    """A micro-batch: its rows, how its first attempt ends, and what follows."""

    rows: tuple[tuple[Tuple, ...], ...]
    fate: str
    pause: float
    change: int | None
    """A parallelism to ask for while it runs."""
    restored_with: int | None


@dataclass(frozen=True)
class Run:
    """A stream, cut into micro-batches, and how it is read."""

    steps: tuple[Step, ...]
    disorder: int
    by_device: bool
    idle: float | None
    replay_seconds: float
    is_flushed: bool


@some.composite
def runs(draw) -> Run:
    steps, now = [], draw(some.integers(-30, 30))
    for _ in range(draw(some.integers(1, 7))):
        now += draw(some.integers(0, 12))
        row = some.builds(
            Tuple,
            some.integers(now - 15, now + 15),
            some.sampled_from(["x", "y", None]),
            some.lists(some.sampled_from(TEXTS), max_size=3).map(tuple),
            some.integers(-9, 9),
        )
        parts = some.lists(some.lists(row, max_size=6).map(tuple), max_size=3).map(tuple)
        step = some.builds(
            Step,
            parts,
            some.sampled_from(FATES),
            some.sampled_from([0.5, 3.0]),
            some.sampled_from([None, None, 1, 2, 3]),
            some.sampled_from([None, 1, 2]),
        )
        steps.append(draw(step))
    return draw(
        some.builds(
            Run,
            some.just(tuple(steps)),
            some.sampled_from([0, 3, 10]),
            some.booleans(),
            some.sampled_from([None, 5.0]),
            some.sampled_from([0.0, 1e9]),
            some.booleans(),
        )
    )


class CrashError(Exception):
    """The process ends here."""


class TornLog(StateLog):
    """A log whose writer dies before a file is complete."""

    def _replace(self, name, final):
        raise CrashError


class Driver:
    """What Spark does: micro-batch after micro-batch, each again until its commit is known."""

    def __init__(self, run: Run, directory: Path) -> None:
        self.run = run
        self.directory = directory
        self.options = {
            "disorder": run.disorder,
            "source": "device" if run.by_device else None,
            "idle": None if run.idle is None else f"{run.idle:g} seconds",
            "max_parallelism": POOL,
        }
        self.results: list[tuple] = []
        self.late: list[tuple] = []
        self.node = Node(operator(), [SCHEMA], **self.options)
        self.version: int | None = None

    def log(self, kind: type[StateLog] = StateLog) -> StateLog:
        return kind(self.directory, replay_seconds=self.run.replay_seconds, min_versions=2)

    def play(self) -> None:
        now = 0.0
        for number, step in enumerate(self.run.steps):
            now += step.pause
            is_last = number + 1 == len(self.run.steps)
            try:
                self.attempt(number, step, now, is_last and self.run.is_flushed, step.fate)
            except CrashError:
                self.node.stop()
                self.node = self.restored(step.restored_with)
                self.attempt(number, step, now, is_last and self.run.is_flushed, "well")
            self.version = number
        self.node.stop()

    def restored(self, parallelism: int | None) -> Node:
        if self.version is None:
            return Node(operator(), [SCHEMA], parallelism=parallelism or 1, **self.options)
        return Node.restore(self.log(), self.version, operator(), [SCHEMA], parallelism=parallelism, **self.options)

    def attempt(self, number: int, step: Step, now: float, is_flushed: bool, fate: str) -> None:
        node = self.node
        if fate == "before":
            raise CrashError
        if step.change is not None:
            node.reconfigure(step.change)
        given = [(0, batch(rows)) for rows in step.rows]
        made = []
        if fate == "amid":
            given.append((0, batch([Tuple(0, "x", (), 0)]).drop_columns(["ts"])))
        try:
            for some_rows in node.process(number, given, now=now):
                made += rows_of([some_rows])
        except Exception as problem:
            raise CrashError from problem
        if is_flushed:
            made += rows_of(node.flush())
        late = [tuple(row.values()) for row in node.late().to_pylist()]
        if fate == "uncommitted":
            raise CrashError
        node.commit(self.log(TornLog if fate == "torn" else StateLog))
        if fate == "committed":
            raise CrashError
        self.results += made
        self.late += late


def by_the_model(run: Run) -> Model:
    model, now = Model(run.disorder, run.by_device, run.idle), 0.0
    for step in run.steps:
        now += step.pause
        model.take([t for part in step.rows for t in part], now)
    if run.is_flushed:
        model.flush()
    return model


@given(runs())
@settings(max_examples=60, deadline=None)
def test_results_of_committed_micro_batches_are_those_of_the_reference(run):
    model = by_the_model(run)
    with tempfile.TemporaryDirectory() as directory:
        driver = Driver(run, Path(directory) / "log")
        try:
            driver.play()
        finally:
            driver.node.stop()
    assert driver.results == model.results()
    assert sorted(map(repr, driver.late)) == sorted(repr((*t[:2], list(t.words), t.x)) for t in model.late)
