"""The longest tweet per hashtag, in windows of one hour that start every half hour.

A tweet with two hashtags counts for both: `keys` names a list column, and nothing is copied.
"""

from datetime import UTC, datetime

import pyarrow as pa

import stretch as st


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2018-10-01 {clock}").replace(tzinfo=UTC)


tweets = pa.RecordBatch.from_pylist(
    [
        {"ts": at("09:05"), "text": "good morning #blue", "hashtags": ["blue"]},
        {"ts": at("09:50"), "text": "hello #pink", "hashtags": ["pink"]},
        {"ts": at("09:58"), "text": "hi #red #pink", "hashtags": ["red", "pink"]},
        {"ts": at("10:20"), "text": "no colour today", "hashtags": []},
        {"ts": at("10:40"), "text": "#red #red #red wine", "hashtags": ["red", "red", "red"]},
    ],
    schema=pa.schema([("ts", pa.timestamp("us", "UTC")), ("text", pa.string()), ("hashtags", pa.list_(pa.string()))]),
)


def with_length(batch: pa.RecordBatch) -> pa.RecordBatch:
    chars = [len(text) for text in batch["text"].to_pylist()]
    return batch.append_column("chars", pa.array(chars, pa.int32()))


longest = st.Aggregate(
    window=st.sliding(size="1 hour", advance="30 minutes"),
    keys="hashtags",
    key_name="hashtag",
    chars=st.max("chars"),
    tweets=st.count(),
)

with st.setup(longest, parallelism=2) as job:
    job.add(with_length(tweets))
    print("window ends   hashtag   longest   tweets")
    for row in job.finish().to_pylist():
        print(f"{row['ts']:%H:%M}         {row['hashtag']:7}   {row['chars']:7}   {row['tweets']:6}")
