"""A ReadyLog keeps the contract of a tuple buffer."""

from typing import Any

from stretch.buffer.ready_log_buffer import ReadyLogBuffer
from tests.harness.buffer_contract import BufferContract


class TestReadyLog(BufferContract):
    make = staticmethod(ReadyLogBuffer)
    is_concurrent = True


class TestSmallReadyLog(BufferContract):
    """Rings that begin anew every few entries."""

    is_concurrent = True
    test_readers_get_all_tuples_sorted_and_once: Any = None  # it reads too seldom for so little room

    @staticmethod
    def make(*arguments, **options):
        return ReadyLogBuffer(*arguments, **options, capacity=8, staging=4, timeout=5)
