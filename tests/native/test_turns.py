"""Short turns are asked for, and whether they are given makes no difference but in time."""

import platform
import sys
import threading
from pathlib import Path

import pytest

from stretch.native.turns import TURN_NS, take_short_turns


def test_a_thread_gets_short_turns_or_is_told_that_it_does_not() -> None:
    answers: list[bool] = []
    turns: list[int] = []

    def ask() -> None:
        answers.append(take_short_turns())
        report = Path(f"/proc/self/task/{threading.get_native_id()}/sched")
        if answers[0] and report.exists():
            turns.extend(int(line.split()[-1]) for line in report.read_text().splitlines() if "se.slice" in line)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    if turns and tuple(map(int, platform.release().split(".")[:2])) >= (6, 12):
        assert turns == [TURN_NS]
    assert len(answers) == 1


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert take_short_turns() is False
