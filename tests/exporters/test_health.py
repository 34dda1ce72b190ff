"""Health that takes its time: asked for beside the metrics, one question at a time, and told as far as it is known."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import httpx
import pytest

from demo.virtual import VirtualLoop
from exporters.collected import Collected
from exporters.config import Server
from exporters.debug import page
from exporters.target import Target

START = 1_796_000_000.0
TIMEOUT = 10.0
NEVER = math.inf
METRICS = b'sglang:num_running_reqs{model_name="m"} 0.0\n'


class Body(httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


@dataclass
class Slow(httpx.AsyncBaseTransport):
    """Answers each path with a status, after so many seconds; 404 at once to the others."""

    answers: dict[str, tuple[int, float]]
    asked: list[tuple[str, float]] = field(default_factory=list)
    """Paths, each with the seconds from the start."""
    most: int = 0
    """Of the questions for health that were open at a time."""
    _open: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append((path, round(asyncio.get_running_loop().time() - START, 3)))
        status, seconds = self.answers.get(path, (404, 0.0))
        self._open += path == "/health"
        self.most = max(self.most, self._open)
        try:
            await (asyncio.Event().wait() if seconds == NEVER else asyncio.sleep(seconds))
        finally:
            self._open -= path == "/health"
        body = METRICS if path == "/metrics" and status == 200 else b""
        heads = {"Content-Type": "text/plain; version=0.0.4", "Content-Length": str(len(body))}
        return httpx.Response(status, headers=heads, stream=Body(body))

    def times(self, path: str) -> list[float]:
        return [at for asked, at in self.asked if asked == path]


@dataclass(frozen=True)
class Read:
    """A collection: the seconds from the start at which it began, how long it took, and what came of it."""

    at: float
    took: float
    collected: Collected

    @property
    def details(self) -> dict[str, str]:
        return {f.reason: f.detail for f in self.collected.observation.findings}


Scene = Callable[[Target], Awaitable[None]]


def lived(slow: Slow, scene: Scene, frontend: str = "sglang") -> None:
    """In a time that passes as soon as nobody has anything to do."""

    async def live() -> None:
        server = Server.model_validate({"url": "http://s", "name": "s", "frontend": frontend})
        clock = asyncio.get_running_loop().time
        target = Target(server, node="n", timeout=TIMEOUT, transport=lambda _: slow, clock=clock)
        await scene(target)
        await target.aclose()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        runner.run(live())


async def until(seconds: float) -> None:
    await asyncio.sleep(START + seconds - asyncio.get_running_loop().time())


async def read_at(target: Target, *seconds: float) -> list[Read]:
    loop, found = asyncio.get_running_loop(), []
    for at in seconds:
        await until(at)
        began = loop.time()
        collected = await target.collect(began + TIMEOUT)
        found.append(Read(at, loop.time() - began, collected))
    return found


def reads(
    health: tuple[int, float], *seconds: float, more: Mapping[str, tuple[int, float]] | None = None
) -> list[Read]:
    found: list[Read] = []

    async def scene(target: Target) -> None:
        found.extend(await read_at(target, *seconds))

    lived(Slow({"/metrics": (200, 0.0), "/health": health, **(more or {})}), scene)
    return found


def test_health_that_takes_longer_than_the_time_out_of_the_server_is_heard() -> None:
    """Asked at once, it answers after 20 s; until then nothing is known."""
    found = reads((503, 20.0), 0, 15, 30)
    assert [read.details.get("unhealthy") for read in found] == [None, None, "HTTP 503"]


def test_a_collection_waits_for_no_answer_about_health() -> None:
    """Other documents are denied at once here, so nothing else takes time."""
    found = reads((503, 20.0), *range(0, 120, 5))
    assert [read.took for read in found] == pytest.approx([0.0] * 24, abs=0.01)
    assert all(read.collected.observation.available for read in found)


@pytest.mark.parametrize(
    ("takes", "asked"), [(1.0, [0, 30, 60, 90]), (20.0, [0, 30, 60, 90]), (NEVER, [0, 30, 60, 90])]
)
def test_health_is_asked_for_each_half_minute_however_often_metrics_are(takes: float, asked: list[float]) -> None:
    slow = Slow({"/metrics": (200, 0.0), "/health": (200, takes)})

    async def scene(target: Target) -> None:
        await read_at(target, *range(0, 120, 5))

    lived(slow, scene)
    assert slow.times("/health") == pytest.approx(asked, abs=0.1)
    assert slow.most == 1


def test_a_question_that_is_not_answered_yet_is_not_asked_again() -> None:
    """LMDeploy is asked each 15 s, and has as long to answer."""
    slow = Slow({"/metrics": (200, 0.0), "/health": (200, 14.5)})

    async def scene(target: Target) -> None:
        await read_at(target, *(each / 2 for each in range(120)))

    lived(slow, scene, "lmdeploy")
    assert slow.most == 1
    assert len(slow.times("/health")) == 4


def test_a_server_whose_health_answered_and_now_does_not_is_not_healthy() -> None:
    found: list[Read] = []
    slow = Slow({"/metrics": (200, 0.0), "/health": (200, 1.0)})

    async def scene(target: Target) -> None:
        found.extend(await read_at(target, 0, 15))
        slow.answers["/health"] = (200, NEVER)
        found.extend(await read_at(target, 30, 45, 60))

    lived(slow, scene)
    assert [read.details.get("unhealthy") for read in found] == [None, None, None, None, "no answer within 25 s"]
    assert all(read.collected.observation.up for read in found)


@pytest.mark.parametrize("status", [200, 404])
def test_other_answers_are_no_failure(status: int) -> None:
    assert [read.details.get("unhealthy") for read in reads((status, 1.0), 0, 15, 60)] == [None] * 3


def test_a_server_whose_health_never_answered_is_not_judged() -> None:
    """It may be out of reach for the sidecar, where metrics are on another port."""
    last = reads((200, NEVER), 0, 15, 30, 45)[-1].collected
    assert [f.reason for f in last.observation.findings if f.reason == "unhealthy"] == []
    assert "health" not in last.debug.documents
    assert last.debug.document_problems["health"] == "timeout: before the server answered"


def test_a_failure_ends_with_the_next_good_answer() -> None:
    found: list[Read] = []
    slow = Slow({"/metrics": (200, 0.0), "/health": (503, 20.0)})

    async def scene(target: Target) -> None:
        found.extend(await read_at(target, 0, 25))
        slow.answers["/health"] = (200, 1.0)
        found.extend(await read_at(target, 30, 35))

    lived(slow, scene)
    assert ["unhealthy" in read.details for read in found] == [False, True, True, False]


def test_what_was_said_of_health_is_forgotten_after_five_minutes() -> None:
    """Nobody read the server meanwhile, so nobody asked."""
    found = reads((503, 20.0), 0, 319, 660)
    assert ["unhealthy" in read.details for read in found] == [False, True, False]


def test_the_debug_page_tells_how_old_each_answer_is() -> None:
    shown = []

    async def scene(target: Target) -> None:
        await read_at(target, 0, 28)
        shown.append(page(target))

    lived(Slow({"/metrics": (200, 0.0), "/health": (503, 20.0)}), scene)
    assert "<tr><td>health</td><td>8 s before</td></tr>" in shown[0]
    assert "&quot;health&quot;: 503" in shown[0]


@pytest.mark.parametrize("frontend", ["sglang", "lmdeploy"])
def test_a_server_whose_metrics_do_not_come_is_not_asked_for_slow_health_to_see_whether_it_lives(frontend: str) -> None:
    """SGLang's takes a second at least, which is all that is left of the time."""
    slow = Slow({"/metrics": (200, NEVER), "/health": (200, 20.0), "/v1/models": (401, 0.0)})
    found: list[Read] = []

    async def scene(target: Target) -> None:
        found.extend(await read_at(target, 0, 12))

    lived(slow, scene, frontend)
    assert [(read.collected.observation.up, list(read.details)) for read in found] == [(True, ["timeout"])] * 2
    assert slow.most == 1


def test_a_server_that_is_down_forgets_what_it_said_of_its_health() -> None:
    found: list[Read] = []
    slow = Slow({"/metrics": (200, 0.0), "/health": (503, 0.0)})

    async def scene(target: Target) -> None:
        found.extend(await read_at(target, 0, 5))
        before = dict(slow.answers)
        slow.answers |= dict.fromkeys(("/metrics", "/health", "/v1/models"), (200, NEVER))
        found.extend(await read_at(target, 10))
        slow.answers = replace(slow, answers=before).answers | {"/health": (200, 1.0)}
        found.extend(await read_at(target, 30, 35))

    lived(slow, scene)
    assert ["unhealthy" in read.details for read in found] == [True, True, False, False, False]
    assert [read.collected.observation.up for read in found] == [True, True, False, True, True]
