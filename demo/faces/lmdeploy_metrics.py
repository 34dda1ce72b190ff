"""What LMDeploy's page shows of what happens, and when."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor

from demo.faces.board import Board, Signals
from demo.faces.exposition import ONE_PROCESS, Page
from demo.faces.lmdeploy_families import NEW, OLD, rows
from demo.faces.lmdeploy_handles import Handles
from demo.faces.lmdeploy_health import Health
from demo.faces.vllm_http import process_at, process_rows
from demo.model import EngineState, Identity, Request, Steps

_REFRESH_SECONDS = 10.0
_SUCCESSES = ("stop", "length")


class Metrics:
    """Counters and histograms, which move when something happens. When gauges do is a release's own affair."""

    def __init__(self, identity: Identity, engine: EngineState, renamed: Mapping[str, str] | None) -> None:
        self.page = Page(ONE_PROCESS, renamed=renamed)
        self.engine = engine
        self.handles = Handles(engine.limits.running)
        self.health = Health(identity.started, self.handles)
        self.arrivals = self.succeeded = self.failed = 0
        self._started = identity.started
        board = Board(self.page, [*process_rows(identity), *rows(identity.release, engine.limits)])
        self.signals = Signals(board, engine=[{"engine": "0", "model_name": identity.model}], process=[{}])

    def show(self, **gauges: float) -> None:
        for signal, value in gauges.items():
            self.signals.set(signal, value)

    @property
    def present(self) -> int:
        return self.handles.held + self.handles.waiting

    def refresh(self, now: float) -> None:
        """Before the page is shown."""
        process_at(self.signals, now - self._started)

    # Observer

    def arrived(self, request: Request, now: float) -> None:
        self.arrivals += 1
        self.handles.ask(request, now)

    def rejected(self, request: Request, now: float) -> None:
        self.failed += 1
        self.handles.give_back(request, now)

    def scheduled(self, request: Request, now: float) -> None:
        self.handles.use(request)

    def first_token(self, request: Request, now: float) -> None:
        self.signals.observe("first_token", now - self.handles.since(request))
        self.signals.observe("iteration", request.prompt_tokens + 1)
        self.signals.add("prompt_tokens", request.prompt_tokens)
        self.signals.add("generation_tokens")

    def gaps(self, seconds: float, count: int, now: float) -> None:
        self.signals.observe("gap", seconds, count)
        self.signals.observe("iteration", 1, count)
        self.signals.add("generation_tokens", count)

    def preempted(self, request: Request, now: float) -> None:
        """No metric of any release tells of it."""

    def finished(self, request: Request, now: float) -> None:
        if request.reason in _SUCCESSES and request.first_token is not None and request.scheduled is not None:
            self.succeeded += 1
            self._count_success(request, request.scheduled, request.first_token, now)
        else:
            self.failed += 1
        self.handles.give_back(request, now)

    def _count_success(self, request: Request, scheduled: float, first_token: float, now: float) -> None:
        since, signals = self.handles.since(request), self.signals
        signals.add("success")
        signals.add("cached_tokens", request.cached_tokens)
        signals.observe("prompt_length", request.prompt_tokens)
        signals.observe("generation_length", request.generated_tokens)
        signals.observe("cached_length", request.cached_tokens)
        signals.observe("hit_ratio", request.cached_tokens / request.prompt_tokens)
        signals.observe("whole", now - since)
        signals.observe("queue", max(scheduled - since, 0.0))
        signals.observe("inference", now - scheduled)
        signals.observe("prefill", first_token - scheduled)
        signals.observe("decode", now - first_token)

    def stepped(self, steps: Steps, now: float) -> None:
        """Counters have moved already."""
        self.health.last_step = now


class NewMetrics(Metrics):
    """A loop sets the gauges every 10 seconds."""

    def __init__(self, identity: Identity, engine: EngineState, renamed: Mapping[str, str] | None) -> None:
        super().__init__(identity, engine, renamed)
        self._due = self._started + _REFRESH_SECONDS
        self._looked_up = self._found = 0

    def refresh(self, now: float) -> None:
        super().refresh(now)
        self._loop(now)

    def arrived(self, request: Request, now: float) -> None:
        if not self.present:
            self._loop(now)  # the engine knows of this request already, but nothing was there until now
        super().arrived(request, now)

    def scheduled(self, request: Request, now: float) -> None:
        super().scheduled(request, now)
        self._looked_up += request.prompt_tokens
        self._found += request.cached_tokens

    def stepped(self, steps: Steps, now: float) -> None:
        super().stepped(steps, now)
        self._loop(now)

    def _loop(self, now: float) -> None:
        if now < self._due:
            return
        rounds = floor((now - self._started) / _REFRESH_SECONDS)
        self._due = self._started + (rounds + 1) * _REFRESH_SECONDS
        limits, running = self.engine.limits, len(self.engine.running) if self.present else 0
        self.show(
            succeeded=self.succeeded,
            failed=self.failed,
            routed=self.handles.held,
            waiting_api=self.handles.waiting,
            running=running,
            waiting=max(self.handles.held - running, 0),
            kv_ratio=self.engine.kv_tokens / limits.kv_tokens if self.present else 0.0,
            hit_rate=self._found / self._looked_up if self._looked_up else 0.0,
        )


class OldMetrics(Metrics):
    """Each output of the engine sets the gauges, and the last one before the server falls idle leaves them as they are.

    At that output the last request still held its blocks, and did not yet count as finished. Those that fail count as
    unfinished for ever.
    """

    def __init__(self, identity: Identity, engine: EngineState, renamed: Mapping[str, str] | None) -> None:
        super().__init__(identity, engine, renamed)
        self._last_tokens = 0
        self._has_worked = False

    def refresh(self, now: float) -> None:
        super().refresh(now)
        if self.present:
            self._show(len(self.engine.running), self.succeeded, self.engine.kv_tokens)
        elif self._has_worked:
            self._show(0, max(self.succeeded - 1, 0), self._last_tokens)

    def finished(self, request: Request, now: float) -> None:
        super().finished(request, now)
        block = self.engine.limits.block_tokens
        self._has_worked = True
        self._last_tokens = -(-(request.prompt_tokens + request.generated_tokens) // block) * block

    def _show(self, running: int, finished: int, kv_tokens: int) -> None:
        """Blocks that are kept for prefixes count as used."""
        self.show(
            finished=finished,
            unfinished=self.arrivals - finished,
            running=running,
            waiting=max(self.handles.held - running, 0),
            kv_ratio=min((kv_tokens + self.engine.cached_kv_tokens) / self.engine.limits.kv_tokens, 1.0),
        )


METRICS: Mapping[str, type[Metrics]] = {OLD: OldMetrics, NEW: NewMetrics}
