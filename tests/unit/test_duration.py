"""Durations: every form that is read, and how they meet the time column."""

import pytest

import stretch as st
from stretch.duration import COLUMN_UNITS, MICROSECONDS, Duration, duration, ticks_for

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

TEXTS = {
    "1 microsecond": 1,
    "7 microseconds": 7,
    "7 us": 7,
    "1 millisecond": 1_000,
    "500 milliseconds": 500_000,
    "500ms": 500_000,
    "1 second": SECOND,
    "90 seconds": 90 * SECOND,
    "90 s": 90 * SECOND,
    "90s": 90 * SECOND,
    "1 minute": MINUTE,
    "5 minutes": 5 * MINUTE,
    "5 min": 5 * MINUTE,
    "5 mins": 5 * MINUTE,
    "1 hour": HOUR,
    "2 hours": 2 * HOUR,
    "2 h": 2 * HOUR,
    "1 day": DAY,
    "3 days": 3 * DAY,
    "3 d": 3 * DAY,
    "1 week": 7 * DAY,
    "2 weeks": 14 * DAY,
    "1 hour 30 minutes": 90 * MINUTE,
    "1h30min": 90 * MINUTE,
    "1 day 2 hours 3 minutes 4 seconds 5 milliseconds": DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5_000,
    "  5   Minutes ": 5 * MINUTE,
    "0 seconds": 0,
}


@pytest.mark.parametrize(("text", "ticks"), TEXTS.items())
def test_text_counts_microseconds(text, ticks):
    assert duration(text, "size") == Duration(ticks, MICROSECONDS, text)


@pytest.mark.parametrize("number", [0, 1, 60_000, 10**15])
def test_an_int_counts_units_of_the_column(number):
    assert duration(number, "size") == Duration(number, COLUMN_UNITS, str(number))


def test_a_duration_passes_through():
    length = duration("1 hour", "size")
    assert duration(length, "size") is length


NOT_DURATIONS = ["", "5", "hour", "5 months", "1.5 hours", "-5 minutes", "5 minutes ago", 5.0, None, True, ["5 s"]]


@pytest.mark.parametrize("value", NOT_DURATIONS)
def test_anything_else_is_refused(value):
    with pytest.raises(st.DefinitionError, match="is not a duration"):
        duration(value, "size")


def test_it_shows_as_it_was_written():
    assert str(duration("1 hour 30 minutes", "size")) == "1 hour 30 minutes"
    assert str(duration(60_000, "size")) == "60000"


def test_text_goes_with_timestamps_and_ints_with_longs():
    assert ticks_for(duration("2 seconds", "size"), time_is_timestamp=True, name="size", column="ts") == 2 * SECOND
    assert ticks_for(duration(2, "size"), time_is_timestamp=False, name="size", column="ts") == 2


@pytest.mark.parametrize(("value", "time_is_timestamp"), [("2 seconds", False), (2, True)])
def test_they_never_mix(value, time_is_timestamp):
    with pytest.raises(st.DefinitionError, match="does not fit the time column 'ts'"):
        ticks_for(duration(value, "size"), time_is_timestamp, "size", "ts")
