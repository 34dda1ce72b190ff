"""What trtllm-serve shows of what happens, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from demo.faces.board import Board, Signals
from demo.faces.exposition import SEVERAL_PROCESSES, Page
from demo.faces.trtllm_serve_families import NEW, OLD, REASONS, labels, rows
from demo.faces.trtllm_serve_iterations import Blocks, Iterations, Queue
from demo.faces.trtllm_serve_records import GPU_BYTES, Records
from demo.model import EngineState, Identity, Request, Steps


class Metrics:
    """Requests are told when they finish. Iterations are in the queue as soon as they have ended."""

    def __init__(self, identity: Identity, engine: EngineState, renamed: Mapping[str, str] | None) -> None:
        self.page = Page(SEVERAL_PROCESSES, renamed=renamed)
        self.queue = Queue()
        self.records = Records(is_new=identity.release == NEW, window=engine.limits.context_tokens)
        self._engine = engine
        board = Board(self.page, rows(identity, engine.limits))
        common = labels(identity)
        self.signals = Signals(board, server=[common], process=[{**common, "pid": str(identity.pid)}])
        self._blocks = Blocks(engine.limits.kv_tokens // engine.limits.block_tokens, engine.limits.block_tokens)
        self._told = replace(self._blocks)
        """As of the iteration before."""
        self._generated = self._iterations = self._active = self._queued = self._admitted = 0
        self._admitted_after = 0.0

    def take(self) -> bytes:
        """What the reader of the JSON statistics gets, and nobody after it."""
        return self.records.body(self.queue.take())

    # Observer

    def arrived(self, request: Request, now: float) -> None:
        self._queued += 1

    def rejected(self, request: Request, now: float) -> None:
        self._queued -= 1
        self.signals.add("http_429")

    def scheduled(self, request: Request, now: float) -> None:
        self._queued -= 1
        self._active += 1
        self._admitted += 1
        self._admitted_after += now - request.arrived
        reused = request.cached_tokens // self._blocks.tokens
        self._blocks.reused += reused
        self._blocks.missed += -(-request.prompt_tokens // self._blocks.tokens) - reused

    def first_token(self, request: Request, now: float) -> None:
        """The iteration that made it has been told already."""
        if self.queue.last:
            self.queue.last.first_tokens += 1

    def gaps(self, seconds: float, count: int, now: float) -> None:
        """Only the mean of each request is told, at its end."""

    def preempted(self, request: Request, now: float) -> None:
        """It stays active, without being in the batch."""

    def finished(self, request: Request, now: float) -> None:
        if request.scheduled is None:
            self._queued -= 1
        else:
            self._active -= 1
            if self.queue.last:
                self.queue.last.completed += 1
        if request.reason == "error":
            self.signals.add("http_500")
        elif request.reason is not None:
            self.signals.add(REASONS[request.reason])
            self.tell(request, now)

    def tell(self, request: Request, now: float) -> None:
        """Of a request that ended in its own time, or its client's."""
        if request.first_token is None or request.scheduled is None:
            return
        self.signals.observe("whole", now - request.arrived)
        self.signals.observe("first_token", request.first_token - request.arrived)
        self.tell_queue(request.scheduled - request.arrived)
        if request.generated_tokens > 1:
            self.signals.observe("per_token", (now - request.first_token) / (request.generated_tokens - 1))

    def tell_queue(self, seconds: float) -> None:
        if seconds > 0:  # 0 is taken for no value
            self.signals.observe("queue", seconds)

    def stepped(self, steps: Steps, now: float) -> None:
        blocks, told = self._blocks, self._told
        self._generated += steps.generated_tokens
        blocks.used, blocks.grown = self._engine.kv_tokens // blocks.tokens, self._generated // blocks.tokens
        run = Iterations(
            self._iterations + 1, steps.count, now, steps.seconds, self._engine.limits.running, steps.running,
            self._active, self._queued, steps.prompt_tokens, steps.generated_tokens, replace(blocks),
            self._admitted, self._admitted_after, blocks.reused - told.reused, blocks.missed - told.missed,
            blocks.grown - told.grown,
        )  # fmt: skip
        self._told, self._admitted, self._admitted_after = run.blocks, 0, 0.0
        self._iterations += steps.count
        self.queue.put(run)


class NewMetrics(Metrics):
    """A collector takes the iterations when a request finishes: gauges are those of the last iteration then, for as
    long as none finishes, and the reader of the JSON statistics gets what the collector has left for it."""

    def __init__(self, identity: Identity, engine: EngineState, renamed: Mapping[str, str] | None) -> None:
        super().__init__(identity, engine, renamed)
        self._collected = Queue()

    def take(self) -> bytes:
        return self.records.body(self._collected.take())

    def finished(self, request: Request, now: float) -> None:
        super().finished(request, now)
        runs = self.queue.take()
        for run in runs:
            self._collect(run)
        if runs:
            self._show(runs[-1])

    def tell(self, request: Request, now: float) -> None:
        super().tell(request, now)
        signals = self.signals
        signals.add("prompt_tokens", request.prompt_tokens)
        signals.add("generation_tokens", request.generated_tokens)
        if request.first_token is None or request.scheduled is None:
            return
        signals.add("cached_tokens", request.cached_tokens)
        signals.observe("cached_length", request.cached_tokens)
        signals.observe("prefill", request.first_token - request.scheduled)
        if request.generated_tokens > 1:
            signals.observe("decode", now - request.first_token)

    def tell_queue(self, seconds: float) -> None:
        self.signals.observe("queue", seconds)

    def _collect(self, run: Iterations) -> None:
        self._collected.put(run)
        for signal, amount in (("reused", run.reused), ("missed", run.missed), ("grown", run.grown)):
            if amount:
                self.signals.add(signal, amount)
        self.signals.add("completed", run.completed)
        if run.context_tokens:
            self.signals.observe("batch_tokens", run.context_tokens)
            self.signals.set("kv_cache_iter_reuse_rate", run.reuse_rate)

    def _show(self, run: Iterations) -> None:
        blocks = run.blocks
        gauges = {
            "num_requests_running": run.active, "num_requests_waiting": run.queued,
            "max_num_active_requests": run.limit, "iteration_latency_seconds": 2 * run.seconds,
            "gpu_memory_usage_bytes": GPU_BYTES, "kv_cache_hit_rate": blocks.hit_rate,
            "kv_cache_utilization": blocks.used / blocks.all, "kv_cache_max_blocks": blocks.all,
            "kv_cache_free_blocks": blocks.all - blocks.used, "kv_cache_used_blocks": blocks.used,
            "kv_cache_tokens_per_block": blocks.tokens, "num_context_requests": run.context_requests,
            "num_generation_requests": run.generating, "num_paused_requests": max(run.active - run.running, 0),
            "num_scheduled_requests": run.running, "total_context_tokens": run.context_tokens,
            "prefill_batch_occupancy": run.context_requests / run.limit, "idle": 0,
        }  # fmt: skip
        for signal, value in gauges.items():
            self.signals.set(signal, value)


METRICS: Mapping[str, type[Metrics]] = {OLD: Metrics, NEW: NewMetrics}
