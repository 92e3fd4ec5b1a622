"""The command line itself: help, version, exit statuses, and what it prints tables with."""

import io
import subprocess
import sys

import pytest

import stretch as st
from stretch.cli import COMMANDS, main
from stretch.cli.text import clock, emphasis, table


def test_without_a_command_it_helps(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert set(COMMANDS) <= {
        line.split()[0] for line in shown.splitlines() if line.startswith("    ") and line[4] != " "
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"usage: stretch {name}" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"stretch {st.__version__}\n"


def test_a_command_that_does_not_exist(capsys):
    with pytest.raises(SystemExit) as end:
        main(["dance"])
    assert end.value.code == 2
    assert "invalid choice: 'dance'" in capsys.readouterr().err


def test_errors_of_the_library_are_shown_without_a_traceback(monkeypatch, capsys):
    def fail(options):
        raise st.JobError("the job has failed", why="so it goes", do="try again")

    monkeypatch.setattr(COMMANDS["demo"], "run", fail)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "stretch demo: the job has failed\n  why:   so it goes\n  do:    try again\n"


def test_ctrl_c_ends_a_command_quietly(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["demo"], "run", interrupt)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == ""


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "stretch.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"stretch {st.__version__}\n"


# --- text


def test_tables_put_numbers_right_and_text_left():
    shown = table(["name", "chars"], [("ana", 7), ("benedict", 1234)])
    assert shown.splitlines() == [
        "name       chars",
        "--------   -----",
        "ana            7",
        "benedict    1234",
    ]


def test_tables_leave_no_spaces_at_line_ends():
    assert table(["a", "b"], [("x", ""), ("y", "long")]).splitlines() == ["a   b", "-   ----", "x", "y   long"]


def test_a_table_without_rows():
    assert table(["name", "chars"], []) == "name   chars\n----   -----"


@pytest.mark.parametrize(
    ("microseconds", "shown"), [(0, "00:00:00"), (-1_000_000, "23:59:59"), (45_296_999_999, "12:34:56")]
)
def test_times_of_day(microseconds, shown):
    assert clock(microseconds) == shown
    assert clock(microseconds, "%H:%M") == shown[:5]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_stress_only_where_a_terminal_shows_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert emphasis(Terminal())("x") == "\033[1mx\033[0m"
    assert emphasis(io.StringIO())("x") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert emphasis(Terminal())("x") == "x"
