from typing import Any

import pytest

from monitor.fleet import QuantileOut
from monitor.page.figures import Figure, figures
from tests.monitor.page.rows import row, status


def quantile(estimate: float, lower: float, upper: float | None, window: float = 300) -> QuantileOut:
    return QuantileOut(estimate=estimate, lower=lower, upper=upper, at_least=upper is None, window_seconds=window)


def text(figure: Figure) -> str:
    return f"{figure.text} {figure.aside}".strip()


def test_the_figures_of_a_busy_server() -> None:
    told = figures(
        row(
            engines=2,
            running=40,
            running_limit=512,
            waiting=3,
            kv_utilization=0.42,
            kv_utilization_max=0.64,
            hit_ratio=0.805,
            prompt_tokens_per_second=6600.2,
            generation_tokens_per_second=12_900,
            ttft_p99=quantile(1.21, 1, 2.5),
            e2e_p99=quantile(60, 60, None),
            preemptions_5m=2,
            unfinished=0,
        )
    )
    assert text(told.batch) == "40 / 512"
    assert text(told.waiting) == "3"
    assert text(told.kv) == "42 % max 64 %"
    assert text(told.hits) == "81 %"
    assert text(told.prompt_rate) == "6,600"
    assert text(told.generation_rate) == "12.9 k"
    assert text(told.ttft) == "1.2 s (1.0–2.5)"
    assert text(told.e2e) == "at least 60 s"
    assert text(told.preemptions) == "2"
    assert text(told.unfinished) == "0"


def test_one_engine_has_no_maximum_beside_its_use() -> None:
    assert figures(row(kv_utilization=0.42, kv_utilization_max=0.42)).kv.aside == ""


def test_a_missing_limit_does_not_hide_the_batch() -> None:
    batch = figures(
        row(running=12, fields=[status("llm_requests_running_limit", "unavailable", "set VLLM_SERVER_DEV_MODE=1")])
    ).batch
    assert text(batch) == "12"
    assert batch.note == "largest batch not known: set VLLM_SERVER_DEV_MODE=1"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"up": False, "available": False}, "the server is down: nothing is known of it now"),
        ({"available": False}, "the server's metrics could not be read"),
        (
            {"fields": [status("llm_requests_waiting", "unavailable", "since release 0.5")]},
            "since release 0.5",
        ),
        ({}, "the server does not tell"),
    ],
)
def test_a_missing_number_says_why_and_is_never_zero(facts: dict[str, Any], why: str) -> None:
    waiting = figures(row(**facts)).waiting
    assert waiting.text is None
    assert waiting.note == why


def test_what_is_missing_for_now_says_what_it_takes() -> None:
    told = figures(row(fields=[status("llm_prefix_cache_hit_tokens_total", "exact")]))
    assert told.hits.note == "nothing was looked up in the last 5 minutes"
    assert told.generation_rate.note == "not known yet: that takes two readings"
    assert told.preemptions.note == "not known yet: that takes two readings"
    assert told.ttft.note == "nothing observed in the last 5 minutes"


def test_a_number_that_is_not_exactly_its_column_is_marked() -> None:
    told = figures(
        row(
            e2e_p99=quantile(6.2, 5, 10, 120),
            hit_ratio=0.3,
            waiting=1,
            fields=[
                status("llm_request_duration_seconds", "approximate", "without the API queue"),
                status("llm_prefix_cache_hit_ratio", "last_batch"),
                status("llm_requests_waiting", "derived", "sum of two queues"),
            ],
        )
    )
    assert told.e2e.soft
    assert told.e2e.note == "approximate: without the API queue; over the last 2 min"
    assert told.hits.soft
    assert told.hits.note == "of the last batch only; over the last 5 minutes"
    assert not told.waiting.soft
