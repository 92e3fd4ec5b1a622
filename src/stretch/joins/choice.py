"""Which band an index is for: the one that holds for the fewest pairs of a sample.

An index that leaves many pairs to compare is slower than comparing all of them, in order, in a cache; then there is no
choice but the nested loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.operator.bands import Band

SAMPLE: Final = 1000  # rows of either side are enough to tell 1 in 10 from 1 in 100
SHARE_MAX: Final = 0.05  # measured: the nested loop compares some ten times as many rows in a time as a look-up does

Sample = Mapping[str, npt.NDArray[Any]]


class Choice(NamedTuple):
    """The bands of an index, the most selective first; none where all rows are to be compared. `why` is for a user."""

    bands: tuple[Band, ...]
    why: str


def choose(bands: Sequence[Band], left: Sample | None = None, right: Sample | None = None) -> Choice:
    """Choose by samples of the columns of both sides; without them bands of no width first, then as declared."""
    if not bands:
        return Choice((), "nested loop: the predicate implies no band")
    if left is None or right is None or not len(left[bands[0].left]) or not len(right[bands[0].right]):
        ordered = sorted(bands, key=lambda band: bool(band.above + band.below))
        return Choice(tuple(ordered), f"index on {ordered[0]}: declared first, and no rows are known yet")
    shares = {band: share_of(band, left[band.left], right[band.right]) for band in bands}
    ordered = sorted(bands, key=shares.__getitem__)
    told = ", ".join(f"{band}: {shares[band]:.2%}" for band in ordered)
    if shares[ordered[0]] > SHARE_MAX:
        return Choice((), f"nested loop: the bands hold for many pairs of a sample ({told})")
    return Choice(tuple(ordered), f"index on {ordered[0]}: bands hold for so many pairs of a sample ({told})")


def share_of(band: Band, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> float:
    """Return the share of pairs of two samples for which a band holds."""
    lefts, rights = left[:SAMPLE].astype(np.float64), np.sort(right[:SAMPLE].astype(np.float64))
    until = np.searchsorted(rights, lefts + float(band.above), side="right")
    since = np.searchsorted(rights, lefts - float(band.below), side="left")
    return float((until - since).mean() / len(rights))
