from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from exporters.exposition import format_labels, format_value, read_samples
from exporters.gpu import text
from exporters.gpu.gathered import Gathered
from exporters.observation import Observation, Series, labels
from monitor.config import PrometheusSection
from monitor.fleet import Fleet
from monitor.sources import Source, SourceError, TellsGpus
from monitor.sources.prometheus.answers import Points, TimedOut, TooMuch
from monitor.sources.prometheus.client import Client
from monitor.sources.prometheus.source import PrometheusSource
from monitor.sources.rebuild import observations
from tests.monitor.sources.test_sources import collect
from tests.servers.prometheus import Prometheus
from tests.servers.queried import Queried
from tests.servers.victoria_metrics import VictoriaMetrics

GpusOfNodes = Mapping[str, Gathered | None]

NOW = 1_800_000_000.0
GPUS = (
    'inferwatch_gpu_available{node="n2"} 1\n'
    'gpu_up{gpu="0",node="n2",uuid="GPU-a"} 1\n'
    'gpu_power_watts{gpu="0",node="n2",uuid="GPU-a"} 642.25\n'
)


class Scripted:
    """In place of a client."""

    name = "http://prometheus"

    def __init__(self, *answers: list[Points] | Exception, most: int = 10_000) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.most = most

    async def query(self, expression: str) -> list[Points]:
        self.questions.append(expression)
        if len(expression) > self.most:
            raise TooMuch("too many")
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Nothing to close."""


def source_of(client: Any, **settings: Any) -> PrometheusSource:
    config = PrometheusSection.model_validate({"url": client.name, **settings})
    return PrometheusSource(client, config, clock=lambda: NOW)


def up(server: str, *moments: float) -> Points:
    labels = {"__name__": "llm_up", "node": "n1", "server": server, "job": "x"}
    return Points(labels, [(at, 1.0) for at in moments])


def gpu(*moments: float) -> list[Points]:
    of_node = {"node": "n1", "job": "x"}
    return [
        Points({"__name__": "inferwatch_gpu_available", **of_node}, [(at, 1.0) for at in moments]),
        Points({"__name__": "gpu_up", "uuid": "GPU-a", "gpu": "0", **of_node}, [(at, 1.0) for at in moments]),
    ]


async def test_it_is_a_source_that_tells_gpus_and_is_not_recorded() -> None:
    source: Source = source_of(Scripted())
    assert isinstance(source, TellsGpus)
    assert (source.name, source.is_recorded) == ("http://prometheus", False)


async def test_a_server_that_is_gone_fades_and_is_forgotten_with_the_fleet() -> None:
    client = Scripted([up("a", NOW - 3590), up("b", NOW - 20)], [up("b", NOW - 5)], [up("b", NOW)])
    source = source_of(client, timeout=5)
    assert {o.server for o in await source.observe()} == {"a", "b"}
    fleet = Fleet()
    fleet.update(await source.observe(), source.name)
    rows = {row.server: row for row in fleet.rows(NOW)}
    assert (rows["a"].up, [f.reason for f in rows["a"].findings]) == (False, ["no_observation"])
    assert (rows["b"].up, rows["b"].last_seen) == (True, NOW - 5)
    source._clock = lambda: NOW + 15
    assert {o.server for o in await source.observe()} == {"b"}


async def test_one_that_comes_back_may_have_scraped_nothing_yet() -> None:
    source = source_of(Scripted([up("a", NOW - 5)], SourceError("connection_refused")))
    before = await source.observe()
    source._clock = lambda: NOW + 600
    with pytest.raises(SourceError, match="connection_refused"):
        await source.observe()
    assert await source.observe() == before
    source._clock = lambda: NOW + 690
    with pytest.raises(SourceError, match="has no `llm_up`"):
        await source.observe()


async def test_gpus_of_a_node_that_is_gone_fade_too() -> None:
    source = source_of(Scripted([up("a", NOW), *gpu(NOW - 3590)], [up("a", NOW)], [up("a", NOW)]))
    for _ in range(2):
        await source.observe()
        (told,) = source.gpus().values()
        assert told is not None
        assert told.at == NOW - 3590
    source._clock = lambda: NOW + 15
    await source.observe()
    assert source.gpus() == {}


async def test_one_question_asks_for_all() -> None:
    client = Scripted([up("a", NOW)])
    await source_of(client, selector='cluster="a"').observe()
    (question,) = client.questions
    assert question.startswith('{__name__=~"')
    assert question.endswith(',cluster="a"}[90s]')
    assert len(question) < 16_000, "VictoriaMetrics takes no longer ones"


async def test_what_is_too_much_at_once_is_asked_in_parts_from_then_on() -> None:
    client = Scripted([up("a", NOW)], [], [], [], [up("b", NOW)], most=900)
    source = source_of(client)
    assert {o.server for o in await source.observe()} == {"a"}
    first, client.questions = client.questions, []
    await source.observe()
    assert len(client.questions) > 1
    assert max(map(len, client.questions)) <= 900 < max(map(len, first))
    assert "llm_up" in client.questions[0], "only moments known from it are scrapes"


async def test_who_does_not_answer_in_time_is_not_asked_in_parts() -> None:
    client = Scripted(TimedOut("silent"))
    with pytest.raises(TimedOut):
        await source_of(client).observe()
    assert len(client.questions) == 1


async def test_labels_that_prometheus_renamed_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    renamed = up("a", NOW)
    renamed.labels["exported_node"] = "gpu-1"
    source = source_of(Scripted([renamed], [renamed]))
    for _ in range(2):
        await source.observe()
    assert [r.getMessage().count("honor_labels: true") for r in caplog.records] == [1]


async def test_where_no_sidecar_is_scraped_it_is_told_what_to_look_at() -> None:
    with pytest.raises(
        SourceError, match=r'no `llm_up` with cluster="b" of the last 90 s: does it scrape the sidecars'
    ):
        await source_of(Scripted([]), selector='cluster="b"').observe()


def stored(page: str, at: float, unit: float) -> str:
    """The page's samples with the labels and moment that a scrape gives them."""
    lines = []
    for sample in sorted(read_samples(page), key=lambda s: s.name):
        of = format_labels(labels({**sample.labels, "job": "inferwatch", "instance": "gpu-1:9840"}))
        moment = f"{at:.3f}" if unit == 1 else f"{at * unit:.0f}"
        lines.append(f"{sample.name}{{{of}}} {format_value(sample.value)} {moment}\n")
    return "".join(lines)


async def loaded(server: Queried, page: str, folder: Path) -> tuple[float, dict[str, Observation], GpusOfNodes]:
    """When the page was stored, and what the source makes of it."""
    file = folder / "page.txt"
    at = round(time.time() - 20, 3)
    if isinstance(server, VictoriaMetrics):
        file.write_text(stored(page, at, 1000))
        with server:
            server.load(file)
            return at, *await asked(server)
    assert isinstance(server, Prometheus)
    file.write_text(stored(page, at, 1) + "# EOF\n")
    server.load(file)
    with server:
        return at, *await asked(server)


async def asked(server: Queried) -> tuple[dict[str, Observation], GpusOfNodes]:
    config = PrometheusSection.model_validate({"url": server.url, "timeout": 120})
    source = PrometheusSource(Client(config), config)
    seen = {o.server: o for o in await source.observe()}
    await source.aclose()
    return seen, source.gpus()


@pytest.mark.parametrize(("kind", "precision"), [(Prometheus, 0.0), (VictoriaMetrics, 1e-11)])
async def test_a_real_one_tells_the_same_as_the_page_that_was_scraped(
    kind: Callable[[str, Path], Queried], precision: float, tmp_path: Path
) -> None:
    names = ["0.32.0/A-1-mid12.prom", "0.32.0/C-dp2-smallkv-1-mid03.prom"]
    _, page = await collect(*names, labels={"team": "search"})
    page += GPUS
    at, seen, gpus = await loaded(kind("global: {scrape_interval: 1h}", tmp_path), page, tmp_path)
    wanted = observations(read_samples(page), at)
    assert seen.keys() == {o.server for o in wanted} == {*names, "down"}
    for one in wanted:
        assert facts(seen[one.server]) == facts(one)
        assert figures(seen[one.server]) == pytest.approx(figures(one), rel=precision, abs=0)
    assert gpus["n2"] == text.gathered(read_samples(page), at)["n2"]


def facts(of: Observation) -> tuple[object, ...]:
    """In whatever order findings and fields came."""
    who = of.node, of.server, of.at, of.up, of.available, of.user_labels
    histograms = {series: (h.bounds, h.counts) for series, h in of.histograms.items()}
    return *who, histograms, {f.reason for f in of.findings}, set(of.fields)


def figures(of: Observation) -> dict[tuple[str, Series | None], float]:
    values = {("value", series): value for series, value in of.values.items()}
    sums = {("sum", series): h.sum for series, h in of.histograms.items()}
    facts = {("duration", None): of.duration, ("start", None): of.start_time}
    return {key: value for key, value in (*values.items(), *sums.items(), *facts.items()) if value is not None}
