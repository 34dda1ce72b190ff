"""How one of vLLM's engines moves its metrics. What a release does not show, it does not have a row for."""

from __future__ import annotations

from collections.abc import Iterable

from demo.faces.board import Signals
from demo.faces.exposition import Family, Value
from demo.faces.vllm_http import Http
from demo.model import EngineState, Request, Steps

_RATE_SECONDS = 5.0
"""Between two lines of the V0 engine's log, which its rates are of."""
_POLL_SECONDS = 10.0
"""After which an idle V0 engine tells its statistics again."""
_TICK = 1e-6
"""By which a later list is newer than one of the same step."""
_AT_FIRST_STEP = ("at_first_step", "preemptions", "prefilled_tokens", "generated_tokens")


class Adapters:
    """The lists of adapters: a series for each that there has been, worth the time when it was last the current one.

    The V0 engine tells whose requests wait; V1 names in both lists whoever is scheduled.
    """

    def __init__(self, state: EngineState, family: Family[Value], *, tells_waiting: bool) -> None:
        self._state = state
        self._family = family
        self._tells_waiting = tells_waiting
        self._running: dict[str, int] = {}
        self._lists: tuple[str, str] | None = None
        self._child: Value | None = None
        self._told = 0.0

    def began(self, request: Request) -> None:
        if request.adapter:
            self._running[request.adapter] = self._running.get(request.adapter, 0) + 1

    def ended(self, request: Request, now: float) -> None:
        if not request.adapter or request.scheduled is None:
            return
        self._running[request.adapter] -= 1
        if not self._running[request.adapter]:
            del self._running[request.adapter]
            self.tell(now)

    def tell(self, now: float) -> None:
        lists = ",".join(self._running), ",".join(self._waiting())
        if self._child is None or self._lists != lists:
            self._lists = lists
            running, waiting = lists
            self._child = self._family.labelled(
                max_lora=str(self._state.limits.adapters), running_lora_adapters=running, waiting_lora_adapters=waiting
            )
        self._told = max(now, self._told + _TICK)
        self._child.set(self._told)

    def _waiting(self) -> Iterable[str]:
        if not self._tells_waiting:
            return self._running
        return dict.fromkeys(r.adapter for r in self._state.waiting if r.adapter)


class Rates:
    """Tokens per second over the last interval of the V0 engine's log, kept until the next one."""

    def __init__(self, signals: Signals, started: float) -> None:
        self._signals = signals
        self._since = started
        self._prompt = 0
        self._generated = 0

    def stepped(self, steps: Steps, now: float) -> None:
        self._prompt += steps.prompt_tokens
        self._generated += steps.generated_tokens
        if now - self._since > _RATE_SECONDS:
            self._tell(now)

    def idle(self, now: float) -> None:
        if now - self._since > _POLL_SECONDS:
            self._tell(now)

    def _tell(self, now: float) -> None:
        seconds = now - self._since
        self._signals.set("prompt_throughput", self._prompt / seconds)
        self._signals.set("generation_throughput", self._generated / seconds)
        self._since, self._prompt, self._generated = now, 0, 0


class VllmEngine:
    """An observer of one engine; its gauges are as of the last step, which is when they are asked for."""

    def __init__(
        self, state: EngineState, signals: Signals, http: Http, *, adapters: Adapters | None, rates: Rates | None
    ) -> None:
        self._state = state
        self._signals = signals
        self._http = http
        self._adapters = adapters
        self._rates = rates
        self._has_stepped = False
        self._whole_prompts = 0
        self._tokens = self._drafts = self._accepted = 0
        self._blocks_looked_up = 0
        self._blocks_found = 0

    def arrived(self, request: Request, now: float) -> None:
        pass

    def rejected(self, request: Request, now: float) -> None:
        self._http.rejected(request, self._state.limits, now)

    def scheduled(self, request: Request, now: float) -> None:
        limits = self._state.limits
        if limits.prefix_caching:
            self._signals.add("looked_up_tokens", request.prompt_tokens)
            self._signals.add("found_tokens", request.cached_tokens)
            self._blocks_looked_up += request.prompt_tokens // limits.block_tokens
            self._blocks_found += request.cached_tokens // limits.block_tokens
        self._signals.add("prefilled_tokens", request.cached_tokens)
        if self._adapters:
            self._adapters.began(request)

    def first_token(self, request: Request, now: float) -> None:
        self._whole_prompts += request.prompt_tokens
        self._signals.add("prompt_tokens", request.prompt_tokens)
        self._signals.add("computed_tokens", request.prompt_tokens - request.cached_tokens)
        self._signals.add("cached_tokens", request.cached_tokens)
        self._signals.add("generated_tokens")
        self._signals.observe("first_token_seconds", now - request.arrived)

    def gaps(self, seconds: float, count: int, now: float) -> None:
        self._signals.add("generated_tokens", count)
        self._signals.observe("gap_seconds", seconds, count)
        if self._state.limits.draft_tokens:
            self._speculate(count)

    def _speculate(self, tokens: int) -> None:
        """A step of a sequence makes one token of its own, and those of its draft that are accepted."""
        limits = self._state.limits
        self._tokens += tokens
        steps = int(self._tokens / (1 + limits.drafts_accepted * limits.draft_tokens)) - self._drafts
        self._drafts += steps
        accepted = self._tokens - self._drafts - self._accepted
        self._accepted += accepted
        self._signals.add("drafts", steps)
        self._signals.add("drafted_tokens", steps * limits.draft_tokens)
        self._signals.add("accepted_tokens", accepted)

    def preempted(self, request: Request, now: float) -> None:
        self._signals.add("preemptions")

    def finished(self, request: Request, now: float) -> None:
        """Requests whose client went away are told of nowhere."""
        if self._adapters:
            self._adapters.ended(request, now)
        self._http.finished(request, now)
        if request.reason != "abort":
            self._signals.add(f"finished_{request.reason}")
        if request.reason in {"stop", "length"}:
            self._measure(request, now)

    def _measure(self, request: Request, now: float) -> None:
        scheduled, first, limits = request.scheduled or now, request.first_token or now, self._state.limits
        longest = request.output_tokens if request.reason == "length" else limits.context_tokens - request.prompt_tokens
        for signal, amount in (
            ("whole_seconds", now - request.arrived),
            ("queue_seconds", scheduled - request.arrived),
            ("inference_seconds", now - scheduled),
            ("prefill_seconds", first - scheduled),
            ("decode_seconds", now - first),
            ("token_seconds", (now - first) / max(1, request.generated_tokens - 1)),
            ("prompt_length", request.prompt_tokens),
            ("generation_length", request.generated_tokens),
            ("computed_length", request.prompt_tokens - request.cached_tokens),
            ("asked_tokens", longest),
            ("choices", 1),
            ("preemptions_of_request", request.preemptions),
        ):
            self._signals.observe(signal, amount)

    def stepped(self, steps: Steps, now: float) -> None:
        if not self._has_stepped:
            self._has_stepped = True
            for signal in _AT_FIRST_STEP:
                self._signals.begin(signal)
        self._signals.add("prefilled_tokens", steps.prompt_tokens)
        self._observe_steps(steps)
        if self._rates:
            self._rates.stepped(steps, now)
        if self._adapters:
            self._adapters.tell(now)

    def _observe_steps(self, steps: Steps) -> None:
        """Releases before 0.16 count the whole prompt in the step that yields its first token."""
        generated = steps.generated_tokens / steps.count
        self._signals.observe("step_tokens", steps.prompt_tokens / steps.count + generated, steps.count)
        if self._whole_prompts:
            self._signals.observe("step_whole_tokens", self._whole_prompts + generated)
            self._whole_prompts = 0
            steps_left = steps.count - 1
        else:
            steps_left = steps.count
        if steps_left:
            self._signals.observe("step_whole_tokens", generated, steps_left)

    def show(self, now: float) -> None:
        """Brings the gauges up to date; a V0 engine that has not stepped yet has none."""
        if self._rates and not self._has_stepped:
            return
        running, limits = len(self._state.running), self._state.limits
        self._signals.set("running", running)
        self._signals.set("waiting", len(self._state.waiting))
        blocks = limits.kv_tokens // limits.block_tokens
        used = self._state.kv_tokens / limits.block_tokens
        if self._rates:
            self._show_v0(used / blocks, now)
        else:
            self._signals.set("kv_usage", min(1.0, used / (blocks - 1)))  # one block is never given away

    def _show_v0(self, usage: float, now: float) -> None:
        self._signals.set("kv_usage", usage)
        rate = self._blocks_found / max(1, self._blocks_looked_up) if self._state.limits.prefix_caching else -1.0
        self._signals.set("block_hit_rate", rate)
        if self._rates and not self._state.running:
            self._rates.idle(now)
