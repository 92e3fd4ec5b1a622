"""Every error of the library happens here, and its text is the one in error_texts.txt, word by word.

Reading that file from top to bottom is the way to review the texts. After a change, write it anew from the root of
the project, and read the difference:

    .venv/bin/python -m tests.unit.test_error_texts
"""

import ast
import re
from pathlib import Path

import pytest

import stretch as st
from tests.unit.error_cases import CASES

TEXTS = Path(__file__).with_name("error_texts.txt")
LIBRARY = Path(st.__file__).parent
# Parts of the compiled engine and the benchmarks, and what only they raise; their own tests show these errors.
ELSEWHERE = (
    "native/",
    "strings/",
    "buffer/",
    "epochs/",
    "operator/compile",
    "runtime/compiled/",
    "bench/",
    "node/",
    "spark/",
    "cli/demo",
)
RAISING = [
    path for path in sorted(LIBRARY.rglob("*.py")) if not path.relative_to(LIBRARY).as_posix().startswith(ELSEWHERE)
]

PLACE = re.compile(r"[^\s(]*/([\w.]+\.py):\d+")


def error_of(name):
    """Make the error of a case happen."""
    try:
        CASES[name]()
    except st.StretchError as error:
        return error
    raise AssertionError(f"{name}: no error")


def text_of(error):
    """Show an error with its kind; where it says file and line, only the file."""
    return PLACE.sub(r"\1", f"{type(error).__name__}: {error}")


def site_of(error):
    """Return where in the library an error was raised."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def written():
    """Read the texts by the names of their cases."""
    parts = re.split(r"^# (.+)\n", TEXTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


EXPECTED = written() if TEXTS.exists() else {}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    assert text_of(error_of(name)) == EXPECTED.get(name)


def test_there_are_no_texts_without_a_case():
    assert list(EXPECTED) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_why_and_what_to_do(name):
    error = error_of(name)
    assert error.what
    assert error.why
    assert error.do
    for part in (error.what, error.where or "", error.why, error.do):
        assert "\n" not in part
        assert not part.removesuffix("...").endswith(".")


def raise_sites():
    """Yield file and line of each place where the library raises one of its errors."""
    kinds = {kind.__name__ for kind in (st.StretchError, *st.StretchError.__subclasses__())}
    for path in RAISING:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if name in kinds:
                    yield str(path), node.lineno


def test_every_error_that_the_library_raises_has_a_case():
    reached = {site_of(error_of(name)) for name in CASES}
    missed = sorted(set(raise_sites()) - reached)
    assert not missed, "add a case to error_cases.py for:\n" + "\n".join(f"{path}:{line}" for path, line in missed)


if __name__ == "__main__":
    TEXTS.write_text("\n".join(f"# {name}\n{text_of(error_of(name))}\n" for name in CASES), encoding="utf-8")
    print(f"{TEXTS.name}: {len(CASES)} texts written")
