"""A query that is killed at random moments gives every result once: `python -m tests.spark.kills --kills 50`.

The query of `tests.harness.query` runs in a process of its own. A killer waits for it to commit something, and then for
a random moment; it sends kill -9 to a Python worker (the task is tried again), to the JVM, or to both at once (the
query is started again). Now and then it does so before anything was committed. At the end the files that the sink
names have to hold the rows that DuckDB finds.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import query
from tests.harness.processes import command, descendants, java_machines, kill, kill_with_descendants, python_workers

TARGETS = ("worker", "jvm", "both")
BATCHES_PER_KILL = 8
SILENCE_SECONDS = 900  # with nothing committed: something hangs


@dataclass
class Outcome:
    """What happened, and what came out."""

    kills: Counter[str] = field(default_factory=Counter)
    early: int = 0
    """Kills before the query had committed anything since its start."""
    starts: int = 0
    batches: int = 0
    rows: int = 0
    lost: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    added: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def is_exactly_once(self) -> bool:
        return not self.lost and not self.added

    def __str__(self) -> str:
        kills = ", ".join(f"{self.kills[target]} of {target}" for target in TARGETS)
        verdict = "nothing lost, nothing twice" if self.is_exactly_once else (
            f"{self.lost.total()} rows lost, {self.added.total()} too many, such as"
            f" {list(self.lost)[:3]} and {list(self.added)[:3]}"
        )  # fmt: skip
        return (
            f"{self.kills.total()} kills ({kills}; {self.early} early) in {self.batches} micro-batches,"
            f" {self.starts} starts, {self.seconds:.0f} s: {self.rows} rows, {verdict}"
        )


def run(
    folder: Path,
    kills: int,
    seed: int = 0,
    *,
    files: int | None = None,
    rows_per_file: int = 200,
    settings: query.Settings | None = None,
    say=lambda text: None,
) -> Outcome:
    """Run the query to its end in spite of so many kills, and compare."""
    begun, chance, outcome = time.monotonic(), random.Random(seed), Outcome()
    query.prepare(folder, settings or query.Settings(), files or kills * BATCHES_PER_KILL, rows_per_file, seed)
    with (folder / "query.log").open("ab") as log:
        while True:
            process = _start(folder, log)
            outcome.starts += 1
            try:
                while outcome.kills.total() < kills and process.poll() is None:
                    _kill_once(process, folder, chance, outcome, say)
                if process.wait(timeout=SILENCE_SECONDS + 600 * (outcome.kills.total() >= kills)) == 0:
                    break
            finally:
                kill_with_descendants(process.pid)
                process.wait()
            assert outcome.starts <= 2 * kills + 2, f"it does not come to its end: {folder / 'query.log'}"
    assert outcome.kills.total() == kills, f"the input was used up after {outcome.kills.total()} kills"
    expected, found = query.expected(folder), query.written(folder)
    outcome.batches, outcome.rows = query.batches(folder), found.total()
    outcome.lost, outcome.added = expected - found, found - expected
    outcome.seconds = time.monotonic() - begun
    return outcome


def _start(folder: Path, log) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.harness.query", str(folder)],
        stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def _kill_once(process, folder: Path, chance: random.Random, outcome: Outcome, say) -> None:
    """Wait for a moment, and kill one target; return early if the query ends by itself."""
    before, target = query.batches(folder), chance.choice(TARGETS)
    is_early = chance.random() < 0.1
    if is_early:
        _until(process, lambda: java_machines(process.pid))
        time.sleep(chance.uniform(0, 5))
    else:
        _until(process, lambda: query.batches(folder) > before)
        time.sleep(chance.uniform(0, 1.5))
    workers, machines = python_workers(process.pid), java_machines(process.pid)
    victims = {"worker": workers[:1], "jvm": machines, "both": workers + machines}[target]
    if process.poll() is not None or kill(victims) == 0:
        return
    outcome.kills[target] += 1
    outcome.early += is_early
    say(f"{outcome.kills.total()}: {target} after micro-batch {query.batches(folder)}{' (early)' * is_early}")
    if target != "worker":
        process.wait(timeout=SILENCE_SECONDS)


def _until(process, happened) -> None:
    end = time.monotonic() + SILENCE_SECONDS
    while process.poll() is None and not happened():
        assert time.monotonic() < end, f"nothing for {SILENCE_SECONDS} s; it runs {_running(process)}"
        time.sleep(0.02)


def _running(process) -> list[str]:
    return [command(pid)[:80] for pid in descendants(process.pid)]


def main() -> int:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--broken", action="store_true", help="a query that is not exactly once: it has to be noticed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {text}", file=sys.stderr, flush=True)

    settings = query.Settings(shards=options.shards, is_broken=options.broken)
    outcome = run(folder, options.kills, options.seed, settings=settings, say=say)
    print(outcome)
    print(f"files: {folder}")
    return 0 if outcome.is_exactly_once else 1


if __name__ == "__main__":
    sys.exit(main())
