"""A real Prometheus scrapes the real sidecar, which reads recorded vLLM servers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from exporters import schema
from exporters.histogram import Histogram, Quantile, quantile
from tests.end_to_end.processes import DEADLINE, ROOT, free_port, until
from tests.end_to_end.real_prometheus import Moment, moment, prometheus_of, sidecar_of
from tests.end_to_end.recorded import VLLM, VLLM_DP, serving, vllm
from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus
from tests.services import require

BODIES = {"loaded": (VLLM, "1-mid10"), "after": (VLLM, "2-after"), "dp2": (VLLM_DP, "1-mid03")}
BUCKETS = {f"{phase.metric}_bucket" for phase in schema.PHASES.values()}
WIRE = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
}


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Reads four servers: one under load, one after its load, one with two engines, one that is down."""
    folder = tmp_path_factory.mktemp("sidecar")
    with ExitStack() as stack:
        ports = {name: stack.enter_context(serving(vllm(*body))) for name, body in BODIES.items()}
        servers: list[dict[str, object]] = [
            {"name": name, "url": f"http://127.0.0.1:{port}", "labels": {"team": "search"}}
            for name, port in {**ports, "down": free_port()}.items()
        ]
        yield stack.enter_context(sidecar_of(servers, folder))


@pytest.fixture(scope="module")
def prometheus(sidecar: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with prometheus_of(sidecar, tmp_path_factory.mktemp("prometheus"), server="loaded") as found:
        yield found


@pytest.fixture(scope="module")
def seen(prometheus: Prometheus) -> Moment:
    return moment(prometheus, f"count(llm_metrics_available == 1) == {len(BODIES)}")


def native(name: str, wire: str) -> list[Histogram]:
    """One histogram per engine, at the server's own bounds, read by prometheus_client."""
    run, body = BODIES[name]
    by_engine: dict[str, dict[float, float]] = {}
    for family in text_string_to_metric_families(run.page(body).read_text()):
        for sample in family.samples:
            if sample.name == f"{wire}_bucket":
                by_engine.setdefault(sample.labels["engine"], {})[float(sample.labels["le"])] = sample.value
    buckets = [sorted(counts.items()) for counts in by_engine.values()]
    return [Histogram(tuple(b for b, _ in rows[:-1]), tuple(c for _, c in rows)) for rows in buckets]


def known(histograms: list[Histogram], q: float, phase: str) -> Quantile:
    found = quantile(histograms, q, schema.PHASES[phase].grid)
    assert found is not None
    return found


def blocks(kind: str) -> list[str]:
    """Examples in the docs for people."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return [block for page in pages for block in re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL)]


def test_prometheus_understands_every_query_in_the_docs(prometheus: Prometheus) -> None:
    queries = blocks("promql")
    assert queries
    for query in queries:
        assert get(f"{prometheus.url}/api/v1/query", query=query).json()["status"] == "success"
        assert set(re.findall(r"\b(?:llm|gpu|inferwatch)_\w+", query)) <= {*schema.METRICS, *BUCKETS}


def test_promtool_accepts_every_scrape_configuration_in_the_docs(tmp_path: Path) -> None:
    examples = [block for block in blocks("yaml") if "scrape_configs" in block]
    assert examples
    for example in map(yaml.safe_load, examples):
        for job in example["scrape_configs"]:
            job.pop("kubernetes_sd_configs", None)  # Debian's Prometheus is built without
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(example))
        command = [require("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
        assert done.returncode == 0, done.stderr.decode()


def test_prometheus_scrapes_without_an_error(prometheus: Prometheus) -> None:
    """But where a page takes longer than a scrape may."""

    def state() -> bool:
        target = prometheus.target()
        assert (target["health"], target["lastError"]) == ("up", "")
        return True

    assert until(state, prometheus.process)


def test_prometheus_has_nothing_to_warn_of(prometheus: Prometheus) -> None:
    """It logs duplicates, out-of-order samples and lines that it cannot read."""
    lines = prometheus.process.output().splitlines()
    assert [line for line in lines if "level=warn" in line or "level=error" in line] == []


def test_prometheus_stores_every_sample_that_the_sidecar_sends(seen: Moment) -> None:
    samples = seen.number('scrape_samples_scraped{job="inferwatch"}')
    kept = seen.number('scrape_samples_post_metric_relabeling{job="inferwatch"}')
    stored = seen.number('count({__name__=~"llm_.+|gpu_.+|inferwatch_.+"})')
    assert samples == kept == stored


def test_every_metric_has_the_type_and_help_of_the_schema(sidecar: str, prometheus: Prometheus) -> None:
    metadata = get(f"{prometheus.url}/api/v1/metadata").json()["data"]
    assert len(metadata) > 30
    for name, ((entry),) in metadata.items():
        metric = schema.METRICS[name]
        assert (entry["type"], entry["help"]) == (metric.type.value, metric.help)


def test_promtool_accepts_the_output(sidecar: str) -> None:
    text = get(f"{sidecar}/metrics").text.encode()
    command = [require("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")


def test_the_output_says_text_format_version_0_0_4(sidecar: str) -> None:
    assert get(f"{sidecar}/metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_identity_and_user_labels_are_on_every_series_of_a_server(seen: Moment) -> None:
    total = seen.number('count({__name__=~"llm_.+"})')
    labelled = seen.number('count({__name__=~"llm_.+",node="node-a",server=~".+",team="search"})')
    assert total == labelled


def test_a_server_that_is_down_does_not_hide_the_others(seen: Moment) -> None:
    up = {row["metric"]["server"]: row["value"][1] for row in seen.ask("llm_up")}
    assert up == {"loaded": "1", "after": "1", "dp2": "1", "down": "0"}
    assert seen.ask('{__name__=~"llm_.+",server="down",__name__!~"llm_up|llm_metrics_available"}') == []


@pytest.mark.parametrize("phase", WIRE)
@pytest.mark.parametrize("servers", ["loaded", "after", "dp2", "after|dp2", "loaded|after|dp2"])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_a_quantile_by_promql_over_the_shared_grid_lies_within_the_native_bounds(
    seen: Moment, phase: str, servers: str, q: float
) -> None:
    metric = schema.PHASES[phase].metric
    buckets = f'sum by (le) ({metric}_bucket{{server=~"{servers}"}})'
    estimate = seen.number(f"histogram_quantile({q}, {buckets})")
    histograms = [h for name in servers.split("|") for h in native(name, WIRE[phase])]
    bounds = known(histograms, q, phase)
    assert bounds.lower <= estimate <= bounds.upper


@pytest.mark.parametrize("phase", WIRE)
def test_counts_at_native_bounds_are_exact_in_prometheus(seen: Moment, phase: str) -> None:
    metric = schema.PHASES[phase].metric
    rows = seen.ask(f'{metric}_bucket{{server="after"}}')
    stored = {float(row["metric"]["le"]): float(row["value"][1]) for row in rows}
    (only,) = native("after", WIRE[phase])
    assert {b: stored[b] for b in only.bounds} == dict(zip(only.bounds, only.counts, strict=False))
    assert stored[float("inf")] == only.count


def test_data_parallel_engines_add_up_and_their_utilisation_does_not(seen: Moment) -> None:
    """Run C, third capture under load: 3037 prompt tokens and 16 requests were finished by then."""
    per_engine = seen.ask('llm_kv_cache_utilization_ratio{server="dp2"}')
    assert sorted(row["metric"]["engine"] for row in per_engine) == ["0", "1"]
    assert all(0 <= float(row["value"][1]) <= 1 for row in per_engine)
    assert seen.number('sum(llm_kv_cache_capacity_tokens{server="dp2"})') == 2560
    finished = seen.number('sum(llm_requests_finished_total{server="dp2"})')
    assert finished == sum(h.count for h in native("dp2", WIRE["e2e"]))
