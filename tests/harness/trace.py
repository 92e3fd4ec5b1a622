"""What the reference engine did, observed at its buffers and instances rather than believed from its own records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stretch.buffer.api import Entry, EntryKind, Position
from stretch.reference.virtual import EGRESS, Epoch, VirtualSharedNothing

OBSERVER = "observer"


class Processed(NamedTuple):
    """A tuple or watermark that an instance took up, in the epoch that it was in."""

    instance: int
    epoch: int
    entry: Entry


class Result(NamedTuple):
    """A result, and the entry that its instance was processing then."""

    entry: Entry
    cause: Entry


@dataclass
class Joining:
    """Instances connected to the output: their bound, what downstream had been given, and what they then added."""

    instances: frozenset[int]
    bound: Position
    delivered: Position | None
    results: list[Entry] = field(default_factory=list)


class Membership(NamedTuple):
    """A call that changed who is connected to a buffer."""

    call: str
    members: frozenset[Hashable]


class Trace:
    """Attached to an operator before its first tuple."""

    def __init__(self, operator: VirtualSharedNothing) -> None:
        self.operator = operator
        self.processed: list[Processed] = []
        self.results: dict[int, list[Result]] = defaultdict(list)
        self.joinings: list[Joining] = []
        self.memberships: list[Membership] = []
        self.delivered: list[Entry] = []
        operator.output.buffer.add_readers([OBSERVER], EGRESS)
        for instance in operator.instances:
            self._watch_instance(instance)
        self._watch_output()
        self._watch_input()

    def downstream(self) -> list[Entry]:
        """Return all that a reader of the output has been given so far: results and watermarks."""
        while (entry := self.operator.output.buffer.get(OBSERVER)) is not None:
            self.delivered.append(entry)
        return self.delivered

    def by_position(self) -> dict[Position, list[Processed]]:
        """Return who processed each tuple and watermark, in total order."""
        found: dict[Position, list[Processed]] = defaultdict(list)
        for each in sorted(self.processed, key=lambda each: each.entry.position):
            found[each.entry.position].append(each)
        return found

    def epochs(self) -> list[Epoch]:
        """Return the epochs in which anything was processed, in order."""
        asked = {epoch.number: epoch for epoch in [self.operator.first_epoch, *self.operator.requested]}
        return [asked[number] for number in sorted({0} | {each.epoch for each in self.processed})]

    def _watch_instance(self, instance: Any) -> None:
        inner = instance.processor.process

        def process(entry: Entry, owns: Any) -> Any:
            self.processed.append(Processed(instance.number, instance.epoch.number, entry))
            self._now[instance.number] = entry
            return inner(entry, owns)

        instance.processor.process = process

    def _watch_output(self) -> None:
        output = self.operator.output
        add, add_sources = output.add, output.add_sources
        self._now: dict[Hashable, Entry] = {}

        def watched_add(entry: Entry, source: Any) -> None:
            if entry.kind is EntryKind.DATA:
                self.results[source].append(Result(entry, self._now[source]))
                joined = [joining for joining in self.joinings if source in joining.instances]
                for joining in joined[-1:]:
                    joining.results.append(entry)
            add(entry, source)

        def watched_add_sources(sources: Any, bound: Position) -> bool:
            sources = frozenset(sources)
            delivered = self.downstream()
            self.joinings.append(Joining(sources, bound, delivered[-1].position if delivered else None))
            return self._changed("add_sources", add_sources(sources, bound), sources)

        output.add, output.add_sources = watched_add, watched_add_sources  # type: ignore[method-assign]
        output.remove_sources = self._watched("remove_sources", output.remove_sources)  # type: ignore[method-assign]

    def _watch_input(self) -> None:
        buffer = self.operator.input.buffer
        buffer.add_readers = self._watched("add_readers", buffer.add_readers)  # type: ignore[method-assign]
        buffer.remove_readers = self._watched("remove_readers", buffer.remove_readers)  # type: ignore[method-assign]

    def _watched(self, call: str, inner: Callable[..., bool]) -> Callable[..., bool]:
        def watched(members: Any, *args: Any, **options: Any) -> bool:
            members = frozenset(members)
            return self._changed(call, inner(members, *args, **options), members)

        return watched

    def _changed(self, call: str, is_changed: bool, members: frozenset[Hashable]) -> bool:
        if is_changed:
            self.memberships.append(Membership(call, members))
        return is_changed
