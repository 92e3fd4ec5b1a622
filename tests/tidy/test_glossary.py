"""Every code word of docs/glossary.md exists in the code."""

import ast
import re

import pytest

from tests.tidy.rules import ROOT, Source, identifiers, project_files, read

GLOSSARY = ROOT / "docs/glossary.md"


def rows(markdown):
    """Yield the first two cells of each table row; heads and rulers are left out."""
    lines = [line.strip() for line in markdown.splitlines()]
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        is_head = re.fullmatch(r"\|[\s:|-]+\|", below)
        is_ruler = re.fullmatch(r"\|[\s:|-]+\|", line)
        if line.startswith("|") and not is_head and not is_ruler:
            _, symbol, code, *_ = line.split("|")
            yield symbol.strip(), code.strip()


def words(code):
    """Return the names that a code cell promises: `window.advance` promises both parts."""
    return {word for span in re.findall(r"`([^`]+)`", code) for word in re.findall(r"[A-Za-z_]\w*", span)}


def names(source):
    """Return all identifiers of a file, and strings that are one: fields of records, kinds."""
    found = {name for _, name in identifiers(source)}
    strings = {str(node.value) for node in source.nodes if isinstance(node, ast.Constant)}
    folders = set(re.findall(r"\w+", source.path.removesuffix(".py")))
    return found | folders | {text for text in strings if text.isidentifier()}


def missing(markdown, known):
    """Return the complaints about a glossary, given all names of the code."""
    for symbol, code in rows(markdown):
        promised = words(code)
        if not promised:
            yield f"{symbol}: name the code word in backticks"
        for word in sorted(promised - known):
            yield f"{symbol}: no {word} in src/stretch; correct the glossary or the code"


@pytest.mark.skipif(not GLOSSARY.exists(), reason="docs/glossary.md is not written yet")
def test_glossary_names_exist():
    markdown = GLOSSARY.read_text(encoding="utf-8")
    library = [path for path in project_files() if path.startswith("src/stretch/") and path.endswith(".py")]
    known = {name for path in library for name in names(read(path))}
    assert list(rows(markdown)), "the glossary has no table"
    lost = list(missing(markdown, known))
    assert not lost, "\n".join(lost)


def test_a_missing_name_is_found():
    table = "| Paper | Code |\n|---|---|\n| `W` | `watermark` | m |\n| f_U | `t.update`, `x` |\n| e | now |\n"
    code = names(Source("src/stretch/a.py", "class watermark:\n    kind = 'x'\n    t = None\n"))
    assert list(missing(table, code)) == [
        "f_U: no update in src/stretch; correct the glossary or the code",
        "e: name the code word in backticks",
    ]
