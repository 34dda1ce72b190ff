from __future__ import annotations

import math

import pytest

from exporters.schema import METRICS
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.answers import Points
from monitor.sources.prometheus.readings import GPU_NAMES, SERVER_NAMES

DROPPED = readings.dropped_labels(("prometheus_replica",))
A, B = (("job", "a"),), (("job", "b"),)
ENGINE = {"framework": "vllm", "model": "m", "role": "unified", "engine": "0"}


def points(name: str, *values: tuple[float, float], **labels: str) -> Points:
    of = {"__name__": name, "node": "n1", "server": "s1", "job": "a", **labels}
    return Points({label: text for label, text in of.items() if text}, list(values))


def up(*moments: float, **labels: str) -> Points:
    return points("llm_up", *((at, 1.0) for at in moments), **labels)


def available(*moments: float, **labels: str) -> Points:
    return points("llm_metrics_available", *((at, 1.0) for at in moments), **labels)


def running(*values: tuple[float, float], **labels: str) -> Points:
    return points("llm_requests_running", *values, **ENGINE, **labels)


def test_series_of_one_moment_are_one_scrape() -> None:
    matrix = [up(10.123, 25.456), available(10.123, 25.456), running((10.123, 3.0), (25.456, 5.0), team="search")]
    copies = readings.servers(matrix, DROPPED)["n1", "s1"]
    assert list(copies) == [A]
    seen = [readings.observation(("n1", "s1"), scrape) for scrape in copies[A]]
    assert [(o.at, o.up, o.available, *o.values.values()) for o in seen] == [
        (10.123, True, True, 3.0), (25.456, True, True, 5.0),
    ]  # fmt: skip
    ((series, _),) = seen[0].values.items()
    assert dict(series.labels) == {"node": "n1", "server": "s1", "team": "search", **ENGINE}


def test_labels_of_whoever_scraped_are_no_part_of_the_target() -> None:
    matrix = [up(10, instance="h:1", prometheus_replica="r0", cluster="c1")]
    ((copy, (scrape,)),) = readings.servers(matrix, DROPPED)["n1", "s1"].items()
    assert copy == (("instance", "h:1"), ("job", "a"), ("prometheus_replica", "r0"))
    assert readings.observation(("n1", "s1"), scrape).user_labels == (("cluster", "c1"),)


def test_two_copies_of_a_target_stay_apart() -> None:
    matrix = [up(10, 20), running((10, 1.0), (20, 2.0)), up(12, job="b"), running((12, 7.0), job="b")]
    copies = readings.servers(matrix, DROPPED)["n1", "s1"]
    assert {copy: [(s.at, len(s.samples)) for s in scrapes] for copy, scrapes in copies.items()} == {
        A: [(10.0, 2), (20.0, 2)], B: [(12.0, 2)],
    }  # fmt: skip


def test_a_moment_without_llm_up_is_no_scrape() -> None:
    matrix = [up(10), running((10, 1.0), (20, 2.0)), running((10, 4.0), server="s2")]
    found = readings.servers(matrix, DROPPED)
    assert found.keys() == {("n1", "s1")}
    assert [s.at for s in found["n1", "s1"][A]] == [10]


def test_marks_of_an_end_are_no_samples() -> None:
    matrix = [points("llm_up", (10, 1.0), (20, math.nan)), running((10, math.nan), (20, math.nan))]
    (scrape,) = readings.servers(matrix, DROPPED)["n1", "s1"][A]
    assert (scrape.at, len(scrape.samples)) == (10, 1)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_what_is_infinite_is_missing(infinite: float) -> None:
    matrix = [up(10, 20), available(10, 20), running((10, infinite), (20, 2.0))]
    seen = [readings.observation(("n1", "s1"), scrape) for scrape in readings.servers(matrix, DROPPED)["n1", "s1"][A]]
    assert [list(o.values.values()) for o in seen] == [[], [2.0]]


@pytest.mark.parametrize("odd", [{"node": ""}, {"server": ""}, {"__name__": "llm:up:sum"}, {"__name__": "gpu_up"}])
def test_what_is_no_series_of_a_server_is_left_alone(odd: dict[str, str]) -> None:
    series = up(10)
    labels = {name: text for name, text in {**series.labels, **odd}.items() if text}
    assert readings.servers([Points(labels, series.points)], DROPPED) == {}


def test_gpus_come_by_node_with_their_findings() -> None:
    gpu = {"server": "", "uuid": "GPU-a", "gpu": "0"}
    matrix = [
        points("inferwatch_gpu_available", (10, 1.0), (20, 1.0), server=""),
        points("gpu_up", (10, 1.0), (20, 1.0), (30, 1.0), **gpu),
        points("gpu_power_watts", (10, 300.0), (20, 642.25), **gpu),
        points("gpu_server_info", (20, 1.0), uuid="GPU-a", gpu="0", server="s1", source="process"),
        points("inferwatch_gpu_finding", (20, 1.0), server="", uuid="GPU-a", reason="gpu_lost", severity="error"),
        points("gpu_up", (10, 1.0), node="n2", server="", uuid="GPU-b", gpu="0"),
    ]
    found = readings.gpus(matrix, DROPPED)
    assert found.keys() == {"n1"}, "of n2 it is not told whether its GPUs are read"
    told = readings.gathered("n1", readings.newest_gpus(found["n1"]))
    (read,) = told.gpus
    assert (told.at, told.available, read.uuid, read.value("gpu_power_watts")) == (20, True, "GPU-a", 642.25)
    assert (read.servers, [f.reason for f in read.findings]) == (("s1",), ["gpu_lost"])


def test_the_newest_scrape_of_all_copies_is_the_one_for_now() -> None:
    copies = readings.servers([up(10, 20), up(21, job="b")], DROPPED)["n1", "s1"]
    assert readings.newest_server(copies).at == 21


def test_a_scrape_that_has_come_in_part_waits_for_the_rest() -> None:
    whole = [up(10, 20), available(10, 20), running((10, 1.0), (20, 2.0))]
    partly = [up(10, 20), available(10, 20), running((10, 1.0))]
    assert readings.newest_server(readings.servers(whole, DROPPED)["n1", "s1"]).at == 20
    assert readings.newest_server(readings.servers(partly, DROPPED)["n1", "s1"]).at == 10


@pytest.mark.parametrize("state", ["llm_up", "llm_metrics_available"])
def test_a_server_that_went_down_is_down_at_once(state: str) -> None:
    matrix = [
        up(10),
        available(10),
        running((10, 1.0)),
        points(state, (20, 0.0)),
        *([up(20)] if state != "llm_up" else []),
    ]
    assert readings.newest_server(readings.servers(matrix, DROPPED)["n1", "s1"]).at == 20


def test_every_metric_of_servers_and_gpus_is_asked_for() -> None:
    metrics = {name for name in METRICS if name.startswith(("llm_", "gpu_"))}
    asked = {*SERVER_NAMES, *GPU_NAMES}
    histograms = {name for name in metrics if f"{name}_bucket" in asked}
    assert metrics - histograms <= asked
    assert all({f"{name}_sum", f"{name}_count"} <= asked for name in histograms)
    assert (SERVER_NAMES[0], GPU_NAMES[0]) == ("llm_up", "inferwatch_gpu_available")
