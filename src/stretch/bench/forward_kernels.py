"""Sources and readers of tuple buffers, compiled: what `forward` runs in its threads.

What
    A source has `times`, sorted, and `values`, the rows' only column. With a pace it adds what is due, and the value of
    a row is the nanosecond at which it was due, not the one at which it got in: a source that is held up would
    otherwise hide its delay. Without a pace everything is due at once and values stay as they are.
    A reader adds up the values, or with a pace notes how long after its due time it reads each row.
Who writes what
    `values`: the source. `found`, `latencies`: the reader.
"""

from __future__ import annotations

from typing import Any, Final

from stretch.buffer import ready_log_kernels as log
from stretch.buffer import scalegate_kernels as gate
from stretch.buffer.layout import DATA, INDEX_SHIFT, INPUT_SHIFT
from stretch.native import WAIT_AGAIN, Cells, kernel, sleep_ns
from stretch.native.system import now_ns

BATCH: Final = 4096  # entries that a reader takes at a time
FEW: Final = 64  # rows that a paced source waits for
NAP_NS: Final = 50_000
BUCKET_NS: Final = 10_000  # of `latencies`; the last one takes all that is later

# Cells of `found`.
ROWS, TOTAL, FOUND_CELLS = range(3)

_INPUT_MASK: Final = (1 << (INDEX_SHIFT - INPUT_SHIFT)) - 1


@kernel
def rows_due(values: Cells, done: int, begun_ns: int, pace_ps: int) -> int:
    """Return up to which row everything is due; naps if that is hardly any, notes due times if there is a pace."""
    count: int = values.shape[0]
    if pace_ps == 0:
        return count
    due: int = min((now_ns() - begun_ns) * 1000 // pace_ps, count)
    if due - done < min(FEW, count - done):
        sleep_ns(NAP_NS)
        return done
    for row in range(done, due):
        values[row] = begun_ns + row * pace_ps // 1000
    return due


@kernel
def feed_log(
    view: Any,
    source: int,
    times_address: int,
    values: Cells,
    addresses: Cells,
    pace_ps: int,
    end: int,
    deadline_ns: int,
) -> int:
    """Add all rows of a source to a ReadyLog and promise the time `end`; return how many were added."""
    begun_ns, done = now_ns(), 0
    while done < values.shape[0]:
        due = rows_due(values, done, begun_ns, pace_ps)
        count = log.admit_all(view, source, done, due, times_address, addresses, deadline_ns)
        if count < due - done:
            return done
        done = due
    log.advance(view, source, 2 * end)
    return done


@kernel
def feed_gate(
    view: Any, source: int, times: Cells, values: Cells, refs: Cells, pace_ps: int, end: int, deadline_ns: int
) -> int:
    """Add all rows of a source to an ElasticScaleGate and promise the time `end`; return how many were added."""
    begun_ns, done, due = now_ns(), 0, 0
    ranks = view.ranks[source : source + 1]
    while done < values.shape[0]:
        if done == due:
            due = rows_due(values, done, begun_ns, pace_ps)
        count = gate.add_many(view, source, times, ranks, refs, done, due)
        done += max(count, 0)
        if done < due and gate.wait_for_room(view, source, due - done, deadline_ns) != WAIT_AGAIN:
            return done
    while gate.advance(view, source, 2 * end) == gate.FULL:
        if gate.wait_for_room(view, source, 1, deadline_ns) != WAIT_AGAIN:
            return done
    return done


@kernel
def read_log(
    view: Any, reader: int, first: Cells, second: Cells, rows: int, found: Cells, latencies: Cells, deadline_ns: int
) -> int:
    """Read so many rows of two inputs, whose columns are `first` and `second`; return a wait status."""
    position = 0
    while found[ROWS] < rows:
        status = log.wait_for_entries(view, position, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        begun_ns = now_ns()
        end = min(log.ready_end(view), position + BATCH)
        note(view.refs, position, end, first, second, found, latencies)
        log.report_speed(view, reader, (now_ns() - begun_ns) / (end - position))
        position = end
        log.release_to(view, reader, position)
    return WAIT_AGAIN


@kernel
def read_gate(
    view: Any,
    reader: int,
    times: Cells,
    refs: Cells,
    first: Cells,
    second: Cells,
    rows: int,
    found: Cells,
    latencies: Cells,
    deadline_ns: int,
) -> int:
    """Read so many rows of two sources; `times` and `refs` are the reader's own arrays."""
    position = 0
    while found[ROWS] < rows:
        status = gate.wait_for_entries(view, reader, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        end = position + gate.fetch(view, reader, times, refs, BATCH)
        note(refs, position, end, first, second, found, latencies)
        position = end
        gate.release_to(view, reader, position)
    return WAIT_AGAIN


@kernel
def note(refs: Cells, start: int, end: int, first: Cells, second: Cells, found: Cells, latencies: Cells) -> None:
    """Add up the values of entries, or count their latencies if there is an array for it."""
    mask, buckets, now = refs.shape[0] - 1, latencies.shape[0], now_ns()
    rows, total = 0, 0
    for position in range(start, end):
        ref = refs[position & mask]
        if ref & 3 != DATA:
            continue
        index = ref >> INDEX_SHIFT
        value = second[index] if (ref >> INPUT_SHIFT) & _INPUT_MASK else first[index]
        rows += 1
        total += value
        if buckets > 0:
            latencies[min(max(now - value, 0) // BUCKET_NS, buckets - 1)] += 1
    found[ROWS] += rows
    found[TOTAL] += total
