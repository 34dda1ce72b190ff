from collections.abc import Sequence
from pathlib import Path

import pytest

from exporters.collected import Collected
from exporters.config import Config, Server
from exporters.exposition import CONTENT_TYPE, read_samples
from exporters.gpu.gathered import Gathered
from exporters.histogram import Histogram
from exporters.observation import Observation
from exporters.schema import PHASE_OF_METRIC
from exporters.sidecar import Sidecar
from monitor.fleet import Fleet
from monitor.sources import Source, SourceError
from monitor.sources.in_process import InProcess
from monitor.sources.rebuild import observations
from monitor.sources.sidecar_url import SidecarUrl
from tests.end_to_end.processes import DEADLINE
from tests.exporters.servers import answering, pages, response, serving, silence, unused_url
from tests.monitor.gpu_data import gathered, reading

CAPTURES = Path(__file__).parents[2] / "captures" / "vllm"
PAGES = [
    "0.32.0/A-0-fresh.prom",
    "0.32.0/A-1-mid12.prom",
    "0.32.0/A-5-n3-and-1tok.prom",
    "0.32.0/B-2api-ngram-2-after.prom",
    "0.32.0/C-dp2-smallkv-1-mid03.prom",
    "0.32.0/D-nologstats-2-after.prom",
    "0.33.0/1-mid62s.prom",
    "0.4.0/1-mid62s.prom",
    "0.7.3-v0engine/1-mid62s.prom",
]
NOW = 1_800_000_000.0
NO_SERVERS = 'inferwatch_build_info{node="n1",version="0.1",grid="1"} 1\n'


class Recorded:
    """A sidecar that hands out what it once collected."""

    def __init__(self, collected: list[Collected], gpus: Gathered | None = None) -> None:
        self._collected = collected
        self.config = Config(node="n1")
        self.gpu_readings = gpus

    async def collect(self, timeout: float | None = None) -> Sequence[Collected]:
        return self._collected


def test_gpus_of_the_own_host_are_told_by_node() -> None:
    sidecar = Recorded([], gathered(NOW, reading("0")))
    source = InProcess(sidecar)
    assert source.gpus() == {"n1": sidecar.gpu_readings}
    sidecar.config = Config(node="n2")
    assert source.gpus() == {"n1": None, "n2": sidecar.gpu_readings}
    sidecar.gpu_readings = None
    assert source.gpus() == {"n2": None}


async def test_gpus_that_dcgm_exporter_tells_of_reach_the_fleet() -> None:
    page = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 93\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 642.25\n'
    )
    async with serving(pages({"/metrics": response(page)})) as served:
        settings = {"node": "n1", "gpus": {"dcgm": served.url}, "scrape": {"timeout": DEADLINE}}
        sidecar = Sidecar(Config.model_validate(settings), clock=lambda: NOW)
        source, fleet = InProcess(sidecar), Fleet()
        await source.observe()
        for node, told in source.gpus().items():
            fleet.gpus.update(node, told)
        await sidecar.aclose()
    [row] = fleet.gpus.rows(NOW)
    assert (row.node, row.name, row.utilization, row.power_watts) == ("n1", "NVIDIA H100", 0.93, 642.25)


async def test_where_gpus_are_switched_off_none_are_told() -> None:
    sidecar = Sidecar(Config.model_validate({"node": "n1", "gpus": {"source": "off"}}))
    source = InProcess(sidecar)
    await source.observe()
    assert source.gpus() == {"n1": None}
    await sidecar.aclose()


async def collect(*names: str, labels: dict[str, str] | None = None) -> tuple[list[Collected], str]:
    """What a sidecar has of servers that expose these captures, and of one that is down; and its page."""
    answers = {f"/{i}/metrics": response((CAPTURES / name).read_text()) for i, name in enumerate(names)}
    async with serving(pages(answers)) as served:
        servers = [
            Server.model_validate(
                {"url": f"{served.url}/{i}", "name": name, "labels": labels or {}, "timeout": DEADLINE}
            )
            for i, name in enumerate(names)
        ]
        down = Server.model_validate({"url": unused_url(), "name": "down"})
        sidecar = Sidecar(Config(node="n1", servers=(*servers, down)))
        # Twice, so that there is something over the last 5 minutes.
        await sidecar.collect()
        collected = await sidecar.collect()
        page = sidecar.page(collected)
        await sidecar.aclose()
    return collected, page


async def both_ways(*names: str, labels: dict[str, str] | None = None) -> tuple[list[Observation], list[Observation]]:
    collected, page = await collect(*names, labels=labels)
    in_process: Source = InProcess(Recorded(collected))
    async with serving(pages({"/metrics": response(page, content_type=CONTENT_TYPE)})) as served:
        by_url = SidecarUrl(served.url, DEADLINE, clock=lambda: NOW)
        from_url: Source = by_url
        result = await in_process.observe(), await from_url.observe()
        await by_url.aclose()
    return result


async def test_a_sidecar_elsewhere_is_known_by_its_node_also_while_it_does_not_answer() -> None:
    _, page = await collect(PAGES[0])
    async with serving(pages({"/metrics": response(page, content_type=CONTENT_TYPE)})) as served:
        source = SidecarUrl(served.url, DEADLINE)
        assert source.node is None
        await source.observe()
    with pytest.raises(SourceError):
        await source.observe()
    assert source.node == "n1"
    await source.aclose()


@pytest.mark.parametrize("name", PAGES)
async def test_a_sidecar_elsewhere_tells_the_same_as_the_one_of_this_process(name: str) -> None:
    here, there = await both_ways(name, labels={"team": "search", "source": "simulated"})
    assert [o.server for o in there] == [name, "down"]
    for near, far in zip(here, there, strict=True):
        assert far.at == NOW
        assert far.values == near.values
        assert far.histograms == {s: on_the_grid(h, s.metric) for s, h in near.histograms.items()}
        for fact in ("node", "up", "available", "start_time", "user_labels", "duration", "unmapped"):
            assert getattr(far, fact) == getattr(near, fact), fact
        assert {f.reason for f in far.findings} == {f.reason for f in near.findings}
        assert set(far.fields) == {f for f in near.fields if f.quality != "exact"}


def on_the_grid(histogram: Histogram, metric: str) -> Histogram:
    """What can be known of it elsewhere, worked out the slow way; the same where all native bounds are on the grid."""
    grid = PHASE_OF_METRIC[metric].grid
    kept = [i for i, b in enumerate(histogram.bounds) if b in grid or b == histogram.bounds[-1]]
    counts = [histogram.counts[i] for i in kept]
    return Histogram(tuple(histogram.bounds[i] for i in kept), (*counts, histogram.count), histogram.sum)


async def test_native_bounds_of_the_current_release_are_all_on_the_grid() -> None:
    here, there = await both_ways("0.33.0/1-mid62s.prom")
    assert here[0].histograms
    assert there[0].histograms == here[0].histograms


def sidecar_page(*, bounds: str, buckets: dict[str, float], count: float, overflow: float) -> str:
    of = 'node="n1",server="s1",framework="vllm",model="m-a",role="unified",engine="0"'
    lines = [f'llm_time_to_first_token_seconds_bucket{{{of},le="{le}"}} {n}' for le, n in buckets.items()]
    return "\n".join([
        'llm_up{node="n1",server="s1"} 1',
        'llm_metrics_available{node="n1",server="s1"} 1',
        *lines,
        f"llm_time_to_first_token_seconds_count{{{of}}} {count}",
        f'llm_latency_native_bounds_info{{{of},phase="ttft",bounds="{bounds}"}} 1',
        f'llm_latency_overflow_total{{{of},phase="ttft"}} {overflow}',
        "",
    ])  # fmt: skip


def rebuilt(page: str) -> list[Observation]:
    return observations(read_samples(page), NOW)


def test_native_bounds_off_the_grid_widen_to_their_neighbours() -> None:
    buckets = {"0.02": 1.0, "0.04": 3.5, "0.06": 9.0, "0.5": 40.0, "+Inf": 50.0}
    [found] = rebuilt(sidecar_page(bounds="0.02,0.05,0.5", buckets=buckets, count=50, overflow=10))
    [histogram] = found.histograms.values()
    assert histogram == Histogram((0.02, 0.5), (1, 40, 50), None), "0.05 is not on the grid; 0.04 was interpolated"
    assert histogram.overflow == 10


def test_the_largest_native_bound_is_known_by_its_overflow_even_off_the_grid() -> None:
    buckets = {"0.5": 20.0, "0.75": 50.0, "+Inf": 50.0}
    [found] = rebuilt(sidecar_page(bounds="0.5,0.7", buckets=buckets, count=50, overflow=10))
    assert next(iter(found.histograms.values())) == Histogram((0.5, 0.7), (20, 40, 50), None)


def test_what_a_newer_sidecar_says_is_taken_as_far_as_it_is_understood() -> None:
    page = sidecar_page(bounds="0.5", buckets={"0.5": 1, "+Inf": 1}, count=1, overflow=0) + "\n".join([
        'inferwatch_finding{node="n1",server="s1",reason="cosmic_rays",severity="grave"} 1',
        'llm_latency_native_bounds_info{node="n1",server="s1",engine="0",phase="thinking",bounds="1.0"} 1',
        'llm_thinking_seconds{node="n1",server="s1"} 3',
        'gpu_up{node="n1",uuid="GPU-1",gpu="0"} 1',
        'inferwatch_build_info{node="n1",version="9",grid="9"} 1',
        "",
    ])  # fmt: skip
    [found] = rebuilt(page)
    assert [(f.reason, f.severity.value) for f in found.findings] == [("cosmic_rays", "warning")]
    assert len(found.histograms) == 1
    assert found.values == {}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [(200, "<html>no metrics</html>", "line 1"), (404, "", "not_found"), (503, "", "server_error")],
)
async def test_a_sidecar_that_cannot_be_read_is_an_error_that_names_it(status: int, body: str, reason: str) -> None:
    async with serving(pages({"/metrics": response(body, status=status)})) as served:
        source = SidecarUrl(served.url, DEADLINE)
        with pytest.raises(SourceError, match=f"could not read the sidecar at {served.url}/metrics: .*{reason}"):
            await source.observe()
        await source.aclose()


SWITCHED_OFF = (CAPTURES / "0.32.0/D-nologstats-2-after.prom").read_text()
LAG = 'inferwatch_history_lag_seconds{node="n1"} 4\n'
ROUTER = "".join(
    f'vllm:num_requests_running{{engine="0",model_name="m",instance="{at}"}} 1\n' for at in ("gpu-1:8000", "gpu-2:8000")
)
PYTHON = 'python_info{implementation="CPython"} 1\nprocess_open_fds 9\n'


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            (CAPTURES / PAGES[0]).read_text(),
            "no sidecar's page, without `inferwatch_…` and `llm_up`: this is vllm itself: name it",
        ),
        (SWITCHED_OFF, "perhaps this is vllm itself: name it under `servers` of a sidecar"),
        (ROUTER, "it passes on vllm metrics of .*: name each server behind it under `servers` of a sidecar"),
        (
            "prometheus_build_info 1\n",
            "this is a Prometheus: name it under `prometheus.url`",
        ),
        (PYTHON, "it has `python_info`, `process_open_fds`: name `inferwatch exporter` or"),
        ("\n", "it has no metrics: name `inferwatch exporter` or `inferwatch up` of a host under `sources.sidecars`"),
        (NO_SERVERS + LAG, "this is a monitor that reads no servers itself .*: name `inferwatch exporter` or"),
    ],
    ids=["server", "server without statistics", "router", "Prometheus", "other program", "nothing", "monitor"],
)
async def test_a_page_that_is_no_sidecars_is_an_error_that_says_whose_it_is(page: str, told: str) -> None:
    async with serving(pages({"/metrics": response(page)})) as served:
        source = SidecarUrl(served.url, DEADLINE)
        with pytest.raises(SourceError, match=f"could not read the sidecar at {served.url}/metrics: .*{told}"):
            await source.observe()
        assert source.node is None
        await source.aclose()


RELOADED = 'inferwatch_config_last_reload_successful{node="n1"} 1\n'


@pytest.mark.parametrize(
    "page",
    [
        NO_SERVERS,
        RELOADED,
        NO_SERVERS + RELOADED + LAG,
        "inferwatch_of_tomorrow 1\n",
        'llm_up{node="n1",server="a"} 1\n',
    ],
    ids=["build alone", "configuration alone", "up", "newer", "without own metrics"],
)
async def test_a_sidecar_of_any_release_is_read_with_or_without_servers(page: str) -> None:
    async with serving(pages({"/metrics": response(page)})) as served:
        source = SidecarUrl(served.url, DEADLINE)
        assert [o.server for o in await source.observe()] == (["a"] if "llm_up" in page else [])
        await source.aclose()


async def test_a_sidecar_without_servers_is_one() -> None:
    sidecar = Sidecar(Config.model_validate({"node": "n1", "gpus": {"source": "off"}}))
    page = sidecar.page(await sidecar.collect())
    async with serving(pages({"/metrics": response(page, content_type=CONTENT_TYPE)})) as served:
        source = SidecarUrl(served.url, DEADLINE)
        assert (await source.observe(), source.node) == ([], "n1")
        await source.aclose()
    await sidecar.aclose()


async def test_a_sidecar_that_hangs_costs_no_more_than_its_time() -> None:
    async with serving(silence) as served:
        source = SidecarUrl(served.url, 0.05)
        with pytest.raises(SourceError, match="timeout"):
            await source.observe()
        await source.aclose()


async def test_the_url_may_be_that_of_the_metrics_page_itself() -> None:
    async with serving(answering(response(NO_SERVERS), close=False)) as served:
        source = SidecarUrl(f"{served.url}/metrics", DEADLINE)
        assert await source.observe() == []
        assert served.paths == ["/metrics"]
        await source.aclose()


async def test_a_sidecar_elsewhere_tells_its_gpus_as_long_as_its_page_does() -> None:
    of_gpu = '{gpu="0",node="gpu-1",uuid="GPU-a"}'
    page = f'inferwatch_gpu_available{{node="gpu-1"}} 1\ngpu_up{of_gpu} 1\ngpu_power_watts{of_gpu} 312.5\n'
    answers = {"/metrics": response(page, content_type=CONTENT_TYPE)}
    async with serving(pages(answers)) as served:
        source = SidecarUrl(served.url, DEADLINE, clock=lambda: NOW)
        await source.observe()
        found = source.gpus()["gpu-1"]
        assert found is not None
        assert [(g.uuid, g.up, g.value("gpu_power_watts"), g.at) for g in found.gpus] == [("GPU-a", True, 312.5, NOW)]
        answers["/metrics"] = response(NO_SERVERS, content_type=CONTENT_TYPE)
        await source.observe()
        assert source.gpus() == {"gpu-1": None}
        await source.aclose()
