from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from exporters.loader import ConfigError, load
from monitor.app import create_app
from monitor.config import MonitorConfig
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.watch import Watch
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import START, engine, minute, target, up, write

SPEC = """
version: 1
slos:
  - {name: available, objective: 99%, indicator: {availability: {}}}
"""
LATENCY = "  - {name: fast, objective: 95%, indicator: {latency: {phase: ttft, below: 1s}}}\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "slo.yml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def watch(database: Engine, spec: Path) -> Watch:
    for n in range(10):
        ends = minute(finished={"stop": 99, "error": 1}, counts={"ttft": (20, 0, 0, 0)})
        write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): ends})])
    return Watch(database, Objectives([spec]), delay=30, clock=lambda: START + 630)


@pytest.fixture
async def client(database: Engine, watch: Watch) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Fleet(), History(database), watch=watch, node="n1", clock=lambda: START + 630)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def asked(client: httpx.AsyncClient, **query: Any) -> Any:
    answer = await client.get("/api/v1/slos", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_objectives_are_told_with_their_groups(watch: Watch, client: httpx.AsyncClient) -> None:
    assert await asked(client) == [
        {"name": "available", "description": "", "objective": 0.99, "window_days": 30, "at": None, "groups": []}
    ]
    watch.turn()
    (found,) = await asked(client)
    assert found["at"] == START + 600
    (group,) = found["groups"]
    assert group["labels"] == {"model": "m", "role": "unified"}
    assert (group["good"], group["bad"], group["minutes"]) == (990, 10, 43_200)
    assert group["minutes_unknown"] == 43_190
    assert group["state"] == "exhausted"
    assert group["budget_left"] == pytest.approx(0, abs=1e-9)
    assert [burn["long"] for burn in group["burns"]] == pytest.approx([1] * 4)
    assert await asked(client, name="other") == []
    assert (await asked(client, state="ok"))[0]["groups"] == []


async def test_a_wrong_parameter_is_told(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/slos", params={"name": ["a", "b"]})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "name")
    answer = await client.get("/api/v1/slos", params={"stat": "ok"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    told = (await client.get("/api/v1/slos", params={"state": "foo"})).json()
    assert told["allowed"] == ["ok", "burning", "exhausted", "idle", "insufficient", "unknown"]
    assert told["detail"] == f"state: 'foo': allowed: {', '.join(told['allowed'])}"


def test_a_changed_file_comes_into_force_if_it_is_good(watch: Watch, spec: Path) -> None:
    watch.turn()
    spec.write_text(SPEC + LATENCY)
    watch.turn()
    assert [status.slo.name for status in watch.told.statuses] == ["available", "fast"]
    assert watch.history_problems() == []
    spec.write_text("version: 2\n")
    watch.turn()
    assert [status.slo.name for status in watch.told.statuses] == ["available", "fast"]
    (problem,) = watch.history_problems()
    assert "version" in problem
    spec.write_text(SPEC)
    watch.turn()
    assert [status.slo.name for status in watch.told.statuses] == ["available"]
    assert watch.history_problems() == []


def test_the_configuration_names_one_file_or_several(tmp_path: Path, spec: Path) -> None:
    config = tmp_path / "inferwatch.yml"
    config.write_text("slos: slo.yml")
    assert load(config, MonitorConfig).slos == (spec,)
    (tmp_path / "more.yml").write_text("version: 1\nslos:\n" + LATENCY)
    config.write_text("slos: [slo.yml, more.yml]")
    assert len(load(config, MonitorConfig).slos) == 2


def test_objectives_that_are_wrong_or_named_alike_are_refused_with_the_configuration(
    tmp_path: Path, spec: Path
) -> None:
    config, other = tmp_path / "inferwatch.yml", tmp_path / "more.yml"
    other.write_text(SPEC)
    config.write_text("slos: [slo.yml, more.yml]")
    with pytest.raises(ConfigError) as error:
        load(config, MonitorConfig)
    assert error.value.problems == (f"{other}: name: 'available': allowed: a name of its own, {spec} has this one",)
    other.write_text("version: 1\nslos: []\n")
    with pytest.raises(ConfigError) as error:
        load(config, MonitorConfig)
    assert error.value.problems == (f"{other}: slos: a list: allowed: at least one",)


def test_who_has_a_prometheus_leaves_it_to_tell_alertmanager(tmp_path: Path) -> None:
    config = tmp_path / "inferwatch.yml"
    config.write_text("alertmanager: {url: 'http://am:9093'}")
    assert load(config, MonitorConfig).alertmanager.url == ("http://am:9093",)
    config.write_text("alertmanager: {url: 'http://am:9093'}\nprometheus: {url: 'http://p:9090'}")
    with pytest.raises(ConfigError) as error:
        load(config, MonitorConfig)
    told = "allowed: without `prometheus`, which tells Alertmanager itself"
    assert error.value.problems == (f"{config}: alertmanager.url: {told}",)
