"""A join that no equality can express: parcels and couriers that are near one another, within ten minutes.

Every parcel is compared with every courier of the last ten minutes. Four instances share the work, and each pair is
compared by exactly one of them.
"""

import pyarrow as pa

import stretch as st


def near(parcel, courier):
    return abs(parcel.x - courier.x) <= 2 and abs(parcel.y - courier.y) <= 2


meetings = st.Join(
    window=st.sliding(10),  # no advance: any two that are less than 10 apart
    match=near,
    inputs=["minute long, parcel string, x int, y int", "minute long, courier string, x int, y int"],
    output=lambda parcel, courier: (parcel.parcel, courier.courier, abs(courier.minute - parcel.minute)),
    schema="parcel string, courier string, apart int",
    groups=16,  # keys that the work is dealt by; the default suits many threads
)

parcels = pa.RecordBatch.from_pylist(
    [
        {"minute": 0, "parcel": "books", "x": 1, "y": 1},
        {"minute": 4, "parcel": "lamp", "x": 8, "y": 3},
        {"minute": 9, "parcel": "shoes", "x": 9, "y": 9},
    ]
)
couriers = pa.RecordBatch.from_pylist(
    [
        {"minute": 1, "courier": "ana", "x": 9, "y": 8},
        {"minute": 6, "courier": "ben", "x": 2, "y": 3},
        {"minute": 8, "courier": "ana", "x": 8, "y": 5},
        {"minute": 12, "courier": "ben", "x": 1, "y": 1},
    ]
)

with st.setup(meetings, time="minute", parallelism=4) as job:
    job.add(parcels, source=0)
    job.add(couriers, source=1)
    for row in job.finish().to_pylist():
        print(f"{row['courier']} was near the {row['parcel']:5}  {row['apart']} minutes apart")
