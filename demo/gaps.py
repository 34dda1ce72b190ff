"""The time between two tokens of a request, told for all requests of a batch together."""

from __future__ import annotations

from demo.model import Observer
from demo.plan import Job, Plan


class Gaps:
    """Most requests of a batch had their last token at the last step. `_fresh` are those that had it since then."""

    def __init__(self, observers: list[Observer], start: float) -> None:
        self._observers = observers
        self._fresh: set[Job] = set()
        self._last = start

    def begin(self, job: Job, now: float) -> None:
        """It has a token that no decode step made: its first, or one after it was preempted."""
        if job.generated:
            self._tell(now - job.last_token, 1, now)
        job.last_token = now
        self._fresh.add(job)

    def stop(self, job: Job) -> None:
        if job not in self._fresh:
            job.last_token = self._last
        self._fresh.discard(job)

    def step(self, plan: Plan, steps: int) -> None:
        """`steps` of it have been done, the last of them just now."""
        at = plan.after(plan.done)
        if plan.done == steps:
            self._first(plan, plan.after(1))
            steps -= 1
        self._tell(plan.seconds, plan.decoding * steps, at)
        self._last = at

    def _first(self, plan: Plan, now: float) -> None:
        """Ends gaps of several lengths."""
        self._tell(now - self._last, plan.decoding - len(self._fresh), now)
        for last_token in sorted(job.last_token for job in self._fresh):
            self._tell(now - last_token, 1, now)
        self._fresh.clear()

    def _tell(self, seconds: float, count: int, now: float) -> None:
        if count:
            for observer in self._observers:
                observer.gaps(seconds, count, now)
