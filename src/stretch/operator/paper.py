"""Every operator of the paper, ready to use (Paper: appendix "Example Operators", and the evaluation).

The paper's streams count milliseconds, so the windows here are ints and go with a long time column; pass a window of
your own for timestamps. Tweets have the columns `user string, text string`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stretch.operator.aggregate import Aggregate, count
from stretch.operator.aggregate import max as max_of
from stretch.operator.join import BLOCK_COUNT, Join
from stretch.operator.keys import KeySpec, hashtags, pairs, words
from stretch.operator.spec import Map, Operator, input
from stretch.windows.spec import Window, sliding

HOUR_BY_HALF = sliding(3_600_000, 1_800_000)
TWO_MINUTES_BY_ONE = sliding(120_000, 60_000)

_tags_of_text = hashtags("text")


def longest_tweet(window: Window = HOUR_BY_HALF) -> Operator:
    """Find the longest tweet per hashtag: the running example (Paper: A+, Operator "longest tweet")."""

    def update(w: Any, t: Any) -> None:
        if len(t.text) > w.chars:
            w.chars = len(t.text)

    def report(w: Any) -> Iterator[Any]:
        yield w.key, w.chars

    return Operator(
        name="longest_tweet",
        window=window,
        keys=_tags_of_text,
        state="chars long",
        update=update,
        output=report,
        schema="hashtag string, chars long",
    )


def longest_tweet_by_map(window: Window = HOUR_BY_HALF) -> tuple[Map, Aggregate]:
    """Find the same with a copy of the tweet per hashtag (Paper: M and A, Corollary "duplicationviamap")."""

    def copies(t: Any) -> Iterator[tuple[str, int]]:
        for tag in dict.fromkeys(_tags_of_text(t)):
            yield tag, len(t.text)

    copy = Map(copies, schema="hashtag string, length long", name="copy_per_hashtag")
    longest = Aggregate(window=window, keys="hashtag", chars=max_of("length"), name="longest_tweet")
    return copy, longest


def wordcount(window: Window = TWO_MINUTES_BY_ONE, *, occurrences: bool = False) -> Operator:
    """Count in how many tweets each word is, or with `occurrences` how often (Paper: Q1)."""
    return _counting("wordcount", window, words("text"), "word string", occurrences)


def paircount(
    distance: int | None = None, window: Window = TWO_MINUTES_BY_ONE, *, occurrences: bool = False
) -> Operator:
    """Count pairs of words up to `distance` apart (Paper: Q1; L is 3, M is 10, H is None: all pairs)."""
    return _counting("paircount", window, pairs("text", distance), "first string, second string", occurrences)


def wordcount_aggregate(window: Window = TWO_MINUTES_BY_ONE) -> Aggregate:
    """Count words with the ready-made aggregate."""
    return Aggregate(window=window, keys=words("text"), tweets=count(), name="wordcount")


def scale_join(window: Window | None = None, *, groups: int = BLOCK_COUNT, printed_purge: bool = False) -> Join:
    """Join on two bands, the benchmark of ScaleJoin (Paper: Operator "ScaleJoin", Q3 to Q5)."""

    def match(l: Any, r: Any) -> bool:
        return bool(abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10)

    return Join(
        name="scale_join",
        window=window or sliding(300_000),
        inputs=["ts long, x int, y float", "ts long, a int, b float, c double, d boolean"],
        match=match,
        groups=groups,
        printed_purge=printed_purge,
    )


def forwarder(instances: int, schema: str = "user string, text string", time: str = "ts long") -> Operator:
    """Forward every tuple of two inputs, once for each instance (Paper: Q2, the cost of sharing and sorting alone)."""

    def keys(_: Any) -> range:
        return range(instances)

    def update(_: Any, t: Any) -> Iterator[Any]:
        yield t[1:]

    stream = input(f"{time}, {schema}")
    return Operator(
        name="forwarder",
        window=sliding(1, 1, kind="single"),
        inputs=[stream, stream],
        keys=keys,
        groups=instances,
        keys_are_groups=True,
        update=update,
        schema=schema,
    )


def hedge(window: Window | None = None, *, two_sided: bool = False, groups: int = BLOCK_COUNT) -> Join:
    """Find pairs of trades whose prices move against each other (Paper: Q6); feed the trades to both inputs.

    The predicate is the printed one, which matches most pairs, since it bounds the ratio on one side only; with
    `two_sided` the ratio lies between -1.05 and -0.95. A trade exactly at the average has no ratio and no match.
    """

    def match(l: Any, r: Any) -> bool:
        left = (l.price - l.average) / l.average
        right = (r.price - r.average) / r.average
        if l.id == r.id or left == 0:
            return False
        ratio = right / left
        return bool(ratio >= -1.05 and (not two_sided or ratio <= -0.95))

    def row(l: Any, r: Any) -> tuple[Any, ...]:
        return l.id, l.price, r.id, r.price

    trades = "ts long, id string, price int, average int"
    return Join(
        name="hedge",
        window=window or sliding(30_000),
        inputs=[trades, trades],
        match=match,
        output=row,
        schema="l_id string, l_price int, r_id string, r_price int",
        groups=groups,
    )


def _counting(name: str, window: Window, keys: KeySpec, key_schema: str, occurrences: bool) -> Operator:
    def update(w: Any, _: Any) -> None:
        w.count += 1

    def report(w: Any) -> Iterator[Any]:
        yield w.key, w.count

    def report_pair(w: Any) -> Iterator[Any]:
        yield w.key[0], w.key[1], w.count

    return Operator(
        name=name,
        window=window,
        keys=keys,
        state="count long",
        update=update,
        output=report_pair if isinstance(keys, pairs) else report,
        schema=f"{key_schema}, count long",
        occurrences=occurrences,
    )
