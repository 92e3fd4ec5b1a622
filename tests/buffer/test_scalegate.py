"""An ElasticScaleGate keeps the contract of a tuple buffer."""

from typing import Any

from stretch.buffer.scalegate import ElasticScaleGate
from tests.harness.buffer_contract import BufferContract


class TestElasticScaleGate(BufferContract):
    make = staticmethod(ElasticScaleGate)
    is_concurrent = True


class TestSmallElasticScaleGate(BufferContract):
    """Rings that begin anew every few entries, with many shortcuts."""

    is_concurrent = True
    test_readers_get_all_tuples_sorted_and_once: Any = None  # it reads too seldom for so little room

    @staticmethod
    def make(*arguments, **options):
        return ElasticScaleGate(*arguments, **options, capacity=8, spread=1, timeout=5)
