"""Advice on pages that real servers wrote: each recorded state is read for some minutes, one after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import httpx
from sqlalchemy import Engine

from demo.virtual import VirtualLoop
from exporters.config import Config
from exporters.sidecar import Sidecar
from monitor.advise.adviser import Adviser
from monitor.advise.model import Confidence, Finding
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.store import Store
from monitor.recorder import Recorder
from monitor.sources.in_process import InProcess
from tests.monitor.evaluate.minutes import START

VLLM = Path(__file__).parents[2] / "captures" / "vllm" / "0.32.0"
MINUTE = 60.0
EACH = 5
"""Minutes that each page is shown for."""


class Shown(httpx.AsyncBaseTransport):
    """One server, whose metrics pages follow each other; its other documents stay."""

    def __init__(self, run: str, pages: Sequence[str]) -> None:
        self._pages = [(VLLM / f"{run}-{page}.prom").read_bytes() for page in pages]
        self._others = json.loads((VLLM / f"{run}-endpoints.json").read_text())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/metrics":
            minute = int((asyncio.get_running_loop().time() - START) // MINUTE)
            return _answer(200, self._pages[min(minute // EACH, len(self._pages) - 1)])
        known = self._others.get(path, {"status": 404, "body": ""})
        return _answer(known["status"], known["body"].encode())


def _answer(status: int, body: bytes) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(body))


def advice_on(database: Engine, run: str, pages: Sequence[str]) -> list[Finding]:
    minutes, fleet = EACH * len(pages), Fleet()

    async def live() -> None:
        clock = asyncio.get_running_loop().time
        server = {"name": "s1", "url": "http://s1"}
        config = Config.model_validate({"node": "n1", "servers": [server], "gpus": {"source": "off"}})
        source = InProcess(Sidecar(config, clock=clock, transport=lambda _: Shown(run, pages)))
        recorder = Recorder([source], fleet, Store(database), interval=MINUTE, clock=clock)
        for _ in range(minutes + 1):
            await recorder.observe(source)
            await asyncio.sleep(MINUTE)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(float(START))) as runner:
        runner.run(live())
    until = START + minutes * MINUTE
    return list(Adviser(History(database), list, fleet).advise(START, until, now=until).advice.findings)


def test_speculation_by_ngrams_of_random_weights_is_told_to_lose(database: Engine) -> None:
    pages = ["0-fresh", *(f"1-mid0{n}" for n in range(1, 6)), "2-after", "3-aborted"]
    (finding,) = advice_on(database, "B-2api-ngram", pages)
    assert (finding.name, finding.confidence) == ("speculation_loses", Confidence.HIGH)
    assert {e.what: e.value for e in finding.evidence} == {
        "drafted tokens accepted": 1 / 13_067, "tokens drafted": 13_067.0,
    }  # fmt: skip
    assert finding.change is not None
    assert finding.change.text == "start without `--speculative-config`"


def test_a_server_whose_statistics_are_off_is_told_by_which_flag(database: Engine) -> None:
    pages = ["0-fresh", "1-mid01", "2-after", "3-aborted", "4-errors"]
    (finding,) = advice_on(database, "D-nologstats", pages)
    assert (finding.name, finding.confidence) == ("metrics_missing", Confidence.HIGH)
    assert "Start vLLM without `--disable-log-stats`." in finding.instead


def test_a_busy_server_with_prefix_caching_gets_no_advice(database: Engine) -> None:
    pages = ["0-fresh", *(f"1-mid{n:02}" for n in range(1, 13)), "2-after"]
    assert [finding.name for finding in advice_on(database, "A", pages)] == []
