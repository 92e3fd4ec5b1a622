"""All Python in the documents runs, and so do the examples, those in docstrings too.

The ```python blocks of a document run in order, in one namespace. What stands right above a block changes it:

- `<!-- not run: reason -->` skips a Python block; the reason must be there.
- `<!-- output -->` makes a text block the expected output of the Python block before it.
"""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

ROOT = Path(__file__).resolve().parents[2]

MARKDOWN = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# These teach by code that runs; in any other document the code that there is has to run.
LESSONS = {ROOT / "README.md", ROOT / "docs/tutorial.md", *ROOT.glob("docs/guide/**/*.md")} - {
    ROOT / "docs/guide/deployment.md",  # of clusters
    ROOT / "docs/guide/evaluation.md",  # of commands that take hours
}
DOCUMENTS = [path for path in MARKDOWN if path in LESSONS or "```py" in path.read_text(encoding="utf-8")]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
MODULES_WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ROOT.glob("src/stretch/**/*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]

FENCE = re.compile(r"^\s*```\s*(\w*)")
NOTE = re.compile(r"^\s*<!--\s*(not run|output)\b:?(.*?)-->\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its text, the line it starts on, and the note right above it."""

    language: str
    text: str
    line: int
    note: str = ""
    reason: str = ""


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document."""
    note = reason = ""
    opened: tuple[str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is not None and fence:
            language, start = opened
            yield Block(language, "\n".join(body), start, note, reason)
            opened, body, note, reason = None, [], "", ""
        elif opened is not None:
            body.append(line)
        elif fence:
            opened = fence[1].lower(), number + 1
        elif found := NOTE.match(line):
            note, reason = found[1], found[2].strip()
        elif line.strip():
            note = reason = ""
    assert opened is None, f"line {opened and opened[1] - 1}: this block is never closed"


def run(path: Path, namespace: dict[str, object]) -> int:
    """Run a document; return how many Python blocks it ran. A failure shows the document's own line."""
    ran = 0
    printed = None
    for block in blocks(path.read_text(encoding="utf-8")):
        place = f"{path.name}:{block.line}"
        is_python = block.language in {"python", "py"}
        if block.note == "output":
            assert not is_python, f"{place}: an output block is text, not Python"
            assert printed is not None, f"{place}: no Python block ran before this output"
            assert stripped(printed) == stripped(block.text), f"{place}: the output differs"
        elif is_python and block.note == "not run":
            assert block.reason, f"{place}: say why the block is not run"
            printed = None
        elif is_python:
            # The empty lines put the code at its place in the document, for tracebacks and inspect.
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            with redirect_stdout(StringIO()) as output:
                exec(code, namespace)
            printed = output.getvalue()
            ran += 1
    return ran


def stripped(text: str) -> list[str]:
    """Forget what the eye cannot see: spaces at line ends, empty lines around the text."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.fixture
def namespace(tmp_path, monkeypatch):
    """A module of its own for a document, which runs in an empty folder."""
    module = ModuleType("document")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    cloudpickle.register_pickle_by_value(module)  # as Spark does with a script, which its workers cannot import
    yield module.__dict__
    cloudpickle.unregister_pickle_by_value(module)


def is_on_spark(path: Path) -> bool:
    """Tell whether a document runs Spark; those share the session of all tests."""
    return any("SparkSession" in block.text and not block.note for block in blocks(path.read_text(encoding="utf-8")))


ON_SPARK = [path for path in DOCUMENTS if is_on_spark(path)]


def by_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in ON_SPARK], ids=by_path)
def test_document_runs(path, namespace):
    check(path, namespace)


GUIDE = ROOT / "docs/guide"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.parent == GUIDE else ()) for path in ON_SPARK],
    ids=[by_path(path) for path in ON_SPARK],
)
def test_document_runs_on_spark(path, namespace, spark):
    check(path, namespace)


def check(path: Path, namespace: dict[str, object]) -> None:
    ran = run(path, namespace)
    assert ran or path not in LESSONS, f"{path.name} shows no Python that runs"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), f"{path.name} shows nothing"


@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_docstring_examples(name, namespace):
    # An example speaks as a user does: `st.` is at hand, without an import in each docstring.
    public = {"st": importlib.import_module("stretch")}
    failed, attempted = doctest.testmod(importlib.import_module(name), extraglobs=public)
    assert attempted
    assert not failed


# --- the runner itself


def written(tmp_path, text):
    path = tmp_path / "document.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_blocks_share_a_namespace_and_show_their_output(tmp_path, namespace):
    text = """
```python
x = 1
```
Text.
```sh
rm -rf all
```

<!-- not run: needs a cluster -->

```python
x = 2
```
```py
print(x + 1, " ")
```
<!-- output -->
```text

2
```
"""
    assert run(written(tmp_path, text), namespace) == 2


MISTAKES = {
    "wrong output": ("```python\nprint(1)\n```\n<!-- output -->\n```\n2\n```\n", ":6: the output differs"),
    "no reason": ("<!-- not run: -->\n```python\n1\n```\n", ":3: say why"),
    "no code before": ("<!-- output -->\n```\n2\n```\n", ":3: no Python block"),
    "output of code not run": (
        "```python\nprint(1)\n```\n<!-- not run: slow -->\n```python\n```\n<!-- output -->\n```\n1\n```\n",
        ":9: no Python block",
    ),
    "open block": ("```python\n1\n", "line 1: this block is never closed"),
}


@pytest.mark.parametrize(("text", "error"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_documents_are_found(text, error, tmp_path, namespace):
    with pytest.raises(AssertionError, match=error):
        run(written(tmp_path, text), namespace)


def test_failing_code_is_reported_at_its_line(tmp_path, namespace):
    with pytest.raises(ZeroDivisionError) as failure:
        run(written(tmp_path, "Text.\n\n```python\nx = 1\n1 / 0\n```\n"), namespace)
    assert failure.traceback[-1].lineno + 1 == 5
    assert str(failure.traceback[-1].path).endswith("document.md")
