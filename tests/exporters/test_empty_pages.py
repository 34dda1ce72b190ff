"""Servers that show nothing before their first request: what follows their empty page is new, and counts in full."""

from __future__ import annotations

import asyncio

import pytest

from exporters.collected import Collected
from exporters.config import Server
from exporters.target import Target
from tests.exporters.recorded import CAPTURES
from tests.exporters.servers import pages, response, serving

JSON = "application/json"
LONG = 120.0
NOW = 1_800_000_000.0


def models(owner: str) -> bytes:
    return response(f'{{"data": [{{"id": "m", "owned_by": "{owner}"}}]}}', content_type=JSON)


def sglang(prompt: int, cached: int) -> bytes:
    """100 requests; 2 of them had their first token after more than 0.1 s and no more than 0.2 s."""
    ttft, of = "sglang:time_to_first_token_seconds", 'model_name="m"'
    return response(
        f"sglang:num_running_reqs{{{of}}} 1\n"
        f"sglang:prompt_tokens_total{{{of}}} {prompt}\n"
        f"sglang:cached_tokens_total{{{of}}} {cached}\n"
        f'{ttft}_bucket{{{of},le="0.1"}} 98\n'
        f'{ttft}_bucket{{{of},le="0.2"}} 100\n'
        f'{ttft}_bucket{{{of},le="+Inf"}} 100\n'
        f"{ttft}_sum{{{of}}} 5\n"
        f"{ttft}_count{{{of}}} 100\n"
    )


def vllm(asked: int, found: int, started: int) -> bytes:
    return response(
        f'vllm:prefix_cache_queries_total{{model_name="m"}} {asked}\n'
        f'vllm:prefix_cache_hits_total{{model_name="m"}} {found}\n'
        f"process_start_time_seconds {started}\n"
    )


EMPTY, BLANK = response(""), response("\n\n")
GAUGES_ALONE = response('sglang:num_running_reqs{model_name="m"} 0\n')
BURST = sglang(800, 200)
OWNED = {"/v1/models": models("sglang")}


async def collections(
    *answers: bytes, documents: dict[str, bytes] = OWNED, late: int = 0, **more: object
) -> list[Collected]:
    """Of one target, 15 seconds apart; the first `late` ones have no time."""
    served_now, found = dict(documents), list[Collected]()
    at = [NOW]
    async with serving(pages(served_now)) as served:
        server = Server.model_validate({"url": served.url, "name": "s", **more})
        target = Target(server, node="n", timeout=LONG, destructive=False, patience=LONG, clock=lambda: at[0])
        for i, answer in enumerate(answers):
            served_now["/metrics"] = served_now["/prometheus/metrics"] = answer
            found.append(await target.collect(asyncio.get_running_loop().time() + (0 if i < late else LONG)))
            at[0] += 15
        await target.aclose()
    return found


def hit_ratio(collected: Collected) -> float | None:
    values = collected.observation.values
    return next((v for s, v in values.items() if s.metric == "llm_prefix_cache_hit_ratio"), None)


def p99(collected: Collected) -> dict[str, float]:
    """Of the time to first token, by bound."""
    return {
        s.label("bound"): v
        for s, v in collected.observation.values.items()
        if s.metric == "llm_latency_quantile_seconds" and (s.label("phase"), s.label("q")) == ("ttft", "0.99")
    }


@pytest.mark.parametrize("before", [EMPTY, BLANK, GAUGES_ALONE], ids=["empty", "blank", "gauges alone"])
@pytest.mark.parametrize("times", [1, 2])
async def test_the_first_requests_of_a_fresh_server_are_in_the_window(before: bytes, times: int) -> None:
    """200 of 800 tokens were cached; the 99th of 100 requests took between 0.1 and 0.2 s."""
    *_, last = await collections(*[before] * times, BURST)
    assert hit_ratio(last) == 0.25
    assert (p99(last)["lower"], p99(last)["upper"]) == (0.1, 0.2)


async def test_an_empty_page_is_a_base_line_of_a_configured_frontend_without_other_documents() -> None:
    fresh, last = await collections(EMPTY, BURST, documents={}, frontend="sglang")
    assert (fresh.observation.available, fresh.observation.is_complete) == (False, True)
    assert hit_ratio(last) == 0.25


async def test_the_empty_page_of_nobody_is_no_base_line() -> None:
    fresh, last = await collections(EMPTY, BURST, documents={"/v1/models": models("someone")})
    assert not fresh.observation.is_complete
    assert (hit_ratio(last), p99(last)) == (None, {})


@pytest.mark.parametrize(
    "answer",
    [
        response(status=404),
        response(status=401),
        response(status=503),
        response("", length=10),
        response("[]", content_type=JSON),
        response("<html></html>", content_type="text/html"),
        response("node_load1 0.5\n"),
        response("this is no metrics page\n"),
    ],
    ids=["404", "401", "503", "truncated", "JSON", "HTML", "another page", "no exposition"],
)
async def test_what_follows_an_answer_that_is_no_page_of_the_server_is_a_base_line(answer: bytes) -> None:
    unread, last = await collections(answer, BURST)
    assert not unread.observation.is_complete
    assert last.observation.available
    assert (hit_ratio(last), p99(last)) == (None, {})


async def test_what_follows_a_time_out_is_a_base_line() -> None:
    unread, last = await collections(EMPTY, BURST, late=1, frontend="sglang")
    assert [f.reason for f in unread.observation.findings] == ["timeout"]
    assert (unread.observation.is_complete, hit_ratio(last)) == (False, None)


async def test_a_failure_between_the_empty_page_and_the_first_requests_takes_nothing_away() -> None:
    *_, last = await collections(EMPTY, response(status=503), BURST)
    assert hit_ratio(last) == 0.25


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        (sglang(1000, 900), BURST, 200 / 800),
        (vllm(400, 100, 1000), vllm(800, 500, int(NOW) + 10), 500 / 800),
        (sglang(400, 100), sglang(800, 500), 400 / 400),
    ],
    ids=["a restart by a value that fell", "a restart by its start time", "no restart that is known of"],
)
async def test_an_empty_page_between_two_full_ones_changes_nothing(before: bytes, after: bytes, ratio: float) -> None:
    frontend = "vllm" if b"vllm" in before else "sglang"
    for answers in ((before, after), (before, EMPTY, after)):
        assert hit_ratio((await collections(*answers, frontend=frontend))[-1]) == ratio


async def test_an_empty_page_shows_no_figures_of_the_window_before() -> None:
    first, busy, empty = await collections(EMPTY, BURST, EMPTY)
    assert (hit_ratio(first), hit_ratio(busy)) == (None, 0.25)
    assert (hit_ratio(empty), p99(empty), "llm_prefix_cache_hit_ratio" in empty.chunks) == (None, {}, False)


async def test_the_first_requests_of_recorded_servers_are_in_the_window() -> None:
    """Truth: 5 first tokens after 25 to 45 ms, the P99 between the last two; 49, the last two after more than 0.8 s."""
    for owner, release, name, bounds in [
        ("tensorrt_llm", "trtllm_serve/1.1-1.2", "page-fresh page-load1", (0.02, 0.06)),
        ("sglang", "sglang/0.5.3", "tp1-0_fresh tp1-1_load", (0.8, 1.0)),
    ]:
        bodies = [(CAPTURES / release / f"{n}.prom").read_bytes() for n in name.split()]
        fresh, last = await collections(*map(response, bodies), documents={"/v1/models": models(owner)})
        assert [f.reason for f in fresh.observation.findings] == ["empty_body"]
        assert (p99(last)["lower"], p99(last)["upper"]) == bounds
