"""Counters of documents beside the page, as the history and the fleet take them: from the sidecar of their own process,
and from the page of one elsewhere."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from exporters.config import Config, Server
from exporters.sidecar import Sidecar
from exporters.tables import FRONTENDS
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from monitor.fleet import Fleet, ServerRow
from monitor.history.minutes import State, advance
from monitor.sources.sidecar_url import SidecarUrl
from tests.end_to_end.processes import DEADLINE
from tests.exporters.servers import Handler, pages, response, serving

JSON = "application/json"
NOW = 1_800_000_000.0
FAILS = response(status=500)
FINISHED, GENERATED = "llm_requests_finished_total", ("llm_generation_tokens_total", "")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that come are waited for, also on a machine that stands still for a while."""
    monkeypatch.setattr("exporters.target._SETTLE_SECONDS", DEADLINE)


class Watched:
    """One server, by both ways, 15 seconds from one reading to the next."""

    def __init__(self, url: str, frontend: str, elsewhere: str, shown: dict[str, bytes]) -> None:
        self._now = NOW
        server = Server.model_validate({"url": url, "name": "s1", "frontend": frontend, "timeout": DEADLINE})
        self._sidecar = Sidecar(Config(node="n1", servers=(server,)), clock=lambda: self._now)
        self._far = SidecarUrl(elsewhere, DEADLINE, clock=lambda: self._now)
        self._shown = shown
        self._states, self._fleets = (State(), State()), (Fleet(), Fleet())
        self.reasons: list[list[str]] = []

    async def read(self) -> None:
        collected = await self._sidecar.collect()
        self._shown["/metrics"] = response(self._sidecar.page(collected))
        observations = collected[0].observation, (await self._far.observe())[0]
        for state, fleet, observation in zip(self._states, self._fleets, observations, strict=True):
            advance(state, observation, 30)
            fleet.update([observation])
        self.reasons.append([f.reason for f in observations[1].findings])
        self._now += 15
        for target in self._sidecar.targets():
            await asyncio.gather(*target._side._running.values())

    def counted(self, key: tuple[str, str]) -> list[float | None]:
        """In this minute, by each way."""
        windows = [state.window for state in self._states if state.window is not None]
        return [next((m.counters[key] for m in w.rows.values() if key in m.counters), None) for w in windows]

    def rows(self) -> list[ServerRow]:
        return [fleet.rows(self._now)[0] for fleet in self._fleets]

    async def aclose(self) -> None:
        await self._sidecar.aclose()
        await self._far.aclose()


PAGE = response('nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 1\n')
"""Of a Triton that runs with counter_latencies=false: its requests are counted in a document alone."""


def finished(count: int) -> bytes:
    stats = {"name": "tensorrt_llm", "inference_stats": {"success": {"count": count}, "fail": {"count": 0}}}
    return response(json.dumps({"model_stats": [stats]}), content_type=JSON)


async def counted_by_triton(
    monkeypatch: pytest.MonkeyPatch, *documents: bytes
) -> tuple[list[list[str]], set[float | None]]:
    triton = FRONTENDS["triton"]
    metrics = replace(triton.documents[0], path="/metrics")
    monkeypatch.setitem(FRONTENDS, "triton", replace(triton, documents=(metrics, *triton.documents[1:])))
    answers, shown = {"/metrics": PAGE}, {"/metrics": response("\n")}
    async with serving(pages(answers)) as served, serving(pages(shown)) as elsewhere:
        server = Watched(served.url, "triton", elsewhere.url, shown)
        for document in (*documents, documents[-1]):  # a document that is known may arrive after its collection
            answers["/v2/models/stats"] = document
            await server.read()
        await server.aclose()
    return server.reasons, set(server.counted((FINISHED, "stop")))


@pytest.mark.usefixtures("patient")
async def test_the_requests_of_a_life_that_come_to_light_late_are_a_base_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons, counted = await counted_by_triton(monkeypatch, FAILS, FAILS, finished(9000), finished(9004))
    assert reasons == [["documents_unread"], ["documents_unread"], [], [], []]
    assert counted == {4}


@pytest.mark.usefixtures("patient")
async def test_requests_that_a_document_told_again_after_a_while_are_the_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reasons, counted = await counted_by_triton(monkeypatch, finished(9000), FAILS, FAILS, finished(9006))
    assert (reasons, counted) == ([[]] * 5, {6})


def records(*generating: int, finished: int = 0) -> list[object]:
    """Iterations with so many requests that decode, of an engine with a long life: 5000 blocks were reused in it."""
    return [
        {
            "numCompletedRequests": finished,
            "inflightBatchingStats": {"numGenRequests": n, "numCtxTokens": 0},
            "kvCacheStats": {"reusedBlocks": 5000, "tokensPerBlock": 32, "maxNumBlocks": 512, "usedNumBlocks": 1},
        }
        for n in generating
    ]


class Statistics:
    """trtllm-serve that has only the JSON statistics. While it is `held` these do not answer."""

    def __init__(self) -> None:
        self.queue: list[object] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self._answered = asyncio.Event()

    @property
    def handler(self) -> Handler:
        return self._handle

    async def _handle(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path != "/metrics":
            await pages({"/health": response()})(path, reader, writer)
            return
        await self.goes_on.wait()
        given, self.queue = self.queue, []
        writer.write(response(json.dumps(given), content_type=JSON))
        await writer.drain()
        self._answered.set()

    async def answers(self) -> None:
        """One may be on its way, the next has all that is in the queue now, and with the third that has arrived."""
        for _ in range(3):
            self._answered.clear()
            await self._answered.wait()


@pytest.fixture
def polled_often(monkeypatch: pytest.MonkeyPatch) -> None:
    often = [replace(d, every=0.001) if d.destructive else d for d in TRTLLM_SERVE.documents]
    monkeypatch.setitem(FRONTENDS, "trtllm_serve", replace(TRTLLM_SERVE, documents=tuple(often)))


@pytest.mark.usefixtures("polled_often", "patient")
async def test_what_follows_statistics_without_a_record_counts_in_full() -> None:
    """3 iterations with 20 tokens in all, and 1 first token; the reused blocks are those of the life before."""
    statistics, shown = Statistics(), {"/metrics": response("\n")}
    async with serving(statistics.handler) as served, serving(pages(shown)) as elsewhere:
        server = Watched(served.url, "trtllm_serve", elsewhere.url, shown)
        await server.read()
        statistics.queue += [*records(4, 8), *records(8, finished=1)]
        await statistics.answers()
        await server.read()
        await server.aclose()
    assert server.reasons == [["no_records_yet"], []]
    assert server.counted(GENERATED) == [21, 21]
    assert server.counted((FINISHED, "unknown")) == [1, 1]
    assert server.counted(("llm_prefix_cache_hit_tokens_total", "")) == [0, 0]
    assert server.counted(("llm_prompt_tokens_total", "")) == [0, 0]
    assert [row.generation_tokens_per_second for row in server.rows()] == [21 / 15, 21 / 15]


@pytest.mark.usefixtures("polled_often", "patient")
async def test_the_records_of_the_first_answer_are_a_base_line() -> None:
    statistics, shown = Statistics(), {"/metrics": response("\n")}
    statistics.queue += records(4, 8)
    async with serving(statistics.handler) as served, serving(pages(shown)) as elsewhere:
        server = Watched(served.url, "trtllm_serve", elsewhere.url, shown)
        await server.read()
        statistics.queue += records(5)
        await statistics.answers()
        await server.read()
        await server.aclose()
    assert server.reasons == [[], []]
    assert server.counted(GENERATED) == [5, 5]


@pytest.mark.usefixtures("polled_often")
async def test_records_after_statistics_that_did_not_answer_are_a_base_line() -> None:
    statistics, shown = Statistics(), {"/metrics": response("\n")}
    statistics.goes_on.clear()
    statistics.queue += records(4, 8)
    async with serving(statistics.handler) as served, serving(pages(shown)) as elsewhere:
        server = Watched(served.url, "trtllm_serve", elsewhere.url, shown)
        await server.read()
        statistics.goes_on.set()
        await statistics.answers()
        await server.read()
        statistics.queue += records(5)
        await statistics.answers()
        await server.read()
        await server.aclose()
    assert server.reasons == [["documents_unread"], [], []]
    assert server.counted(GENERATED) == [5, 5]
