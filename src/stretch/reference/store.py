"""Window instances and the store that holds them (Paper: w = (zeta, l, k), sigma)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from stretch.operator.plan import Plan
from stretch.operator.spec import Operator
from stretch.schema import Type, zero_of

OWN = frozenset({"key", "left", "size", "tuples", "fields", "values"})


class WindowInstance:
    """What functions of the user see as `w`: `key`, `left`, `right`, `tuples`, and the fields of the state.

    Fields hold machine values: ints wrap and floats round as in every other engine.
    """

    __slots__ = tuple(sorted(OWN))

    def __init__(self, key: Hashable, left: int, size: int, fields: dict[str, Type]) -> None:
        put = object.__setattr__
        put(self, "key", key)
        put(self, "left", left)
        put(self, "size", size)
        put(self, "tuples", [])
        put(self, "fields", fields)
        put(self, "values", {name: zero_of(type_) for name, type_ in fields.items()})

    @property
    def right(self) -> int:
        """The right boundary, not included."""
        return int(self.left + self.size)

    def is_empty(self) -> bool:
        """Tell whether the state is what it was when the instance was created."""
        values = self.values
        return not self.tuples and all(values[name] == zero_of(type_) for name, type_ in self.fields.items())

    def move(self, left: int) -> None:
        """Slide to another left boundary; only the engine does this."""
        object.__setattr__(self, "left", left)

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        known = ["key", "left", "right", "tuples", *self.fields]
        raise AttributeError(f"a window instance has no {name!r}; it has {', '.join(known)}")

    def __setattr__(self, name: str, value: Any) -> None:
        type_ = self.fields.get(name)
        if type_ is None:
            raise AttributeError(f"functions may set only the fields of the state, and {name!r} is not one")
        if value is None:
            raise TypeError(f"state field {name!r} is {type_} and cannot be None")
        self.values[name] = type_.coerce(value)


class WindowSet:
    """The window instances, one per input, of one key and one left boundary, and the rows held until they expire.

    Rows that `update` makes are held, because their timestamp is the right boundary, which is ahead of results that
    other windows have still to give (docs/paper-notes.md, 5).
    """

    __slots__ = ("group", "held", "instances", "key", "left")

    def __init__(self, plan: Plan, group: int, key: Hashable, left: int) -> None:
        assert isinstance(plan.operator, Operator) and plan.boundaries is not None
        fields = dict(plan.operator.state.columns) if plan.operator.state else {}
        self.group = group
        self.key = key
        self.left = left
        self.held: list[Any] = []
        self.instances = tuple(WindowInstance(key, left, plan.boundaries.size, fields) for _ in plan.streams)

    @property
    def view(self) -> Any:
        """What functions get: the instance itself with one input, all of them with several."""
        return self.instances[0] if len(self.instances) == 1 else self.instances

    def is_empty(self) -> bool:
        """Tell whether nothing is left in any instance."""
        return all(instance.is_empty() for instance in self.instances)


class WindowStore:
    """All window instances of an operator, shared by its instances in VSN, one store each in SN (Paper: sigma).

    Invariant: the sets of one left boundary are in the order in which their keys came up.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sets: dict[int, dict[Hashable, WindowSet]] = {}  # left -> key -> set

    def __len__(self) -> int:
        return sum(len(sets) for sets in self._sets.values())

    def __iter__(self) -> Iterator[WindowSet]:
        for left in sorted(self._sets):
            yield from self._sets[left].values()

    def check_and_create(self, key: Hashable, left: int) -> WindowSet:
        """Return the set of this key and left boundary, a new one if there is none (Paper: check&Create)."""
        sets = self._sets.setdefault(left, {})
        if key not in sets:
            sets[key] = WindowSet(self._plan, self._plan.group_of(key), key, left)
        return sets[key]

    def remove(self, windows: WindowSet) -> None:
        """Forget a set (Paper: remove)."""
        sets = self._sets[windows.left]
        del sets[windows.key]
        if not sets:
            del self._sets[windows.left]

    def shift(self, windows: WindowSet, left: int) -> None:
        """Move a set to another left boundary (Paper: shift)."""
        self.remove(windows)
        windows.left = left
        for instance in windows.instances:
            instance.move(left)
        self._sets.setdefault(left, {})[windows.key] = windows

    def earliest_left(self, owns: Callable[[int], bool]) -> int | None:
        """Return the earliest left boundary of the groups that `owns` accepts (Paper: rho).

        Looking it up instead of walking there makes a silent year cost nothing (docs/paper-notes.md, 7).
        """
        for left in sorted(self._sets):
            if any(owns(windows.group) for windows in self._sets[left].values()):
                return left
        return None

    def at(self, left: int, owns: Callable[[int], bool]) -> list[WindowSet]:
        """Return the sets of a left boundary in the order of results: by key group, then as keys came up."""
        return sorted((w for w in self._sets.get(left, {}).values() if owns(w.group)), key=lambda w: w.group)

    def take(self, owns: Callable[[int], bool]) -> bytes:
        """Remove the sets of the groups that `owns` accepts and serialise them, if any: what moves in SN elasticity."""
        taken = [windows for windows in self if owns(windows.group)]
        for windows in taken:
            self.remove(windows)
        return pickle.dumps([_plain(windows) for windows in taken]) if taken else b""

    def put(self, data: bytes) -> None:
        """Add sets that another store gave away."""
        for key, left, held, instances in pickle.loads(data) if data else ():
            windows = self.check_and_create(key, left)
            windows.held = held
            for instance, (values, tuples) in zip(windows.instances, instances, strict=True):
                instance.values.update(values)
                for index, fields, place in tuples:
                    t = self._plan.streams[index].tuple_type(*fields)
                    if place:
                        t.__dict__.update(place)
                    instance.tuples.append(t)


def _plain(windows: WindowSet) -> tuple[Any, ...]:
    """Return a set as plain values, which is what a network would carry."""
    instances = [
        (instance.values, [(index, tuple(t), getattr(t, "__dict__", None)) for t in instance.tuples])
        for index, instance in enumerate(windows.instances)
    ]
    return windows.key, windows.left, windows.held, instances
