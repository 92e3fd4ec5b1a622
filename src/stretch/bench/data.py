"""Synthetic tweets: seeded, sorted by time, with words that follow Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

WORDS_PER_TWEET = 12
VOCABULARY = 200_000
TWEETS_PER_SECOND = 25  # of event time
USERS = 50_000

_SECOND = 1_000  # event time is in milliseconds
_CONSONANTS = np.frombuffer(b"bcdfghjklmnpqrstvwxz", np.uint8)
_VOWELS = np.frombuffer(b"aeiou", np.uint8)
_SHARES = {5: 0.2, 6: 0.6, 7: 0.2}  # of words with so many letters


@dataclass(frozen=True)
class Tweets:
    """Tweets as a table (`ts long, user string, text string`), and the words that they were made of.

    Word `ids[i, j]` of the `vocabulary` is word j of tweet i: a second way to the same counts, past all tokenising.
    """

    table: pa.Table
    ids: npt.NDArray[np.int32]
    vocabulary: pa.StringArray


def make_tweets(count: int, seed: int = 0, *, vocabulary: int = VOCABULARY) -> Tweets:
    """Make tweets from time 0 on: 25 per second, 12 words each, the word of rank r drawn in proportion to 1 / r."""
    random = np.random.default_rng(seed)
    words = make_words(random, vocabulary)
    ids = _draw(random, vocabulary, count * WORDS_PER_TWEET)
    offsets = np.arange(0, len(ids) + 1, WORDS_PER_TWEET, dtype=np.int32)
    text = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words.take(pa.array(ids))), " ")
    names = pc.binary_join_element_wise("user", pa.array(range(USERS)).cast(pa.string()), "")
    users = names.take(pa.array(random.integers(0, USERS, count)))
    table = pa.table({"ts": pa.array(tweet_times(random, count)), "user": users, "text": text})
    return Tweets(table, ids.reshape(count, WORDS_PER_TWEET), words)


def tweet_times(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Spread 25 tweets over each second."""
    seconds = -(-count // TWEETS_PER_SECOND)
    within = np.sort(random.integers(0, _SECOND, (seconds, TWEETS_PER_SECOND)), axis=1)
    times: npt.NDArray[np.int64] = (within + np.arange(seconds)[:, None] * _SECOND).ravel()[:count]
    return times


def _draw(random: np.random.Generator, vocabulary: int, count: int) -> npt.NDArray[np.int32]:
    """Draw ranks, from 0 on, by Zipf's law."""
    cumulated = np.cumsum(1 / np.arange(1, vocabulary + 1))
    ranks = np.searchsorted(cumulated, random.random(count) * cumulated[-1], side="right")
    drawn: npt.NDArray[np.int32] = np.minimum(ranks, vocabulary - 1).astype(np.int32)
    return drawn


def make_words(random: np.random.Generator, count: int) -> pa.StringArray:
    """Make different words of consonants and vowels in turn, so that they can be read aloud."""
    lengths = list(_SHARES)
    counts = [int(count * share) for share in _SHARES.values()]
    counts[1] += count - sum(counts)
    words = [_spell(random, length, some) for length, some in zip(lengths, counts, strict=True)]
    return pa.concat_arrays(words).take(pa.array(random.permutation(count)))


def _spell(random: np.random.Generator, length: int, count: int) -> pa.StringArray:
    alphabets = [_VOWELS if place % 2 else _CONSONANTS for place in range(length)]
    codes = random.choice(int(np.prod([len(letters) for letters in alphabets])), count, replace=False)
    spelled = np.empty((count, length), np.uint8)
    for place, letters in enumerate(alphabets):
        codes, letter = np.divmod(codes, len(letters))
        spelled[:, place] = letters[letter]
    offsets = pa.array(np.arange(0, count * length + 1, length, dtype=np.int32))
    return pa.StringArray.from_buffers(count, offsets.buffers()[1], pa.py_buffer(spelled.tobytes()))
