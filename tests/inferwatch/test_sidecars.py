from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.server import Spec
from demo.virtual import VirtualLoop
from demo.workload import Mix, Rate
from exporters.sidecar import NotAllowed
from inferwatch.sidecars import Sidecars, record_past, sidecars_in
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url

START = 1_796_000_040.0
T = TypeVar("T")


def fleet() -> Fleet:
    specs = [Spec(name, f"rack-{name}", "vllm", "0.32.0", "m", (0,), labels={"team": "x"}) for name in "ab"]
    service = Service("chat", ("a", "b"), Mix("mix", Fixed(50), Fixed(20)), Rate(4.0))
    return Fleet(specs, [service], {"rack-a": 1, "rack-b": 2}, seed=1, start=START)


def with_sidecars(work: Callable[[Sidecars], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        sidecars = Sidecars(sidecars_in(asyncio.get_running_loop(), fleet(), 15.0))
        try:
            return await work(sidecars)
        finally:
            await sidecars.aclose()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        return runner.run(run())


async def page(sidecars: Sidecars) -> str:
    await asyncio.sleep(60)
    return sidecars.page(await sidecars.collect())


def test_one_page_has_the_servers_and_gpus_of_all_hosts_labelled_simulated() -> None:
    text = with_sidecars(page)
    up = [line for line in text.splitlines() if line.startswith("llm_up{")]
    assert {tuple(re.findall(r'(?:node|source|team)="([^"]*)"', line)) for line in up} == {
        ("rack-a", "simulated", "x"), ("rack-b", "simulated", "x"),
    }  # fmt: skip
    assert {re.sub(r'.*node="([^"]*)".*', r"\1", line) for line in text.splitlines() if line.startswith("gpu_up{")} == {
        "rack-a", "rack-b",
    }  # fmt: skip
    assert sum(line.startswith("inferwatch_build_info{") for line in text.splitlines()) == 2
    assert sum(line.startswith("# TYPE llm_up ") for line in text.splitlines()) == 1


def test_gpus_are_those_of_all_hosts_once_they_were_read() -> None:
    async def numbers(sidecars: Sidecars) -> tuple[bool, int]:
        before = sidecars.gpu_readings is None
        await sidecars.collect()
        readings = sidecars.gpu_readings
        return before, 0 if readings is None else len(readings.gpus)

    assert with_sidecars(numbers) == (True, 3)


def test_a_server_is_probed_by_the_sidecar_that_has_it_and_no_other_server_is() -> None:
    async def probed(sidecars: Sidecars) -> list[str]:
        found = [(await sidecars.probe(name)).observation.node for name in "ab"]
        with pytest.raises(NotAllowed):
            await sidecars.probe("http://elsewhere:8000")
        return found

    assert with_sidecars(probed) == ["rack-a", "rack-b"]


def test_a_past_that_nobody_waits_for_any_more_ends_with_the_next_reading(tmp_path: Path) -> None:
    made = fleet()
    record_past(made, sqlite_url(tmp_path / "history.sqlite"), START + 600, 60.0, lambda: made.now >= START + 180)
    assert START + 180 <= made.now <= START + 240


def test_a_past_is_in_the_history_as_a_monitor_would_have_kept_it(tmp_path: Path) -> None:
    made, url = fleet(), sqlite_url(tmp_path / "history.sqlite")
    record_past(made, url, START + 600, 60.0)
    database = open_database(url)
    history = History(database)
    tokens = history.ask("llm_generation_tokens_total", None, START, START + 660, 60, ("server",), aggregation="sum")
    gpus = history.ask("gpu_up", None, START, START + 660, 60, ("node", "gpu"))
    database.dispose()
    assert {answer.labels["server"] for answer in tokens} == {"a", "b"}
    assert len(gpus) == 3
    generated = {name: made.truth.summary(engines={f"{name}/0"}).generated_tokens for name in "ab"}
    for answer in tokens:
        told = sum(point.value for point in answer.points)
        assert 0.8 * generated[answer.labels["server"]] < told <= generated[answer.labels["server"]]
