"""The reference buffer keeps the contract of a tuple buffer, and its invariant."""

from stretch.buffer.api import BOTTOM
from stretch.reference.buffer import ReferenceBuffer
from tests.harness.buffer_contract import BufferContract, at


class TestReferenceBuffer(BufferContract):
    make = staticmethod(ReferenceBuffer)


def test_a_buffer_may_start_at_a_bound():
    buffer = ReferenceBuffer([0, 1], ["a"], bound=(5,))
    assert buffer.bound(0) == buffer.bound(1) == (5,)
    buffer.add(at(5, 0), 0)
    assert buffer.waiting() == [(at(5, 0), 0)]


def test_a_source_that_promised_nothing_holds_back_everything():
    buffer = ReferenceBuffer([0, 1], ["a"])
    buffer.add(at(-(10**18), 0), 0)
    assert buffer.bound(1) == BOTTOM
    assert buffer.get("a") is None
    assert buffer.unread("a") == 0
