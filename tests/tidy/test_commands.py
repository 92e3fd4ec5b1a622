"""The commands are documented, and the documents name commands that exist."""

import os
import re
import subprocess

import pytest

from tests.tidy.rules import ROOT, project_files

TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
# In prose a command stands in backticks ("make sure" is none); in a code block, at the start of a line.
IN_PROSE = re.compile(r"`make ([a-z][a-z-]*)")
IN_CODE = re.compile(r"^(?:\$ )?make ([a-z][a-z-]*)", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

DOCUMENTS = [path for path in project_files() if path.endswith(".md")]


def targets():
    return set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


def mentioned(text):
    """Return the make targets that a Markdown text names."""
    prose = CODE_BLOCK.sub("", text)
    code = "\n".join(CODE_BLOCK.findall(text))
    return set(IN_PROSE.findall(prose)) | set(IN_CODE.findall(code))


def test_help_lists_every_target():
    # An outer make hands its flags down, and with them its habit of printing folders.
    outside_make = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run = subprocess.run(["make"], cwd=ROOT, env=outside_make, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make ([a-z-]+) +\S", run.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets())
    assert {"help", "setup", "demo", "test", "lint", "ci"} <= targets()


@pytest.mark.parametrize("path", DOCUMENTS)
def test_documents_name_targets_that_exist(path):
    unknown = mentioned((ROOT / path).read_text(encoding="utf-8")) - targets()
    assert not unknown, f"{path} names make targets that do not exist: correct the text or add the target"


def test_contributing_shows_the_daily_commands():
    shown = mentioned((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert {"setup", "test", "lint", "fix", "ci"} <= shown


def test_mentions_are_found():
    text = "Run `make one`, make sure.\n```sh\nmake two\n$ make three  # why\nthen make it\n```\nmake five\n"
    assert mentioned(text) == {"one", "two", "three"}


def test_ci_runs_what_contributors_run():
    assert "make ci" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert re.search(r"^ci: lint test\b", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
