"""More instances while the stream flows, then fewer: the results do not change, and no state moves."""

import pyarrow as pa

import stretch as st

SENSORS = 20
CHANGES = {3: 4, 6: 2}  # at the start of which hour to ask for how many instances


def hour_of_readings(hour: int) -> pa.RecordBatch:
    """Every sensor reports once a minute; time counts minutes."""
    minutes = range(60 * hour, 60 * (hour + 1))
    rows = [
        {"minute": minute, "sensor": sensor, "value": (minute * 7 + sensor * 13) % 101}
        for minute in minutes
        for sensor in range(SENSORS)
    ]
    return pa.RecordBatch.from_pylist(rows)


peaks = st.Aggregate(window=st.tumbling(60), keys="sensor", peak=st.max("value"), mean=st.mean("value"))


def run(changes: dict[int, int]) -> pa.Table:
    with st.setup(peaks, time="minute", parallelism=1, max_parallelism=4) as job:
        parts = []
        change = None
        for hour in range(9):
            if hour in changes:
                change = job.reconfigure(parallelism=changes[hour])
                print(f"hour {hour}: asked for {change.parallelism}, now it is {change.status}")
            job.add(hour_of_readings(hour))
            parts.append(job.results())
            if change is not None:
                print(f"hour {hour}: {change.status} at minute {change.watermark}")
                change = None
        parts.append(job.finish())
        metrics = job.metrics()
        print(f"{metrics.reconfigurations} changes, {metrics.bytes_moved} bytes of state moved")
        return pa.concat_tables(parts)


resized, steady = run(CHANGES), run({})
print("same results:", resized.equals(steady))
