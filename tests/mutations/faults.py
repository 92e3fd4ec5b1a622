"""Deliberate faults of the reference engine: the paper taken literally where that goes wrong, and plain blunders.

`table.py` says for each which test has to catch it. A function here replaces a piece of the engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind
from stretch.operator import join, pairing
from stretch.operator.plan import Plan
from stretch.reference import process, store
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.control import ControlQueues
from stretch.reference.process import Processor
from stretch.reference.scheduler import Turn
from stretch.reference.shared_nothing import SharedNothing
from stretch.reference.virtual import Pending, VirtualInstance, VirtualSharedNothing
from stretch.windows.spec import Boundaries

NOTHING_LOST = "semantics/test_elasticity.py::test_no_tuple_is_lost_or_repeated_across_epoch_switches"
ONE_EPOCH = "semantics/test_elasticity.py::test_each_tuple_is_processed_in_one_epoch_once_by_each_of_its_instances"
DEFINITION = "semantics/test_definition.py::test_results_equal_the_definition_in_every_interleaving"
CONTRACT = "reference/test_buffer.py::TestReferenceBuffer::"


@dataclass(frozen=True)
class Fault:
    """What is wrong, in words and in code, and which test says so (with these arguments).

    `note` is the paper note (docs/paper-notes.md) whose literal reading the fault is.
    """

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: str
    arguments: dict[str, Any] = field(default_factory=dict)
    note: int | None = None

    @property
    def name(self) -> str:
        return self.plant.__name__.replace("_", " ")


# --- the switch of epochs


def new_readers_start_at_the_next_tuple(patch: pytest.MonkeyPatch) -> None:
    add_readers = ReferenceBuffer.add_readers
    patch.setattr(
        ReferenceBuffer,
        "add_readers",
        lambda self, readers, reader, *, from_last=False: add_readers(self, readers, reader),
    )


def the_switch_condition_stays_true(patch: pytest.MonkeyPatch) -> None:
    switch = VirtualInstance._switch

    def once_more(self: Any, entry: Entry) -> Iterator[Turn]:
        pending = self.pending
        yield from switch(self, entry)
        self.pending = pending

    patch.setattr(VirtualInstance, "_switch", once_more)


def nobody_waits_at_the_barrier(patch: pytest.MonkeyPatch) -> None:
    def pass_by(self: Any, epoch: Any, instances: Any) -> Iterator[Turn]:
        yield Turn.RAN

    patch.setattr(VirtualInstance, "_wait_for_instances", pass_by)


def the_mapping_changes_at_the_control_tuple(patch: pytest.MonkeyPatch) -> None:
    prepare = VirtualInstance.prepare_reconfiguration

    def at_once(self: Any, entry: Entry) -> None:
        prepare(self, entry)
        if self.pending:
            self.epoch = self.epoch._replace(mapping=self.pending.epoch.mapping)

    patch.setattr(VirtualInstance, "prepare_reconfiguration", at_once)


def only_numbers_of_instances_are_compared(patch: pytest.MonkeyPatch) -> None:
    connect = VirtualSharedNothing.connect

    def if_more(self: Any, joining: Any, handover: Any, by: int) -> bool:
        is_growth = len(handover.epoch.instances) > len(self.instances[by].epoch.instances)
        return is_growth and connect(self, joining, handover, by)

    patch.setattr(VirtualSharedNothing, "connect", if_more)


def instances_leave_before_others_join(patch: pytest.MonkeyPatch) -> None:
    connect = VirtualSharedNothing.connect

    def too_late(self: Any, joining: Any, handover: Any, by: int) -> bool:
        leaving = self.instances[by].epoch.instances - handover.epoch.instances
        if leaving:
            self.disconnect(leaving)
        return connect(self, joining, handover, by)

    patch.setattr(VirtualSharedNothing, "connect", too_late)


def joining_instances_start_in_epoch_zero(patch: pytest.MonkeyPatch) -> None:
    join_epoch = VirtualInstance._join

    def at_zero(self: Any) -> bool:
        is_joining = join_epoch(self)
        if is_joining:
            self.epoch = self.epoch._replace(number=0)
        return is_joining

    patch.setattr(VirtualInstance, "_join", at_zero)


def joining_instances_are_bound_to_the_trigger(patch: pytest.MonkeyPatch) -> None:
    connect = VirtualSharedNothing.connect

    def as_printed(self: Any, joining: Any, handover: Any, by: int) -> bool:
        trigger = self.switches[handover.epoch.number].trigger
        return connect(self, joining, handover._replace(progress=trigger[:1]), by)

    patch.setattr(VirtualSharedNothing, "connect", as_printed)


def an_older_epoch_replaces_a_newer_one(patch: pytest.MonkeyPatch) -> None:
    def take_any(self: Any, entry: Entry) -> None:
        name, epoch = entry.payload
        if name == self.shared.name and epoch != self.epoch:
            self.pending = Pending(epoch, entry.timestamp)

    patch.setattr(VirtualInstance, "prepare_reconfiguration", take_any)


def heartbeats_carry_no_control_tuples(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControlQueues, "advance", lambda self, bound, source: self.buffer.advance(bound, source))


# --- the tuple buffer


def ready_means_as_early_as_all_others(patch: pytest.MonkeyPatch) -> None:
    def is_ready(self: Any, entry: Entry) -> bool:
        return all(bound and bound[0] >= entry.timestamp for bound in self._bounds.values())

    patch.setattr(ReferenceBuffer, "_is_ready", is_ready)


def a_removed_source_takes_its_tuples_along(patch: pytest.MonkeyPatch) -> None:
    remove = ReferenceBuffer.remove_sources

    def without_flush(self: Any, sources: Any) -> bool:
        sources = set(sources)
        self._pending = [item for item in self._pending if item[1] not in sources]
        return remove(self, sources)

    patch.setattr(ReferenceBuffer, "remove_sources", without_flush)


def new_sources_have_promised_nothing(patch: pytest.MonkeyPatch) -> None:
    add_sources = ReferenceBuffer.add_sources
    patch.setattr(ReferenceBuffer, "add_sources", lambda self, sources, bound: add_sources(self, sources, BOTTOM))


def every_caller_is_told_true(patch: pytest.MonkeyPatch) -> None:
    remove = ReferenceBuffer.remove_readers

    def always(self: Any, readers: Any) -> bool:
        remove(self, readers)
        return True

    patch.setattr(ReferenceBuffer, "remove_readers", always)


def a_control_tuple_swallows_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def merge(self: Any) -> None:
        while self._pending and self._is_ready(self._pending[0][0]):
            self._ready.append(heapq.heappop(self._pending)[0])
        reached = min(self._bounds.values(), default=BOTTOM)
        if reached and (not self._ready or reached[0] > self._ready[-1].timestamp):
            self._ready.append(Entry((reached[0], BEFORE_ALL), EntryKind.WATERMARK))

    patch.setattr(ReferenceBuffer, "_merge", merge)


# --- progress and order of results


def silent_instances_publish_no_progress(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VirtualInstance, "publish_progress", lambda self, entry: None)


def instances_promise_one_step_too_much(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Processor, "progress", lambda self, entry: (entry.timestamp + 2,))


def rows_of_updates_leave_at_once(patch: pytest.MonkeyPatch) -> None:
    def update(self: Any, windows: Any, t: Any) -> None:
        function = self._operator.update or store_only
        right = self._boundaries.right(windows.left)
        for row in self._call(function, "update", windows.key, t.timestamp, windows.view, t):
            self._result(right, windows.group, self._row(row, "update", windows.key, t.timestamp))

    def store_only(view: Any, t: Any) -> None:
        (view if hasattr(view, "tuples") else view[t.input]).tuples.append(t)

    patch.setattr(Processor, "_update", update)


# --- windows


def the_right_boundary_belongs_to_the_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Boundaries,
        "earliest_left",
        lambda self, timestamp: ((timestamp - self.size - 1) // self.advance + 1) * self.advance,
    )


def times_before_1970_are_cut_towards_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Boundaries, "latest_left", lambda self, timestamp: int(timestamp / self.advance) * self.advance)


def windows_wait_for_a_watermark_beyond_their_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Boundaries, "is_expired", lambda self, left, watermark: self.right(left) < watermark)


def windows_end_one_step_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Boundaries, "is_expired", lambda self, left, watermark: self.right(left) <= watermark + 1)


def tuples_at_the_left_boundary_are_purged(patch: pytest.MonkeyPatch) -> None:
    def purge(w: Any) -> None:
        w.tuples[:] = [t for t in w.tuples if t.timestamp > w.left]

    patch.setattr(process, "purge", purge)
    patch.setattr(join, "purge", purge)


def windows_are_walked_to_step_by_step(patch: pytest.MonkeyPatch) -> None:
    slide = Processor._slide
    patch.setattr(Processor, "_slide", lambda self, windows, watermark: slide(self, windows, windows.left))


def everyone_reports_every_window(patch: pytest.MonkeyPatch) -> None:
    expire = Processor.expire
    patch.setattr(Processor, "expire", lambda self, watermark, owns: expire(self, watermark, lambda group: True))


# --- keys


def a_key_counts_as_often_as_it_occurs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Processor, "keys_of", lambda self, index, t: list(self.plan.streams[index].keys(t)))


def join_keys_go_from_one_to_a_thousand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pairing, "every", lambda groups: lambda t: range(1, groups + 1))
    patch.setattr(process, "_check_group", lambda key, plan: None)
    group_of = Plan.group_of
    patch.setattr(Plan, "group_of", lambda self, key: group_of(self, key) % self.group_count)


# --- shared-nothing


def joins_keep_tuples_as_printed(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(join.Join.__init__.__kwdefaults__, "printed_purge", True)


def state_moves_without_the_rows_held(patch: pytest.MonkeyPatch) -> None:
    plain = store._plain
    patch.setattr(store, "_plain", lambda windows: (*plain(windows)[:2], [], plain(windows)[3]))


def heartbeats_reach_one_instance_only(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Any, bound: Any, source: Any) -> None:
        next(iter(self.queues.values())).advance(bound, source)

    patch.setattr(SharedNothing, "advance", advance)
