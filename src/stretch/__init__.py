"""Elastic stream processing: multi-key windows and joins on any predicate, on threads that share everything.

Layers, each of which knows only those to its right:
`cli` -> `runtime` -> `reference` -> `operator` -> `windows` -> `buffer`.

| part | what it is |
|---|---|
| `operator` | what a user declares: `Operator`, `Aggregate`, `Join`, `Map`, and the operators of the paper |
| `windows` | windows, boundaries, key groups |
| `buffer` | the tuple buffer's interface |
| `reference` | the reference engine: the paper's model, single-stepped, the oracle |
| `controllers` | who decides about the parallelism |
| `runtime` | `setup` and `Job` |
"""

from stretch import controllers, testing
from stretch.controllers import BalanceController, Controller, Decision, ModelController, ThresholdController, elastic
from stretch.errors import (
    DefinitionError,
    FunctionError,
    InputError,
    JobError,
    ReconfigurationError,
    StateError,
    StretchError,
)
from stretch.metrics import Load, Metrics, Reconfiguration
from stretch.operator import paper
from stretch.operator.aggregate import Aggregate, count, first, last, max, mean, min, sum
from stretch.operator.bands import band
from stretch.operator.join import Join
from stretch.operator.keys import hashtags, pairs, words
from stretch.operator.spec import Input, Map, Operator, input, purge, store
from stretch.runtime.job import Job
from stretch.runtime.setup import setup
from stretch.spark import live, remaining
from stretch.windows.spec import Window, sliding, tumbling

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "BalanceController",
    "Controller",
    "Decision",
    "DefinitionError",
    "FunctionError",
    "Input",
    "InputError",
    "Job",
    "JobError",
    "Join",
    "Load",
    "Map",
    "Metrics",
    "ModelController",
    "Operator",
    "Reconfiguration",
    "ReconfigurationError",
    "StateError",
    "StretchError",
    "ThresholdController",
    "Window",
    "band",
    "controllers",
    "count",
    "elastic",
    "first",
    "hashtags",
    "input",
    "last",
    "live",
    "max",
    "mean",
    "min",
    "pairs",
    "paper",
    "purge",
    "remaining",
    "setup",
    "sliding",
    "store",
    "sum",
    "testing",
    "tumbling",
    "words",
]
