"""How many lines each word is in, in windows of two minutes that start every minute.

The time column is a long that counts milliseconds, so the durations are ints of that unit.
"""

import pyarrow as pa

import stretch as st

LINES = """
the owl and the pussycat went to sea
in a beautiful pea green boat
they took some honey and plenty of money
wrapped up in a five pound note
the owl looked up to the stars above
and sang to a small guitar
""".strip().splitlines()

MINUTE = 60_000

lines = pa.record_batch(
    {
        "ts": pa.array(range(0, len(LINES) * MINUTE // 2, MINUTE // 2), pa.int64()),
        "text": pa.array(LINES),
    }
)

wordcount = st.Aggregate(
    window=st.sliding(2 * MINUTE, MINUTE),
    keys=st.words("text"),  # as many keys as the line has words
    lines=st.count(),
)

with st.setup(wordcount, parallelism=3) as job:
    job.add(lines)
    counts = job.finish().to_pylist()

for end in sorted({row["ts"] for row in counts}):
    here = [row for row in counts if row["ts"] == end]
    often = sorted(here, key=lambda row: (-row["lines"], row["word"]))[:4]
    shown = ", ".join(f"{row['word']} {row['lines']}" for row in often)
    print(f"minutes {end // MINUTE - 2:2} to {end // MINUTE}: {shown}")
