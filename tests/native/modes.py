"""Run Python code in a process of its own, in another mode: the modes of `native` are fixed when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_python(*arguments: str, **variables: str) -> str:
    """Return what `python *arguments` prints; fail with all of its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STRETCH_", "NUMBA_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, f"{variables}\n{process.stdout}\n{process.stderr}"
    return process.stdout
