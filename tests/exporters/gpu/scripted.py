"""Hosts whose GPUs do what a script says: NVIDIA's own binding in a process of its own, on the library of stub.c."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.services import require

ROOT = Path(__file__).parents[3]
MIB = 2**20
LONG = 120.0

Script = dict[tuple[int, str], int]
"""Numbers by GPU (-1: the driver) and key, as stub.c describes them."""


def uuid(gpu: int) -> str:
    return f"GPU-{str(gpu) * 4}0000-aaaa-4bbb-8ccc-{gpu:012}"


def gpu(number: int, **more: int) -> Script:
    """An H100 under load that has everything; `more` with _ for the dots of keys."""
    values = {
        "util": 93, "mem.total": 81_559 * MIB, "mem.reserved": 551 * MIB, "mem.used": 70_000 * MIB,
        "power": 642_250, "power.limit": 700_000, "energy": 123_456_789, "temp": 66,
        "clock.0": 1_740, "clock.1": 1_755, "clock.2": 2_619, "reasons": 0,
        "ecc.0.0": 7, "ecc.1.0": 0, "remap.corrected": 2,
        "mig": 0, "gpm": 1, "fabric.state": 3,
        "gpm.2": 8_125, "gpm.3": 2_450, "gpm.5": 3_375, "gpm.10": 5_800,
        "gpm.20": 3_400, "gpm.21": 20_500, "gpm.60": 150_000, "gpm.61": 90_000,
        "field.82": 79, "field.91": 2, "field.230": 0,
        f"field.138.{0xFFFFFFFF}": 4_000, f"field.139.{0xFFFFFFFF}": 5_000,
        "field.74": 3_000_000_000, "field.75": 0, "field.76": 0, "field.77": 0, "field.79": 0,
        "field.269": 1_500_000_000, "field.270": 0, "field.271": 0,
        "field.197": 1_000_000, "field.198": 2_000_000,
        **{f"field.{field}.{link}": 10 * (field - 160) + link for field in (161, 162, 163) for link in (0, 1)},
    }  # fmt: skip
    return {(number, key): value for key, value in (values | {k.replace("_", "."): v for k, v in more.items()}).items()}


def host(*gpus: Script) -> Script:
    return {(-1, "count"): len(gpus)} | {key: value for each in gpus for key, value in each.items()}


def write(path: Path, script: Script) -> None:
    """At once: it is read while it is written anew."""
    new = path.with_suffix(".new")
    new.write_text("".join(f"{number} {key} {value}\n" for (number, key), value in script.items()))
    new.replace(path)


def compiled(folder: Path, *options: str) -> Path:
    """The folder of the library."""
    if sys.platform != "linux":
        pytest.skip("NVML is read on Linux alone")
    library = folder / "libnvidia-ml.so.1"
    warnings = ("-Wall", "-Wextra", "-Werror")
    shared = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1")
    source = Path(__file__).parent / "stub.c"
    command = [require("gcc"), "-O1", *warnings, *shared, *options, "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return folder


@dataclass(frozen=True)
class Series:
    metric: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Gpu:
    uuid: str
    gpu: str
    up: bool
    parent: str
    series: Sequence[Series]
    findings: Mapping[str, str]
    """Details by reason."""
    fields: Mapping[str, tuple[str, str, str]]
    """Source, quality and reason by name."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Gpu:
        series = [Series(*s) for s in told["series"]]
        fields = {name: (source, quality, reason) for name, (source, quality, reason) in told["fields"].items()}
        return cls(told["uuid"], told["gpu"], told["up"], told["parent"], series, told["findings"], fields)

    def values(self) -> dict[str, float]:
        """By metric, with the value of its own label behind it where it has one: `gpu_clock_hertz sm`."""
        identity = {"node", "uuid", "gpu"}
        return {
            " ".join((s.metric, *(v for k, v in s.labels.items() if k not in identity))): s.value
            for s in self.series
            if not s.metric.endswith("_info")
        }

    def labels(self, metric: str) -> list[Mapping[str, str]]:
        return [s.labels for s in self.series if s.metric == metric]


@dataclass(frozen=True)
class Collected:
    available: bool
    findings: Mapping[str, str]
    failed: Mapping[str, int]
    gpus: Sequence[Gpu]

    def gpu(self, number: int | str) -> Gpu:
        return next(g for g in self.gpus if g.gpu == str(number))


class Process:
    """A process with NVIDIA's binding, on one library or none; it is started once for many hosts."""

    def __init__(self, folder: Path, library: Path | None) -> None:
        self.log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(library or folder)}
        command = [sys.executable, "-W", "error", str(Path(__file__).parent / "collector.py")]
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ask(self, **question: object) -> Any:
        assert self.popen.stdin
        assert self.popen.stdout
        self.popen.stdin.write(json.dumps(question) + "\n")
        self.popen.stdin.flush()
        answer = self.popen.stdout.readline()
        assert answer, self.log.read_text()
        return json.loads(answer)

    def stop(self) -> int:
        """The exit status."""
        assert self.popen.stdin
        self.popen.stdin.close()
        return self.popen.wait(LONG)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(LONG)
        for stream in (self.popen.stdin, self.popen.stdout):
            assert stream
            stream.close()


class Host:
    """A host with its script and an `NvmlSource`, which collects when it is told to."""

    def __init__(self, folder: Path, process: Process, script: Script, options: Mapping[str, object]) -> None:
        self.process = process
        self.hung = False
        """Whether a call may still be running that nobody waits for."""
        self._script = folder / "script"
        self._calls = folder / "calls"
        self._log_start = process.log.stat().st_size
        self._at = 1_800_000_000.0
        self.say(script)
        environment = {"NVML_SCRIPT": str(self._script), "NVML_CALLS": str(self._calls)}
        process.ask(do="start", environment=environment, options=options, at=self._at)

    def say(self, script: Script) -> None:
        """What GPUs and driver do from now on."""
        self.hung = self.hung or any(key.startswith("hang.") for _, key in script)
        write(self._script, script)

    def collect(
        self, *, later: float = 15.0, timeout: float = LONG, servers: Mapping[str, str] | None = None
    ) -> Collected:
        """`later`: seconds by the process's clocks since the collection before."""
        self._at += later
        told = self.process.ask(do="collect", at=self._at, timeout=timeout, servers=list((servers or {}).items()))
        return Collected(told["available"], told["findings"], told["failed"], [Gpu.of(g) for g in told["gpus"]])

    def until(self, condition: Callable[[Collected], bool], *, timeout: float = LONG) -> Collected:
        """Collects until it holds."""
        end = time.monotonic() + LONG
        while not condition(collected := self.collect(later=0.2, timeout=timeout)):
            assert time.monotonic() < end, collected
        return collected

    def calls(self) -> list[str]:
        """Functions called so far, each with its GPU."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def log(self) -> str:
        return self.process.log.read_bytes()[self._log_start :].decode()

    def close(self) -> dict[str, bool]:
        """Closes the source. Tells whether the binding was ever imported."""
        told: dict[str, bool] = self.process.ask(do="close")
        return told
