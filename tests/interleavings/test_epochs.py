"""No order of turns makes an epoch switch lose or repeat a tuple, mix up epochs, or leave somebody behind for ever.

Uncompiled only, as `test_ready_log`. The kernels of the switch and of both logs are the real ones; the loop around them
is that of `epochs.worker`, without windows: a worker gives one result per tuple and key group that it owns.
"""

from __future__ import annotations

import numpy as np
import pytest

from stretch.buffer import ready_log_kernels as log_kernels
from stretch.buffer.layout import CONTROL, DATA
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import FULL, Column
from stretch.epochs import kernels
from stretch.epochs.coordinator import Coordinator
from stretch.epochs.layout import (
    BARRIER_CELL,
    EPOCH,
    EPOCHS_MAX,
    HAS_WATERMARK,
    IN_POOL,
    NONE,
    OK,
    PENDING,
    POOL_CELL,
    POSITION,
    SWITCH_AT,
    WATERMARK,
    control_index,
    make_epochs,
)
from stretch.native import (
    WAIT_STOPPED,
    Interleaver,
    InterleavingError,
    deadline_after,
    wake_all,
)
from stretch.native.jit import JIT_ENABLED
from stretch.native.memory import address_of

if JIT_ENABLED:
    pytest.skip("explored uncompiled: make test-nojit runs this file", allow_module_level=True)

SEEDS = range(40)
FAULT_SEEDS = range(2000)
LONG_NS = 10**12
GROUPS = 3
END = 1000


class Operator:
    """Shared memory of an operator with a pool of workers, one source, and a reader of results."""

    def __init__(self, pool, instances, first_reader=0):
        self.epochs = make_epochs(GROUPS, pool, first_reader)
        number = [[Column("number", np.int64)]]
        stop = self.epochs.stop
        self.log = ReadyLog(number, [Source(0, 0)], first_reader + pool, capacity=8, staging=8, stop=stop)
        self.out = ReadyLog(number, [Source(0)] * pool, 1, capacity=64, staging=64, stop=stop)
        self.coordinator = Coordinator(self.epochs, lambda: True)
        self.first_reader = first_reader
        self.processed = []
        self.finished = 0
        self.coordinator.request(instances, owners(instances, 0))
        self.log.add_sources([0])
        self.log.add_readers([first_reader + instance for instance in instances])
        self.out.add_sources(instances)
        self.out.add_readers([0])
        for instance in instances:
            self.epochs.workers[instance, EPOCH] = 0

    def feed(self, events):
        """The source: an int is the time of a tuple, a list is a request for these instances."""
        view, count = self.log.view, 0
        controls = []
        for event in [*events, END]:
            if isinstance(event, list):
                change = self.coordinator.request(event, owners(event, len(self.coordinator.changes)))
                controls.append(change.epoch)
                continue
            for epoch in controls:
                index = control_index(self.first_reader, epoch)
                while log_kernels.stage_control(view, 0, event, index) == FULL:
                    log_kernels.wait_for_rows(view, 0, 1, deadline_after(LONG_NS))
            controls = []
            times, numbers = np.array([event]), np.array([count])
            addresses = np.array([address_of(numbers), 0])
            log_kernels.admit_all(view, 0, 0, 1, address_of(times), addresses, deadline_after(LONG_NS))
            count += 1
        log_kernels.advance(view, 0, 2 * END + 2)

    def work(self, worker):
        """The loop of a worker."""
        epochs, view, out, row = self.epochs, self.log.view, self.out.view, self.epochs.workers[worker]
        reader = self.first_reader + worker
        while True:
            if row[EPOCH] == IN_POOL and kernels.join(epochs, worker) != OK:
                return
            position = int(row[POSITION])
            if log_kernels.ready_end(view) == position:
                if log_kernels.wait_for_entries(view, position, deadline_after(LONG_NS)) == WAIT_STOPPED:
                    return
                continue
            time, ref = (int(ring[position & (self.log.capacity - 1)]) for ring in (view.times, view.refs))
            if ref & 3 == CONTROL:
                kernels.note_next_epoch(epochs, worker, ref >> 8, time)
            elif not self.switch(worker, position, time):
                if row[EPOCH] == IN_POOL:
                    continue
                return
            else:
                row[WATERMARK], row[HAS_WATERMARK] = time, 1
                if ref & 3 == DATA:
                    self.process(worker, position, time)
            row[POSITION] = position + 1
            if row[HAS_WATERMARK]:
                log_kernels.advance(out, worker, 2 * (int(row[WATERMARK]) + 1))
            log_kernels.release_to(view, reader, position + 1)
            if time >= END and ref & 3 == DATA:
                self.finish(worker)
                return

    def switch(self, worker, position, time):
        """Go to the next epoch if this entry triggers it; False if the worker does not go on with the entry."""
        row = self.epochs.workers[worker]
        if row[PENDING] == NONE or time <= row[SWITCH_AT] or (row[HAS_WATERMARK] and time <= row[WATERMARK]):
            return True
        row[POSITION] = position
        view, out = self.log.view, self.out.view
        if row[HAS_WATERMARK]:
            log_kernels.advance(out, worker, 2 * (int(row[WATERMARK]) + 1))
        log_kernels.release_to(view, self.first_reader + worker, position)
        status = kernels.switch_epoch(self.epochs, view, out, worker, position, time)
        return status == OK and row[EPOCH] != IN_POOL

    def process(self, worker, position, time):
        row, out, staging = self.epochs.workers[worker], self.out.view, self.out.staging(worker)
        mapping = self.epochs.mapping[row[EPOCH] % EPOCHS_MAX]
        for group in range(GROUPS):
            if mapping[group] == worker:
                self.processed.append((position, group, int(row[EPOCH])))
                number = log_kernels.reserve_rows(out, worker, 1)
                assert number != FULL
                at = number & (self.out.staging_capacity - 1)
                staging.times[at], staging.ranks[at], staging.columns[0][at] = time + 1, group, time
                log_kernels.publish_rows(out, worker, 1)

    def finish(self, worker):
        """The last of those that run stops everybody: whoever is in the pool waits for nothing else."""
        log_kernels.advance(self.out.view, worker, 2 * (END + 2))
        self.finished += 1
        row = self.epochs.workers[worker]
        if self.finished == self.epochs.members[row[EPOCH] % EPOCHS_MAX].sum():
            self.log.close()
            for cell in (BARRIER_CELL, POOL_CELL):
                wake_all(self.epochs.cells, cell)

    def results(self):
        """Read what is ready at the end."""
        log_kernels.merge_now(self.out.view)
        view, mask = self.out.view, self.out.capacity - 1
        found = [(int(view.times[p & mask]), int(view.refs[p & mask])) for p in range(log_kernels.ready_end(view))]
        return [(time, int(self.out.columns()[0][ref >> 8])) for time, ref in found if ref & 3 == DATA]


def owners(instances, turn):
    return [instances[(group + turn) % len(instances)] for group in range(GROUPS)]


def run(seed, pool, instances, events, first_reader=0):
    operator = Operator(pool, instances, first_reader)
    tasks = [lambda: operator.feed(events)] + [lambda w=worker: operator.work(w) for worker in range(pool)]
    Interleaver(seed, strict_parks=True).run(tasks)
    check(operator, [event for event in [*events, END] if not isinstance(event, list)])


def check(operator, times):
    """Every tuple was processed once per group, in one epoch, and all results came out in order."""
    tuples = sorted({position for position, _, _ in operator.processed})
    assert len(tuples) == len(times)
    assert sorted((p, g) for p, g, _ in operator.processed) == [(p, g) for p in tuples for g in range(GROUPS)]
    epochs = [{e for p, _, e in operator.processed if p == position} for position in tuples]
    assert all(len(found) == 1 for found in epochs)
    assert epochs == sorted(epochs, key=max)
    assert operator.results() == [(time + 1, time) for time in times for _ in range(GROUPS)]
    changes = [change.progress() for change in operator.coordinator.changes][1:]
    assert all(change.status in ("switched", "superseded") for change in changes)
    began = [change.epoch for change in operator.coordinator.changes if change.status == "switched"]
    assert operator.coordinator.latest_epoch == max(began, default=0)


SCENARIOS = {
    "grow and shrink": (3, [0], [1, [0, 1, 2], 2, 3, [1], 4, 5, [0, 2], 6, 7]),
    "leave and come back at once": (3, [0, 1], [1, [0], 2, 3, [0, 1], 4, 5, [0], 6, 7, [0, 1], 8, 9]),
    "everybody is replaced": (4, [0, 1], [1, [2, 3], 2, 3, [0, 1], 4, 5, [2, 3], 6, 7]),
    "the same instances": (2, [0, 1], [1, [0, 1], 2, 3, [1, 0], 4, 5]),
    "one overtakes another": (3, [0, 1], [1, [0], [1, 2], 2, [2], 3, [0, 1, 2], 4, 5]),
    "with equal times": (3, [0], [1, 1, [0, 1], 1, 1, 2, 2, [1, 2], 2, 3, 3]),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_switch(name, seed):
    run(seed, *SCENARIOS[name])


@pytest.mark.parametrize("seed", range(10))
def test_an_operator_that_shares_its_input_with_others(seed):
    run(seed, *SCENARIOS["grow and shrink"], first_reader=5)


# --- Faults that the runs must find


def seeds_that_fail(name):
    for seed in FAULT_SEEDS:
        try:
            run(seed, *SCENARIOS[name])
        except (AssertionError, InterleavingError):
            return [seed]
    return []


def wait_for_nobody(epochs, epoch, count):
    kernels.fetch_add(epochs.progress[epoch % EPOCHS_MAX], kernels.ARRIVED, 1)
    return OK


def everybody_wins(cells, index, expected, value):
    return True


def hand_over_the_next(epochs, worker, count, epoch, position, original=kernels.hand_over):
    original(epochs, worker, count, epoch, position + 1)


def wait_for_no_leaver(epochs, epoch):
    return OK


FAULTS = {
    "a switch does not wait for those who left with the one before": (
        "wait_for_switch",
        wait_for_no_leaver,
        "everybody is replaced",
    ),
    "nobody waits at the barrier": ("wait_for_workers", wait_for_nobody, "grow and shrink"),
    "joining workers start at the next tuple": ("hand_over", hand_over_the_next, "grow and shrink"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_finds(fault, monkeypatch):
    name, wrong, scenario = FAULTS[fault]
    monkeypatch.setattr(kernels, name, wrong)
    assert seeds_that_fail(scenario)
