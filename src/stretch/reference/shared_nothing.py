"""Shared-nothing: a queue per source and instance, a state per instance (Paper: "forwardSN" and "processSN").

The baseline of the paper's argument: `copies` counts tuples sent more than once, and a change of parallelism has to
stop, serialise and move the state of every key group that changes hands (`bytes_moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stretch.buffer.api import Entry, EntryKind, Member, Position
from stretch.operator.plan import Plan
from stretch.operator.spec import Map, Mapping
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.process import Counts, Processor
from stretch.reference.scheduler import Scheduler, Steps, Turn
from stretch.reference.store import WindowStore
from stretch.reference.virtual import EGRESS
from stretch.windows.groups import hash_key

_QUEUE_READER = "instance"


class SharedNothing:
    """An operator whose instances own their queues and their state."""

    def __init__(
        self,
        plan: Plan,
        scheduler: Scheduler,
        sources: Sequence[Member],
        *,
        parallelism: int,
        max_parallelism: int,
        name: str = "operator",
    ) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.mapping = plan.mapping_for(range(parallelism))
        self.active = list(range(parallelism))
        # The queues that lead to one instance, merged in total order.
        self.queues = {number: ReferenceBuffer(sources, [_QUEUE_READER]) for number in self.active}
        self.output = ReferenceBuffer(self.active, [EGRESS])
        self.counts = Counts()
        self.copies = 0
        self.bytes_moved = 0
        self.instances = [SharedNothingInstance(self, number) for number in range(max_parallelism)]
        for each in self.instances:
            scheduler.spawn(f"{name}.{each.number}", each.run())

    def add(self, entry: Entry, source: Member) -> None:
        """Send a tuple to every instance that owns one of its keys (Paper: forwardSN)."""
        peers = {self.mapping[group] for group in self._groups(entry)}
        self.copies += max(0, len(peers) - 1)
        for number, queue in self.queues.items():
            if number in peers:
                queue.add(entry, source)
            else:  # the watermark that the tuple carries concerns everyone
                queue.advance(entry.position, source)

    def advance(self, bound: Position, source: Member) -> None:
        """Pass on a heartbeat."""
        for queue in self.queues.values():
            queue.advance(bound, source)

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        """Pass on that sources have ended."""
        removed = [queue.remove_sources(sources) for queue in self.queues.values()]
        return any(removed)

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None = None) -> None:
        """Change instances or mapping the shared-nothing way: halt, move state, route what waits again."""
        self.scheduler.run()
        after = self.plan.mapping_for(instances, mapping)
        self._move_state(after)
        self._move_queues(list(instances), after)
        joining, leaving = set(instances) - set(self.active), set(self.active) - set(instances)
        self.output.add_sources(joining, min(self.output.bound(number) for number in self.active))
        self.output.remove_sources(leaving)
        self.active, self.mapping = list(instances), after

    def _groups(self, entry: Entry) -> set[int]:
        if isinstance(self.plan.operator, Map):
            return {hash_key(entry.position) % self.plan.group_count}
        stream = self.plan.streams[entry.input]
        t = stream.tuple_of(entry.position, entry.payload)
        return {self.plan.group_of(key) for key in self.instances[0].processor.keys_of(entry.input, t)}

    def _move_state(self, after: Sequence[int]) -> None:
        for giver in self.active:
            for taker in set(after) - {giver}:
                data = self.instances[giver].windows.take(_moves(self.mapping, after, giver, taker))
                self.instances[taker].windows.put(data)
                self.bytes_moved += len(data)

    def _move_queues(self, instances: Sequence[int], after: Sequence[int]) -> None:
        """Route again what is in the queues and not ready; an entry that went to several is taken once."""
        some = next(iter(self.queues.values()))
        bounds = {source: some.bound(source) for source in some.sources}
        waiting = {
            entry.position: (entry, source) for queue in self.queues.values() for entry, source in queue.waiting()
        }
        ended = {source for _, source in waiting.values()} - bounds.keys()
        self.queues = {number: ReferenceBuffer([*bounds, *ended], [_QUEUE_READER]) for number in instances}
        for position in sorted(waiting):
            entry, source = waiting[position]
            for number in {after[group] for group in self._groups(entry)}:
                self.queues[number].add(entry, source)
        for source, bound in bounds.items():
            self.advance(bound, source)
        self.remove_sources(ended)


class SharedNothingInstance:
    """One instance with a state of its own (Paper: sigma_j)."""

    def __init__(self, shared: SharedNothing, number: int) -> None:
        self.shared = shared
        self.number = number
        self.windows = WindowStore(shared.plan)
        self.processor = Processor(shared.plan, self.windows, shared.counts, self._emit)

    def run(self) -> Steps:
        """Take entries from the instance's queues for ever."""
        while True:
            queue = self.shared.queues.get(self.number)
            entry = queue.get(_QUEUE_READER) if queue is not None else None
            if entry is None:
                yield Turn.IDLE
                continue
            yield Turn.RAN
            yield from self.process(entry)

    def process(self, entry: Entry) -> Steps:
        """Process one entry (Paper: processSN)."""
        if entry.kind is not EntryKind.CONTROL:
            yield from self.processor.process(entry, self.owns)
            self.shared.output.advance(self.processor.progress(entry), self.number)

    def owns(self, group: int) -> bool:
        """Tell whether a key group is this instance's."""
        return self.shared.mapping[group] == self.number

    def _emit(self, result: Entry) -> None:
        self.shared.output.add(result, self.number)


def _moves(before: Sequence[int], after: Sequence[int], giver: int, taker: int) -> Callable[[int], bool]:
    return lambda group: before[group] == giver and after[group] == taker
