"""A made-up morning of tweets: the same for the same seed, busy in its middle hour."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

SECOND = 1_000_000
HOUR = 3_600 * SECOND
START = int(datetime(2018, 10, 1, 9, tzinfo=UTC).timestamp()) * SECOND
END = START + 3 * HOUR

# Mean seconds between two tweets, hour by hour: the middle one is a rush.
_PAUSES = (40, 12, 40)

_USERS = ("ana", "ben", "chris", "dana", "emil", "fatima", "goran", "hanna", "ines", "jo")

_OPENINGS = ("", "", "", "Honestly: ", "True story: ", "Good morning! ", "Note to self: ", "Imagine: ")

_TOPICS = {
    "coffee": (
        "Second cup and it is not even ten.",
        "The good beans are gone again.",
        "Whoever fixed the machine on the third floor: thank you, thank you, thank you!",
    ),
    "rain": (
        "Wet shoes.",
        "It was sunny when I left home, I swear.",
        "Forty minutes on the bike, and every single cloud in town had come along.",
    ),
    "train": (
        "Ten minutes late.",
        "A seat by the window, for once.",
        "We have been told that we will shortly be told when we will be told more.",
    ),
    "football": (
        "What a goal!",
        "My neighbours can be heard to be happy about last night.",
        "Nobody who saw the second half can say in good faith that this was offside.",
    ),
    "music": (
        "That song again.",
        "New album out today, listening to nothing else.",
        "There is a choir rehearsing below our office and nobody gets any work done.",
    ),
    "books": (
        "One more chapter.",
        "Found my own name in a library book from 1994.",
        "Three hundred pages in, and I still do not know who is telling the story.",
    ),
    "garden": (
        "The last tomatoes.",
        "A hedgehog has moved in below the shed.",
        "Planted forty tulips where, as I now remember, I had planted forty tulips.",
    ),
    "monday": (
        "Again.",
        "Only four more days.",
        "My calendar has a meeting about why we have so many meetings.",
    ),
}


def tweets(seed: int = 0, crowd: int = 1) -> list[tuple[int, str, str]]:
    """Return the tweets in order of time: microseconds since 1970, user, text with one to three hashtags.

    `crowd` says how many times as many people tweet.
    """
    choice = random.Random(seed)
    return [(time, choice.choice(_USERS), _text(choice)) for time in _times(choice, crowd)]


def _times(choice: random.Random, crowd: int) -> Iterator[int]:
    time = START
    while True:
        pause = _PAUSES[(time - START) // HOUR] * SECOND // crowd
        time += choice.randint(pause // 4, pause * 7 // 4)
        if time >= END:
            return
        yield time


def _text(choice: random.Random) -> str:
    topics = choice.sample(sorted(_TOPICS), choice.choice((1, 1, 1, 2, 2, 3)))
    sentences = choice.sample(_TOPICS[topics[0]], choice.choice((1, 1, 1, 1, 2)))
    return choice.choice(_OPENINGS) + " ".join([*sentences, *(f"#{topic}" for topic in topics)])
