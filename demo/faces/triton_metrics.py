"""What Triton with TensorRT-LLM shows of what happens, and when."""

from __future__ import annotations

from collections.abc import Mapping

from demo.faces.board import Board, Signals
from demo.faces.exposition import CPP, Page
from demo.faces.triton_families import ENGINE, ENTRY, FAILURES, MODELS, PHASES, rows
from demo.faces.triton_models import Model
from demo.model import EngineState, Request, Steps

_PREPROCESSING_SECONDS, _POSTPROCESSING_SECONDS = 0.0055, 0.0026
_GPU_BYTES = 1_610_236
_LOADING_SECONDS = {"ensemble": 0.002, "preprocessing": 3.4, "tensorrt_llm": 41.27, "postprocessing": 3.2}
_SUCCESSES = ("stop", "length")


class Metrics:
    """A request goes through all models; the engine's gauges are those of its last iteration, for as long as there is
    no other."""

    def __init__(self, engine: EngineState, renamed: Mapping[str, str] | None, *, has_first_response: bool) -> None:
        self.page = Page(CPP, renamed=renamed)
        self.models = {name: Model(name) for name in MODELS}
        self._engine = engine
        self._signals = Signals(Board(self.page, rows(has_first_response=has_first_response)), server=[{}])
        self._active = self._iterations = self._reused = 0
        for name, seconds in _LOADING_SECONDS.items():
            self._signals.set(f"load {name}", seconds)

    def refresh(self) -> None:
        """Before the page is shown."""
        for name, model in self.models.items():
            self._signals.set(f"success {name}", model.successes)
            self._signals.set(f"request {name}", model.nanoseconds["success"] // 1000)
            for phase in PHASES:
                self._signals.set(f"{phase} {name}", model.nanoseconds[phase] // 1000)
            for reason in FAILURES:
                self._signals.set(f"{reason} {name}", model.failures.get(reason, 0))

    # Observer

    def arrived(self, request: Request, now: float) -> None:
        """Nothing shows that it waits: neither Triton's own queue, nor the engine's gauges."""

    def rejected(self, request: Request, now: float) -> None:
        self.models[ENTRY].fail("REJECTED")

    def scheduled(self, request: Request, now: float) -> None:
        self._active += 1
        self._reused += request.cached_tokens // self._engine.limits.block_tokens
        self.models["preprocessing"].succeed(now, _PREPROCESSING_SECONDS)

    def first_token(self, request: Request, now: float) -> None:
        self._signals.observe("first_response", (now - request.arrived) * 1000)
        self.models["postprocessing"].succeed(now, _POSTPROCESSING_SECONDS)
        self._signals.add("request_metrics context")
        self._signals.add("inflight_batcher_metrics generation_requests", -1)

    def gaps(self, seconds: float, count: int, now: float) -> None:
        """A stream: each token is a response, and goes through the last model."""
        self.models["postprocessing"].succeed(now, _POSTPROCESSING_SECONDS, count)

    def preempted(self, request: Request, now: float) -> None:
        """It stays active, without being in the batch."""

    def finished(self, request: Request, now: float) -> None:
        self._active -= request.scheduled is not None
        if request.reason in _SUCCESSES:
            self._succeed(request, now)
        elif request.reason == "abort":
            self.models[ENTRY].fail("CANCELED")
            self.models[ENGINE].fail("CANCELED")
        else:
            self.models[ENTRY].fail("OTHER", 2)  # an ensemble counts it for the step that failed, and for itself

    def _succeed(self, request: Request, now: float) -> None:
        self.models[ENTRY].succeed(now, now - request.arrived)
        self.models[ENGINE].succeed(now, now - request.arrived)
        self._signals.observe("input_length", request.prompt_tokens)
        self._signals.observe("output_length", request.generated_tokens)

    def stepped(self, steps: Steps, now: float) -> None:
        self._iterations += steps.count
        idle = self._active - steps.running
        requests = {
            "active": self._active, "scheduled": steps.running, "waiting": idle, "context": 0,
            "max": self._engine.limits.running,
        }  # fmt: skip
        batch = {
            "paused_requests": idle, "generation_requests": steps.running, "total_context_tokens": steps.prompt_tokens,
        }  # fmt: skip
        self._show("request_metrics", requests)
        self._show("inflight_batcher_metrics", batch)
        self._show("kv_cache_block_metrics", self._blocks())
        self._show("runtime_memory_metrics", {"gpu": _GPU_BYTES})
        self._show("general_metrics", {"iteration_counter": self._iterations, "timestamp": round(now * 1e6)})

    def _blocks(self) -> Mapping[str, float]:
        limits = self._engine.limits
        blocks, used = limits.kv_tokens // limits.block_tokens, self._engine.kv_tokens // limits.block_tokens
        return {
            "max": blocks, "used": used, "free": blocks - used, "tokens_per": limits.block_tokens,
            "reused": self._reused, "fraction": round(used / blocks, 6),
        }  # fmt: skip

    def _show(self, family: str, gauges: Mapping[str, float]) -> None:
        for kind, value in gauges.items():
            self._signals.set(f"{family} {kind}", value)
