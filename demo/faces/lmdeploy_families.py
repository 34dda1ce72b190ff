"""The families of LMDeploy's page in their order, by release: of its metrics code and of recorded pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from demo.faces.board import Row
from demo.faces.exposition import Kind
from demo.model import Limits

OLD, NEW = "0.9.2", "0.18.0"

_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
_OLD_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_GAP = (0.005, *_OLD_GAP)
_PHASE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_RATIO = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

_OLD_REASONS = (
    "SUCCESS", "FINISH", "ENGINE_STOP_ERROR", "SESSION_REPEAT", "SESSION_NOT_EXIST", "HANDLER_NOT_EXIST",
    "INPUT_LENGTH_ERROR", "INTERNAL_ENGINE_ERROR",
)  # fmt: skip
_REASONS = {
    OLD: _OLD_REASONS,
    NEW: (*_OLD_REASONS, "CANCEL", "PREFIX_CACHE_CONFLICT", "NO_QUEUE", "NOT_SUPPORTED", "OUT_OF_MEMORY"),
}
"""All are shown from the start, and only FINISH ever moves."""


class _Family(NamedTuple):
    """`signal` is what moves it: if it is empty, nothing does. A histogram without bounds has those of lengths."""

    name: str
    kind: Kind
    signal: str
    releases: Collection[str] = (OLD, NEW)
    bounds: Sequence[float] = ()
    has_series: bool = True


_gauge, _counter, _histogram = (partial(_Family, kind=kind) for kind in ("gauge", "counter", "histogram"))
_NEW = (NEW,)

_FAMILIES = (
    _gauge("num_requests_finished", signal="finished", releases=(OLD,)),
    _gauge("num_requests_unfinished", signal="unfinished", releases=(OLD,)),
    _gauge("num_requests_succeeded", signal="succeeded", releases=_NEW),
    _gauge("num_requests_failed", signal="failed", releases=_NEW),
    _gauge("num_api_requests_routed", signal="routed", releases=_NEW),
    _gauge("num_api_requests_waiting", signal="waiting_api", releases=_NEW),
    _gauge("num_requests_running", signal="running"),
    _gauge("num_requests_waiting", signal="waiting"),
    _gauge("gpu_cache_usage_perc", signal="kv_ratio"),
    _gauge("prefix_cache_hit_rate", signal="hit_rate", releases=_NEW),
    _counter("prompt_tokens_total", signal="prompt_tokens"),
    _counter("generation_tokens_total", signal="generation_tokens"),
    _counter("spec_decode_num_drafts_total", signal="", releases=_NEW),
    _counter("spec_decode_num_draft_tokens_total", signal="", releases=_NEW),
    _counter("spec_decode_num_accepted_tokens_total", signal="", releases=_NEW),
    _counter("spec_decode_num_accepted_tokens_per_pos_total", signal="draft", releases=_NEW, has_series=False),
    _gauge("spec_decode_mean_accept_rate", signal="", releases=_NEW),
    _gauge("spec_decode_mean_accept_length", signal="", releases=_NEW),
    _gauge("spec_decode_per_position_accept_rate", signal="draft", releases=_NEW, has_series=False),
    _counter("request_success_total", signal="success"),
    _histogram("request_prompt_tokens", signal="prompt_length"),
    _histogram("request_generation_tokens", signal="generation_length"),
    _histogram("request_cached_tokens", signal="cached_length", releases=_NEW),
    _histogram("request_cache_hit_ratio", signal="hit_ratio", releases=_NEW, bounds=_RATIO),
    _counter("cached_tokens_total", signal="cached_tokens", releases=_NEW),
    _histogram("iteration_tokens_total", signal="iteration", bounds=_ITERATION),
    _histogram("time_to_first_token_seconds", signal="first_token", bounds=_TTFT),
    _histogram("time_per_output_token_seconds", signal="gap", releases=(OLD,), bounds=_OLD_GAP),
    _histogram("time_per_output_token_seconds", signal="gap", releases=_NEW, bounds=_GAP),
    _histogram("iter_token_latency", signal="gap", releases=_NEW, bounds=_GAP),
    _histogram("e2e_request_latency_seconds", signal="whole", bounds=_PHASE),
    _histogram("request_queue_time_seconds", signal="queue", bounds=_PHASE),
    _histogram("request_inference_time_seconds", signal="inference", bounds=_PHASE),
    _histogram("request_prefill_time_seconds", signal="prefill", bounds=_PHASE),
    _histogram("request_decode_time_seconds", signal="decode", bounds=_PHASE),
)


def rows(release: str, limits: Limits) -> Iterator[Row]:
    yield Row("lmdeploy:backend_config_info", "gauge", "", "process", value=1.0, at_start=True)
    for family in _FAMILIES:
        if release in family.releases:
            yield from _rows(family, release, limits)


def _rows(family: _Family, release: str, limits: Limits) -> Iterator[Row]:
    bounds: Sequence[float] = ()
    if family.kind == "histogram":
        bounds = family.bounds or tuple(_lengths(limits.context_tokens))
    row = partial(
        Row, f"lmdeploy:{family.name}", family.kind, group="engine", bounds=bounds, at_start=family.has_series
    )
    if family.signal != "success":
        yield row(family.signal)
        return
    for reason in _REASONS[release]:
        yield row("success" if reason == "FINISH" else "", labels={"finished_reason": f"ResponseType.{reason}"})


def _lengths(longest: int) -> Iterator[float]:
    """1, 2, 5, 10, … as far as the session's length."""
    power = 1
    while power <= longest:
        yield from (float(first * power) for first in (1, 2, 5) if first * power <= longest)
        power *= 10
