"""An engine whose every event is written down beforehand, so that what a face must show is known by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from demo.model import Limits, Observer, Reason, Request, Steps


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that arrives at `at`, is scheduled `queue` later, has its first token `prefill` after that, and then
    one every `gap` until it has `tokens`."""

    at: float
    prompt: int = 100
    tokens: int = 10
    cached: int = 0
    queue: float = 0.0
    prefill: float = 0.1
    gap: float = 0.02
    reason: Reason = "length"

    @property
    def scheduled(self) -> float:
        return self.at + self.queue

    @property
    def first(self) -> float:
        return self.scheduled + self.prefill

    @property
    def end(self) -> float:
        """A request without tokens ends as it is scheduled."""
        return self.first + (self.tokens - 1) * self.gap if self.tokens else self.scheduled


BEFORE = (Plan(at=3, tokens=5), Plan(at=4, cached=64, reason="stop"))
"""Of a server's first seconds."""
MINUTE = (
    Plan(at=20, prompt=640, cached=320, tokens=100, queue=0.5, prefill=0.25),
    Plan(at=21, prompt=100, tokens=40, reason="stop"),
    Plan(at=40, prompt=2000, tokens=1, prefill=0.8),
    Plan(at=41, prompt=300, tokens=7, reason="abort"),
)
"""Between the seconds 11 and 71."""
FAILED = Plan(at=42, tokens=0, reason="error")


class Script:
    """`EngineState` of planned requests. Times of plans count from `start`."""

    def __init__(self, limits: Limits, start: float) -> None:
        self.limits = limits
        self.start = start
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.cached_kv_tokens = 0
        self.still_until = 0.0
        self._observers: list[Observer] = []
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._requests = 0

    @property
    def kv_tokens(self) -> int:
        block = self.limits.block_tokens
        return sum(-(-(r.prompt_tokens + r.generated_tokens) // block) * block for r in self.running)

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    def plan(self, *plans: Plan) -> None:
        for plan in plans:
            self._plan(replace(plan, at=self.start + plan.at))

    def reject(self, at: float) -> None:
        self._requests += 1
        request = Request(self._requests, self.start + at, 100, 10)

        def refuse(observer: Observer, now: float) -> None:
            observer.arrived(request, now)
            observer.rejected(request, now)

        self._at(request.arrived, lambda now: self._tell(lambda observer: refuse(observer, now)))

    def advance(self, seconds: float) -> float:
        """To so many seconds after the start; returns the moment."""
        until = self.start + seconds
        self._events.sort(key=lambda event: event[:2])
        while self._events and self._events[0][0] <= until + 1e-9:
            moment, _, happen = self._events.pop(0)
            happen(moment)
        return until

    def _at(self, moment: float, happen: Callable[[float], None]) -> None:
        self._events.append((moment, len(self._events), happen))

    def _tell(self, tell: Callable[[Observer], object]) -> None:
        for observer in self._observers:
            tell(observer)

    def _plan(self, plan: Plan) -> None:
        self._requests += 1
        request = Request(self._requests, plan.at, plan.prompt, plan.tokens)
        self._at(plan.at, lambda now: self._arrive(request, now))
        if plan.tokens or plan.reason == "error":
            self._at(plan.scheduled, lambda now: self._schedule(request, plan.cached, now))
        if plan.tokens:
            self._at(plan.first, lambda now: self._first(request, plan, now))
        for number in range(1, plan.tokens):
            self._at(plan.first + number * plan.gap, lambda now: self._token(request, plan.gap, now))
        self._at(plan.end, lambda now: self._finish(request, plan.reason, now))

    def _arrive(self, request: Request, now: float) -> None:
        self.waiting.append(request)
        self._tell(lambda o: o.arrived(request, now))

    def _schedule(self, request: Request, cached: int, now: float) -> None:
        request.scheduled, request.cached_tokens = now, cached
        self.waiting.remove(request)
        self.running.append(request)
        self._tell(lambda o: o.scheduled(request, now))

    def _step(self, seconds: float, prompt: int, now: float) -> None:
        self._tell(lambda o: o.stepped(Steps(1, seconds, len(self.running), prompt, 1), now))

    def _first(self, request: Request, plan: Plan, now: float) -> None:
        request.first_token, request.generated_tokens = now, 1
        self._step(plan.prefill, plan.prompt - plan.cached, now)
        self._tell(lambda o: o.first_token(request, now))

    def _token(self, request: Request, gap: float, now: float) -> None:
        request.generated_tokens += 1
        self._tell(lambda o: o.gaps(gap, 1, now))
        self._step(gap, 0, now)

    def _finish(self, request: Request, reason: Reason, now: float) -> None:
        request.finished, request.reason = now, reason
        for place in (self.running, self.waiting):
            if request in place:
                place.remove(request)
        self._tell(lambda o: o.finished(request, now))


@dataclass(frozen=True, slots=True)
class Truth:
    """What all of some plans come to."""

    plans: Sequence[Plan]

    @property
    def successes(self) -> Sequence[Plan]:
        return [plan for plan in self.plans if plan.reason in ("stop", "length")]

    @property
    def started(self) -> Sequence[Plan]:
        return [plan for plan in self.plans if plan.tokens]

    def prompt_tokens(self, plans: Sequence[Plan]) -> int:
        return sum(plan.prompt for plan in plans)

    def tokens(self, plans: Sequence[Plan]) -> int:
        return sum(plan.tokens for plan in plans)

    def ttft(self, plans: Sequence[Plan]) -> float:
        return sum(plan.first - plan.at for plan in plans)

    def whole(self, plans: Sequence[Plan]) -> float:
        return sum(plan.end - plan.at for plan in plans)
