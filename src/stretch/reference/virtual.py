"""Virtual shared-nothing: instances that share one buffer and one store (Paper: Algorithm "processVSN").

Local to an instance: watermark, epoch, pending next epoch. Shared: the buffers, the store, the barrier, the
handovers. An epoch says which instances run and which of them owns each key group. The order of a switch:

1. every instance of the epoch reaches the barrier at the same tuple, the first whose watermark passes `switch_at`;
2. exactly one of them, whoever the buffer lets win, connects the joining ones to the output and then to the input,
   and one disconnects the leaving ones from the input and then from the output;
3. each goes on with the mapping of the next epoch, at that very tuple; the joining ones start with it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import NamedTuple

from stretch.buffer.api import BOTTOM, Entry, EntryKind, Member, Position
from stretch.operator.plan import Plan
from stretch.operator.spec import Mapping
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.control import ControlQueues
from stretch.reference.process import Counts, Processor
from stretch.reference.scheduler import Scheduler, Steps, Turn
from stretch.reference.store import WindowStore


class Epoch(NamedTuple):
    """Who runs, and who owns which key group (Paper: e, O, f_mu)."""

    number: int
    instances: frozenset[int]
    mapping: tuple[int, ...]


class Pending(NamedTuple):
    """An epoch that starts with the first watermark beyond `switch_at` (Paper: e*, O*, f_mu*, gamma)."""

    epoch: Epoch
    switch_at: int


class Handover(NamedTuple):
    """What a joining instance starts with: its first tuple is the one that triggered the switch."""

    epoch: Epoch
    watermark: int | None
    progress: Position


@dataclass
class Moments:
    """When the steps of a change happened, by the monotonic clock; 0 for those that did not (yet). For metrics only."""

    requested_ns: int
    control_ns: int = 0
    barrier_ns: int = 0
    switched_ns: int = 0


@dataclass
class Switch:
    """One epoch switch, as tests and metrics see it."""

    epoch: Epoch
    trigger: Position
    bound_of_joining: Position
    instances: list[int] = field(default_factory=list)  # who went through it
    changed_by: list[int] = field(default_factory=list)  # who connected and disconnected: exactly one


EGRESS = "egress"
"""The reader that takes an operator's results out of the last buffer."""


class VirtualSharedNothing:
    """An operator with a pool of `max_parallelism` instances that share buffers and store (Paper: setup).

    `input` is what sources add to: a buffer of its own, or the `output` of another operator (chaining).
    """

    def __init__(
        self,
        plan: Plan,
        scheduler: Scheduler,
        input: ControlQueues,
        *,
        parallelism: int,
        max_parallelism: int,
        name: str = "operator",
    ) -> None:
        self.plan = plan
        self.input = input
        self.name = scheduler.unique(name)  # as a reader of the input, in control tuples, and for its tasks
        active = range(parallelism)
        self.max_parallelism = max_parallelism
        self.first_epoch = Epoch(0, frozenset(active), plan.mapping_for(active))
        self.output = ControlQueues(ReferenceBuffer(active, [EGRESS]))
        self.windows = WindowStore(plan)
        self.counts = Counts()
        self.requested: list[Epoch] = []
        self.moments: dict[int, Moments] = {}  # epoch number -> when what happened
        self.switches: dict[int, Switch] = {}  # epoch number -> how it began
        self.arrived: Counter[int] = Counter()  # epoch number -> instances at the barrier before it
        self._claimed: set[int] = set()  # epochs whose instances someone connects and disconnects
        self.handovers: dict[int, Handover] = {}  # written by who connects an instance, taken by that instance
        for instance in active:
            self.handovers[instance] = Handover(self.first_epoch, None, BOTTOM)
        input.buffer.add_readers([self.reader(instance) for instance in active], EGRESS)
        self.instances = [VirtualInstance(self, number) for number in range(max_parallelism)]
        for each in self.instances:
            scheduler.spawn(f"{self.name}.{each.number}", each.run())

    @property
    def latest_epoch(self) -> Epoch:
        """The epoch that began last."""
        return max((switch.epoch for switch in self.switches.values()), default=self.first_epoch)

    def reader(self, instance: int) -> Member:
        """Return the name of an instance as a reader of the input."""
        return self.name, instance

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None = None) -> Epoch:
        """Ask for other instances or another mapping: grow, shrink, replace, rebalance (Paper: reconfigure)."""
        epoch = Epoch(len(self.requested) + 1, frozenset(instances), self.plan.mapping_for(instances, mapping))
        self.requested.append(epoch)
        self.moments[epoch.number] = Moments(monotonic_ns())
        self.input.announce((self.name, epoch))
        return epoch

    def claim(self, epoch: Epoch) -> bool:
        """Return True to the first instance that asks for an epoch.

        A leaving one may ask after later switches. The buffer's own answer is not enough then: who has left may be
        back, and be a reader again.
        """
        is_first = epoch.number not in self._claimed
        self._claimed.add(epoch.number)
        return is_first

    def connect(self, joining: frozenset[int], handover: Handover, by: int) -> bool:
        """Connect instances, first to the output and then to the input; True for the one caller that does it."""
        if not self.output.add_sources(joining, handover.progress):
            return False
        readers = [self.reader(instance) for instance in joining]
        self.input.buffer.add_readers(readers, self.reader(by), from_last=True)
        return True

    def disconnect(self, leaving: frozenset[int]) -> bool:
        """Disconnect instances, first from the input and then from the output; True for the one that does it."""
        if not self.input.buffer.remove_readers(self.reader(instance) for instance in leaving):
            return False
        self.output.remove_sources(leaving)
        return True


class VirtualInstance:
    """One instance (Paper: o_j): takes entries from the input in order and processes what its epoch assigns to it."""

    def __init__(self, shared: VirtualSharedNothing, number: int) -> None:
        self.shared = shared
        self.number = number
        self.processor = Processor(shared.plan, shared.windows, shared.counts, self._emit)
        self.epoch: Epoch | None = None  # None while in the pool
        self.pending: Pending | None = None
        self.watermark: int | None = None

    def run(self) -> Steps:
        """Take entries for ever; idle while there is none, or while in the pool."""
        while True:
            if self.epoch is None and not self._join():
                yield Turn.IDLE
                continue
            entry = self.shared.input.buffer.get(self.shared.reader(self.number))
            if entry is None:
                yield Turn.IDLE
                continue
            yield Turn.RAN
            yield from self.process(entry)

    def process(self, entry: Entry) -> Steps:
        """Process one entry (Paper: processVSN)."""
        if entry.kind is EntryKind.CONTROL:
            self.prepare_reconfiguration(entry)
            return
        if self._triggers_switch(entry):
            yield from self._switch(entry)
            if self.epoch is None:
                return
        self.watermark = entry.timestamp
        yield from self.processor.process(entry, self.owns)
        self.publish_progress(entry)

    def owns(self, group: int) -> bool:
        """Tell whether the current epoch assigns a key group to this instance."""
        assert self.epoch is not None
        return self.epoch.mapping[group] == self.number

    def prepare_reconfiguration(self, entry: Entry) -> None:
        """Note the next epoch, if it is newer than what is known (Paper: prepareReconfig)."""
        name, epoch = entry.payload
        known = self.pending.epoch if self.pending else self.epoch
        if name == self.shared.name and known is not None and epoch.number > known.number:
            self.pending = Pending(epoch, entry.timestamp)
            moments = self.shared.moments[epoch.number]
            moments.control_ns = moments.control_ns or monotonic_ns()

    def publish_progress(self, entry: Entry) -> None:
        """Say that no more results come up to here, results or not (docs/paper-notes.md, 4)."""
        self.shared.output.advance(self.processor.progress(entry), self.number)

    def _emit(self, result: Entry) -> None:
        self.shared.output.add(result, self.number)

    def _join(self) -> bool:
        handover = self.shared.handovers.pop(self.number, None)
        if handover is None:
            return False
        self.epoch, self.watermark, self.pending = handover.epoch, handover.watermark, None
        return True

    def _triggers_switch(self, entry: Entry) -> bool:
        """Tell whether this is the first watermark beyond the pending switch."""
        has_grown = self.watermark is None or entry.timestamp > self.watermark
        return has_grown and self.pending is not None and entry.timestamp > self.pending.switch_at

    def _wait_for_instances(self, epoch: Epoch, instances: frozenset[int]) -> Steps:
        """Wait until all instances of the epoch that ends are here: the barrier (Paper: waitForInstances)."""
        self.shared.arrived[epoch.number] += 1
        if self.shared.arrived[epoch.number] == len(instances):
            self.shared.moments[epoch.number].barrier_ns = monotonic_ns()
        while self.shared.arrived[epoch.number] < len(instances):
            yield Turn.IDLE
        yield Turn.RAN

    def _switch(self, entry: Entry) -> Steps:
        """Go from the current epoch to the pending one, at this entry and before it is processed."""
        assert self.pending is not None and self.epoch is not None
        epoch, before = self.pending.epoch, self.epoch.instances
        bound = self.shared.output.buffer.bound(self.number)  # beyond the barrier others may disconnect this instance
        yield from self._wait_for_instances(epoch, before)
        joining, leaving = epoch.instances - before, before - epoch.instances
        switch = self.shared.switches.setdefault(epoch.number, Switch(epoch, entry.position, bound))
        switch.instances.append(self.number)
        # The winner does both, one after the other: nobody may be disconnected before all are connected.
        if (joining or leaving) and self.shared.claim(epoch):
            switch.changed_by.append(self.number)
            if joining:
                handover = Handover(epoch, self.watermark, bound)
                self.shared.connect(joining, handover, self.number)
                yield Turn.RAN
            if leaving:
                self.shared.disconnect(leaving)
            if joining:  # last: one that ran on could meet the next switch before this one is over
                self.shared.handovers.update(dict.fromkeys(joining, handover))
        yield Turn.RAN
        self.epoch = epoch if self.number in epoch.instances else None
        self.pending = None
        if len(switch.instances) == len(before):
            self.shared.moments[epoch.number].switched_ns = monotonic_ns()
