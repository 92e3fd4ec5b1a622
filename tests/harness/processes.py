"""Processes by their relation: who descends from whom, and ending them. Linux only, as the tests that kill are."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def command(pid: int) -> str:
    """Return the command line of a process; nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, directly or not, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def python_workers(pid: int) -> list[int]:
    """Return the Python processes that run Spark's tasks below a process: children of the daemon that forks them."""
    daemons = {one for one in descendants(pid) if "pyspark.daemon" in command(one)}
    return [one for one in daemons if _parent(one) in daemons]


def java_machines(pid: int) -> list[int]:
    """Return the Java processes below a process."""
    return [one for one in descendants(pid) if "org.apache.spark.deploy" in command(one)]


def kill(pids: list[int]) -> int:
    """Send kill -9; return how many there still were."""
    killed = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        except ProcessLookupError:
            continue
    return killed


def kill_with_descendants(pid: int, seconds: float = 10) -> None:
    """End a process and all it has started, and wait until they have gone."""
    everyone = [pid, *descendants(pid)]
    kill(everyone)
    until = time.monotonic() + seconds
    while any(command(one) for one in everyone[1:]) and time.monotonic() < until:
        time.sleep(0.02)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
