"""The JSON statistics of trtllm-serve: one record for each iteration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from demo.faces.trtllm_serve_iterations import Iterations

GPU_BYTES = 76_665_782_272
"""Of the whole device, whoever took it."""
_HOLE = "\0"


class Records:
    """`is_new`: with what came in 2026, for one attention window, where two loops overlap."""

    def __init__(self, *, is_new: bool, window: int) -> None:
        self._template = _NEW.replace("WINDOW", str(window)) if is_new else _OLD
        self._loops = 2 if is_new else 1

    def body(self, runs: list[Iterations]) -> bytes:
        return ("[" + ", ".join([record for run in runs for record in self._of(run)]) + "]").encode()

    def _of(self, run: Iterations) -> Iterator[str]:
        """Those between the first and the last are alike but for their number and time."""
        last = run.count - 1
        generating, more = divmod(run.generated_tokens - run.first_tokens, run.count)
        yield self._text(run, generating + more, _moment(run, 0), is_first=True, is_last=not last)
        if last > 1:
            before, between, after = self._text(run, generating, {"iter": _HOLE, "timestamp": _HOLE}).split(_HOLE)
            for place in range(1, last):
                yield f"{before}{run.number + place}{between}{_timestamp(run, place)}{after}"
        if last:
            yield self._text(run, generating, _moment(run, last), is_last=True)

    def _text(
        self,
        run: Iterations,
        generating: int,
        moment: Mapping[str, object],
        *,
        is_first: bool = False,
        is_last: bool = False,
    ) -> str:
        latency = run.seconds * 1000
        values = {"latency": latency * self._loops, "host": latency, "generating": generating}
        return self._template % {**values, **moment, **_alike(run), **_first(run, is_first), **_last(run, is_last)}


def _alike(run: Iterations) -> Mapping[str, object]:
    blocks = run.blocks
    return {
        "limit": run.limit, "active": run.active, "queued": run.queued, "running": run.running,
        "paused": max(run.active - run.running, 0), "max": blocks.all, "free": blocks.all - blocks.used,
        "used": blocks.used, "tokens": blocks.tokens, "reused": blocks.reused, "missed": blocks.missed,
        "rate": blocks.hit_rate, "new": blocks.missed + blocks.grown,
        "total": blocks.missed + blocks.grown + blocks.reused,
    }  # fmt: skip


def _first(run: Iterations, is_it: bool) -> Mapping[str, object]:
    """Whom it admitted, and which blocks they took."""
    return {
        "admitted": run.admitted * is_it, "after": run.admitted_after * 1000 * is_it, "iter_reused": run.reused * is_it,
        "iter_missed": run.missed * is_it, "iter_rate": run.reuse_rate * is_it,
        "iter_both": (run.reused + run.missed) * is_it,
    }  # fmt: skip


def _last(run: Iterations, is_it: bool) -> Mapping[str, object]:
    return {
        "context": run.context_requests * is_it, "context_tokens": run.context_tokens * is_it,
        "completed": run.completed * is_it, "iter_grown": run.grown * is_it,
    }  # fmt: skip


def _moment(run: Iterations, place: int) -> Mapping[str, object]:
    return {"iter": run.number + place, "timestamp": _timestamp(run, place)}


def _timestamp(run: Iterations, place: int) -> str:
    second, rest = divmod(run.ended - (run.count - 1 - place) * run.seconds, 1)
    return f"{_second(int(second))}.{int(rest * 1e6):06}"


@lru_cache(maxsize=64)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%m-%d-%Y %H:%M:%S")


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
    "iterAllocTotalBlocks": "%(iter_both)s", "iterAllocNewBlocks": "%(iter_missed)s",
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
})  # fmt: skip
