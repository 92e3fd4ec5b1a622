"""The house rules that a linter does not know; each complaint names what to do instead.

A rule is a function that takes a `Source` and yields pairs of line and complaint; `complaints` runs those
that apply to a file. `test_rules_bite.py` shows that they bite.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Exceptions to the size rules: "path" or "path::function" -> reason. A test fails on one that is not needed.
EXCEPTIONS: dict[str, str] = {}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

ATOMICS = {"load_acquire", "store_release", "exchange", "compare_exchange", "fetch_add"}
ATOMICS_HOME = "src/stretch/native/atomics.py"  # defines them; pairs are the business of those who use them

# Package -> path prefixes that may import it. The import-linter contracts in pyproject.toml do the rest; they
# cannot tell a submodule of an outside package from the package.
NUMBA_HOMES = {
    "numba.extending": ("src/stretch/native/",),
    "numba": ("src/stretch/native/", "src/stretch/operator/compile"),
}

# The paper's symbols -> our words, as in docs/glossary.md. Small letters stand for capitals, too.
SYMBOLS = {
    "zeta": "state",
    "sigma": "WindowStore",
    "tau": "timestamp",
    "phi": "the name of the payload column",
    "psi": "window.kind",
    "rho": "earliest_left",
    "gamma": "switch_at",
    "omega": "watermark",
    "mu": "mapping",
    "f_mu": "mapping",
    "f_mk": "keys",
    "f_sk": "keys",
    "f_u": "update",
    "f_o": "output",
    "f_s": "slide",
    "f_a": "output",
    "f_r": "update",
    "f_j": "match",
    "WA": "window.advance",
    "WS": "window.size",
    "WT": "window.kind",
    "TB": "TupleBuffer",
    "SG": "ScaleGate",
    "ESG": "ElasticScaleGate",
}

MACHINE = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/|pypi\.org|pythonhosted\.org")
OPEN_WORK = re.compile(r"\bFIXME\b|\bTODO\b(?!\(#\d+\))")
STOCK_PHRASES = re.compile(r"(?i)\b(?:as an AI|language model|I hope this helps|here is the updated)\b")

Complaints = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Source:
    """One file of the project: its path from the root, with `/`, and its text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All syntax nodes of a Python file."""
        return list(ast.walk(ast.parse(self.text, self.path)))

    @cached_property
    def commented_lines(self) -> set[int]:
        """The numbers of the lines that end in, or are, a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def short_file(source: Source) -> Complaints:
    """Keep a file to one idea."""
    if len(source.lines) > FILE_LINES_MAX and source.path not in EXCEPTIONS:
        yield 1, f"{len(source.lines)} lines (limit {FILE_LINES_MAX}): split it at its second idea"


def short_functions(source: Source) -> Complaints:
    """Keep a function to what one can see at once; a docstring may be as long as it has to."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = extent(node) - (extent(node.body[0]) if ast.get_docstring(node) is not None else 0)
            if length > FUNCTION_LINES_MAX and f"{source.path}::{node.name}" not in EXCEPTIONS:
                yield node.lineno, f"{node.name} has {length} lines (limit {FUNCTION_LINES_MAX}): split it"


def no_print(source: Source) -> Complaints:
    """A library does not write to its user's terminal."""
    if source.path.startswith(("src/stretch/cli", "src/stretch/bench")):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print: return the text and let cli or bench print it"


def code_words(source: Source) -> Complaints:
    """Name things by our words; a paper symbol appears once, in a docstring."""
    for line, name in identifiers(source):
        word = SYMBOLS.get(name) or SYMBOLS.get(name.lower())
        if word:
            yield line, f"{name} is the paper's symbol: write {word} (docs/glossary.md)"


def numba_at_home(source: Source) -> Complaints:
    """Keep compile options and intrinsics in one place."""
    for line, module in imported_modules(source):
        for package, homes in NUMBA_HOMES.items():
            if f"{module}.".startswith(f"{package}.") and not source.path.startswith(homes):
                yield line, f"{module} belongs to {' and '.join(homes)}: use the helpers of stretch.native"
                break


def paired_atomics(source: Source) -> Complaints:
    """Say at each atomic call which one it pairs with."""
    if source.path == ATOMICS_HOME:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and called_name(node) in ATOMICS:
            around = range(node.lineno - 1, (node.end_lineno or node.lineno) + 1)
            if source.commented_lines.isdisjoint(around):
                yield node.lineno, f"{called_name(node)}: say what it pairs with, in a comment on it or above"


def open_work_has_an_issue(source: Source) -> Complaints:
    """Unfinished work has an issue that says when it is done."""
    for number, match in find(OPEN_WORK, source):
        yield number, f"{match}: do it now, or write TODO(#issue)"


def no_machine(source: Source) -> Complaints:
    """The project works on any machine and with any package registry."""
    for number, match in find(MACHINE, source):
        yield number, f"{match} is one machine's: use a relative path, leave the registry to pip's settings"


def own_words(source: Source) -> Complaints:
    """Write for the reader of this project, without stock phrases."""
    for number, match in find(STOCK_PHRASES, source):
        yield number, f"{match!r} is a stock phrase: say what the reader needs in your own words"


def identifiers(source: Source) -> Iterator[tuple[int, str]]:
    """Yield every name that the file defines or uses, with its line."""
    for node in source.nodes:
        line = getattr(node, "lineno", 1)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield line, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield line, name
            case ast.ExceptHandler(name=str(name)):
                yield line, name


def extent(node: ast.stmt) -> int:
    """Return the number of lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imported_modules(source: Source) -> Iterator[tuple[int, str]]:
    """Yield what the file imports by full name: `from numba import extending` is numba.extending."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def called_name(call: ast.Call) -> str | None:
    """Return the last part of what is called: both `fetch_add(...)` and `atomics.fetch_add(...)`."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def find(pattern: re.Pattern[str], source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines, start=1):
        for match in pattern.finditer(line):
            yield number, match.group()


Rule = Callable[[Source], Complaints]

TEXT_RULES: tuple[Rule, ...] = (open_work_has_an_issue, no_machine, own_words)
PYTHON_RULES: tuple[Rule, ...] = (code_words,)
LIBRARY_RULES: tuple[Rule, ...] = (short_file, short_functions, no_print, numba_at_home, paired_atomics)


def rules_for(path: str) -> tuple[Rule, ...]:
    """Say which rules a file has to keep."""
    if path.startswith("tests/tidy/"):
        return ()  # The rules and their tests quote what they forbid.
    python = PYTHON_RULES if path.endswith(".py") else ()
    library = LIBRARY_RULES if path.startswith("src/") and path.endswith(".py") else ()
    return TEXT_RULES + python + library


def complaints(source: Source) -> list[str]:
    """Return what the house has to say about a file, as `path:line: complaint`."""
    found = [pair for rule in rules_for(source.path) for pair in rule(source)]
    return [f"{source.path}:{line}: {complaint}" for line, complaint in found]


TEXT_SUFFIXES = {"", ".cfg", ".ini", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
GENERATED = (".*", "*.egg-info", "__pycache__", "build", "dist")


def project_files() -> list[str]:
    """Return the project's text files. Git is not asked: the tests run from an unpacked archive, too."""
    return [path.relative_to(ROOT).as_posix() for path in walk(ROOT) if path.suffix in TEXT_SUFFIXES]


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; leave out what git and the tools keep for themselves."""
    for entry in sorted(folder.iterdir()):
        if not entry.is_dir():
            if entry.name != ".git":  # a file in a worktree: where git keeps what it knows of it
                yield entry
        elif entry.name == ".ci" or not any(map(entry.match, GENERATED)):
            yield from walk(entry)


def read(path: str) -> Source:
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))
