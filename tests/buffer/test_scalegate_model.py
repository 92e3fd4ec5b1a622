"""An ElasticScaleGate against the reference buffer: whatever is called in whatever order, all readers get the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as some

from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind
from stretch.buffer.scalegate import ElasticScaleGate
from stretch.reference.buffer import ReferenceBuffer
from tests.harness.buffer_contract import drain

ACTIONS = ("add", "add", "add", "control", "advance", "advance_exactly", "read", "read", "join", "leave", "come", "go")


class Pair:
    """A gate and the reference, called alike; `everything` gets all there is from each after every call."""

    def __init__(self) -> None:
        self.gate = ElasticScaleGate([0, 1], ["everything", "a"], capacity=64, spread=1)
        self.reference = ReferenceBuffer([0, 1], ["everything"])
        self.order: list[Entry] = []  # what a gate's reader gets from the first entry on
        self.expected: list[Entry] = []
        self.bounds = {0: BOTTOM, 1: BOTTOM}
        self.got: dict[str, int] = {"a": 0}  # reader -> how many of `order` it has got, or skipped
        self.has_got: dict[str, bool] = {"a": False}
        self.numbers = itertools.count(1)

    def act(self, action: str, member: int, amount: int) -> None:
        getattr(self, action)(member, amount)
        self.compare()

    # --- Sources

    def add(self, source: int, gap: int) -> None:
        if source in self.bounds:
            bound = self.bounds[source] or (0,)
            position = (bound[0] + gap, source, next(self.numbers))
            self._add(Entry(position if position > bound else (bound[0] + 1, *position[1:]), EntryKind.DATA), source)

    def control(self, source: int, gap: int) -> None:
        """A control tuple comes just after what the source has added, or before all of a later time."""
        if source in self.bounds:
            bound, number = self.bounds[source] or (0,), next(self.numbers)
            is_later = gap > 0 or len(bound) == 1
            position = (bound[0] + gap, BEFORE_ALL, number) if is_later else (*bound, number)
            self._add(Entry(position, EntryKind.CONTROL, "change"), source)

    def advance(self, source: int, gap: int) -> None:
        if source in self.bounds:
            self._advance(((self.bounds[source] or (0,))[0] + gap,), source)

    def advance_exactly(self, source: int, gap: int) -> None:
        if source in self.bounds:
            self._advance(((self.bounds[source] or (0,))[0] + gap, source), source)

    def come(self, source: int, caller: int) -> None:
        """A source adds another one, with the bound that its own has reached."""
        if source not in self.bounds and caller in self.bounds:
            self.bounds[source] = self.bounds[caller]
            assert self.gate.add_sources([source], self.bounds[caller])
            assert self.reference.add_sources([source], self.bounds[caller])

    def go(self, source: int, _amount: int) -> None:
        if source in self.bounds and len(self.bounds) > 1:
            del self.bounds[source]
            assert self.gate.remove_sources([source])
            assert self.reference.remove_sources([source])

    # --- Readers of the gate: what the reference gives to several readers is the same list anyway

    def read(self, reader: int, count: int) -> None:
        name = self._reader(reader)
        for _ in range(count + 1):
            entry = self.gate.get(name)
            if entry is None:
                assert name not in self.got or self.got[name] == len(self.order)
                return
            assert entry == self.order[self.got[name]]
            self.got[name] += 1
            self.has_got[name] = True

    def join(self, reader: int, caller: int) -> None:
        name, from_last = self._reader(caller), caller % 2 == 1
        if name in self.got and (self.has_got[name] or not from_last):
            is_new = self._reader(reader) not in self.got
            assert self.gate.add_readers([self._reader(reader)], name, from_last=from_last) == is_new
            if is_new:
                self.got[self._reader(reader)] = self.got[name] - from_last
                self.has_got[self._reader(reader)] = False

    def leave(self, reader: int, _amount: int) -> None:
        name = self._reader(reader)
        assert self.gate.remove_readers([name]) == (name in self.got)
        self.got.pop(name, None)

    # --- What has to hold

    def compare(self) -> None:
        self.order += drain(self.gate, "everything")
        self.expected += drain(self.reference, "everything")
        assert [each for each in self.order if each.kind is not EntryKind.WATERMARK] == [
            each for each in self.expected if each.kind is not EntryKind.WATERMARK
        ]
        if self.bounds:
            assert self._watermark(self.order) == self._watermark(self.expected), "how far all sources are"
        told = BOTTOM
        for entry in self.order:
            assert entry.position[:2] >= told[:2] or entry.timestamp > told[0]
            assert entry.kind is not EntryKind.WATERMARK or told == BOTTOM or entry.timestamp > told[0]
            told = max(told, entry.position) if entry.kind is not EntryKind.CONTROL else told

    def finish(self) -> None:
        self.bounds.clear()
        self.gate.remove_sources(range(4))
        self.reference.remove_sources(range(4))
        self.compare()
        for name, count in self.got.items():
            assert drain(self.gate, name) == self.order[count:]

    def _watermark(self, entries: list[Entry]) -> int | None:
        return max((each.timestamp for each in entries if each.kind is not EntryKind.CONTROL), default=None)

    def _add(self, entry: Entry, source: int) -> None:
        self.bounds[source] = entry.position
        self.gate.add(entry, source)
        self.reference.add(entry, source)

    def _advance(self, bound: tuple[int, ...], source: int) -> None:
        self.bounds[source] = max(bound, self.bounds[source])
        self.gate.advance(bound, source)
        self.reference.advance(bound, source)

    def _reader(self, number: int) -> str:
        return "abcd"[number % 4]


@given(some.lists(some.tuples(some.sampled_from(ACTIONS), some.integers(0, 3), some.integers(0, 3)), max_size=50))
def test_a_gate_gives_what_the_reference_gives(calls):
    pair = Pair()
    for action, member, amount in calls:
        pair.act(action, member, amount)
    pair.finish()
