"""Starts the product again and again, without the second that importing it takes.

As a program (`python -m tests.end_to_end.nursery`): each line on standard input is JSON, a command line and how the
command dies. It says the process id of that command on standard output, and its exit status once it has ended.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.processes import DEADLINE, ROOT

_IMPORTED = (
    "inferwatch.serve", "inferwatch.up", "alembic.command", "psycopg", "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on",
)  # fmt: skip
_PIECE_SECONDS = 600
"""Read at once: little, so that there is much to write."""


@dataclass(frozen=True)
class Death:
    """By SIGKILL, some time after so many statements were begun in the database."""

    statements: int
    seconds: float


class Nursery:
    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self._popen = popen
        self._log = log
        self._runs: int | None = None

    def start(self, command: Sequence[str], death: Death | None = None) -> int:
        """The process id of what runs now."""
        dies = None if death is None else [death.statements, death.seconds]
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps([[*command], dies]).encode() + b"\n")
        self._runs = self._told()
        return self._runs

    def ended(self, within: float = DEADLINE) -> int | None:
        """The exit status of what runs; None while it still runs then."""
        assert self._popen.stdout is not None
        readable, _, _ = select.select([self._popen.stdout], [], [], within)
        if not readable:
            return None
        self._runs = None
        return self._told()

    def end(self) -> None:
        """Whatever runs: a test that failed has not ended it."""
        if self._runs is not None:
            with suppress(ProcessLookupError):
                os.kill(self._runs, signal.SIGKILL)

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def _told(self) -> int:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, self.output()
        return int(line)


@contextmanager
def nursery(folder: Path) -> Iterator[Nursery]:
    log = folder / "nursery.log"
    command = [sys.executable, "-m", "tests.end_to_end.nursery"]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        ) as popen,
    ):
        made = Nursery(popen, log)
        try:
            yield made
        finally:
            made.end()
            assert popen.stdin is not None
            popen.stdin.close()
            popen.wait(DEADLINE)


def main() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    importlib.import_module("monitor.pace").__dict__["_MOST_SECONDS"] = _PIECE_SECONDS
    for line in iter(sys.stdin.readline, ""):
        command, death = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(command, None if death is None else Death(*death))
        _tell(child)
        _tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _become(command: list[str], death: Death | None) -> None:
    """Never returns."""
    os.dup2(2, 1)
    if death is not None:
        _die(death)
    sys.argv = ["inferwatch", *command]
    from inferwatch.__main__ import main as product

    product()
    sys.exit()


def _die(death: Death) -> None:
    from sqlalchemy import Engine, event

    left = iter(range(death.statements, -1, -1))

    @event.listens_for(Engine, "before_cursor_execute")
    def _count(*_: object) -> None:
        if next(left, -1) == 0:
            threading.Thread(target=end).start()

    def end() -> None:
        time.sleep(death.seconds)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
