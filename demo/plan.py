"""What an engine does until something happens: equal steps of one batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from demo.model import Request


@dataclass(slots=True, eq=False)
class Job:
    """A request inside an engine.

    `generated` is as of when it joined those that decode; since then the engine's count of steps goes on for all.
    """

    request: Request
    target: int
    prefix: str
    order: int = 0
    """Of its admission: 0 is not running."""
    uncomputed: int = 0
    generated: int = 0
    joined: int | None = None
    last_token: float = 0.0
    shared_blocks: int = 0


@dataclass(slots=True)
class Plan:
    """`count` equal steps from `start` on, of which `done` were told. Only a single step has `chunks` of prompts."""

    start: float
    seconds: float
    count: int
    batch: int
    decoding: int
    chunks: list[tuple[Job, int]]
    prompt_tokens: int
    done: int = 0

    @property
    def end(self) -> float:
        return self.after(self.count)

    def generated_tokens(self, steps: int) -> int:
        completed = sum(tokens == job.uncomputed for job, tokens in self.chunks) if self.chunks else 0
        return self.decoding * steps + completed

    def after(self, steps: int) -> float:
        return self.start + steps * self.seconds

    def ended(self, now: float) -> int:
        """So many steps have ended by then."""
        steps = min(self.count, math.floor((now - self.start) / self.seconds) + 1)
        while steps > self.done and self.after(steps) > now:
            steps -= 1
        return max(steps, self.done)

    def cut(self, now: float) -> None:
        """The step that is under way then is the last; there may be none."""
        ended = self.ended(now)
        self.count = min(self.count, ended if self.after(ended) == now else ended + 1)

    def halt(self, seconds: float) -> None:
        """The step that is under way takes so much longer, and is the last."""
        self.start, self.seconds = self.after(self.done), self.seconds + seconds
        self.count, self.done = 1, 0
