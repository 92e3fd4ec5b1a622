"""`stretch demo`: what it shows is computed, fits a plain terminal, and is the same for the same seed."""

import re
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from itertools import groupby

import pyarrow as pa
import pytest

from stretch.cli import demo, main, tweets
from stretch.cli.text import WIDTH


@pytest.fixture(scope="module")
def shown():
    """What the demo prints, line by line."""
    with redirect_stdout(StringIO()) as output:
        assert main(["demo"]) == 0
    return output.getvalue().splitlines()


def test_it_fits_a_plain_terminal(shown):
    assert max(map(len, shown)) <= WIDTH
    assert len(shown) <= 80
    assert not any(line != line.rstrip() or "\033" in line for line in shown)


def test_it_is_the_same_for_the_same_seed(shown, capsys):
    main(["demo", "--seed", "0"])
    assert capsys.readouterr().out.splitlines() == shown
    main(["demo", "--seed", "1"])
    assert capsys.readouterr().out.splitlines() != shown


def test_the_instances_change_while_the_tweets_flow(shown):
    bars = [len(bar[1]) for line in shown if (bar := re.search(r"\d   (#+)(?: |$)", line))]
    assert [parallelism for parallelism, _ in groupby(bars)] == [1, 4, 2]


def test_it_says_when_each_change_took_effect(shown):
    stream = [row[0] for row in tweets.tweets(0)]
    switches = [(int(found[1]), found[2]) for line in shown if (found := re.match(r" +(\d) from (\S+) on", line))]
    assert [parallelism for parallelism, _ in switches] == [4, 2]
    for (_, shown_time), asked in zip(switches, demo.CHANGES, strict=True):
        # The first tweet after the request carries it, the second is beyond it.
        carries, beyond = [timestamp for timestamp in stream if timestamp >= asked][:2]
        assert carries < beyond
        assert shown_time == demo.clock(beyond)


def test_all_results_are_the_same(shown):
    assert len([line for line in shown if line.endswith("same results: yes")]) == 2


def test_the_copies_and_the_moved_state_are_those_of_a_shared_nothing_run(shown):
    stream = tweets.tweets(0)
    copying = demo._run(stream, demo.CHANGES, "shared-nothing").metrics
    numbers = [re.findall(r"\d+$|\d+(?= )", line) for line in shown if line.startswith(("  copies", "  bytes"))]
    assert numbers == [["0", str(copying.copies)], ["0", str(copying.bytes_moved)]]
    assert copying.copies > 0
    assert copying.bytes_moved > 0


def longest_by_hand(stream):
    """Find the longest tweet per window and hashtag without the library."""
    longest = Counter()
    for timestamp, _, text in stream:
        for left in range(timestamp // demo.HOUR * demo.HOUR - demo.HOUR, timestamp + 1, demo.HOUR // 2):
            for tag in set(re.findall(r"#\w+", text)):
                if left <= timestamp < left + demo.HOUR:
                    longest[left, tag] = max(longest[left, tag], len(text))
    return longest


def test_the_table_shows_the_longest_tweets(shown):
    longest = longest_by_hand(tweets.tweets(0))
    head = next(n for n, line in enumerate(shown) if line.split() == ["window", "hashtag", "chars"])
    window, found = "", {}
    for line in shown[head + 2 :]:
        if not line:
            break
        *first, tag, chars = line.split()
        window = first[0] if first else window
        found.setdefault(window, []).append((tag, int(chars)))
    expected = {}
    for left in sorted({left for left, _ in longest}):
        inside = [(tag, chars) for (start, tag), chars in longest.items() if start == left]
        name = f"{demo.clock(left, '%H:%M')}-{demo.clock(left + demo.HOUR, '%H:%M')}"
        expected[name] = sorted(inside, key=lambda pair: (-pair[1], pair[0]))[: demo.ROWS_PER_WINDOW]
    tags = {window: [(f"{tag}", chars) for tag, chars in pairs] for window, pairs in found.items()}
    assert tags == expected


def test_it_admits_other_results(monkeypatch, capsys):
    steady = demo._run(tweets.tweets(0), {}, "reference")
    wrong = demo.Run(steady.results.slice(1), steady.metrics)
    monkeypatch.setattr(demo, "_run", lambda stream, changes, engine: wrong)
    assert main(["demo"]) == 1
    assert len(re.findall("same results: NO", capsys.readouterr().out)) == 2


# --- the tweets


@pytest.mark.parametrize("seed", range(5))
def test_tweets_are_a_readable_sorted_morning(seed):
    stream = tweets.tweets(seed)
    assert stream == tweets.tweets(seed)
    times = [timestamp for timestamp, _, _ in stream]
    assert times == sorted(set(times))
    assert tweets.START <= times[0] <= times[-1] < tweets.END
    by_hour = Counter((timestamp - tweets.START) // tweets.HOUR for timestamp in times)
    assert by_hour[1] > 2 * max(by_hour[0], by_hour[2])
    for _, user, text in stream:
        assert user
        assert 1 <= len(set(re.findall(r"#\w+", text))) == text.count("#") <= 3


def test_a_quiet_step_is_an_empty_batch():
    assert demo._record_batch([]).num_rows == 0
    assert demo._record_batch([]).schema.field("ts").type == pa.timestamp("us", tz="UTC")
