"""Each house rule reports what it forbids, and leaves alone what looks alike."""

import pytest

from tests.tidy.rules import EXCEPTIONS, ROOT, Source, complaints, project_files, rules_for

LIBRARY = "src/stretch/buffer/log.py"

FORBIDDEN = {
    "long file": (LIBRARY, "x = 1\n" * 401, "401 lines"),
    "long function": (LIBRARY, "def walk():\n" + "    x = 1\n" * 60, "walk has 61 lines"),
    "long method": (LIBRARY, "class A:\n    async def walk(self):\n" + "        x = 1\n" * 60, "walk has 61"),
    "print": (LIBRARY, "print('here')\n", "print: return the text"),
    "symbol as variable": (LIBRARY, "zeta = 1\n", "write state"),
    "symbol in capitals": (LIBRARY, "GAMMA = 1\n", "write switch_at"),
    "symbol as function": ("tests/test_x.py", "def f_MK(t): ...\n", "write keys"),
    "symbol as class": (LIBRARY, "class ESG: ...\n", "write ElasticScaleGate"),
    "symbol as attribute": (LIBRARY, "t.tau\n", "write timestamp"),
    "symbol as parameter": ("examples/x.py", "def f(*, WA): ...\n", "write window.advance"),
    "symbol as keyword": (LIBRARY, "f(f_mu=1)\n", "write mapping"),
    "symbol as import": (LIBRARY, "import x as rho\n", "write earliest_left"),
    "numba": (LIBRARY, "import numba\n", "use the helpers of stretch.native"),
    "numba, from": (LIBRARY, "from numba.core import types\n", "numba.core.types belongs to"),
    "numba, inside a function": (LIBRARY, "def f():\n    from numba import njit\n", ":2: numba.njit belongs"),
    "numba.extending": ("src/stretch/operator/compile.py", "from numba import extending\n", "numba.ext"),
    "bare atomic": (LIBRARY, "x = 1\n\nhead = load_acquire(a, 0)\n", ":3: load_acquire: say"),
    "bare atomic of a module": (LIBRARY, "atomics.fetch_add(a, 0, 1)\n", "fetch_add: say"),
    "open work": ("docs/x.md", "TODO: write this\n", "write TODO(#issue)"),
    "broken work": (LIBRARY, "x = 1  # FIXME(#3): wrong\n", "FIXME: do it now"),
    "home folder": ("README.md", "Look into `/home/jo/x`.\n", "one machine's"),
    "absolute path": ("Makefile", "all:\n\tcat /work/x\n", ":2: /work/ is one machine's"),
    "registry": ("constraints.txt", "--index-url https://pypi.org/simple\n", "pypi.org is one machine's"),
    "stock phrase": ("docs/x.md", "As an AI, I cannot.\n", "your own words"),
}

ALLOWED = {
    "file at the limit": (LIBRARY, "x = 1\n" * 400),
    "function at the limit": (LIBRARY, "def walk():\n" + "    x = 1\n" * 59),
    "function with a long docstring": (LIBRARY, 'def walk():\n    """Walk.' + "\n" * 60 + '    """\n'),
    "print in the command line": ("src/stretch/cli/main.py", "print('here')\n"),
    "print in an example": ("examples/x.py", "print('here')\n"),
    "symbol in a docstring": (LIBRARY, '"""The state (Paper: zeta)."""\n'),
    "word that holds a symbol": (LIBRARY, "phase = mutable = 1\n"),
    "numba at home": ("src/stretch/native/jit.py", "import numba\nfrom numba.extending import overload\n"),
    "numba for type checks": ("src/stretch/operator/compile.py", "import numba\n"),
    "package that starts alike": (LIBRARY, "import numbagg\n"),
    "atomic with a comment": (LIBRARY, "head = load_acquire(a, 0)  # pairs with the release in add\n"),
    "atomic below a comment": (LIBRARY, "# Pairs with the release in add.\nhead = load_acquire(a, 0)\n"),
    "atomic where they are defined": ("src/stretch/native/atomics.py", "load_acquire(a, 0)\n"),
    "open work with an issue": (LIBRARY, "x = 1  # TODO(#12): measure\n"),
    "relative path": ("README.md", "See docs/work/x and https://example.org/home/x.\n"),
}


@pytest.mark.parametrize(("path", "text", "complaint"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden(path, text, complaint):
    (found,) = complaints(Source(path, text))
    assert complaint in found


@pytest.mark.parametrize(("path", "text"), ALLOWED.values(), ids=ALLOWED)
def test_allowed(path, text):
    assert complaints(Source(path, text)) == []


def test_an_exception_is_respected(monkeypatch):
    monkeypatch.setitem(EXCEPTIONS, LIBRARY, "a table")
    monkeypatch.setitem(EXCEPTIONS, f"{LIBRARY}::walk", "a state machine")
    assert complaints(Source(LIBRARY, "def walk():\n" + "    x = 1\n" * 400)) == []


def test_the_rules_see_the_project():
    files = set(project_files())
    assert {"Makefile", ".ci/run", "tests/conftest.py", "docs/adr/0000-template.md"} <= files
    assert any(path.startswith("src/stretch/") for path in files)
    assert not any("__pycache__" in path or path.startswith((".git/", ".venv/")) for path in files)
    assert all((ROOT / path).is_file() for path in files)
    assert rules_for("docs/x.md")
