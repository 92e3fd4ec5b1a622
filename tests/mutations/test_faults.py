"""The oracle bites: every planted fault is caught by the test that it names (docs/mutations.md)."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from stretch.reference.scheduler import Scheduler
from tests.mutations import faults
from tests.mutations.faults import Fault
from tests.mutations.table import DOCUMENT, FAULTS, document

EXAMPLES_MAX = 400
TURNS_MAX = 100_000
"""A planted fault may make the engine run for ever; no scenario needs as many turns."""


def find(test: str) -> Callable[..., None]:
    """Return the test function that `folder/file.py::name` or `folder/file.py::Class::name` stands for."""
    path, *names = test.split("::")
    found: Any = importlib.import_module(f"tests.{path.removesuffix('.py').replace('/', '.')}")
    for name in names:
        found = getattr(found() if isinstance(found, type) else found, name)
    return found


def attempts(fault: Fault) -> Iterator[Callable[[], object]]:
    """Yield the runs that may show the fault: a property with fixed random examples, or a test as it is."""
    test = find(fault.caught_by)
    if not hasattr(test, "hypothesis"):
        yield partial(test, **fault.arguments)
        return
    for seed in range(EXAMPLES_MAX):
        yield partial(test.hypothesis.fuzz_one_input, random.Random(seed).randbytes(8192))


def shows(fault: Fault, attempt: Callable[[], object]) -> bool:
    """Tell whether an attempt fails while the fault is planted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler.run, "__defaults__", (TURNS_MAX,))
        fault.plant(patch)
        try:
            attempt()
        except (Exception, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_a_planted_fault_is_caught(fault):
    for attempt in attempts(fault):
        if shows(fault, attempt):
            attempt()  # passes without the fault, so it was the fault that failed it
            return
    pytest.fail(f"{fault.caught_by} does not notice: {fault.what}")


def test_every_fault_is_in_the_table():
    planted = {fault.plant for fault in FAULTS}
    written = {value for value in vars(faults).values() if getattr(value, "__module__", "") == faults.__name__}
    assert planted == {value for value in written if not isinstance(value, type)}
    assert len(FAULTS) == len(planted)


def test_the_document_is_the_table():
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `python -m tests.mutations.table`"
