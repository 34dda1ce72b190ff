"""What each release says of its health while its engine stands still, held to what is known of the real ones:

- SGLang 0.5.23 waits up to 20 s for any output of its scheduler and looks each second; 0.4.9 asks nobody.
- LMDeploy since 0.14.0 looks each 12 s, and is unhealthy after more than 90 s without a step while it has requests.
- vLLM, TensorRT-LLM and older LMDeploys notice engines that died, none that hangs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import httpx
import pytest

from demo.faces.lmdeploy import Lmdeploy
from demo.faces.sglang import Sglang
from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.model import Answer, Identity, Limits
from demo.reply import Reply
from demo.server import FACES, Spec
from demo.transport import FleetTransport
from demo.truth import Window
from demo.virtual import VirtualLoop
from demo.workload import Mix, Rate
from tests.demo.faces.planned import Plan, Script
from tests.demo.faces.scripted import START, Scripted

HEALTH = {"triton": "/v2/health/live"}
FOR_EVER = START + 10**6


def sglang(release: str, *still: float) -> Sglang:
    """Engines that stand still for so many seconds from now on."""
    return Sglang(Identity("m", release, START), [Scripted(still_until=START + seconds) for seconds in still])


def told(answer: Answer) -> tuple[int, float]:
    """The status, and the seconds until it comes."""
    return answer.status, answer.seconds


@pytest.mark.parametrize(
    ("frontend", "release"),
    [("vllm", "0.32.0"), ("lmdeploy", "0.9.2"), ("trtllm_serve", "1.2.1"), ("triton", "24.11"), ("sglang", "0.4.9")],
)
def test_those_that_ask_no_engine_are_healthy_while_it_hangs(frontend: str, release: str) -> None:
    made = FACES[frontend](Identity("m", release, START), [Scripted(still_until=FOR_EVER)])
    for seconds in (0, 100, 1000):
        assert told(made.answer(HEALTH.get(frontend, "/health"), START + seconds)) == (200, 0)


@pytest.mark.parametrize(
    ("still", "status", "seconds"),
    [(0, 200, 1), (0.5, 200, 1), (1.5, 200, 2), (19.5, 200, 20), (20.5, 503, 20), (10**6, 503, 20)],
)
def test_sglang_waits_for_its_scheduler_and_looks_each_second(still: float, status: int, seconds: float) -> None:
    assert told(sglang("0.5.23", still).answer("/health", START)) == (status, seconds)


def test_of_several_schedulers_one_that_works_is_enough() -> None:
    assert told(sglang("0.5.23", 10**6, 0).answer("/health", START)) == (200, 1)


@pytest.mark.parametrize(("still", "said"), [(0, (200, 1)), (10**6, (503, 20))])
def test_an_old_sglang_asks_its_scheduler_at_another_path(still: float, said: tuple[int, float]) -> None:
    assert told(sglang("0.4.9", still).answer("/health_generate", START)) == said


@pytest.mark.parametrize(
    ("path", "waits"),
    [("/server_info", True), ("/get_server_info", True), ("/metrics", False), ("/v1/models", False),
     ("/v1/loads", False), ("/model_info", False)],
)  # fmt: skip
def test_what_sglang_has_to_ask_its_schedulers_does_not_come_while_one_hangs(path: str, waits: bool) -> None:
    assert sglang("0.5.23", 0, 300).answer(path, START).seconds == (300 if waits else 0)
    assert sglang("0.5.23", 0, 0).answer(path, START).seconds == 0


class Lmdeployed:
    """0.18.0, asked at seconds after its start."""

    def __init__(self, *plans: Plan) -> None:
        self._engine = Script(Limits(running=4, kv_tokens=25_600, block_tokens=64), START)
        self._face = Lmdeploy(Identity("m", "0.18.0", START), [self._engine])
        self._engine.observe(self._face.observer(0))
        self._engine.plan(*plans)

    def statuses(self, *seconds: float) -> list[int]:
        return [self.answer(each).status for each in seconds]

    def answer(self, seconds: float) -> Answer:
        return self._face.answer("/health", self._engine.advance(seconds))


NEVER_SCHEDULED = Plan(at=20, queue=10_000)


def test_an_lmdeploy_that_hangs_idle_is_healthy() -> None:
    assert Lmdeployed().statuses(0, 100, 1000) == [200, 200, 200]


def test_an_lmdeploy_is_unhealthy_once_a_request_waited_for_90_seconds_without_a_step() -> None:
    """It looks at 24 s, and then each 12 s: at 108 s these are 84, at 120 s they are 96."""
    assert Lmdeployed(NEVER_SCHEDULED).statuses(25, 110, 119.9, 120, 500) == [200, 200, 200, 503, 503]


def test_an_lmdeploy_says_in_json_how_it_is() -> None:
    made = Lmdeployed(NEVER_SCHEDULED)
    for seconds, status in ((60, "healthy"), (200, "unhealthy")):
        answer = made.answer(seconds)
        assert answer.content_type == "application/json"
        said = json.loads(answer.body)
        assert (said["status"], said.keys()) == (status, {"status", "message"})


def test_an_lmdeploy_that_goes_on_is_healthy_at_once() -> None:
    """Its next step is at 200.1 s."""
    assert Lmdeployed(Plan(at=20, queue=180)).statuses(199, 201) == [503, 200]


def test_steps_that_are_a_minute_apart_are_progress() -> None:
    slow = Lmdeployed(Plan(at=20, tokens=11, gap=60))
    assert slow.statuses(*range(30, 600, 30)) == [200] * 19


# The truth


MIX = Mix("mix", Fixed(100), Fixed(50), stops=0.0)
RELEASES = {"sglang": "0.5.23", "lmdeploy": "0.18.0"}


def fleet(rate: float = 0.5) -> Fleet:
    specs = [Spec(name, "n", name, release, "m", (), Limits(waiting=64)) for name, release in RELEASES.items()]
    services = [Service(name, (name,), MIX, Rate(rate, 0.0)) for name in RELEASES]
    return Fleet(specs, services, {}, seed=3, start=START)


def hung(made: Fleet, since: float, until: float) -> Mapping[str, float]:
    window = Window(START + since, START + until)
    return {name: made.truth.summary(window, {f"{name}/0"}).hung_seconds for name in RELEASES}


def test_the_truth_tells_how_long_a_server_hung() -> None:
    made = fleet()
    made.order([{"kind": "hang", "target": "sglang", "after": 60, "seconds": 300}], START)
    made.advance(START + 600)
    assert hung(made, 0, 600) == {"sglang": 300, "lmdeploy": 0}
    assert [hung(made, *part)["sglang"] for part in ((0, 60), (0, 100), (100, 160), (350, 400))] == [0, 40, 60, 10]


def test_a_hang_that_a_restart_ended_was_that_long() -> None:
    made = fleet()
    (fault,) = made.order([{"kind": "hang", "target": "sglang", "after": 60, "seconds": 3000}], START)
    made.advance(START + 160)
    made.schedule.end(fault.number, made.now)
    made.advance(START + 600)
    assert hung(made, 0, 600)["sglang"] == 100


def health(made: Fleet, server: str, seconds: float) -> Reply:
    return made.answer(server, "/health", START + seconds)


def test_health_fails_where_the_truth_says_that_the_server_hangs() -> None:
    """SGLang's is known 20 s after the question, LMDeploy's 90 s, two looks and an arrival after the last step. At the
    hang's own end neither has made a step yet."""
    made = fleet()
    for name in RELEASES:
        made.order([{"kind": "hang", "target": name, "after": 300, "seconds": 600}], START)
    for seconds in range(10, 1200, 10):
        said = {name: health(made, name, seconds) for name in RELEASES}
        failed = {name for name, reply in said.items() if reply.answer and reply.answer.status == 503}
        assert ("sglang" in failed) == (300 <= seconds <= 880), seconds
        assert said["sglang"].wait == 20 if "sglang" in failed else 1 <= said["sglang"].wait <= 20, seconds
        if not 390 <= seconds < 430:
            assert ("lmdeploy" in failed) == (430 <= seconds <= 900), seconds
    assert hung(made, 0, 1200) == {"sglang": 600, "lmdeploy": 600}


def test_whoever_asks_waits_for_the_answer() -> None:
    made = fleet()
    made.order([{"kind": "hang", "target": "sglang", "after": 60, "seconds": 600}], START)

    async def ask() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100)
        asked = loop.time()
        async with httpx.AsyncClient(transport=FleetTransport(made), timeout=None) as client:
            answer = await client.get("http://sglang/health")
        return answer.status_code, loop.time() - asked

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        status, seconds = runner.run(ask())
    assert (status, round(seconds, 3)) == (503, 20)
