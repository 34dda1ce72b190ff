"""An engine that does what a test says, and keeps what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from demo.model import Face, Limits, Observer, Reason, Request, Steps

START = 1_796_000_000.0


@dataclass(slots=True)
class Scripted:
    """An `EngineState`. Requests are served one step after the other by `serve`."""

    limits: Limits = field(default_factory=Limits)
    running: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    kv_tokens: int = 0
    cached_kv_tokens: int = 0
    still_until: float = 0.0
    observers: list[Observer] = field(default_factory=list)
    served: list[Request] = field(default_factory=list)

    def serve(self, request: Request, *, queue: float = 0.5, step: float = 0.25) -> None:
        """It waits for `queue` seconds; then each token takes one step, the first one computing the prompt."""
        self.begin(request, queue=queue, step=step)
        self.decode(request, (request.leaves_after or request.output_tokens) - 1, step=step)
        self.finish(request, "abort" if request.leaves_after else request.ends_by, step=step)

    def begin(self, request: Request, *, queue: float = 0.5, step: float = 0.25) -> None:
        """Up to its first token."""
        self.queue(request)
        now = request.arrived + queue
        self.waiting.remove(request)
        self.running.append(request)
        request.scheduled = now
        self._hold()
        for observer in self.observers:
            observer.scheduled(request, now)
        now += step
        computed = request.prompt_tokens - request.cached_tokens
        request.first_token, request.generated_tokens = now, 1
        self._hold()
        for observer in self.observers:
            observer.stepped(Steps(1, step, len(self.running), computed, 1), now)
            observer.first_token(request, now)

    def take(self, request: Request, *, queue: float = 0.5) -> None:
        """One that was prefilled elsewhere, with its first token."""
        now = request.arrived + queue
        self.running.append(request)
        request.scheduled = now
        for observer in self.observers:
            observer.arrived(request, request.arrived)
            observer.scheduled(request, now)
        request.first_token, request.generated_tokens = now, 1
        self._hold()
        for observer in self.observers:
            observer.first_token(request, now)

    def queue(self, request: Request) -> None:
        self.waiting.append(request)
        for observer in self.observers:
            observer.arrived(request, request.arrived)

    def decode(self, request: Request, tokens: int, *, step: float = 0.25) -> None:
        if not tokens:
            return
        assert request.first_token is not None
        request.generated_tokens += tokens
        self._hold()
        now = self.last_token(request, step)
        for observer in self.observers:
            observer.gaps(step, tokens, now)
            observer.stepped(Steps(tokens, step, len(self.running), 0, tokens), now)

    def preempt(self, request: Request, now: float) -> None:
        request.preemptions += 1
        for observer in self.observers:
            observer.preempted(request, now)

    def finish(self, request: Request, reason: Reason, *, step: float = 0.25) -> None:
        request.reason, request.finished = reason, self.last_token(request, step)
        self.running.remove(request)
        self._hold()
        self.served.append(request)
        for observer in self.observers:
            observer.finished(request, request.finished)

    def reject(self, request: Request) -> None:
        request.is_rejected = True
        for observer in self.observers:
            observer.arrived(request, request.arrived)
            observer.rejected(request, request.arrived)

    @staticmethod
    def last_token(request: Request, step: float = 0.25) -> float:
        assert request.first_token is not None
        return request.first_token + (request.generated_tokens - 1) * step

    def _hold(self) -> None:
        self.kv_tokens = sum(self._blocks(r) for r in self.running) * self.limits.block_tokens

    def _blocks(self, request: Request) -> int:
        return -(-(request.prompt_tokens + request.generated_tokens) // self.limits.block_tokens)


def watched(face: Face, engines: Sequence[Scripted]) -> None:
    for number, engine in enumerate(engines):
        engine.observers.append(face.observer(number))


def body(face: Face, now: float, path: str = "/metrics") -> str:
    answer = face.answer(path, now)
    assert answer.status == 200
    return answer.body.decode()
