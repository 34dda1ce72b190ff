"""The sidecar as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

LONG = 120.0


class Process:
    def __init__(self, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-W", "error", "-m", "exporters", *arguments]
        variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **(environment or {})}
        self.log = (folder / "log").open("w+")
        self.popen = subprocess.Popen(command, cwd=folder, env=variables, stdout=self.log, stderr=self.log)

    def text(self) -> str:
        return Path(self.log.name).read_text()

    def until(self, pattern: str) -> re.Match[str]:
        """The first match in what the process wrote."""
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            if found := re.search(pattern, self.text()):
                return found
            if self.popen.poll() is not None:
                break
            time.sleep(0.02)
        pytest.fail(f"no {pattern!r} in: {self.text()}")

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> str:
        port = int(self.until(r"listening on http://127\.0\.0\.1:(\d+)")[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=dict(headers or {}))
            return connection.getresponse().read().decode()

    def resident_kb(self) -> int:
        """Memory that the process holds."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(LONG)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(LONG)
        self.log.close()
