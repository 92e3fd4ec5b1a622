"""Memory stays flat while ever new keys and texts pass by, over 100 window lengths."""

import pyarrow as pa
import pytest

import stretch as st
from tests.unit.streams import rows, started

WINDOWS, SIZE, KEYS = 120, 10, 400
WARM_UP = 20


def block(window):
    """Visits of users that nobody has seen before, all in one window."""
    users = pa.array([f"user {window} {number} of many" for number in range(KEYS)])
    times = pa.array([window * SIZE + number * SIZE // KEYS for number in range(KEYS)], pa.int64())
    return pa.record_batch({"ts": times, "user": users, "pages": times})


@pytest.mark.parametrize("chained", [False, True], ids=["one job", "a chain"])
def test_memory_is_flat_over_a_hundred_windows(chained):
    with started(engine="compiled", parallelism=2, max_parallelism=3) as first:
        last = first
        if chained:
            last = st.setup(
                st.Aggregate(window=st.tumbling(2 * SIZE), keys="user", total=st.sum("visits")),
                upstream=first,
                parallelism=2,
            )
        found, seen = 0, []
        for window in range(WINDOWS):
            first.add(block(window))
            if window % 10 == 0:
                first.reconfigure(1 + window // 10 % 3)
            found += len(rows(last.results()))
            metrics = [job.metrics() for job in {first, last}]
            heap = sum(8 * int(job.engine.memory.tables.cells[0]) for job in {first, last})
            seen.append((sum(m.state_bytes for m in metrics), first.metrics().dictionary_bytes, heap))
        found += len(rows(last.finish()))
        assert found == WINDOWS * KEYS
        for which in range(3):
            early = max(row[which] for row in seen[:WARM_UP])
            late = max(row[which] for row in seen[WARM_UP:])
            assert late <= 1.5 * early, ("state", "dictionary", "heap")[which]
