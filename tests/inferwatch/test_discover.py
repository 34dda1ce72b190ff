from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.tables import FRONTENDS
from exporters.tables.triton import TRITON
from inferwatch import discover
from inferwatch.discover import Seen, as_lines, look
from tests.end_to_end import recorded
from tests.end_to_end.processes import free_port
from tests.end_to_end.recorded import VLLM, VLLM_DP, vllm
from tests.inferwatch.listeners import HTML, JSON, TEXT, Page, need_ipv6, saying, serving

CAPTURES = Path(__file__).parents[1] / "captures"
STATISTICS_OFF = (
    'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 20.0\n'
    "http_request_duration_highr_seconds_count 20.0\n"
)
FRESH_V0 = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'


async def seen_at(port: int, timeout: float = 60.0) -> Seen:
    (only,) = await look([port], timeout=timeout)
    return only


async def test_recorded_servers_are_found_with_version_and_model() -> None:
    with recorded.serving(vllm(VLLM, "1-mid10")) as first, recorded.serving(vllm(VLLM_DP, "1-mid03")) as second:
        found = await look([first, second], timeout=60.0)
    assert [s.text for s in found] == ["vllm 0.32.0, tiny-qwen"] * 2
    assert [s.server.url for s in found if s.server] == [f"http://127.0.0.1:{port}" for port in (first, second)]


async def test_results_come_one_per_port_in_the_order_asked_for() -> None:
    ports = [free_port() for _ in range(3)]
    assert [s.port for s in await look(ports)] == ports


async def test_nothing_listens() -> None:
    assert await seen_at(port := free_port()) == Seen(port, "nothing listens", listens=False)


@pytest.mark.parametrize("turns", range(12))
async def test_nothing_listens_where_this_process_stood_still_while_it_looked(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than it waits, after so many turns of the loop."""
    loop, ahead = asyncio.get_running_loop(), [0.0]
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + ahead[0])

    def stand_still(left: int) -> None:
        if left:
            loop.call_soon(stand_still, left - 1)
        else:
            ahead[0] = 61.0

    loop.call_soon(stand_still, turns)
    assert await seen_at(port := free_port()) == Seen(port, "nothing listens", listens=False)


async def test_a_server_that_listens_on_ipv6_only_is_found() -> None:
    need_ipv6()
    async with serving({"/metrics": (200, TEXT, FRESH_V0)}, host="::1") as port:
        found = await seen_at(port)
    assert found.server is not None
    assert found.server.url == f"http://[::1]:{port}"


async def test_a_server_without_statistics_is_one_and_says_what_to_do() -> None:
    models = (200, JSON, '{"data":[{"id":"qwen","owned_by":"vllm","parent":null}]}')
    async with serving({"/metrics": (200, TEXT, STATISTICS_OFF), "/v1/models": models}) as port:
        found = await seen_at(port)
    assert found.server is not None
    assert "statistics switched off" in found.text
    assert "--disable-log-stats" in found.text


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        ({"/metrics": (200, HTML, "<!doctype html><title>Grafana</title>")}, "a web page, no inference server"),
        ({"/metrics": (200, JSON, "[]")}, "answers JSON, no inference server that inferwatch knows"),
        ({"/metrics": (200, TEXT, "")}, "an empty metrics page, so nobody knows whose"),
        ({"/metrics": (200, TEXT, "node_load1 0.5\n")}, "metrics of something else (node_load1)"),
        ({"/metrics": (503, TEXT, "")}, "answers HTTP with an error"),
        ({"/metrics": (418, TEXT, "")}, "The server answered with a status that is no success."),
        (
            {"/metrics": (401, TEXT, "")},
            "wants credentials: if it is an inference server, configure it with `bearer_token_file`",
        ),
        ({}, "answers HTTP, and has no metrics"),
        ({"/v1/models": (200, JSON, "{}")}, "answers HTTP, and has no metrics"),
        (
            {"/v1/models": (200, JSON, '{"data":[{"id":"qwen"},{"id":"ada"}]}')},
            "an OpenAI-compatible server of qwen, ada without metrics: switch its metrics on",
        ),
    ],
)  # fmt: skip
async def test_what_is_no_inference_server_says_what_it_looks_like(pages: dict[str, Page], text: str) -> None:
    async with serving(pages) as port:
        assert await seen_at(port) == Seen(port, text)


async def test_what_does_not_speak_http_says_so() -> None:
    async with saying(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        assert (await seen_at(port)).text == "something listens that does not speak HTTP"


async def test_what_stays_silent_is_given_up() -> None:
    async with saying(b"") as port:
        assert (await seen_at(port, timeout=0.2)).text == "something listens, and does not answer in time"


async def test_one_silent_port_does_not_hide_another() -> None:
    async with saying(b"") as silent, serving({"/metrics": (200, TEXT, FRESH_V0)}) as good:
        found = await look([silent, good], timeout=3.0)
    assert [s.server is not None for s in found] == [False, True]


async def test_a_port_that_has_the_metrics_of_another_one_is_no_second_server(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (CAPTURES / "triton" / "24.10" / "cppnames018-load2.prom").read_text()
    owner = {"/v2": (200, JSON, '{"name": "triton", "version": "2.51.0"}')}
    async with serving({"/metrics": (200, TEXT, page)}) as metrics, serving(owner) as api:
        documents = (replace(TRITON.documents[0], path=f":{metrics}/metrics"), *TRITON.documents[1:])
        monkeypatch.setitem(FRONTENDS, "triton", replace(TRITON, documents=documents))
        found = await look([api, metrics], timeout=60.0)
    assert [s.server is not None for s in found] == [True, False]
    assert [s.text for s in found] == ["triton 2.51.0, ensemble", f"metrics of port {api}"]


def test_the_ports_are_those_that_the_frameworks_use() -> None:
    assert discover.PORTS == (8000, 8001, 8002, 8080, 23333, 30000)


def test_the_table_is_aligned() -> None:
    found = as_lines([Seen(8000, "nothing listens"), Seen(23333, "a web page")])
    assert found == ["  8000   nothing listens", "  23333  a web page"]


async def test_what_a_server_calls_its_model_cannot_write_to_the_terminal() -> None:
    models = (200, JSON, '{"data":[{"id":"q\\u001b[2J\\n  8000   vllm"}]}')
    async with serving({"/v1/models": models}) as port:
        (line,) = as_lines([await seen_at(port)])
    assert line.startswith(f"  {port}  ")
    assert r"q\x1b[2J\n  8000   vllm" in line


async def test_servers_are_looked_for_at_the_host_that_is_named() -> None:
    async with serving({"/metrics": (200, TEXT, FRESH_V0)}) as port:
        (found,) = await look([port], hosts=["localhost"], timeout=60.0)
    assert found.server is not None
    assert found.server.url == f"http://localhost:{port}"
