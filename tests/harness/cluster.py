"""A standalone Spark cluster on this machine: one master, some worker processes, started by Spark's own launcher."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from stretch.spark import java
from tests.harness.processes import command, descendants, kill, kill_with_descendants

START_SECONDS = 300  # a loaded machine is slow; a process that ends is noticed at once


class Cluster:
    """Starts when entered, and is gone, executors included, when left. `url` is what `master` takes."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.folder = folder
        self.worker_count = workers
        self._of_a_worker = ["--cores", str(cores), "--memory", memory]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self.url = ""

    def __enter__(self) -> Cluster:
        java.prepare()
        try:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            self.url = f"spark://127.0.0.1:{port}"
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port))
            self._wait("master", "I have been elected leader")
            for number in range(self.worker_count):
                self._start_worker(f"worker{number}")
            for number in range(self.worker_count):
                self._wait(f"worker{number}", "Successfully registered with master")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run."""
        below = [pid for process in self._processes.values() for pid in descendants(process.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command(pid)]

    def kill_executor(self, number: int = 0) -> int:
        """Send kill -9 to an executor (its Python workers end by themselves) and return its process id."""
        pid = self.executors()[number]
        assert kill([pid]) == 1
        return pid

    def log(self, name: str) -> str:
        """Return what the master or a worker has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start_worker(self, name: str) -> None:
        work = str(self.folder / name)
        self._start(name, "worker.Worker", self.url, "--host", "127.0.0.1", "--work-dir", work, *self._of_a_worker)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = (self.folder / f"{name}.log").open("wb")
        self._logs.append(log)
        settings = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._processes[name] = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *arguments],
            stdout=log, stderr=subprocess.STDOUT, env=settings, start_new_session=True,
        )  # fmt: skip

    def _wait(self, name: str, said: str) -> None:
        until = time.monotonic() + START_SECONDS
        while not re.search(said, self.log(name)):
            process = self._processes[name]
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{name} did not start:\n{self.log(name)}")
            time.sleep(0.05)

    def _end(self) -> None:
        for process in reversed(self._processes.values()):
            kill_with_descendants(process.pid)
            process.wait()
        for log in self._logs:
            log.close()
