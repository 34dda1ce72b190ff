"""Where frameworks measure different things under one name, as their tables declare it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from exporters.tables import FRONTENDS
from monitor.compare.model import Definition

_COMPARED = (
    "llm_requests_running", "llm_requests_waiting", "llm_prompt_tokens_total", "llm_generation_tokens_total",
    "llm_requests_finished_total", "llm_time_to_first_token_seconds",
    "llm_inter_token_latency_seconds", "llm_request_duration_seconds",
    "llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total",
)  # fmt: skip
"""What the numbers of a comparison are made of."""


def definitions(frontends: Sequence[str]) -> tuple[Definition, ...]:
    """Those that differ between any two of these."""
    known = [name for name in frontends if name in FRONTENDS]
    told = (Definition(metric, {name: FRONTENDS[name].definition(metric) for name in known}) for metric in _COMPARED)
    return tuple(each for each in told if len(set(each.said.values())) > 1)
