"""All errors of the library: each says what failed, where, why, and what to do instead.

A user mistake is reported before any thread or Spark job starts (`DefinitionError`, `InputError`); a failure at
run time (`FunctionError`) names the function, the key and the timestamp. This module is a leaf: anyone may import it.
"""

from __future__ import annotations


class StretchError(Exception):
    """The base of all errors of the library; the text has up to four lines: what, where, why, do."""

    def __init__(self, what: str, *, why: str, do: str, where: str | None = None) -> None:
        self.what = what
        self.where = where
        self.why = why
        self.do = do
        lines = [what]
        if where is not None:
            lines.append(f"  where: {where}")
        lines.append(f"  why:   {why}")
        lines.append(f"  do:    {do}")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the parts across process boundaries (Spark pickles errors)."""
        return _rebuild, (type(self), self.what, self.where, self.why, self.do)


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
