"""Documents beside the page that come late, go away, or come in part: what is new with them is only a base line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from exporters.collected import Collected
from exporters.config import Server
from exporters.target import Target
from tests.exporters.servers import pages, response, serving

JSON = "application/json"
LONG = 120.0
NOW = 1_800_000_000.0
INFO = "/server_info"
PREFILL = response('{"disaggregation_mode": "prefill"}', content_type=JSON)
ERROR, DENIED, LOCKED = response(status=500), response(status=404), response(status=401)


class Answers(NamedTuple):
    page: bytes
    info: bytes = PREFILL


def sglang(prompt: object, cached: object, model: str = "m") -> bytes:
    of = f'model_name="{model}"'
    return response(f"sglang:prompt_tokens_total{{{of}}} {prompt}\nsglang:cached_tokens_total{{{of}}} {cached}\n")


async def collections(*answers: Answers, **more: object) -> list[Collected]:
    """Of one target, 10 minutes apart: each document is due again, and the window holds the newest step alone."""
    served_now: dict[str, bytes] = {}
    found: list[Collected] = []
    at = [NOW]
    async with serving(pages(served_now)) as served:
        server = Server.model_validate({"url": served.url, "name": "s", "frontend": "sglang", **more})
        target = Target(server, node="n", timeout=LONG, destructive=False, patience=LONG, clock=lambda: at[0])
        for answer in answers:
            served_now |= {"/metrics": answer.page, INFO: answer.info}
            found.append(await target.collect(asyncio.get_running_loop().time() + LONG))
            await read(target)
            at[0] += 600
        await target.aclose()
    return found


async def read(target: Target) -> None:
    """What is read in the background meanwhile has arrived."""
    while target._side._running:
        await asyncio.gather(*target._side._running.values())


def hit_ratios(collected: Collected) -> dict[str, float]:
    """By role, which a document tells."""
    values = collected.observation.values
    return {s.label("role"): v for s, v in values.items() if s.metric == "llm_prefix_cache_hit_ratio"}


def reasons(collected: Sequence[Collected]) -> list[list[str]]:
    return [[f.reason for f in c.observation.findings] for c in collected]


UNREAD = ["documents_unread"]


@pytest.mark.parametrize("missing", [ERROR, LOCKED, response("no JSON")], ids=["500", "401", "no JSON"])
async def test_labels_that_a_document_tells_late_make_no_burst_of_a_whole_life(missing: bytes) -> None:
    """9000 of 10000 tokens were cached before; 25 of 100 since the document is known."""
    found = await collections(
        Answers(sglang(10_000, 9000), missing),
        Answers(sglang(10_000, 9000), missing),
        Answers(sglang(10_000, 9000)),
        Answers(sglang(10_100, 9025)),
    )
    assert reasons(found) == [UNREAD, UNREAD, [], []]
    assert [hit_ratios(c) for c in found] == [{}, {}, {}, {"prefill": 0.25}]


async def test_a_document_that_the_server_never_had_leaves_nothing_open() -> None:
    fresh, busy = await collections(Answers(response(""), DENIED), Answers(sglang(100, 25), DENIED))
    assert reasons([fresh, busy]) == [["empty_body"], []]
    assert hit_ratios(busy) == {"unified": 0.25}


async def test_a_document_that_fails_in_between_keeps_what_it_said() -> None:
    whole = sglang(10_000, 9000)
    found = await collections(
        Answers(whole), Answers(whole, ERROR), Answers(whole, ERROR), Answers(sglang(10_100, 9025))
    )
    assert reasons(found) == [[], [], [], []]
    assert hit_ratios(found[-1]) == {"prefill": 0.25}


@pytest.mark.parametrize("answer", [LOCKED, DENIED], ids=["401", "404"])
async def test_a_document_that_is_denied_in_between_makes_no_burst(answer: bytes) -> None:
    """It is denied while its last value stands, and twice after that: 25 of 100 tokens came in all that time."""
    page = sglang(10_000, 9000)
    found = await collections(Answers(page), *[Answers(page, answer)] * 3, Answers(sglang(10_100, 9025)))
    assert reasons(found)[2:] == [UNREAD, UNREAD, []]
    assert [hit_ratios(c) for c in found] == [{}, {}, {}, {}, {"prefill": 0.25}]


async def test_an_empty_page_beside_a_document_that_failed_is_no_base_line() -> None:
    fresh, busy, more = await collections(
        Answers(response(""), ERROR), Answers(sglang(10_000, 9000)), Answers(sglang(10_100, 9025))
    )
    assert reasons([fresh]) == [["empty_body", "documents_unread"]]
    assert (fresh.observation.is_complete, fresh.observation.proves_absence) == (True, False)
    assert [hit_ratios(c) for c in (busy, more)] == [{}, {"prefill": 0.25}]


async def test_a_counter_that_was_unusable_at_first_is_only_a_base_line_after_that() -> None:
    broken, whole, more = await collections(
        Answers(sglang("NaN", "NaN")), Answers(sglang(10_000, 9000)), Answers(sglang(10_100, 9025))
    )
    assert reasons([broken])[0][0] == "dropped_samples"
    assert [hit_ratios(c) for c in (broken, whole, more)] == [{}, {}, {"prefill": 0.25}]


async def test_models_that_a_limit_cut_off_are_only_a_base_line() -> None:
    """With the second model the limit of one is passed: that it is new is not known any more."""
    both = response(
        'sglang:prompt_tokens_total{model_name="m"} 100\nsglang:cached_tokens_total{model_name="m"} 50\n'
        'sglang:prompt_tokens_total{model_name="old"} 10000\nsglang:cached_tokens_total{model_name="old"} 9000\n'
    )
    one, two = await collections(Answers(sglang(100, 50)), Answers(both), max_models=1)
    assert reasons([one, two]) == [[], ["several_models"]]
    assert hit_ratios(two) == {}


async def test_a_document_that_came_while_the_process_stood_still_is_read() -> None:
    """The one thread of both ends stands still for longer than documents are waited for."""

    async def answer(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == INFO:
            await asyncio.sleep(0.1)  # The page is read meanwhile.
            time.sleep(1.5)  # noqa: ASYNC251
            for _ in range(20):
                await asyncio.sleep(0)
        writer.write({"/metrics": sglang(10_000, 9000), INFO: PREFILL}.get(path, DENIED))

    async with serving(answer) as served:
        server = Server.model_validate({"url": served.url, "name": "s", "frontend": "sglang"})
        target = Target(server, node="n", timeout=LONG, destructive=False, patience=1.0, clock=lambda: NOW)
        found = await target.collect(asyncio.get_running_loop().time() + LONG)
        await target.aclose()
    assert {s.label("role") for s in found.observation.values if s.metric.startswith("llm_prefix_cache")} == {"prefill"}
