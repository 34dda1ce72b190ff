"""A real server that a test starts, stops and starts again: same port, same folder."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.end_to_end.processes import DEADLINE, Process, running, until
from tests.end_to_end.web import get


class Server:
    """Runs inside its `with` block; where it cannot start, the error shows its log."""

    ends_by = signal.SIGTERM

    def __init__(self, command: Sequence[str], folder: Path, ready: Callable[[], bool]) -> None:
        self._command = command
        self._folder = folder
        self._ready = ready
        self._running: Process | None = None
        self._end = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process(self) -> Process:
        assert self._running is not None, "stopped"
        return self._running

    def start(self) -> None:
        """Does nothing while it runs; returns once it answers."""
        if self._running is not None:
            return
        with ExitStack() as stack:
            process = stack.enter_context(running(self._command, self._folder))
            until(self._ready, process)
            self._running, self._end = process, stack.pop_all()

    def stop(self, how: signal.Signals | None = None) -> None:
        """Does nothing while it is stopped."""
        if self._running is None:
            return
        with self._end:
            self._running.end(how or self.ends_by)
        self._running = None

    def restart(self) -> None:
        self.stop()
        self.start()


def answers(url: str) -> Callable[[], bool]:
    return lambda: get(url).status == 200


def written(config: str, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config)
    return file


def ran(command: Sequence[str]) -> None:
    """A program that prepares a server; where it fails, the error shows what it said."""
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
