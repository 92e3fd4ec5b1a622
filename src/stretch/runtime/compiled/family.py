"""Engines that feed one another: they share the texts, they work or fail together, and relieve one another.

Texts keep their ids from the first operator to the last. An id is given back when every reader of results has passed
the time up to which something may name it: a result at time T comes from texts of before T, and a later operator names
it until its own windows with that result have ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stretch.errors import StretchError
from stretch.strings import Dictionary

if TYPE_CHECKING:
    from stretch.runtime.compiled.engine import CompiledEngine

_NOTHING = -(1 << 62)


class Family:
    """All engines of a chain, and of the chains that branch from it; one engine alone is a family, too."""

    def __init__(self) -> None:
        self.dictionary = Dictionary()
        self.failure: StretchError | None = None
        self.engines: list[CompiledEngine] = []
        self._marks: dict[CompiledEngine, int] = {}
        self._lock = threading.Lock()

    def add(self, engine: CompiledEngine) -> None:
        """Take in an engine whose results somebody reads."""
        with self._lock:
            self.engines.append(engine)
            self._marks[engine] = _NOTHING

    def fail(self, failure: StretchError) -> None:
        """Note the first failure, and stop all: nobody can go on without the others."""
        with self._lock:
            self.failure = self.failure or failure
            engines = list(self.engines)
        for engine in engines:
            engine.signal_stop()

    def relieve(self) -> None:
        """Take results out of the way of workers, wherever that may be."""
        for engine in list(self.engines):
            engine.collect()

    def release(self, engine: CompiledEngine, mark: int) -> None:
        """Say that the results of an engine that name texts until `mark` have been read."""
        with self._lock:
            if engine not in self._marks:
                return
            self._marks[engine] = max(self._marks[engine], mark)
            lowest = min(self._marks.values())
        if lowest > _NOTHING:
            self.dictionary.release(lowest)

    def forget(self, engine: CompiledEngine) -> None:
        """Go on without an engine that has stopped."""
        self.no_longer_reads(engine)
        with self._lock:
            if engine in self.engines:
                self.engines.remove(engine)

    def no_longer_reads(self, engine: CompiledEngine) -> None:
        """Say that nobody reads the results of an engine any more."""
        with self._lock:
            self._marks.pop(engine, None)
