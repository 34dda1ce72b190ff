"""What is behind an address, from the server's own documents alone, and where its metrics are."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from exporters.collected import Collected
from exporters.config import Server
from exporters.findings import Finding, Severity
from exporters.tables import FRONTENDS
from exporters.tables.triton import TRITON
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from exporters.target import Target
from tests.exporters.held import held_time
from tests.exporters.recorded import CAPTURES, truth
from tests.exporters.servers import Handler, pages, response, serving, unused_url

VLLM = (CAPTURES / "vllm" / "0.32.0" / "A-2-after.prom").read_text()
STATISTICS_OFF = (CAPTURES / "vllm" / "0.32.0" / "D-nologstats-2-after.prom").read_text()
TRITON_PAGE = (CAPTURES / "triton" / "24.10" / "cppnames018-load2.prom").read_text()
NIM_PAGE = (CAPTURES / "nim" / "1.x" / "made_by_hand.prom").read_text()
RELEASE = CAPTURES / "trtllm_serve" / "1.1-1.2"
BARE_PAGE = (RELEASE / "page-load2.prom").read_text()
JSON = "application/json"
LONG = 120.0


def in_json(value: object) -> bytes:
    return response(json.dumps(value), content_type=JSON)


def models(owner: str | None, name: str = "m") -> bytes:
    return in_json({"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner}]})


def records(state: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RELEASE / f"statistics-{state}.json").read_text())
    return found


Make = Callable[..., Target]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[Target] = []

    def target(url: str, *, destructive: bool = True, patience: float = LONG, **more: object) -> Target:
        server = Server.model_validate({"url": url, "name": "s", **more})
        made.append(Target(server, node="n", timeout=LONG, destructive=destructive, patience=patience))
        return made[-1]

    yield target
    for each in made:
        await each.aclose()


async def collect(target: Target) -> Collected:
    return await target.collect(asyncio.get_running_loop().time() + LONG)


def reasons(collected: Collected) -> list[str]:
    return [f.reason for f in collected.observation.findings]


def only(collected: Collected) -> Finding:
    (found,) = collected.observation.findings
    return found


def state(collected: Collected) -> tuple[bool, bool]:
    return collected.observation.up, collected.observation.available


def info(collected: Collected, label: str) -> str:
    return next(s.label(label) for s in collected.observation.values if s.metric == "llm_server_info")


def total(collected: Collected, metric: str) -> float | None:
    found = [v for s, v in collected.observation.values.items() if s.metric == metric]
    return sum(found) if found else None


def quality(collected: Collected, metric: str) -> str:
    return next(f.quality for f in collected.observation.fields if f.field == metric)


# No metrics page


async def test_a_server_without_a_page_is_known_by_its_owner_and_says_what_to_do(make: Make) -> None:
    """LMDeploy up to 0.9.1, or with --disable-metrics."""
    async with serving(pages({"/v1/models": models("lmdeploy", "Qwen2.5-7B"), "/health": response()})) as served:
        target = make(served.url)
        for _ in range(2):
            collected = await collect(target)
            assert state(collected) == (True, False)
            found = only(collected)
            assert (found.reason, found.detail) == ("not_found", "HTTP 404; it is lmdeploy")
            assert "LMDeploy has metrics since 0.9.2" in found.remedy
            assert (info(collected, "framework"), info(collected, "model")) == ("lmdeploy", "Qwen2.5-7B")
            assert total(collected, "llm_requests_running") is None
            assert not collected.observation.histograms


async def test_metrics_that_are_switched_on_later_are_found(make: Make) -> None:
    answers = {"/v1/models": models("vllm")}
    async with serving(pages(answers)) as served:
        target = make(served.url)
        assert reasons(await collect(target)) == ["not_found"]
        answers["/metrics"] = response(VLLM)
        assert state(await collect(target)) == (True, True)


async def test_an_openai_api_that_nobody_owns_is_called_one_and_has_no_values(make: Make) -> None:
    async with serving(pages({"/v1/models": models("someone", "mixtral")})) as served:
        collected = await collect(make(served.url))
    assert state(collected) == (True, False)
    assert only(collected).detail == "HTTP 404; an OpenAI API of mixtral that tells no framework"
    assert not collected.observation.values


@pytest.mark.parametrize("body", ["", "\n"])
async def test_an_empty_page_is_its_owners(make: Make, body: str) -> None:
    async with serving(pages({"/metrics": response(body), "/v1/models": models("sglang")})) as served:
        collected = await collect(make(served.url))
    assert state(collected) == (True, False)
    assert (only(collected).reason, only(collected).detail) == ("empty_body", "it is sglang")
    assert (info(collected, "framework"), info(collected, "model")) == ("sglang", "m")


async def test_a_page_that_any_application_may_have_is_nobodys_without_a_word_of_its_owner(make: Make) -> None:
    answers = {"/metrics": response(STATISTICS_OFF)}
    async with serving(pages(answers)) as served:
        stranger = await collect(make(served.url))
        answers["/v1/models"] = models("vllm")
        owned = await collect(make(served.url))
    assert (only(stranger).reason, stranger.debug.frontend) == ("no_engine_metrics", "")
    assert (only(owned).reason, only(owned).detail, owned.debug.frontend) == ("stats_disabled", "", "vllm")


# Routers


def routed(label: str, *values: str) -> str:
    return "".join(f'vllm:num_requests_running{{model_name="m",{label}="{value}"}} 3\n' for value in values)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (routed("server", "http://10.0.0.1:8000"), "vllm metrics of 1 server by the label `server`"),
        (routed("server", "http://a:8000", "http://b:8000"), "vllm metrics of 2 servers by the label `server`"),
        (routed("instance", "gpu-1:8000", "gpu-2:8000"), "vllm metrics of 2 servers by the label `instance`"),
        (
            routed("worker_addr", "http://a:30000", "http://b:30000").replace("vllm:", "sglang_").replace(
                "num_requests", "num_running_reqs"
            ).replace("num_running_reqs_running", "num_running_reqs"),
            "sglang metrics of 2 servers by the label `worker_addr`",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("frontend", [None, "vllm"])
async def test_what_passes_on_engine_metrics_is_a_router_and_has_no_values(
    make: Make, text: str, detail: str, frontend: str | None
) -> None:
    async with serving(pages({"/metrics": response(text), "/v1/models": models("vllm")})) as served:
        collected = await collect(make(served.url, **({"frontend": frontend} if frontend else {})))
    assert state(collected) == (True, False)
    assert only(collected).reason == "router"
    assert only(collected).detail == detail
    assert "servers" in only(collected).remedy
    assert total(collected, "llm_requests_running") is None


async def test_one_engine_with_a_label_of_its_user_is_no_router(make: Make) -> None:
    async with serving(pages({"/metrics": response(routed("instance", "gpu-1:8000"))})) as served:
        collected = await collect(make(served.url))
    assert total(collected, "llm_requests_running") == 3


# Other paths, other ports


async def test_the_metrics_of_nim_are_found_at_either_path_and_asked_for_there(make: Make) -> None:
    for path in ("/v1/metrics", "/metrics"):
        async with serving(pages({path: response(NIM_PAGE)})) as served:
            for target in (make(served.url), make(served.url, frontend="nim")):
                for _ in range(3):
                    assert state(await collect(target)) == (True, True)
            # Three collections each; where it is not known it takes one more question to find out.
            assert served.count(path) == 6
            assert served.count({"/v1/metrics": "/metrics", "/metrics": "/v1/metrics"}[path]) == 1


def triton_at(port: str) -> Any:
    documents = (replace(TRITON.document("metrics"), path=f":{port}/metrics"), *TRITON.documents[1:])
    return replace(TRITON, documents=documents)


TRITON_API = {"/v2": in_json({"name": "triton", "version": "2.51.0"}), "/v2/health/live": response()}


async def test_the_metrics_port_of_a_triton_is_found_from_its_api(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(pages({"/metrics": response(TRITON_PAGE)})) as metrics, serving(pages(TRITON_API)) as api:
        monkeypatch.setitem(FRONTENDS, "triton", triton_at(metrics.url.rpartition(":")[2]))
        target = make(api.url)
        await collect(target)
        collected = await collect(target)
        assert state(collected) == (True, True)
        assert info(collected, "version") == "2.51.0"
        assert collected.debug.url == f"{metrics.url}/metrics"
        assert metrics.count("/metrics") == 2
        # The metrics port itself may be named, too.
        assert state(await collect(make(metrics.url))) == (True, True)
        assert state(await collect(make(metrics.url, frontend="triton"))) == (True, True)


async def test_a_triton_whose_metrics_port_is_closed_is_up_and_says_what_opens_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(pages(TRITON_API)) as api:
        monkeypatch.setitem(FRONTENDS, "triton", triton_at(unused_url().rpartition(":")[2]))
        for target in (make(api.url), make(api.url, frontend="triton")):
            collected = await collect(target)
            assert state(collected) == (True, False)
            assert only(collected).reason == "connection_refused"
            assert "8002" in only(collected).remedy
            assert info(collected, "frontend") == "triton"


async def test_another_port_is_not_asked_for_a_server_that_nobody_knows(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(pages({"/metrics": response(TRITON_PAGE)})) as metrics, serving(pages({})) as stranger:
        monkeypatch.setitem(FRONTENDS, "triton", triton_at(metrics.url.rpartition(":")[2]))
        assert reasons(await collect(make(stranger.url))) == ["not_found"]
        assert metrics.paths == []


# Statistics that are read once


class Draining:
    """trtllm-serve, as far as it matters here: what one reader of its queue gets no other one will."""

    def __init__(self, page: bytes | None = None, owner: str = "tensorrt_llm") -> None:
        self.queue: list[object] = []
        self.given: list[list[object]] = []
        self._asked = asyncio.Event()
        self._answers = {"/v1/models": models(owner), "/health": response()}
        if page is not None:
            self._answers["/prometheus/metrics"] = page

    async def handle(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/metrics":
            self.given.append(self.drain())
            self._asked.set()
            writer.write(in_json(self.given[-1]))
            await writer.drain()
        else:
            await pages(self._answers)(path, reader, writer)

    def drain(self) -> list[object]:
        given, self.queue = self.queue, []
        return given

    async def read_by_its_poller(self, answers: int = 2) -> None:
        """All that is in the queue now, and an answer after it, so that it has arrived."""
        asked = len(self.given)
        while self.queue or len(self.given) < asked + answers:
            self._asked.clear()
            await self._asked.wait()


@pytest.fixture
def polled_often(monkeypatch: pytest.MonkeyPatch) -> None:
    often = [replace(d, every=0.001) if d.destructive else d for d in TRTLLM_SERVE.documents]
    monkeypatch.setitem(FRONTENDS, "trtllm_serve", replace(TRTLLM_SERVE, documents=tuple(often)))


@contextlib.asynccontextmanager
async def draining(page: bytes | None = None, owner: str = "tensorrt_llm") -> AsyncIterator[tuple[Draining, Any]]:
    server = Draining(page, owner)
    handler: Handler = server.handle
    async with serving(handler) as served:
        yield server, served


FINISHED = "llm_requests_finished_total"


async def test_statistics_without_a_record_are_a_warning_that_says_what_makes_records(make: Make) -> None:
    async with draining() as (_, served):
        target = make(served.url)
        for _ in range(2):
            collected = await collect(target)
            found = only(collected)
            assert (found.reason, found.severity) == ("no_records_yet", Severity.WARNING)
            assert found.detail == "HTTP 404; it is trtllm_serve"
            assert found.remedy == TRTLLM_SERVE.no_records
            assert collected.observation.is_complete
            assert state(collected) == (True, False)
            assert target.last_error is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (response(status=404), "no array of records"),
        (response(status=500), "server_error: HTTP 500"),
        (response("records", content_type=JSON), "no JSON"),
    ],
)
async def test_statistics_that_are_not_there_or_fail_are_an_error(make: Make, answer: bytes, told: str) -> None:
    async with serving(pages({"/v1/models": models("tensorrt_llm"), "/metrics": answer})) as served:
        collected = await collect(make(served.url))
    found = collected.observation.findings[0]
    assert (found.reason, found.severity) == ("not_found", Severity.ERROR)
    assert not collected.observation.is_complete
    assert found.detail == f"HTTP 404; it is trtllm_serve; /metrics: {told}"
    assert found.remedy == TRTLLM_SERVE.no_metrics


async def test_statistics_that_have_not_answered_yet_are_no_error(make: Make) -> None:
    async def silent(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/metrics":
            await asyncio.Event().wait()
        await pages({"/v1/models": models("tensorrt_llm")})(path, reader, writer)

    async with serving(silent) as served:
        target = make(served.url, patience=1.0, frontend="trtllm_serve")
        with held_time() as held:
            collecting = asyncio.create_task(collect(target))
            while "models" not in target._side.values:  # noqa: ASYNC110
                await asyncio.sleep(0)
            while not collecting.done():
                held.pass_by(0.05)
                await asyncio.sleep(0)
        collected = await collecting
    found = only(collected)
    assert (found.reason, found.severity) == ("documents_unread", Severity.INFO)
    assert found.detail == "HTTP 404; it is trtllm_serve; /metrics: has not answered yet"
    assert not collected.observation.is_complete


@pytest.mark.usefixtures("polled_often")
async def test_statistics_alone_make_a_server_with_metrics_and_add_up(make: Make) -> None:
    async with draining() as (server, served):
        target = make(served.url)
        fresh = await collect(target)
        assert (state(fresh), only(fresh).reason) == ((True, False), "no_records_yet")
        collected = fresh
        for name in ("load1", "load2", "load3", "idle"):
            server.queue += records(name)
            await server.read_by_its_poller()
            collected = await collect(target)
            true = truth(RELEASE / f"statistics-{name}.truth.json")["engine_truth"]
            assert (state(collected), reasons(collected)) == ((True, True), [])
            assert total(collected, FINISHED) == true["totals"]["finished"]
            assert quality(collected, FINISHED) == "approximate"
        await server.read_by_its_poller()
        idle = await collect(target)
    assert total(idle, FINISHED) == total(collected, FINISHED)
    assert (total(idle, "llm_requests_running"), total(idle, "llm_requests_waiting")) == (0, 0)


@pytest.mark.usefixtures("polled_often")
async def test_what_another_reader_took_is_missing_and_the_engines_own_totals_are_right(make: Make) -> None:
    async with draining() as (server, served):
        target = make(served.url)
        await collect(target)
        for name in ("load1", "load2", "load3", "idle"):
            server.queue += records(name)
            if name == "load2":
                server.drain()
            await server.read_by_its_poller()
        collected = await collect(target)
    true = truth(RELEASE / "statistics-idle.truth.json")["engine_truth"]["totals"]
    taken = sum(r["numCompletedRequests"] for r in records("load2"))
    assert taken > 0
    assert total(collected, FINISHED) == true["finished"] - taken
    assert quality(collected, FINISHED) == "approximate"
    assert total(collected, "llm_prefix_cache_hit_tokens_total") == true["cached_tokens"]


@pytest.mark.usefixtures("polled_often")
async def test_two_targets_share_the_records_and_count_none_twice(make: Make) -> None:
    async with draining() as (server, served):
        targets = [make(served.url), make(served.url)]
        for target in targets:
            await collect(target)
        for name in ("load1", "load2", "load3", "idle"):
            for record in records(name):
                server.queue.append(record)
                await server.read_by_its_poller()
        # Which of both got the last one is not known: each has had its turn after this.
        await server.read_by_its_poller(answers=40)
        finished = [total(await collect(t), FINISHED) or 0 for t in targets]
    true = truth(RELEASE / "statistics-idle.truth.json")["engine_truth"]["totals"]
    assert sum(finished) == true["finished"]


@pytest.mark.usefixtures("polled_often")
async def test_a_page_and_statistics_complete_each_other(make: Make) -> None:
    async with draining(response(BARE_PAGE)) as (server, served):
        target = make(served.url)
        await collect(target)
        server.queue += [*records("load1"), *records("load2")]
        await server.read_by_its_poller()
        collected = await collect(target)
    assert collected.debug.url == f"{served.url}/prometheus/metrics"
    assert quality(collected, "llm_time_to_first_token_seconds") == "exact"
    last = records("load2")[-1]["inflightBatchingStats"]["numScheduledRequests"]
    assert total(collected, "llm_requests_running") == last


@pytest.mark.parametrize("page", [None, response(BARE_PAGE), response("")])
@pytest.mark.parametrize("more", [{}, {"metrics_path": "/metrics"}, {"frontend": "trtllm_serve"}])
async def test_who_must_not_destroy_never_asks_for_the_statistics(
    make: Make, page: bytes | None, more: dict[str, str]
) -> None:
    async with draining(page) as (server, served):
        server.queue += records("load1")
        target = make(served.url, destructive=False, **more)
        collected = [await collect(target) for _ in range(3)][-1]
    assert (server.given, len(server.queue)) == ([], len(records("load1")))
    assert collected.debug.frontend == "trtllm_serve"
    assert reasons(collected) == {None: ["records_not_read"], response(""): ["empty_body"]}.get(page, [])


async def test_an_array_that_nobody_owns_is_asked_for_once(make: Make) -> None:
    async with draining(owner="someone") as (server, served):
        target = make(served.url)
        for _ in range(3):
            collected = await collect(target)
            assert (state(collected), reasons(collected)) == ((True, False), ["json_body"])
        assert len(server.given) == 1
        port = int(served.url.rpartition(":")[2])
    assert reasons(await collect(target)) == ["connection_refused"]
    async with serving(pages({"/metrics": response(VLLM)}), port=port):
        assert state(await collect(target)) == (True, True)
