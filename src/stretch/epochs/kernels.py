"""The epoch switch: note the next epoch, meet at the barrier, connect and disconnect (Paper: processVSN).

The protocol is that of `stretch.reference.virtual`; the layout and its invariants are in `layout.py`.
"""

from __future__ import annotations

from stretch.buffer.ready_log_kernels import (
    LogView,
    add_readers,
    add_sources,
    bound_of,
    remove_readers,
    remove_sources,
)
from stretch.epochs.layout import (
    ARRIVED,
    BARRIER_CELL,
    BARRIER_NS,
    CHANGED_BY,
    EPOCH,
    EPOCHS_MAX,
    FIRST_CONTROL_NS,
    FIRST_READER,
    HANDED_HAS_WATERMARK,
    HANDED_POSITION,
    HANDED_WATERMARK,
    HAS_WATERMARK,
    IN_POOL,
    LATEST_EPOCH,
    NONE,
    OK,
    OPERATOR_BITS,
    PASSED,
    PENDING,
    POOL_CELL,
    POSITION,
    READERS_MAX,
    STOPPED,
    SWITCH_AT,
    SWITCHED_AT,
    SWITCHED_NS,
    TICKET,
    WATERMARK,
    Epochs,
)
from stretch.native.atomics import compare_exchange, fetch_add, load_acquire, store_release
from stretch.native.jit import kernel
from stretch.native.system import now_ns
from stretch.native.waiting import WAIT_AGAIN, WAIT_STOPPED, deadline_after, wait_round, wake_all

# A barrier is passed in microseconds; a worker that never comes has failed, and then the stop flag is set.
BARRIER_ROUND_NS = 1_000_000_000


@kernel
def note_next_epoch(epochs: Epochs, worker: int, index: int, time: int) -> None:
    """Take up what a control entry says, if it is for us and newer than what is known (Paper: prepareReconfig)."""
    if index & (READERS_MAX - 1) != epochs.cells[FIRST_READER]:
        return
    row, epoch = epochs.workers[worker], index >> OPERATOR_BITS
    known = row[PENDING] if row[PENDING] != NONE else row[EPOCH]
    if epoch > known:
        row[PENDING] = epoch
        row[SWITCH_AT] = time
        # compare_exchange: partners are the other workers; the first to see the epoch writes the time.
        compare_exchange(epochs.progress[epoch % EPOCHS_MAX], FIRST_CONTROL_NS, 0, now_ns())


@kernel
def wait_for_switch(epochs: Epochs, epoch: int) -> int:
    """Wait until the switch to an epoch is over: who left with it may still be calling the buffers (E4)."""
    progress = epochs.progress[epoch % EPOCHS_MAX]
    attempt = 0
    while True:
        # load_acquire: the ticket, taken before looking; its partner is the wake_all of the last one in switch_epoch.
        ticket = load_acquire(epochs.cells, BARRIER_CELL)
        # load_acquire: pairs with the store_release of the last one in switch_epoch.
        if epoch == 0 or load_acquire(progress, SWITCHED_NS) != 0:
            return OK
        status = wait_round(epochs.cells, BARRIER_CELL, ticket, attempt, epochs.stop, deadline_after(BARRIER_ROUND_NS))
        if status == WAIT_STOPPED:
            return STOPPED
        attempt += 1


@kernel
def wait_for_workers(epochs: Epochs, epoch: int, count: int) -> int:
    """Wait until all workers of the epoch that ends are here (Paper: waitForInstances)."""
    progress = epochs.progress[epoch % EPOCHS_MAX]
    # fetch_add: publishes this worker's state; pairs with the load_acquire of those who wait below.
    if fetch_add(progress, ARRIVED, 1) + 1 == count:
        progress[BARRIER_NS] = now_ns()
        wake_all(epochs.cells, BARRIER_CELL)
        return OK
    attempt = 0
    while True:
        # load_acquire: the ticket, taken before looking; its partner is wake_all above.
        ticket = load_acquire(epochs.cells, BARRIER_CELL)
        # load_acquire: pairs with the fetch_add above; from here on all groups' state is visible.
        if load_acquire(progress, ARRIVED) >= count:
            return OK
        status = wait_round(epochs.cells, BARRIER_CELL, ticket, attempt, epochs.stop, deadline_after(BARRIER_ROUND_NS))
        if status == WAIT_STOPPED:
            return STOPPED
        attempt += 1


@kernel
def list_changes(epochs: Epochs, worker: int, from_epoch: int, to_epoch: int, joining: bool, first: int) -> int:
    """List in the worker's row of `changes` who joins (or leaves) between two epochs; return how many.

    `first` is the slot of worker 0: 0 for the workers themselves, and for them as sources of the output.
    """
    before, after = epochs.members[from_epoch % EPOCHS_MAX], epochs.members[to_epoch % EPOCHS_MAX]
    count = 0
    for member in range(len(before)):
        if (after[member] > before[member]) if joining else (after[member] < before[member]):
            epochs.changes[worker, count] = first + member
            count += 1
    return count


@kernel
def hand_over(epochs: Epochs, worker: int, count: int, epoch: int, position: int) -> None:
    """Give the joining workers what they start with: the epoch, and the watermark from before it."""
    row = epochs.workers[worker]
    for index in range(count):
        handover = epochs.handovers[epochs.changes[worker, index]]
        handover[HANDED_WATERMARK] = row[WATERMARK]
        handover[HANDED_HAS_WATERMARK] = row[HAS_WATERMARK]
        handover[HANDED_POSITION] = position
        # store_release: publishes the handover; pairs with the load_acquire in `join`.
        store_release(handover, TICKET, epoch + 1)


@kernel
def change_members(epochs: Epochs, log: LogView, out: LogView, worker: int, epoch: int, position: int) -> bool:
    """Connect who joins, then disconnect who leaves; True for the one worker that the buffers let do it."""
    current = epochs.workers[worker][EPOCH]
    first_reader = epochs.cells[FIRST_READER]
    joining = list_changes(epochs, worker, current, epoch, True, 0)
    if joining > 0:
        if add_sources(out, epochs.changes[worker, :joining], bound_of(out, worker)) == 0:
            return False
        list_changes(epochs, worker, current, epoch, True, first_reader)
        add_readers(log, epochs.changes[worker, :joining], position)
        list_changes(epochs, worker, current, epoch, True, 0)
        hand_over(epochs, worker, joining, epoch, position)
        wake_all(epochs.cells, POOL_CELL)
    leaving = list_changes(epochs, worker, current, epoch, False, first_reader)
    if leaving > 0:
        if remove_readers(log, epochs.changes[worker, :leaving]) == 0:
            return False
        list_changes(epochs, worker, current, epoch, False, 0)
        remove_sources(out, epochs.changes[worker, :leaving])
    return joining > 0 or leaving > 0


@kernel
def switch_epoch(epochs: Epochs, log: LogView, out: LogView, worker: int, position: int, time: int) -> int:
    """Go to the pending epoch at the entry at `position`, before it is processed."""
    row = epochs.workers[worker]
    epoch, current = row[PENDING], row[EPOCH]
    count = 0
    for member in range(epochs.members.shape[1]):
        count += epochs.members[current % EPOCHS_MAX, member]
    status = wait_for_switch(epochs, current)
    if status == OK:
        status = wait_for_workers(epochs, epoch, count)
    if status != OK:
        return status
    progress = epochs.progress[epoch % EPOCHS_MAX]
    if change_members(epochs, log, out, worker, epoch, position):
        progress[CHANGED_BY] = worker + 1
    row[PENDING] = NONE
    row[EPOCH] = epoch if epochs.members[epoch % EPOCHS_MAX, worker] else IN_POOL
    # fetch_add: the partners are the other workers; the last one through marks the switch as done.
    if fetch_add(progress, PASSED, 1) + 1 == count:
        progress[SWITCHED_AT] = time
        # store_release: pairs with the load_acquire of the coordinator; before the next switch can begin.
        store_release(epochs.cells, LATEST_EPOCH, epoch)
        # store_release: publishes the times; pairs with the load_acquire of `wait_for_switch` and of the coordinator.
        store_release(progress, SWITCHED_NS, now_ns())
        wake_all(epochs.cells, BARRIER_CELL)
    return OK


@kernel
def join(epochs: Epochs, worker: int) -> int:
    """Wait in the pool until somebody hands over an epoch; return OK or STOPPED."""
    handover = epochs.handovers[worker]
    attempt = 0
    while True:
        # load_acquire: the ticket of the wait, taken before looking; its partner is wake_all in change_members.
        ticket = load_acquire(epochs.cells, POOL_CELL)
        # load_acquire: pairs with the store_release in hand_over.
        epoch = load_acquire(handover, TICKET)
        if epoch != 0:
            row = epochs.workers[worker]
            row[EPOCH] = epoch - 1
            row[PENDING] = NONE
            row[WATERMARK] = handover[HANDED_WATERMARK]
            row[HAS_WATERMARK] = handover[HANDED_HAS_WATERMARK]
            row[POSITION] = handover[HANDED_POSITION]
            # store_release: gives the handover back; pairs with the barrier of the next switch.
            store_release(handover, TICKET, 0)
            return OK
        status = wait_round(epochs.cells, POOL_CELL, ticket, attempt, epochs.stop, deadline_after(BARRIER_ROUND_NS))
        if status == WAIT_STOPPED:
            return STOPPED
        attempt = attempt + 1 if status == WAIT_AGAIN else attempt
