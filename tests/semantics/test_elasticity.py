"""Reconfigurations change who works and nothing else (Paper: Lemma "addissafe", Theorems "vsndynamic", "atomicity")."""

from itertools import pairwise

from hypothesis import given

from tests.harness.definition import exact, multiset
from tests.harness.run import interleave
from tests.harness.scenarios import elastic
from tests.harness.trace import Membership


@given(scenario=elastic())
def test_no_tuple_is_lost_or_repeated_across_epoch_switches(scenario):
    """Theorem "vsndynamic"."""
    assert multiset(interleave(scenario).rows) == multiset(scenario.case.expected())


@given(scenario=elastic())
def test_each_tuple_is_processed_in_one_epoch_once_by_each_of_its_instances(scenario):
    """Theorem "atomicity": all instances switch at the same tuple. Nobody else processes it, nobody does so twice."""
    trace = interleave(scenario).trace
    instances = {epoch.number: epoch.instances for epoch in trace.epochs()}
    for processed in trace.by_position().values():
        assert len({each.epoch for each in processed}) == 1
        assert sorted(each.instance for each in processed) == sorted(instances[processed[0].epoch])


@given(scenario=elastic())
def test_epochs_begin_once_and_in_the_order_of_requests(scenario):
    """Theorem "atomicity": exactly once."""
    numbers = [processed[0].epoch for processed in interleave(scenario).trace.by_position().values()]
    assert numbers == sorted(numbers)


@given(scenario=elastic())
def test_each_switch_connects_and_disconnects_once_and_superseded_epochs_nothing(scenario):
    """Theorem "atomicity": exactly one instance does it, first output then input; disconnecting the other way round."""
    trace = interleave(scenario).trace
    expected = []
    for before, after in pairwise(trace.epochs()):
        joining, leaving = after.instances - before.instances, before.instances - after.instances
        if joining:
            expected += [Membership("add_sources", joining), Membership("add_readers", readers(trace, joining))]
        if leaving:
            expected += [Membership("remove_readers", readers(trace, leaving)), Membership("remove_sources", leaving)]
    assert trace.memberships == expected


@given(scenario=elastic())
def test_an_epoch_begins_at_the_first_watermark_beyond_its_announcement(scenario):
    """Later than that would be a change that hangs; the records say where it was."""
    run = interleave(scenario)
    trace, operator = run.trace, run.job.engine.operator
    firsts = {}
    for position, processed in trace.by_position().items():
        firsts.setdefault(processed[0].epoch, position)
    assert {number: switch.trigger for number, switch in operator.switches.items()} == {
        number: position for number, position in firsts.items() if number > 0
    }
    for switch in operator.switches.values():
        assert sorted(switch.instances) == sorted(epoch_before(trace, switch.epoch).instances)
        assert len(switch.changed_by) == (switch.epoch.instances != epoch_before(trace, switch.epoch).instances)


@given(scenario=elastic())
def test_what_a_joining_instance_adds_lies_after_the_bound_it_was_given(scenario):
    """Lemma "addissafe": and so after every result and watermark that downstream has been given."""
    for joining in interleave(scenario).trace.joinings:
        if joining.delivered is not None:
            assert joining.delivered[0] <= joining.bound[0]
        for result in joining.results:
            assert result.position > max(joining.bound, joining.delivered or joining.bound)


@given(scenario=elastic())
def test_when_all_is_done_nobody_waits(scenario):
    """No instance is left at a barrier, in a half-finished switch, or connected without being in the epoch."""
    operator = interleave(scenario).job.engine.operator
    active = operator.latest_epoch.instances
    assert operator.output.buffer.sources == active
    assert {reader for reader in operator.input.buffer.readers if isinstance(reader, tuple)} == readers_of(
        operator, active
    )
    for instance in operator.instances:
        assert instance.epoch == (operator.latest_epoch if instance.number in active else None)


@given(scenario=elastic())
def test_work_is_shared_without_copies(scenario):
    """Every instance reads the one buffer: what shared-nothing would send more than once is only counted."""
    run = interleave(scenario)
    metrics = run.job.metrics()
    assert (metrics.copies, metrics.bytes_moved) == (0, 0)
    assert metrics.tuples_in == len(scenario.case.tuples())
    assert metrics.results == len(exact(run.rows))


def readers(trace, instances):
    return frozenset(trace.operator.reader(number) for number in instances)


def readers_of(operator, instances):
    return {operator.reader(number) for number in instances}


def epoch_before(trace, epoch):
    return [each for each in trace.epochs() if each.number < epoch.number][-1]
