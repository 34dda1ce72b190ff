"""Servers of different frameworks, added up by a real Prometheus, against what their requests really took."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from math import ceil
from pathlib import Path

import pytest

from exporters import schema
from exporters.histogram import Histogram, Quantile, quantile
from exporters.normalise import Identity, Normaliser
from exporters.tables import FRONTENDS
from tests.end_to_end.real_prometheus import Moment, moment, prometheus_of, sidecar_of
from tests.end_to_end.recorded import Pages, serving

CAPTURES = Path(__file__).parents[1] / "captures"
VLLM = CAPTURES / "vllm" / "0.32.0"
SGLANG = CAPTURES / "sglang" / "0.5.23"
PAGES = {"vllm": VLLM / "A-2-after.prom", "sglang": SGLANG / "tp1-8_just_drained.prom"}
SATURATED = 500
BEYOND = 'llm_latency_quantile_seconds{server="saturated",phase="e2e",q="0.99",bound="%s"}'


def saturated(text: str) -> str:
    """That page after so many more requests, streamed and not, all of them longer than the largest bound."""

    def more(match: re.Match[str]) -> str:
        return f"{match[1]}{float(match[2]) + SATURATED}"

    wire = r"sglang:e2e_request_latency_seconds_(?:bucket\{.*le=\"\+Inf\".*\}|count\{.*\})"
    return re.sub(rf"^({wire} )(\S+)$", more, text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moment]:
    """By a Prometheus: of a vLLM, an SGLang, and another SGLang that is saturated as soon as it was read once."""
    bodies = {name: Pages({"/metrics": page.read_bytes()}) for name, page in PAGES.items()}
    bodies["saturated"] = Pages(dict(bodies["sglang"].bodies))
    with ExitStack() as stack:
        ports = {name: stack.enter_context(serving(pages)) for name, pages in bodies.items()}
        servers: list[dict[str, object]] = [
            {"name": name, "url": f"http://127.0.0.1:{port}"} for name, port in ports.items()
        ]
        sidecar = stack.enter_context(sidecar_of(servers, tmp_path_factory.mktemp("sidecar")))
        folder = tmp_path_factory.mktemp("prometheus")
        prometheus = stack.enter_context(prometheus_of(sidecar, folder, server="saturated"))
        bodies["saturated"].bodies["/metrics"] = saturated(PAGES["sglang"].read_text()).encode()
        yield moment(prometheus, f"{BEYOND % 'lower'} > 0", f"count(llm_metrics_available == 1) == {len(bodies)}")


def true_seconds(phase: str) -> list[float]:
    """What each request of both servers took: told by vLLM's client, and by what SGLang's code was made to observe."""
    requests = json.loads((VLLM / "A-truth.json").read_text())["requests"]
    clients = [float(r[phase]) for r in requests if r["i"] < 10000]
    fed = json.loads(PAGES["sglang"].with_suffix(".json").read_text())["fed_histograms"]
    return sorted(clients + [float(v) for v in fed[{"ttft": "ttft_fed"}.get(phase, phase)]["values"]])


def native(phase: str) -> list[Histogram]:
    readings = [Normaliser(FRONTENDS[n], Identity("n", n)).normalise(p.read_text()) for n, p in PAGES.items()]
    return [h for r in readings for s, h in r.histograms.items() if s.metric == schema.PHASES[phase].metric]


def known(phase: str, q: float) -> Quantile:
    found = quantile(native(phase), q, schema.PHASES[phase].grid)
    assert found is not None
    return found


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("phase", ["ttft", "e2e"])
def test_a_percentile_over_two_frameworks_is_off_by_no_more_than_its_native_buckets(
    seen: Moment, phase: str, q: float
) -> None:
    requests, bounds = true_seconds(phase), known(phase, q)
    assert sum(h.count for h in native(phase)) == len(requests)
    truth = requests[ceil(q * len(requests)) - 1]
    buckets = f'{schema.PHASES[phase].metric}_bucket{{server=~"vllm|sglang"}}'
    estimate = seen.number(f"histogram_quantile({q}, sum by (le) ({buckets}))")
    assert bounds.lower <= truth <= bounds.upper < math.inf
    assert abs(estimate - truth) <= bounds.upper - bounds.lower


def test_each_framework_counts_its_own_requests(seen: Moment) -> None:
    counts = {
        row["metric"]["framework"]: float(row["value"][1])
        for row in seen.ask('llm_request_duration_seconds_count{server=~"vllm|sglang"}')
    }
    requests = len(true_seconds("e2e"))
    assert counts == {"vllm": 320, "sglang": requests - 320}


def test_a_saturated_percentile_is_at_least_the_largest_bound(seen: Moment) -> None:
    largest = seen.number('llm_latency_native_max_seconds{server="saturated",phase="e2e"}')
    assert seen.number(BEYOND % "lower") == largest == 2400
    assert seen.number(BEYOND % "upper") == math.inf
    assert seen.number('llm_latency_overflow_total{server="saturated",phase="e2e"}') == 2 * SATURATED
