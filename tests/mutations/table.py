"""Which fault is caught by which test; `python -m tests.mutations.table` writes docs/mutations.md."""

from __future__ import annotations

from pathlib import Path

from tests.mutations import faults
from tests.mutations.faults import CONTRACT, DEFINITION, NOTHING_LOST, ONE_EPOCH, Fault

DOCUMENT = Path(__file__).parents[2] / "docs" / "mutations.md"
REFERENCE = {"engine": "reference"}

FAULTS = (
    Fault(
        "Joining instances read on from the tuple after the one that triggered the switch: its moved keys are lost",
        faults.new_readers_start_at_the_next_tuple,
        NOTHING_LOST,
        note=1,
    ),
    Fault(
        "`W > gamma` holds for ever, so that every later watermark switches to the same epoch again",
        faults.the_switch_condition_stays_true,
        "semantics/test_elasticity.py::test_an_epoch_begins_at_the_first_watermark_beyond_its_announcement",
        note=2,
    ),
    Fault(
        "A reconfiguration waits for a tuple; heartbeats of a silent stream leave it waiting",
        faults.heartbeats_carry_no_control_tuples,
        "semantics/test_watermarks.py::test_a_heartbeat_carries_a_reconfiguration_on_a_silent_stream",
        note=3,
    ),
    Fault(
        "An instance without results holds back those of all others",
        faults.silent_instances_publish_no_progress,
        "semantics/test_windows.py::test_results_do_not_wait_for_instances_that_have_none",
        REFERENCE,
        note=4,
    ),
    Fault(
        "An instance promises more than it knows, and its next results come too late for downstream",
        faults.instances_promise_one_step_too_much,
        NOTHING_LOST,
        note=4,
    ),
    Fault(
        "Rows that `update` makes leave at once, with the time of a window that ends after others still open",
        faults.rows_of_updates_leave_at_once,
        "semantics/test_order.py::test_each_instance_delivers_its_outputs_in_timestamp_order",
        note=5,
    ),
    Fault(
        "A tuple is ready when no source is earlier, though one at the same time may still add before it",
        faults.ready_means_as_early_as_all_others,
        "semantics/test_determinism.py::test_the_output_table_is_the_same_for_any_interleaving",
        note=6,
    ),
    Fault(
        "The earliest window is found by steps of one advance, through all of a silence",
        faults.windows_are_walked_to_step_by_step,
        "semantics/test_memory.py::test_a_silent_year_costs_no_steps_without_keys",
        note=7,
    ),
    Fault(
        "Times before 1970 are rounded up to a boundary instead of down",
        faults.times_before_1970_are_cut_towards_zero,
        "semantics/test_windows.py::test_the_left_boundary_belongs_to_a_window_and_the_right_one_does_not",
        {"engine": "reference", "kind": "multi", "origin": -100},
        note=7,
    ),
    Fault(
        "A window is reported by the watermark after the one that reaches its end",
        faults.windows_wait_for_a_watermark_beyond_their_end,
        "semantics/test_windows.py::test_a_window_is_reported_by_the_first_watermark_that_reaches_its_right_boundary",
        {"engine": "reference", "kind": "multi"},
        note=8,
    ),
    Fault(
        "Only the numbers of instances are compared, so that replaced instances are never connected",
        faults.only_numbers_of_instances_are_compared,
        NOTHING_LOST,
        note=9,
    ),
    Fault(
        "Joining instances begin in epoch 0 and take the announcement of their own epoch for a new one",
        faults.joining_instances_start_in_epoch_zero,
        ONE_EPOCH,
        note=10,
    ),
    Fault(
        "An epoch that was announced earlier replaces a later one",
        faults.an_older_epoch_replaces_a_newer_one,
        "semantics/test_elasticity.py::test_epochs_begin_once_and_in_the_order_of_requests",
        note=10,
    ),
    Fault(
        "ScaleJoin joins pairs that are exactly one window size apart, and share no window",
        faults.joins_keep_tuples_as_printed,
        "reference/test_joins.py::test_scale_join_by_its_definition",
        note=11,
    ),
    Fault(
        "The keys of ScaleJoin go from 1 to the number of keys, and nobody stores the tuples with remainder 0",
        faults.join_keys_go_from_one_to_a_thousand,
        "reference/test_joins.py::test_every_tuple_is_stored_by_exactly_one_key",
        {"groups": 5},
        note=12,
    ),
    Fault(
        "New sources of the output are bound to the trigger's time (the lemma in print), but the windows that the "
        "trigger ends have earlier boundaries",
        faults.joining_instances_are_bound_to_the_trigger,
        "semantics/test_elasticity.py::test_what_a_joining_instance_adds_lies_after_the_bound_it_was_given",
    ),
    Fault(
        "New sources have promised nothing and may add before what was delivered",
        faults.new_sources_have_promised_nothing,
        CONTRACT + "test_a_new_source_adds_nothing_before_its_bound",
    ),
    Fault("Instances switch without waiting for one another", faults.nobody_waits_at_the_barrier, NOTHING_LOST),
    Fault(
        "The next mapping holds from the control tuple on, while others are still on the way there",
        faults.the_mapping_changes_at_the_control_tuple,
        NOTHING_LOST,
    ),
    Fault(
        "Leaving instances are disconnected before joining ones are connected",
        faults.instances_leave_before_others_join,
        NOTHING_LOST,
    ),
    Fault(
        "More than one caller is told that it changed the readers",
        faults.every_caller_is_told_true,
        CONTRACT + "test_of_several_callers_that_remove_the_same_readers_one_is_told_true",
    ),
    Fault(
        "What a source has added and is not ready is lost when it is removed (no flush tuple)",
        faults.a_removed_source_takes_its_tuples_along,
        CONTRACT + "test_what_a_removed_source_added_is_still_delivered",
    ),
    Fault(
        "A control tuple at the time of a watermark takes the watermark's place",
        faults.a_control_tuple_swallows_the_watermark,
        "semantics/test_watermarks.py::test_a_heartbeat_that_carries_a_reconfiguration_is_still_a_watermark",
    ),
    Fault(
        "A tuple at the right boundary belongs to the window",
        faults.the_right_boundary_belongs_to_the_window,
        DEFINITION,
    ),
    Fault("A window ends one step too early", faults.windows_end_one_step_early, DEFINITION),
    Fault(
        "A sliding instance drops the tuples at its left boundary",
        faults.tuples_at_the_left_boundary_are_purged,
        "semantics/test_windows.py::test_single_and_multi_give_the_same_results_while_reconfigured",
    ),
    Fault("Instances report windows of keys that are not theirs", faults.everyone_reports_every_window, NOTHING_LOST),
    Fault("A key that a tuple has twice counts twice", faults.a_key_counts_as_often_as_it_occurs, DEFINITION),
    Fault(
        "Shared-nothing moves the state of a window without the rows that it holds",
        faults.state_moves_without_the_rows_held,
        "reference/test_copies.py::test_rows_held_and_tuples_stored_move_too",
    ),
    Fault(
        "In shared-nothing, a heartbeat reaches one instance, and the windows of the others stay open",
        faults.heartbeats_reach_one_instance_only,
        "semantics/test_definition.py::test_shared_nothing_and_virtual_shared_nothing_give_the_same_table",
    ),
)

HEAD = """# The oracle bites

Deliberate faults of the reference engine, and the test that catches each (paths are below `tests/`). `tests/mutations`
plants them one by one: the test has to fail within a fixed number of fixed examples, and the same example has to pass
without the fault. A number in the last column is that of the paper note (paper-notes.md) whose literal reading it is.

This table is written by `python -m tests.mutations.table`; a test compares.

| Fault | Caught by | Note |
|---|---|---|
"""


def document() -> str:
    """Return the text of the document."""
    lines = []
    for fault in FAULTS:
        arguments = ", ".join(f"{name}={value!r}" for name, value in fault.arguments.items())
        test = f"`{fault.caught_by}`" + (f" with {arguments}" if arguments else "")
        lines.append(f"| {fault.what} | {test} | {fault.note or ''} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
