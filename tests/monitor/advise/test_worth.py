"""What tables say of numbers whose page is not at hand any more."""

from __future__ import annotations

import pytest

from exporters.rhythm import STICKS
from exporters.table import Quality
from monitor.advise.worth import Worth, of_field, of_table
from monitor.remarks import FieldOut

HITS, RUNNING, KV = "llm_prefix_cache_hit_tokens_total", "llm_requests_running", "llm_kv_cache_utilization_ratio"


@pytest.mark.parametrize(
    ("frontend", "version", "metric", "quality"),
    [
        ("vllm", "0.32.0", HITS, Quality.EXACT),
        ("vllm", "0.10.2", HITS, Quality.APPROXIMATE),
        ("vllm", "", HITS, Quality.APPROXIMATE),
        ("vllm", "0.32.0", KV, Quality.EXACT),
        ("lmdeploy", "", KV, Quality.APPROXIMATE),
        ("lmdeploy", "", "llm_preemptions_total", Quality.UNAVAILABLE),
    ],
)
def test_a_known_release_is_worth_what_its_own_source_is_and_an_unknown_one_the_worst(
    frontend: str, version: str, metric: str, quality: Quality
) -> None:
    assert of_table(frontend, version)[metric].quality is quality


def test_gauges_that_stick_say_so_in_the_releases_in_which_they_do() -> None:
    assert of_table("triton", "24.11")[RUNNING].sticks
    assert not of_table("sglang", "0.5.23")[RUNNING].sticks
    assert of_table("sglang", "0.4.0")[RUNNING].sticks
    assert not of_table("vllm", "0.32.0")[RUNNING].sticks


def test_why_a_release_lacks_a_field_is_told_by_what_is_of_the_release_alone() -> None:
    assert of_table("vllm", "0.6.0")[HITS].missing == "the V0 engine has no prefix-cache counters"
    assert "something filters the page" in of_table("vllm", "0.32.0")[HITS].missing


def test_a_frontend_without_a_table_is_taken_at_its_word() -> None:
    assert of_table("unheard-of", "1.0") == {}


def test_what_the_sidecar_says_now_is_taken_as_it_is() -> None:
    late = FieldOut(field=KV, source="x", quality="approximate", reason=f"refreshed at a step; {STICKS}")
    assert of_field(late) == Worth(Quality.APPROXIMATE, late.reason, sticks=True)
    gone = FieldOut(field=KV, source="", quality="unavailable", reason="too old")
    assert of_field(gone) == Worth(Quality.UNAVAILABLE, "too old", missing="too old")
