"""Draws charts in a process that starts when the first is wanted and ends when none was wanted for a while."""

from __future__ import annotations

import pickle
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock, Timer
from typing import IO

from monitor.page.charts.kept import Kept
from monitor.page.charts.model import Chart, values

MOST_VALUES = 10_000
"""Of one chart: 20 lines of 300 windows are 6,000. Five times as many take 500 MB and make a page of 2 MB."""
MOST_WAITING = 8


class ChartError(Exception):
    """Says in words for the reader why there is no drawing."""


class Artist:
    """One chart at a time. May be shared by threads. Its process does not outlive it, closed or not."""

    def __init__(self, *, timeout: float = 15.0, idle_seconds: float = 60.0, waiting: int = MOST_WAITING) -> None:
        self._timeout, self._idle_seconds = timeout, idle_seconds
        self._places = BoundedSemaphore(waiting)
        self._turn = Lock()
        self._kept = Kept()
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: weakref.finalize[[subprocess.Popen[bytes]], Artist] | None = None

    def draw(self, chart: Chart) -> str:
        """An SVG element for a page that has the page's colours. Raises ChartError."""
        many = values(chart)
        if many > MOST_VALUES:
            raise ChartError(f"{many:,} values are more than the {MOST_VALUES:,} that one chart can show")
        question = pickle.dumps(chart)
        if (kept := self._kept.get(question)) is not None:
            return kept
        with self._place():
            svg, problem = self._asked(question)
        if svg is None:
            raise ChartError(f"could not draw it: {problem}")
        self._kept.put(question, svg)
        return svg

    def close(self) -> None:
        with self._turn:
            self._let_go()

    def _let_go(self) -> None:
        if self._ending is not None:
            self._ending()
        self._process = None

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise ChartError("too many charts are being drawn at once: load the page again")
        try:
            if not self._turn.acquire(timeout=self._timeout):
                raise ChartError(f"it had to wait for longer than {self._timeout:g} s: load the page again")
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._places.release()

    def _asked(self, question: bytes) -> tuple[str | None, str]:
        """Asked again where the process ended, as it does when idle, before it could be asked."""
        if self._process is not None:
            with suppress(_Ended):
                return self._answer(self._process, question)
        self._process = self._started()
        self._ending = weakref.finalize(self, _end, self._process)
        try:
            return self._answer(self._process, question)
        except _Ended as cause:
            raise ChartError(f"could not draw it: the process that draws ended: {cause}") from cause

    def _answer(self, process: subprocess.Popen[bytes], question: bytes) -> tuple[str | None, str]:
        deadline = _Deadline(process, self._timeout)
        try:
            _pipe(process.stdin).write(question)
            _pipe(process.stdin).flush()
            answer: tuple[str | None, str] = pickle.load(_pipe(process.stdout))  # noqa: S301 our own process
        except (OSError, EOFError, pickle.UnpicklingError) as cause:
            self._let_go()
            if deadline.passed:
                raise ChartError(f"could not draw it within {self._timeout:g} s") from cause
            raise _Ended(f"exit code {process.returncode}") from cause
        finally:
            deadline.cancel()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        """In a session of its own: Ctrl+C is for the monitor, whose end it learns from its input."""
        command = [sys.executable, "-P", "-m", "monitor.page.charts.worker", str(self._idle_seconds)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)  # noqa: S603 our own module


class _Ended(Exception):
    pass


class _Deadline:
    """Kills the process when it has passed."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.passed = False
        self._process = process
        self._timer = Timer(seconds, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def _kill(self) -> None:
        self.passed = True
        self._process.kill()

    def cancel(self) -> None:
        self._timer.cancel()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 both were asked for
    return pipe


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    _pipe(process.stdout).close()
    with suppress(OSError):  # what could not be written
        _pipe(process.stdin).close()
