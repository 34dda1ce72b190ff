"""Minutes of servers made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.compare.observed import Named, Observed, Server
from monitor.compare.rows import MINUTE, Counts, Number, Rows

START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
H100 = "NVIDIA H100 80GB HBM3"
TTFT = (0.1, 0.5, 1.0, 2.0)
E2E = (1.0, 2.0, 5.0, 60.0)


@dataclass(frozen=True)
class Minute:
    """Of one server; numbers that are None are not known."""

    at: int
    """The number of the minute."""
    at_once: float = 16.0
    prompt: float | None = 30_000.0
    generation: float | None = 15_000.0
    finished: float | None = 60.0
    aborted: float | None = 0.0
    queried: float | None = 30_000.0
    hit: float | None = 3_000.0
    joules: float | None = 24_000.0
    gpus: float | None = 1.0
    seconds: float = 60.0
    ttft: Sequence[float] = (10, 40, 9, 1, 0)
    e2e: Sequence[float] = (0, 50, 10, 0, 0)
    version: str = "1.0"
    partial: bool = False
    changed: bool = False

    def numbers(self) -> list[float | None]:
        gpu_seconds = None if self.gpus is None else self.gpus * self.seconds
        return [
            1.0, self.at_once, self.seconds, self.prompt, self.generation, self.finished, self.aborted, self.queried,
            self.hit, self.joules, gpu_seconds,
        ]  # fmt: skip


@dataclass(frozen=True)
class Life:
    minutes: Sequence[Minute]
    framework: str = "vllm"
    model: str = "llama"
    role: str = "unified"
    frontend: str = "vllm"
    gpu: str = H100
    server: str = "s1"
    simulated: bool = False
    bounds: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: {"ttft": TTFT, "e2e": E2E})


def observed(*lives: Life) -> Observed:
    every = [(number, life, minute) for number, life in enumerate(lives) for minute in life.minutes]
    versions = tuple(sorted({minute.version for _, _, minute in every}))
    gpus = tuple(sorted({life.gpu for life in lives}))
    numbers = np.array([minute.numbers() for _, _, minute in every], np.float64).reshape(-1, len(Number))
    rows = Rows(
        np.array([number for number, *_ in every], np.int64),
        np.array([START + minute.at * MINUTE for *_, minute in every], np.int64),
        numbers,
        {"ttft": _counts(every, "ttft"), "itl": (), "e2e": _counts(every, "e2e")},
    )
    return Observed(
        tuple(_server(life) for life in lives),
        rows,
        np.array([minute.partial for *_, minute in every], bool),
        np.array([minute.changed for *_, minute in every], bool),
        Named(versions, np.array([versions.index(minute.version) for *_, minute in every], np.int64)),
        Named(gpus, np.array([gpus.index(life.gpu) for _, life, _ in every], np.int64)),
    )


def _server(of: Life) -> Server:
    return Server("n1", of.server, of.framework, of.model, of.role, of.frontend, of.simulated)


def _counts(every: Sequence[tuple[int, Life, Minute]], phase: str) -> tuple[Counts, ...]:
    """One for each set of bounds that occurs."""
    found = []
    for bounds in dict.fromkeys(life.bounds[phase] for _, life, _ in every if phase in life.bounds):
        nothing = [0.0] * (len(bounds) + 1)
        counts = [getattr(m, phase) if life.bounds.get(phase) == bounds else nothing for _, life, m in every]
        found.append(Counts(bounds, np.array(counts, np.float64)))
    return tuple(found)
