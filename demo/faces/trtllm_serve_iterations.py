"""Statistics of TensorRT-LLM's iterations: what the engine writes down of each, and the queue they are read from."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

GPU_BYTES = 76_665_782_272
"""Of the whole device, whoever took it."""
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

    def without(self, oldest: int) -> Iterations:
        """Only how many there are changes: those that are left out were alike."""
        share = (self.generated_tokens - self.first_tokens) * (self.count - oldest) // self.count
        self.generated_tokens = share + self.first_tokens
        self.number += oldest
        self.count -= oldest
        self.admitted = self.reused = self.missed = self.grown = 0
        return self


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
                oldest.without(over)

    def take(self) -> list[Iterations]:
        taken = list(self._runs)
        self._runs.clear()
        self._count = 0
        return taken


def body(runs: list[Iterations], *, is_new: bool, window: int) -> bytes:
    """Of all runs, as an array of one record for each iteration."""
    template = _NEW.replace("%(window)s", str(window)) if is_new else _OLD
    return ("[" + ", ".join([template % record for run in runs for record in _records(run, is_new)]) + "]").encode()


def _records(run: Iterations, is_new: bool) -> Iterator[Mapping[str, object]]:
    """Tokens that all iterations made together are spread over them; what happened at the end stands in the last."""
    blocks = run.blocks
    generating, more = divmod(run.generated_tokens - run.first_tokens, run.count)
    alike = {
        "latency": run.seconds * 1000 * (2 if is_new else 1), "host": run.seconds * 1000, "limit": run.limit,
        "active": run.active, "queued": run.queued, "paused": max(run.active - run.running, 0),
        "running": run.running, "max": blocks.all, "free": blocks.all - blocks.used, "used": blocks.used,
        "tokens": blocks.tokens, "reused": blocks.reused, "missed": blocks.missed, "rate": blocks.hit_rate,
        "new": blocks.missed + blocks.grown, "total": blocks.missed + blocks.grown + blocks.reused,
    }  # fmt: skip
    for place in range(run.count):
        is_first, is_last = place == 0, place == run.count - 1
        ended = run.ended - (run.count - 1 - place) * run.seconds
        yield {
            **alike,
            "iter": run.number + place,
            "timestamp": datetime.fromtimestamp(ended, UTC).strftime("%m-%d-%Y %H:%M:%S.%f"),
            "admitted": run.admitted if is_first else 0,
            "after": run.admitted_after * 1000 if is_first else 0.0,
            "iter_reused": run.reused if is_first else 0,
            "iter_missed": run.missed if is_first else 0,
            "iter_new": (run.missed if is_first else 0) + (run.grown if is_last else 0),
            "iter_rate": run.reuse_rate if is_first else 0.0,
            "iter_grown": run.grown if is_last else 0,
            "iter_total": (run.reused + run.missed if is_first else 0) + (run.grown if is_last else 0),
            "context": run.context_requests if is_last else 0,
            "context_tokens": run.context_tokens if is_last else 0,
            "generating": generating + (place < more),
            "completed": run.completed if is_last else 0,
        }


def _template(record: Mapping[str, Any]) -> str:
    """The record as text, with a place for each value that is written as `%(name)s`."""
    return json.dumps(record).replace('"%(', "%(").replace(')s"', ")s").replace("%(timestamp)s", '"%(timestamp)s"')


_RECORD = {
    "cpuMemUsage": 0,
    "gpuMemUsage": GPU_BYTES,
    "inflightBatchingStats": {
        "avgNumDecodedTokensPerIter": 0.0, "microBatchId": 0, "numContextRequests": "%(context)s",
        "numCtxTokens": "%(context_tokens)s", "numGenRequests": "%(generating)s", "numPausedRequests": "%(paused)s",
        "numScheduledRequests": "%(running)s",
    },
    "iter": "%(iter)s",
    "iterLatencyMS": "%(latency)s",
    "kvCacheStats": {
        "allocNewBlocks": "%(new)s", "allocTotalBlocks": "%(total)s", "cacheHitRate": "%(rate)s",
        "freeNumBlocks": "%(free)s", "maxNumBlocks": "%(max)s", "missedBlocks": "%(missed)s",
        "reusedBlocks": "%(reused)s", "tokensPerBlock": "%(tokens)s", "usedNumBlocks": "%(used)s",
    },
    **dict.fromkeys(("maxBatchSizeRuntime", "maxBatchSizeStatic", "maxBatchSizeTunerRecommended"), 0),
    "maxNumActiveRequests": "%(limit)s",
    **dict.fromkeys(("maxNumTokensRuntime", "maxNumTokensStatic", "maxNumTokensTunerRecommended"), 0),
    "newActiveRequestsQueueLatencyMS": "%(after)s",
    "numActiveRequests": "%(active)s",
    "numCompletedRequests": "%(completed)s",
    "numNewActiveRequests": "%(admitted)s",
    "numQueuedRequests": "%(queued)s",
    "pinnedMemUsage": 0,
    "specDecodingStats": None,
    "staticBatchingStats": dict.fromkeys(
        ("emptyGenSlots", "numContextRequests", "numCtxTokens", "numGenTokens", "numScheduledRequests"), 0
    ),
    "timestamp": "%(timestamp)s",
}  # fmt: skip
_OF_WINDOW = {
    "primaryMaxNumBlocks": "%(max)s", "primaryFreeNumBlocks": "%(free)s", "primaryUsedNumBlocks": "%(used)s",
    **dict.fromkeys(("secondaryMaxNumBlocks", "secondaryFreeNumBlocks", "secondaryUsedNumBlocks"), 0),
    "iterAllocTotalBlocks": "%(iter_total)s", "iterAllocNewBlocks": "%(iter_new)s",
    "iterReusedBlocks": "%(iter_reused)s", "iterFullReusedBlocks": "%(iter_reused)s", "iterPartialReusedBlocks": 0,
    "iterMissedBlocks": "%(iter_missed)s", "iterCacheHitRate": "%(iter_rate)s", "iterGenAllocBlocks": "%(iter_grown)s",
    **dict.fromkeys(
        ("iterOnboardBlocks", "iterOnboardBytes", "iterOffloadBlocks", "iterOffloadBytes", "iterIntraDeviceCopyBlocks",
         "iterIntraDeviceCopyBytes"), 0
    ),
}  # fmt: skip
_OLD = _template(_RECORD)
_NEW = _template({
    **_RECORD,
    "attentionDpRank": 0,
    "kvCacheIterationStats": {"WINDOW": _OF_WINDOW},
    "hostStepTimeMS": "%(host)s",
    "prevDeviceStepTimeMS": "%(host)s",
    "schedulerMode": "overlap",
}).replace("WINDOW", "%(window)s")  # fmt: skip
