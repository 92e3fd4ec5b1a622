"""Texts as ids: exact, interned once per tuple on the source side, in memory bounded by what windows can name."""

from stretch.strings.dictionary import Dictionary
from stretch.strings.layout import HASHTAGS, VALUES, WORDS, TextColumn

__all__ = ["HASHTAGS", "VALUES", "WORDS", "Dictionary", "TextColumn"]
