"""How a scheduler of SGLang, and the tokenizer process before it, move their metrics.

Counters of tokens and requests are the tokenizer's, which sees a request when it is done. The scheduler tells its
gauges in reports: with each batch of prompts, every 40 decode steps, and when it has become idle.
"""

from __future__ import annotations

from dataclasses import dataclass

from demo.faces.board import Signals
from demo.faces.sglang_families import AT_ONCE, STREAMED, Release, Role
from demo.faces.sglang_http import Http
from demo.model import EngineState, Request, Steps

REPORT_STEPS = 40
"""--decode-log-interval"""
_IDLE_SECONDS = 30.0
_ONE_AT_ONCE_OF = 4
_PATHS = {STREAMED: "/v1/chat/completions", AT_ONCE: "/generate"}
_PROCESS_SECONDS = 0.0008
"""That the scheduler takes to take a request in."""
_KV_MB = 0.057_344
"""Of one token."""
_TRANSFER_GB_S = 40.0
_BOOTSTRAP_SECONDS, _ALLOC_SECONDS = 0.002, 0.0005


class Tokenizer:
    """Of a whole server. Where the release tells ways apart, some clients do not stream."""

    def __init__(self, signals: Signals, http: Http, release: Release, role: Role) -> None:
        self._signals = signals
        self._http = http
        self._tells_ways = release.tells_ways
        self._sends_tokens = role != "prefill"

    def _way(self, request: Request) -> str:
        return AT_ONCE if self._tells_ways and request.number % _ONE_AT_ONCE_OF == 0 else STREAMED

    def arrived(self, request: Request) -> None:
        self._http.arrived(_PATHS[self._way(request)])

    def _answered(self, request: Request, status: int) -> None:
        self._http.finished(status, _PATHS[self._way(request)])

    def rejected(self, request: Request, context_tokens: int) -> None:
        is_too_long = request.prompt_tokens + request.output_tokens > context_tokens
        self._answered(request, 400 if is_too_long or request.adapter else 503)

    def first_token(self, request: Request, now: float) -> None:
        if self._sends_tokens:
            self._signals.observe(f"first_token_seconds_{self._way(request)}", now - request.arrived)

    def gaps(self, seconds: float, count: int) -> None:
        self._signals.observe("gap_seconds", seconds, count)

    def finished(self, request: Request, now: float) -> None:
        """Calls to abort are counted; the request itself as well, unless it was still in the queue."""
        self._answered(request, 500 if request.reason == "error" else 200)
        if request.reason == "abort":
            self._signals.add("aborts")
            if request.first_token is None:
                return
        self._count(request, self._way(request))
        self._measure(request, self._way(request), now)

    def _count(self, request: Request, way: str) -> None:
        self._signals.add(f"prompt_tokens_{way}", request.prompt_tokens)
        self._signals.add(f"generation_tokens_{way}", request.generated_tokens)
        self._signals.add(f"requests_{way}")
        if request.cached_tokens:
            self._signals.add("cached_tokens", request.cached_tokens)

    def _measure(self, request: Request, way: str, now: float) -> None:
        self._signals.observe(f"whole_seconds_{way}", now - request.arrived)
        self._signals.observe("prompt_length", request.prompt_tokens)
        self._signals.observe("computed_length", request.prompt_tokens - request.cached_tokens)
        self._signals.observe("generation_length", request.generated_tokens)
        tokens, first = request.generated_tokens, request.first_token
        if request.reason in {"stop", "length"} and tokens > 1 and first is not None and self._sends_tokens:
            self._signals.observe(f"token_seconds_{way}", (now - first) / (tokens - 1))


class Scheduler:
    """An observer of one engine."""

    def __init__(
        self, state: EngineState, signals: Signals, tokenizer: Tokenizer, release: Release, role: Role, started: float
    ) -> None:
        self._state = state
        self._signals = signals
        self._tokenizer = tokenizer
        self._role = role
        self._started = started
        self.reports = Reports(state, signals, release, started)
        self._joined: dict[Request, None] = {}
        self._busy = self._idle = 0.0

    def arrived(self, request: Request, now: float) -> None:
        self._tokenizer.arrived(request)

    def rejected(self, request: Request, now: float) -> None:
        self._tokenizer.rejected(request, self._state.limits.context_tokens)

    def scheduled(self, request: Request, now: float) -> None:
        self._joined[request] = None
        if request.first_token is not None:  # it came along, and goes out now
            self._tokenizer.first_token(request, now)

    def first_token(self, request: Request, now: float) -> None:
        self._tokenizer.first_token(request, now)
        if request.scheduled is not None and not request.is_prefilled:
            self._signals.observe("prefill_forward", now - request.scheduled)

    def gaps(self, seconds: float, count: int, now: float) -> None:
        self._signals.add("decoded_tokens", count)
        self._tokenizer.gaps(seconds, count)

    def preempted(self, request: Request, now: float) -> None:
        self._signals.add("retractions")
        self._signals.add("retracted_prompt", request.prompt_tokens)
        self._signals.add("retracted_generated", request.generated_tokens)
        self.reports.retracted += 1

    def finished(self, request: Request, now: float) -> None:
        self._joined.pop(request, None)
        self._tokenizer.finished(request, now)
        if self._role == "prefill":
            self._send(request)

    def _send(self, request: Request) -> None:
        """Its KV cache, to a decode server."""
        megabytes = request.prompt_tokens * _KV_MB
        self._signals.observe("transfer_mb", megabytes)
        self._signals.observe("transfer_gb_s", _TRANSFER_GB_S)
        self._signals.observe("transfer_ms", megabytes / _TRANSFER_GB_S)
        self._signals.observe("bootstrap_ms", 1000 * _BOOTSTRAP_SECONDS)
        self._signals.observe("alloc_ms", 1000 * _ALLOC_SECONDS)
        self._signals.observe("prefill_transfer_kv_cache", megabytes / _TRANSFER_GB_S / 1000)

    def stepped(self, steps: Steps, now: float) -> None:
        joined, self._joined = self._joined, {}
        for request in joined:
            self._begin(request)
        self._busy += steps.count * steps.seconds
        if steps.prompt_tokens:
            self._signals.add("computed_tokens", steps.prompt_tokens)
            self._signals.add("prefill_steps", steps.count)
            self.reports.prefilled(steps, list(joined), now)
        if not steps.prompt_tokens or steps.running > len(joined):
            self._signals.add("decode_steps", steps.count)
            self.reports.decoded(steps, now)

    def _begin(self, request: Request) -> None:
        """Its first forward pass."""
        waited = (request.scheduled or request.arrived) - request.arrived
        self._signals.observe("queue_seconds", waited)
        self._signals.observe("request_process", _PROCESS_SECONDS)
        if self._role == "prefill":
            self._signals.observe("prefill_bootstrap", _BOOTSTRAP_SECONDS)
        if self._role == "decode":
            self._receive(request, waited)
            return
        self._signals.add("effective_input", request.prompt_tokens - request.cached_tokens)
        self._signals.add("effective_device_hit", request.cached_tokens)
        if request.cached_tokens:
            self._signals.add("found_tokens", request.cached_tokens)

    def _receive(self, request: Request, waited: float) -> None:
        """Its KV cache, from a prefill server."""
        seconds = request.prompt_tokens * _KV_MB / _TRANSFER_GB_S / 1000
        self._signals.observe("decode_prepare", _ALLOC_SECONDS)
        self._signals.observe("decode_bootstrap", _BOOTSTRAP_SECONDS)
        self._signals.observe("decode_transferred", seconds)
        self._signals.observe("decode_waiting", waited)

    def show(self, now: float) -> None:
        """Gauges, and what goes on without steps."""
        self.reports.show()
        age = now - self._started
        self._idle = max(self._idle, age - self._busy)
        self._signals.set("idle_seconds", self._idle)
        self._signals.set("run_batch_seconds", self._busy)
        self._signals.set("cpu_seconds", age)


@dataclass(slots=True)
class Report:
    """Of a scheduler, as of one moment."""

    running: int
    queued: int
    used_tokens: int
    cached_tokens: int
    retracted: int
    is_rounded: bool


class Reports:
    """Of one scheduler. `retracted` is how many requests were since the last one. Only the last is shown."""

    def __init__(self, state: EngineState, signals: Signals, release: Release, started: float) -> None:
        self.retracted = 0
        self.throughput = self.hit_rate = 0.0
        self.last = started
        """When one was told."""
        self._state = state
        self._signals = signals
        self._release = release
        self._steps = self._tokens = self._sequence_tokens = 0
        self._last_decode = started
        self._report: Report | None = None

    def prefilled(self, steps: Steps, joined: list[Request], now: float) -> None:
        """Tells the batch before the new requests join it."""
        cached = sum(r.cached_tokens for r in joined)
        self.hit_rate = cached / (cached + steps.prompt_tokens)
        self._tell(steps.running - len(joined), now, is_rounded=True)

    def decoded(self, steps: Steps, now: float) -> None:
        before = self._steps
        self._steps += steps.count
        self._tokens += steps.generated_tokens
        if self._steps // REPORT_STEPS == before // REPORT_STEPS:
            return
        since = self._steps % REPORT_STEPS
        at, tokens_since = now - since * steps.seconds, since * steps.generated_tokens / steps.count
        self.throughput = (self._tokens - tokens_since) / max(at - self._last_decode, steps.seconds)
        self._sequence_tokens = self._state.kv_tokens
        if not self._release.keeps_hit_rate:
            self.hit_rate = 0.0
        self._last_decode, self._tokens = at, round(tokens_since)
        self._tell(steps.running, at, is_rounded=self._release.rounds)

    def pass_time(self, now: float) -> None:
        """Until then nothing more has happened."""
        if self._report is None:
            return
        is_idle = not self._state.running and not self._state.waiting
        is_due = now - self.last > _IDLE_SECONDS or (self._release.tells_empty and self._report.running > 0)
        if is_idle and is_due:
            self.throughput = 0.0
            self._tell(0, now, is_rounded=True)
        elif self._release.tells_empty and now - self._last_decode > _IDLE_SECONDS:
            self.throughput = 0.0

    def _tell(self, running: int, at: float, *, is_rounded: bool) -> None:
        state, self.last = self._state, at
        queued, cached = len(state.waiting), state.cached_kv_tokens
        self._report = Report(running, queued, state.kv_tokens, cached, self.retracted, is_rounded)
        self.retracted = 0

    def show(self) -> None:
        report, capacity = self._report, self._state.limits.kv_tokens
        if report is None:
            return
        usage = report.used_tokens / capacity
        self._signals.begin("report")
        for signal, value in {
            "running": report.running,
            "queued": report.queued,
            "used_tokens": report.used_tokens,
            "usage": round(usage, 2) if report.is_rounded else usage,
            "exact_usage": usage,
            "evictable_tokens": report.cached_tokens,
            "available_tokens": capacity - report.used_tokens - report.cached_tokens,
            "sequence_tokens": self._sequence_tokens,
            "retracted": report.retracted,
            "throughput": self.throughput,
            "hit_rate": self.hit_rate,
        }.items():
            self._signals.set(signal, value)
        if self._state.limits.adapters:
            self._show_adapters(self._state.limits.adapters)

    def _show_adapters(self, slots: int) -> None:
        used = len({r.adapter for r in self._state.running if r.adapter})
        self._signals.set("adapters", used)
        self._signals.set("adapter_share", used / slots)
