"""All errors of the library: each says what failed, where, why, and what to do instead.

A user mistake is reported before any thread or Spark job starts (`DefinitionError`, `InputError`); a failure at
run time (`FunctionError`) names the function, the key and the timestamp. This module is a leaf: anyone may import it.
"""

from __future__ import annotations

from pathlib import Path

_LIBRARY = str(Path(__file__).parent)


class StretchError(Exception):
    """The base of all errors of the library; the text has up to four lines: what, where, why, do."""

    def __init__(self, what: str, *, why: str, do: str, where: str | None = None) -> None:
        super().__init__()
        self.what = what
        self.why = why
        self.do = do
        self.locate(where)

    def locate(self, where: str | None) -> None:
        """Say where it happened, for who knows it better than who raised the error."""
        self.where = where
        lines = [("  where: ", where), ("  why:   ", self.why), ("  do:    ", self.do)]
        self.args = ("\n".join([self.what, *(name + text for name, text in lines if text is not None)]),)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the parts across process boundaries (Spark pickles errors)."""
        return _rebuild, (type(self), self.what, self.where, self.why, self.do)


def a_kind(value: object) -> str:
    """Return the type of a value as it stands in a sentence: "an int", "a float"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def outside(problem: BaseException) -> str | None:
    """Return `file:line` of the innermost frame that is not in the library, or of the innermost one of all."""
    frames = []
    trace = problem.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    theirs = [frame for frame in frames if not frame[0].startswith(_LIBRARY)]
    return "{}:{}".format(*(theirs or frames)[-1]) if frames else None


def _rebuild(kind: type[StretchError], what: str, where: str | None, why: str, do: str) -> StretchError:
    return kind(what, where=where, why=why, do=do)


class DefinitionError(StretchError):
    """An operator, window or schema is not well defined."""


class InputError(StretchError):
    """What was handed to a running job does not fit what was declared."""


class FunctionError(StretchError):
    """A function of the user failed or returned something that its declaration rules out."""


class JobError(StretchError):
    """A job was used in a state that does not allow it, or has failed."""


class ReconfigurationError(StretchError):
    """A requested parallelism or mapping is not possible."""


class StateError(StretchError):
    """State that was written cannot be read, or does not fit what it is read for."""
