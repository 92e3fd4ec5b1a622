"""Outputs are watermarks.

Paper: Observation "outtuplestimestamp", Lemma "deliveringoutputs", Definitions "watermark" and "xin".
"""

from itertools import pairwise

from hypothesis import given

from stretch.buffer.api import EntryKind
from tests.harness.run import INTERPRETED, interleave, run
from tests.harness.scenarios import elastic, scenarios, windowed


@given(scenario=scenarios())
def test_rows_leave_in_timestamp_order_in_every_engine(scenario):
    for engine in INTERPRETED:
        timestamps = [row[0] for row in run(scenario, engine)]
        assert timestamps == sorted(timestamps)


@given(scenario=elastic())
def test_each_instance_delivers_its_outputs_in_timestamp_order(scenario):
    """Lemma "deliveringoutputs", to the letter."""
    for results in interleave(scenario).trace.results.values():
        for earlier, later in pairwise(results):
            assert earlier.entry.timestamp <= later.entry.timestamp
            assert earlier.entry.position < later.entry.position


@given(scenario=elastic(windowed()))
def test_an_instance_that_has_processed_a_watermark_gives_no_result_at_or_before_it(scenario):
    """So that an output is a valid watermark for whoever reads it."""
    trace = interleave(scenario).trace
    entries = [processed[0].entry for processed in trace.by_position().values()]
    before = {later.position: earlier.timestamp for earlier, later in pairwise(entries)}
    for results in trace.results.values():
        for result in results:
            assert result.entry.timestamp <= result.cause.timestamp, "its window is over"
            assert result.entry.timestamp > before.get(result.cause.position, float("-inf")), "and was not before"


@given(scenario=elastic(windowed()))
def test_an_output_lies_after_every_tuple_of_its_window(scenario):
    """Observation "outtuplestimestamp": what comes out at a time was made of earlier tuples only."""
    run_ = interleave(scenario)
    earliest = min((t.timestamp for t in scenario.case.tuples()), default=None)
    assert all(row[0] > earliest for row in run_.rows)


@given(scenario=elastic())
def test_downstream_sees_one_stream_of_non_decreasing_positions_and_watermarks(scenario):
    """Definition "xin": sources' watermarks are merged into one non-decreasing stream."""
    delivered = interleave(scenario).trace.downstream()
    positions = [entry.position for entry in delivered]
    assert positions == sorted(set(positions))
    timestamps = [entry.timestamp for entry in delivered]
    assert timestamps == sorted(timestamps)


@given(scenario=elastic())
def test_every_instance_processes_in_total_order(scenario):
    trace = interleave(scenario).trace
    for number in range(scenario.execution.pool):
        positions = [each.entry.position for each in trace.processed if each.instance == number]
        assert positions == sorted(set(positions))


@given(scenario=elastic())
def test_every_tuple_is_processed(scenario):
    """All positions of tuples, whoever processes them."""
    trace = interleave(scenario).trace
    positions = [position for position, by in trace.by_position().items() if by[0].entry.kind is EntryKind.DATA]
    assert positions == sorted((t.timestamp, t.source, t.sequence) for t in scenario.case.tuples())
