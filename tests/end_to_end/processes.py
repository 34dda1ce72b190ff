"""Real processes: started, waited for, and ended."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from inferwatch.discover import PORTS

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0
"""Seconds, on a machine that is busy or was stopped for some of them."""

T = TypeVar("T")


@dataclass(frozen=True)
class Process:
    popen: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """The exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        return self.popen.wait(DEADLINE)


@contextmanager
def running(command: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None = None) -> Iterator[Process]:
    """The command in `folder`; killed at the end if it is still there."""
    log = folder / f"{Path(command[0]).name}-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        popen = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    try:
        yield Process(popen, log)
    finally:
        popen.kill()
        popen.wait(DEADLINE)


def until(look: Callable[[], T | None], process: Process | None = None, *, within: float = DEADLINE) -> T:
    """What `look` finds, as soon as it finds something; fails with the last error and the process's output."""
    end = time.monotonic() + within
    error: Exception | None = None
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except (OSError, AssertionError, ValueError, LookupError) as e:
            error = e
        if process is not None and process.popen.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"not found: {error!r}\n{process.output() if process else ''}") from error


_NOBODYS = range(20_000, 32_000)
"""Ports that no system gives away by itself, as it does with those above to whoever asks for any or connects."""
_given = {*PORTS}


def free_port() -> int:
    """Given once, so that it is free until it is used, however long that takes."""
    while True:
        port = random.choice(_NOBODYS)
        with socket.socket() as s, suppress(OSError):
            if port not in _given:
                s.bind(("127.0.0.1", port))
                _given.add(port)
                return port
