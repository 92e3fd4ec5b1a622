"""`operator.on(df)`: operators say that they run on DataFrames, and know nothing of how.

Who does know, the layer `spark`, says so with `provide`, so that imports go one way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

_run_on: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Placement:
    """How an operator runs on DataFrames; see `OnFrames.on`."""

    time: str
    source: str | None
    watermark: str | int | None
    idle: str | None
    resolution: str | int | None
    shards: int
    parallelism: Any
    max_parallelism: int | None
    late: bool
    state: str | None


class OnFrames:
    """What all operators have in common: they run on DataFrames."""

    def explain(self, inputs: Any = None, *, time: str = "ts", resolution: str | int | None = None) -> str:
        """Compile the functions for the compiled engine, and say what came of it: types, layouts, panes, seconds.

        - `inputs`: the schemas of the inputs, where the operator does not declare them.
        """
        from stretch.operator.explain import explain_operator  # it knows all operators, which are made from this

        return explain_operator(cast("Any", self), inputs, time, resolution)

    def on(
        self,
        *frames: Any,
        time: str = "ts",
        source: str | None = None,
        watermark: str | int | None = None,
        idle: str | None = None,
        resolution: str | int | None = None,
        shards: int = 1,
        parallelism: Any = 1,
        max_parallelism: int | None = None,
        late: bool = False,
        state: str | None = None,
    ) -> Any:
        """Run on Spark: take a DataFrame per input, streaming or batch, and return the DataFrame of the results.

        - `time`: the column of event time, a timestamp or a long.
        - `source`: the column whose values (ints or text) tell sources apart, each of which is sorted by time: the
          partition of a Kafka topic, a device.
        - `watermark`: how far back a row may be behind the latest one (of its source), "10 seconds"; default: not at
          all from one micro-batch to the next. Within a micro-batch order does not matter.
        - `idle`: a source silent for so long ("5 seconds" of real time) does not hold back the others.
        - `resolution`: the smallest step of event time, for windows without an advance.
        - `shards`: how many Spark tasks share the work; a shard is a process.
        - `parallelism`, `max_parallelism`: how many threads each shard starts with, and how many it may get; or
          `parallelism=st.elastic(1, 8)`, and a controller chooses.
        - `late`: deliver late rows, too: the results get a column `late`, a struct of the input's columns, which is
          null but for late rows (`late_0`, `late_1` with several inputs).
        - `state`: a directory, which every executor reaches, for the state; default: in the query's checkpoint.
        """
        assert _run_on is not None, "stretch imports its layer spark"
        placement = Placement(
            time, source, watermark, idle, resolution, shards, parallelism, max_parallelism, late, state
        )
        return _run_on(self, frames, placement)


def provide(run_on: Callable[..., Any]) -> None:
    """Say what runs operators on DataFrames: a function of an operator, its DataFrames and a `Placement`."""
    global _run_on
    _run_on = run_on
