"""A histogram of latencies: buckets that double every four, so that a quantile is at most a quarter too high.

Latency is the time from the arrival of the latest tuple that contributes to a result until the result is there
(Paper: the evaluation's "latency").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BUCKETS: Final = 256
STEPS_BITS: Final = 2  # 4 buckets per power of two


def bucket_edge(bucket: int) -> int:
    """Return the nanoseconds at which a bucket begins; those below 4 have one bucket each."""
    steps = 1 << STEPS_BITS
    if bucket < steps:
        return bucket
    return (steps + bucket % steps) << (bucket // steps - 1)


@dataclass(frozen=True)
class Latency:
    """How many results took how long; `counts` are by bucket, from `bucket_edge(bucket)` nanoseconds on."""

    counts: tuple[int, ...] = (0,) * BUCKETS

    @property
    def total(self) -> int:
        """The number of results that were measured."""
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float | None:
        """Return the milliseconds that so large a share of the results took at most; None without results."""
        wanted, seen = share * self.total, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return bucket_edge(bucket + 1) / 1e6
        return None

    @property
    def p50_ms(self) -> float | None:
        """What half of the results took at most."""
        return self.quantile_ms(0.5)

    @property
    def p99_ms(self) -> float | None:
        """What 99 of 100 results took at most."""
        return self.quantile_ms(0.99)

    def since(self, earlier: Latency) -> Latency:
        """Return the latencies of the results between two readings."""
        return Latency(tuple(now - before for now, before in zip(self.counts, earlier.counts, strict=True)))

    def __repr__(self) -> str:
        if not self.total:
            return "<Latency: no results>"
        return f"<Latency: {self.total} results, p50 {self.p50_ms:.3f} ms, p99 {self.p99_ms:.3f} ms>"
