from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from monitor.app import create_app
from monitor.compare.asked import Prices
from monitor.compare.imported.run import Run
from monitor.compare.model import Measure
from monitor.compare.runs import Runs
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.minutes import Event
from monitor.history.store import Store
from tests.monitor.compare.stored import KIND, MINUTE, START, Engine, gpu_window, target, window, write

MINUTES = 60
NOW = float(START + MINUTES * MINUTE)
SERVERS = (Engine(), Engine("s2", "sglang", prompt=36_000.0), Engine("s3", "lmdeploy", running=64.0))
UPGRADED = START + 30 * MINUTE


@pytest.fixture
async def client(store: Store, history: History) -> AsyncIterator[httpx.AsyncClient]:
    """An hour of three servers, of which one is upgraded in the middle; and a load test."""
    gpus = {"s1": f"GPU-0 {KIND}"}
    upgrade = [Event(target("s1"), UPGRADED + 15, "version", "0.31.0", "0.32.0")]
    write(store, [window(n, engine, gpus=gpus) for n in range(MINUTES) for engine in SERVERS], upgrade)
    write(store, [gpu_window(n, "GPU-0") for n in range(MINUTES)])
    Runs(history.engine).add("a.json", b"{}", [Run("guidellm", 16.0, {Measure.TOKENS: 700.0}, model="llama")])
    app = create_app(Fleet(), history, node="n1", prices=Prices(of_any=3.6, currency="EUR"), clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def asked(client: httpx.AsyncClient, **params: Any) -> Any:
    response = await client.get("/api/v1/compare", params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def test_cells_have_their_measures_with_intervals(client: httpx.AsyncClient) -> None:
    told = await asked(client)
    assert (told["since"], told["until"], told["currency"]) == (NOW - 7 * 86_400, NOW, "EUR")
    cells = {(c["framework"] or c["file"], c["at_once"]): c for c in told["cells"]}
    assert set(cells) == {("vllm", 16), ("sglang", 16), ("lmdeploy", 64), ("a.json", 16)}
    vllm = cells["vllm", 16]
    assert (vllm["minutes"], vllm["told"], vllm["concurrency"], vllm["gpu"]) == (59, True, 16, KIND)
    assert vllm["measures"]["tokens_per_second"] == {
        "value": 750, "low": 750, "high": 750, "lower": None, "upper": None, "at_least": False,
        "no_interval": None,
    }  # fmt: skip
    assert vllm["measures"]["joules_per_token"]["value"] == pytest.approx(24_000 / 45_000)
    assert vllm["measures"]["cost_per_million_tokens"]["value"] == pytest.approx(3.6 / 3600 / 750 * 1e6)
    assert vllm["measures"]["ttft_p99_seconds"]["upper"] == 2
    assert "joules_per_token" not in cells["sglang", 16]["measures"]
    assert "energy" in cells["sglang", 16]["missing"]["joules_per_token"]
    assert told["left_out"]["restarted"] == 1


async def test_cells_are_ranked_where_they_stand_beside_each_other(client: httpx.AsyncClient) -> None:
    rankings = (await asked(client))["rankings"]
    assert f"llama on {KIND}: tokens/s at about 16: sglang > vllm" in rankings


async def test_an_imported_run_is_labelled_with_its_tool_and_file(client: httpx.AsyncClient) -> None:
    [run] = [c for c in (await asked(client))["cells"] if c["tool"]]
    assert (run["tool"], run["file"], run["minutes"], run["told"]) == ("guidellm", "a.json", 0, True)
    tokens = run["measures"]["tokens_per_second"]
    assert (tokens["low"], tokens["no_interval"]) == (None, "a load test tells none")


async def test_a_number_without_an_interval_says_why(client: httpx.AsyncClient) -> None:
    told = await asked(client, since=START, until=START + 12 * MINUTE)
    cell = next(c for c in told["cells"] if c["framework"] == "vllm")
    assert cell["minutes"] == 12
    for measure in cell["measures"].values():
        assert measure["no_interval"] == "only 12 minutes of time, and an interval takes 15: 5 blocks of 3"


async def test_an_upgrade_is_split_into_before_and_after(client: httpx.AsyncClient) -> None:
    told = await asked(client, split="version")
    assert [(c["side"], c["version"], c["minutes"]) for c in told["cells"]] == [
        ("before", "0.31.0", 30), ("after", "0.32.0", 29),
    ]  # fmt: skip
    assert told["split"] == "version"
    assert any("one release only" in note for note in told["notes"])


async def test_a_moment_splits_all_servers(client: httpx.AsyncClient) -> None:
    told = await asked(client, split=str(UPGRADED), by="server")
    assert {(c["server"], c["side"]) for c in told["cells"]} == {
        (f"n1/s{n}", side) for n in (1, 2, 3) for side in ("before", "after")
    }


async def test_definitions_that_differ_are_told(client: httpx.AsyncClient) -> None:
    told = await asked(client, model="llama")
    assert "llm_time_to_first_token_seconds" in {each["metric"] for each in told["definitions"]}


async def test_a_model_that_nobody_serves_is_refused_with_those_that_are(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/compare", params={"model": "qwen"})
    assert (answer.status_code, answer.json()["parameter"], answer.json()["allowed"]) == (400, "model", ["llama"])


async def test_csv_and_markdown_say_the_same(client: httpx.AsyncClient) -> None:
    text = (await client.get("/api/v1/compare", params={"format": "csv"})).text
    assert {row["framework"] for row in csv.DictReader(io.StringIO(text))} == {"vllm", "sglang", "lmdeploy", ""}
    markdown = await client.get("/api/v1/compare", params={"format": "markdown"})
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert f"## llama on {KIND}" in markdown.text


@pytest.mark.parametrize(
    ("params", "parameter", "allowed"),
    [
        ({"by": "gpu"}, "by", ["version", "server"]),
        ({"by": "version", "split": "version"}, "by", ["server"]),
        ({"split": "2020-01-01"}, "split", ["version", "a moment in it"]),
        ({"split": "soon"}, "split", None),
        (
            {"split": "Version"},
            "split",
            [
                "version",
                "unix seconds",
                "an RFC 3339 time such as 2026-11-30T09:00:00Z",
                "an age such as 90m or 7d",
                "now",
            ],
        ),
        ({"since": "10m", "until": "20m"}, "until", None),
        ({"matched": "maybe"}, "matched", ["true or false: only minutes whose mean lengths all of the compared have"]),
        ({"format": "xml"}, "format", ["json", "csv", "markdown"]),
        ({"metric": "x"}, "metric", None),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    client: httpx.AsyncClient, params: dict[str, str], parameter: str, allowed: list[str] | None
) -> None:
    response = await client.get("/api/v1/compare", params=params)
    assert response.status_code == 400
    assert response.json()["parameter"] == parameter
    assert allowed in (None, response.json()["allowed"])
