"""An operator at work: `Order` in front of an engine, so that what comes in any order is processed in one.

Invariants
    N1  Between two calls the engine is drained: it has processed exactly the rows before the watermark, and `Order`
        holds all others. So the state is that of the engine's tables, plus held rows, plus the marks of sources.
    N2  Both are deterministic: the rows, times and watermarks of a micro-batch lead from the state before it to the
        state after it, at any parallelism.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from stretch.errors import DefinitionError, StateError
from stretch.node.description import columns_of, describe, difference, missing_columns
from stretch.node.files import NEW_CHECKPOINT, FileReader, rows_section
from stretch.node.marks import LOWEST
from stretch.node.order import Heard, Order, Rows
from stretch.node.rows import Shape
from stretch.operator.plan import AnyOperator, Plan, make_plan
from stretch.operator.spec import Mapping, as_inputs
from stretch.runtime.arguments import disorder_of, parallelism_of, seconds_of
from stretch.runtime.compiled import Begin, CompiledEngine, program_of
from stretch.runtime.compiled.image import Section, load
from stretch.schema import Schema

RESULT_ROWS = 1 << 16  # of a batch that leaves, about


@dataclass(frozen=True)
class Options:
    """What a node is made of; see `Node`."""

    operator: AnyOperator
    inputs: Any
    time: str = "ts"
    source: str | None = None
    disorder: str | int | None = None
    parallelism: int = 1
    max_parallelism: int | None = None
    idle: str | None = None
    resolution: str | int | None = None
    engine: str = "compiled"
    clock: Callable[[], float] = wall_clock.time
    share: tuple[int, int] = (0, 1)

    @property
    def pool(self) -> int:
        """How many instances there are."""
        return parallelism_of(self.parallelism, self.max_parallelism)[1]


class Saved(NamedTuple):
    """What to go on with: a snapshot, open to be read, and who runs."""

    file: FileReader
    instances: Sequence[int]
    mapping: Mapping | None


class Processing:
    """One operator on some threads; used by one thread at a time."""

    def __init__(self, options: Options, saved: Saved | None = None) -> None:
        running, pool = parallelism_of(options.parallelism, options.max_parallelism)
        if options.engine != "compiled":
            raise DefinitionError(
                f"engine={options.engine!r} cannot run a node",
                why="only the state of the compiled engine can be written",
                do="leave engine out",
            )
        schemas = [_declared(stream.schema) for stream in as_inputs(options.inputs)]
        bound = make_plan(options.operator, schemas, options.time, options.resolution)
        self.plan = plan = replace(bound, share=options.share)
        program = program_of(plan)
        self.shapes = [
            Shape(stream, [column.name for column in layout.columns], options.source)
            for stream, layout in zip(plan.streams, program.layouts, strict=True)
        ]
        idle_seconds = None if options.idle is None else seconds_of(options.idle)
        self.order = Order(self.shapes, _disorder(options.disorder, plan), idle_seconds)
        self.description = describe(plan, self.shapes, program.entry_form)
        self.seconds = 0.0
        """Time spent on processing, without what others do with results meanwhile."""
        begin = Begin(tuple(range(running)))
        if saved is not None:
            self.check(saved.file.header)
            begin = _begin_with(saved)
        self.engine = CompiledEngine(plan, plan.streams, running, pool, None, None, options.clock, begin)
        if saved is not None:
            self._go_on_with(saved.file)

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the results, the time column first; text is plain."""
        return self.plan.result_schema().arrow()

    def advance(
        self,
        rows: Sequence[Rows],
        now: float,
        watermark: int | None = None,
        heard: Sequence[Heard] = (),
        *,
        muted: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Take sorted rows of each input, process those that are ready, and yield the results; none if `muted`.

        The watermark follows from the sources, unless it is given.
        """
        begun = wall_clock.perf_counter()
        before = self.order.watermark
        ready = self.order.take(rows, now, watermark, heard)
        waiting: list[pa.Table] = []
        if self.order.watermark > before:
            for table in self.engine.feed(ready, self.order.watermark, muted=muted):
                waiting.append(table)
                if sum(map(len, waiting)) >= RESULT_ROWS:
                    self.seconds += wall_clock.perf_counter() - begun
                    yield from self._plain(waiting)
                    waiting, begun = [], wall_clock.perf_counter()
        self.seconds += wall_clock.perf_counter() - begun
        yield from self._plain(waiting)

    def end(self, now: float) -> Iterator[pa.RecordBatch]:
        """Process what is held and complete all windows; yield the results."""
        bounds, latest = self.plan.boundaries, self.order.latest
        if bounds is not None and latest > LOWEST:
            yield from self.advance([None] * len(self.shapes), now, bounds.right(bounds.latest_left(latest)))

    def header(self) -> dict[str, Any]:
        """Return what every version says of who wrote it."""
        instances, mapping = self.engine.requested
        return {
            "operator": self.description,
            "columns": columns_of(self.shapes),
            "instances": instances,
            "mapping": None if mapping == self.plan.mapping_for(instances) else mapping,
        }

    def check(self, header: dict[str, Any]) -> None:
        """Refuse what another operator has written, unless this one can go on with it."""
        changed = difference(header["operator"], self.description)
        changed = changed or missing_columns(header["columns"], columns_of(self.shapes))
        if changed is not None:
            raise StateError(
                f"{self.plan.name}: the state was written by an operator that it does not fit",
                where=f"version {header['version']} of the state log",
                why=changed,
                do=f"take the change back; or {NEW_CHECKPOINT}",
            )

    def sections(self) -> list[Section]:
        """Return the state, for a snapshot."""
        held = [(n, one.all()) for n, one in enumerate(self.order.held)]
        return [*self.engine.image(), *(rows_section(f"held {n}", rows) for n, rows in held if rows is not None)]

    def _go_on_with(self, file: FileReader) -> None:
        """Take the rest of a snapshot, of which the engine has its part."""
        try:
            held = [self.rows_from(file, "held", number) for number in range(len(self.shapes))]
            file.finish()
            self.order.load(file.header["order"], held)
        except BaseException:
            self.engine.stop()
            raise

    def rows_from(self, file: FileReader, name: str, number: int) -> Rows:
        """Return the rows of an input from the section that comes next, if it has them."""
        rows = file.rows(f"{name} {number}")
        return None if rows is None else self.shapes[number].adopt(rows)

    def _plain(self, tables: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield tables as batches with text as it is."""
        if any(map(len, tables)):
            whole = pa.concat_tables(tables).cast(self.result_schema).combine_chunks()
            yield from whole.to_batches()


def _begin_with(saved: Saved) -> Begin:
    """Return what the engine begins with; it reads its part of the snapshot before its threads start."""
    file = saved.file
    watermark = file.header["order"]["watermark"]
    return Begin(
        tuple(saved.instances),
        saved.mapping,
        None if watermark == LOWEST else watermark,
        lambda memory: load(memory, file.sizes, file.fill),
    )


def _declared(schema: Schema | None) -> Schema:
    if schema is not None:
        return schema
    raise DefinitionError(
        "the columns of the inputs are not declared",
        why="a node checks its operator before there is any row",
        do='pass the schemas of all inputs, for example ["ts timestamp, user string"]',
    )


def _disorder(disorder: str | int | None, plan: Plan) -> int:
    ticks = disorder_of(disorder, plan)
    if ticks is None:
        return 0
    if isinstance(ticks, int):
        return ticks
    raise DefinitionError(
        f"disorder={disorder!r} is not a length of event time",
        why="a node finds out the watermark by itself",
        do='pass for example disorder="10 seconds"',
    )
