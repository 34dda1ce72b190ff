"""The figures of one server as the page shows them: a text, or a dash with the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.schema import E2E, TTFT
from monitor.fleet import QuantileOut, ServerRow
from monitor.page import quantities
from monitor.remarks import FieldOut

_SOFT_QUALITIES = {
    "approximate": "approximate",
    "last_batch": "of the last batch only",
}
NOT_TOLD = "the server does not tell"
NOTHING_OBSERVED = "nothing observed in the last 5 minutes"
NOT_YET = "not known yet: that takes two readings"


@dataclass(frozen=True, slots=True)
class Figure:
    """Without `text` the number is not known and `note` says why; with it `note` says how to take it."""

    text: str | None
    aside: str = ""
    """What stands smaller beside it: limit, bounds, maximum."""
    note: str = ""
    soft: bool = False
    """The number is not exactly what its column says: `note` tells."""


@dataclass(frozen=True, slots=True)
class Figures:
    batch: Figure
    waiting: Figure
    kv: Figure
    hits: Figure
    prompt_rate: Figure
    generation_rate: Figure
    ttft: Figure
    e2e: Figure
    preemptions: Figure
    unfinished: Figure


def figures(row: ServerRow) -> Figures:
    return Figures(
        batch=_batch(row),
        waiting=_counted(row, row.waiting, "llm_requests_waiting"),
        kv=_kv(row),
        hits=_hits(row),
        prompt_rate=_rate(row, row.prompt_tokens_per_second, "llm_prompt_tokens_total"),
        generation_rate=_rate(row, row.generation_tokens_per_second, "llm_generation_tokens_total"),
        ttft=_quantile(row, row.ttft_p99, TTFT.metric),
        e2e=_quantile(row, row.e2e_p99, E2E.metric),
        preemptions=_counted(row, row.preemptions_5m, "llm_preemptions_total", NOT_YET),
        unfinished=_counted(row, row.unfinished, "llm_requests_unfinished"),
    )


def why_missing(row: ServerRow, field: str, otherwise: str) -> str:
    """Why this server has no number for a field of the schema: first what explains most."""
    if not row.up:
        return "the server is down: nothing is known of it now"
    if not row.available:
        return "the server's metrics could not be read"
    status = _status(row, field)
    return status.reason if status and status.quality == "unavailable" and status.reason else otherwise


def _status(row: ServerRow, field: str) -> FieldOut | None:
    return next((f for f in row.fields if f.field == field), None)


def _figure(row: ServerRow, field: str, text: str, aside: str = "", note: str = "") -> Figure:
    status = _status(row, field)
    if status is None or status.quality not in _SOFT_QUALITIES:
        return Figure(text, aside, note)
    told = ": ".join(filter(None, (_SOFT_QUALITIES[status.quality], status.reason)))
    return Figure(text, aside, "; ".join(filter(None, (told, note))), soft=True)


def _missing(row: ServerRow, field: str, otherwise: str = NOT_TOLD) -> Figure:
    return Figure(None, note=why_missing(row, field, otherwise))


def _counted(row: ServerRow, value: float | None, field: str, otherwise: str = NOT_TOLD) -> Figure:
    return _missing(row, field, otherwise) if value is None else _figure(row, field, quantities.count(value))


def _batch(row: ServerRow) -> Figure:
    field = "llm_requests_running"
    if row.running is None:
        return _missing(row, field)
    running = quantities.count(row.running)
    if row.running_limit is None:
        why = why_missing(row, "llm_requests_running_limit", NOT_TOLD)
        return _figure(row, field, running, note=f"largest batch not known: {why}")
    return _figure(row, field, running, f"/ {quantities.count(row.running_limit)}", "running / largest batch")


def _kv(row: ServerRow) -> Figure:
    field = "llm_kv_cache_utilization_ratio"
    if row.kv_utilization is None:
        return _missing(row, field)
    mean = quantities.percent(row.kv_utilization)
    if row.kv_utilization_max in (None, row.kv_utilization):
        return _figure(row, field, mean)
    fullest = f"max {quantities.percent(row.kv_utilization_max)}"
    return _figure(row, field, mean, fullest, "mean and fullest of the engines")


def _hits(row: ServerRow) -> Figure:
    # most servers count tokens; some tell only a ratio, whose quality then matters
    ratio = "llm_prefix_cache_hit_ratio"
    field = ratio if _status(row, ratio) else "llm_prefix_cache_hit_tokens_total"
    if row.hit_ratio is None:
        return _missing(row, field, "nothing was looked up in the last 5 minutes")
    return _figure(row, field, quantities.percent(row.hit_ratio), note="over the last 5 minutes")


def _rate(row: ServerRow, value: float | None, field: str) -> Figure:
    if value is None:
        return _missing(row, field, NOT_YET)
    return _figure(row, field, quantities.rate(value), note="per second over the last minute")


def _quantile(row: ServerRow, value: QuantileOut | None, field: str) -> Figure:
    if value is None:
        return _missing(row, field, NOTHING_OBSERVED)
    text, bounds = quantities.quantile(value.estimate, value.lower, None if value.at_least else value.upper)
    return _figure(row, field, text, bounds, f"over the last {quantities.duration(value.window_seconds)}")
