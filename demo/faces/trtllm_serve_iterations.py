"""What TensorRT-LLM's engine writes down of its iterations, and the queue from which that is read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_MOST = 1000
"""iter_stats_max_iterations."""


@dataclass(slots=True)
class Blocks:
    """Of the KV cache; all but the used ones count since the start."""

    all: int
    tokens: int
    used: int = 0
    reused: int = 0
    missed: int = 0
    grown: int = 0
    """Allocated for generated tokens."""

    @property
    def hit_rate(self) -> float:
        return self.reused / (self.reused + self.missed) if self.reused + self.missed else 0.0


@dataclass(slots=True)
class Iterations:
    """`count` iterations in a row, alike but for the first, which `admitted` requests, and the last."""

    number: int
    """Of the first."""
    count: int
    ended: float
    """The last."""
    seconds: float
    limit: int
    running: int
    active: int
    queued: int
    context_tokens: int
    generated_tokens: int
    """In all of them, first tokens included."""
    blocks: Blocks
    admitted: int = 0
    admitted_after: float = 0.0
    """Seconds that the admitted waited, all together."""
    reused: int = 0
    missed: int = 0
    grown: int = 0
    first_tokens: int = 0
    completed: int = 0

    @property
    def context_requests(self) -> int:
        """Of the last: prompts that were prefilled to their end, or a part of one."""
        return self.first_tokens or int(self.context_tokens > 0)

    @property
    def generating(self) -> int:
        """Of the last."""
        return round((self.generated_tokens - self.first_tokens) / self.count)

    @property
    def reuse_rate(self) -> float:
        return self.reused / (self.reused + self.missed) if self.reused + self.missed else 0.0

    def drop(self, oldest: int) -> None:
        """The first went first, with whom it admitted; those after it were alike."""
        share = (self.generated_tokens - self.first_tokens) * (self.count - oldest) // self.count
        self.generated_tokens = share + self.first_tokens
        self.number += oldest
        self.count -= oldest
        self.admitted = self.reused = self.missed = 0
        self.admitted_after = 0.0


class Queue:
    """Of what nobody has read yet; the oldest are lost when there are too many."""

    def __init__(self) -> None:
        self._runs: deque[Iterations] = deque()
        self._count = 0

    @property
    def last(self) -> Iterations | None:
        return self._runs[-1] if self._runs else None

    def put(self, run: Iterations) -> None:
        self._runs.append(run)
        self._count += run.count
        while (over := self._count - _MOST) > 0:
            oldest = self._runs[0]
            self._count -= min(over, oldest.count)
            if oldest.count <= over:
                self._runs.popleft()
            else:
                oldest.drop(over)

    def take(self) -> list[Iterations]:
        taken = list(self._runs)
        self._runs.clear()
        self._count = 0
        return taken
