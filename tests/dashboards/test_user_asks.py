"""What people who run such fleets complained of, where dashboards are concerned."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from exporters import schema
from tests.dashboards import by_hand, recorded
from tests.dashboards.asked import Grafana, now
from tests.dashboards.conftest import loaded
from tests.dashboards.panels import JSON, Json, expressions, panels
from tests.end_to_end.samples import Sample, Scrape

FLEET = JSON["dashboards/fleet.json"]


def literal_sources(dashboard: Json) -> list[str]:
    """Places of data sources that are no variable."""
    found = []
    for i, panel in enumerate(dashboard["panels"]):
        places = [(f"panels[{i}]", panel)]
        places += [(f"panels[{i}].targets[{j}]", target) for j, target in enumerate(panel.get("targets", ()))]
        found += [f"{place}.datasource" for place, of in places if not uid(of).startswith("${")]
    return found


def uid(of: Json) -> str:
    return str(of.get("datasource", {}).get("uid", "${none}"))


def test_a_data_source_of_somebody_elses_would_be_found() -> None:
    theirs = {"type": "prometheus", "uid": "abc123xyz"}
    panel = {"type": "timeseries", "datasource": theirs, "targets": [{"expr": "up", "datasource": theirs}]}
    assert literal_sources({"panels": [panel]}) == ["panels[0].datasource", "panels[0].targets[0].datasource"]


@pytest.mark.parametrize("name", JSON)
def test_no_dashboard_is_bound_to_a_data_source(name: str) -> None:
    assert literal_sources(JSON[name]) == []


def test_the_utilisation_of_replicas_is_no_sum(grafana: Grafana) -> None:
    """Each engine is at 20, 60 and 90 %: in all they are never above the fullest."""
    for title in ("KV cache in use, weighted mean", "KV cache in use, fullest engine"):
        for series in grafana.panel(FLEET, title, node=[by_hand.NODE])["A"]:
            assert now(series) <= 0.9


def test_no_panel_names_a_metric_of_a_framework() -> None:
    wire = re.compile(r"\b(vllm|sglang|lmdeploy|trtllm|nv_|TRT)[:_]\w+")
    for dashboard in JSON.values():
        for place, expr in expressions(dashboard):
            assert not wire.search(expr.replace("tensorrt_llm", "")), place


def respelled(scrape: Scrape) -> Scrape:
    """With bounds as Prometheus 2 keeps them of pages that write whole numbers so: `1` for `1.0`."""
    return Scrape(scrape.at, [_respelled(s) for s in scrape.samples], scrape.copy)


def _respelled(sample: Sample) -> Sample:
    return sample._replace(labels=tuple((k, v.removesuffix(".0") if k == "le" else v) for k, v in sample.labels))


def test_no_expression_depends_on_how_a_bound_is_spelled(grafana: Grafana, tmp_path: Path) -> None:
    """Prometheus 3 makes `1.0` of every bound, as the sidecar writes it; other pages may have told Prometheus 2 `1`."""
    end = int(time.time()) // 60 * 60
    with loaded(tmp_path, [respelled(s) for s in by_hand.scrapes(end - recorded.MINUTES * 60)]) as prometheus:
        other = Grafana(prometheus, end)
        for title in ("Time to first token, P99 and P50", "Time to first token, P99"):
            here, there = (g.panel(FLEET, title, node=[by_hand.NODE]) for g in (grafana, other))
            assert {letter: [now(s) for s in series] for letter, series in here.items()} == {
                letter: [pytest.approx(now(s)) for s in series] for letter, series in there.items()
            }


def test_bounds_are_matched_in_both_spellings_or_not_at_all() -> None:
    for dashboard in JSON.values():
        for place, expr in expressions(dashboard):
            for bound in re.findall(r'\ble=~?"([^"]*)"', expr):
                assert all(f"{b}\\.0" in bound.split("|") for b in bound.split("|") if b.isdigit()), place


@pytest.mark.parametrize("name", ["dashboards/fleet.json", "dashboards/server.json", "dashboards/frameworks.json"])
def test_every_percentile_that_is_drawn_has_its_at_least_beside_it(name: str) -> None:
    for panel in panels(JSON[name]):
        if panel["type"] not in ("stat", "timeseries"):
            continue
        legends = [t["legendFormat"] for t in panel["targets"]]
        for target in panel["targets"]:
            if target["expr"].startswith("histogram_quantile"):
                assert f"{target['legendFormat']} at least" in legends


def test_the_phases_that_have_percentiles_are_those_of_the_schema() -> None:
    asked = " ".join(expr for _, expr in expressions(JSON["dashboards/server.json"]))
    assert all(f"{schema.PHASES[phase].metric}_bucket" in asked for phase in schema.LATENCY_PHASES)
