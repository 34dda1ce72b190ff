from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.slo.openslo import NotImported, imported
from alerts.slo.spec import Specs

FOLDER = Path(__file__).parent / "openslo"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / f"{name}.yml").read_text()))


def slos_of(name: str) -> Specs:
    return Specs.model_validate(imported(documents(name)))


def test_a_bucket_over_its_count_is_a_latency_objective() -> None:
    specs = slos_of("latency")
    assert specs.user_labels == ("team",)
    first, second = specs.slos
    assert first.indicator.latency is not None
    assert (first.indicator.latency.phase, first.indicator.latency.below) == ("ttft", 1.0)
    assert (first.name, second.name, first.days) == ("fast-1", "fast-2", 28)
    assert [str(s.objective) for s in specs.slos] == ["0.95", "0.9"]
    assert first.select == {"team": ("a", "b")}
    assert first.group_by == ("model",)


def test_failed_over_finished_requests_are_an_availability_objective() -> None:
    (slo,) = slos_of("availability").slos
    assert slo.indicator.availability is not None
    assert (str(slo.objective), slo.group_by) == ("0.995", ())


def test_a_gauge_against_a_value_is_an_objective_of_minutes() -> None:
    (slo,) = slos_of("slices").slos
    assert slo.indicator.slices is not None
    assert slo.indicator.slices.model_dump(by_alias=True) == {
        "metric": "llm_kv_cache_utilization_ratio", "across": "max", "is": "below", "value": 0.9,
    }  # fmt: skip
    assert slo.select == {"framework": ("vllm",)}


def _changed(name: str, before: str, after: str) -> list[Any]:
    text = (FOLDER / f"{name}.yml").read_text()
    assert before in text
    return list(yaml.safe_load_all(text.replace(before, after)))


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("latency", "openslo/v1", "openslo/v2", "apiVersion: 'openslo/v2': allowed: openslo/v1"),
        ("latency", "isRolling: true", "isRolling: false", "fast: spec.timeWindow: allowed: one rolling window"),
        ("latency", "4w", "1M", "fast: spec.timeWindow[0].duration: '1M': allowed: days or weeks, such as 30d"),
        ("latency", "Occurrences", "Timeslices", "fast: spec.budgetingMethod: 'Timeslices': allowed with"),
        ("latency", "indicatorRef: fast", "indicatorRef: slow", "fast: indicatorRef: 'slow': allowed: an SLI"),
        ("latency", 'team=~"a|b"', 'team=~"a.*"', "fast: team=~'a.*': allowed: labels that equal a value"),
        ("latency", "llm_time_to_first_token", "http_request_duration", "fast: ratioMetric: allowed: `good` with"),
        ("latency", "target: 0.95", "value: 1", "fast: spec.objectives[0].target: allowed: `target` or"),
        ("latency", "isRolling: true", "isRolling: true, calendar: {}", "fast: spec.timeWindow: allowed: one rolling"),
        ("latency", 'le="1",team=~"a|b"', 'le="1",team="a"', "fast: ratioMetric.good: allowed: what `total` selects"),
        ("latency", 'le="1"', 'le="abc"', "fast: ratioMetric: allowed: `good` with the bucket of one"),
        ("latency", "_count{", "_count offset 1h{", "fast: ratioMetric.total: allowed: sum(rate(metric{…}[…]))"),
        ("availability", "sum(rate(llm_requests_finished_total[5m]))", "2 * sum(rate(llm_requests_finished_total[5m]))",
         "up: ratioMetric.total: allowed: sum(rate(metric{…}[…]))"),
        ("availability", "query: 'sum(rate(llm_requests_finished_total[5m]))'",
         "query: 'sum by (model) (rate(llm_requests_finished_total[5m]))'", "up: ratioMetric.bad: allowed: what"),
        ("slices", 'framework="vllm"})', 'framework="vllm"}) * 100', "headroom: thresholdMetric: allowed: max, min or"),
        ("slices", "Window: 1m", "Window: 5m", "headroom: spec.objectives[0]: allowed: time slices of 1m"),
        ("slices", "Timeslices", "RatioTimeslices", "headroom: spec.objectives[0]: allowed: time slices of 1m"),
        ("availability", '"error"', '"abort"', "up: ratioMetric.bad: allowed: requests with reason error"),
        ("slices", "max by", "sum by", "headroom: thresholdMetric: allowed: max, min or avg of one gauge"),
        ("slices", "op: lt", "op: eq", "headroom: spec.objectives[0]: allowed: `op` of lt, lte, gt, gte"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_here_is_refused_with_its_place(name: str, before: str, after: str, told: str) -> None:
    with pytest.raises(NotImported) as caught:
        imported(_changed(name, before, after))
    assert str(caught.value).startswith(told)


def test_a_file_without_objectives_is_refused() -> None:
    with pytest.raises(NotImported, match="at least one document of `kind: SLO`"):
        imported([{"apiVersion": "openslo/v1", "kind": "Service"}])


def test_requests_of_several_counters_are_added_up() -> None:
    before = "sum(rate(llm_requests_finished_total[5m]))"
    after = f"{before} + sum(rate(llm_requests_rejected_total[5m]))"
    (slo,) = Specs.model_validate(imported(_changed("availability", before, after))).slos
    assert slo.indicator.availability is not None
