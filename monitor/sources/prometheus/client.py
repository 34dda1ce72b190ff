"""Asks the query API, one question after the other and not too often."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from exporters.connection import bearer_token, tls_context
from exporters.fetch import Answer, Failure, ask, transport
from monitor.config import PrometheusSection
from monitor.sources import SourceError
from monitor.sources.prometheus.answers import Away, Points, TimedOut, Told, failed, read
from monitor.sources.prometheus.reach import Reach

_log = logging.getLogger(__name__)

_MAX_BYTES = 32 * 2**20
"""Of JSON; in memory it takes about ten times that, for a moment."""
_MAX_WARNINGS = 100
_SHORTEST = "time()"
_WHOLE_AND_RAW = {
    # Thanos: each replica by itself (they are told apart here), no stores left out, nothing averaged away.
    "dedup": "false",
    "partial_response": "false",
    "max_source_resolution": "0s",
    # VictoriaMetrics: no stores left out, no moments shifted, nothing held back for being new.
    "deny_partial_response": "1",
    "nocache": "1",
}
"""Who does not know these parameters ignores them."""
_SHARE_OF_TIMEOUT = 0.9
"""So that the server ends a question that takes too long, and says so, before it is given up."""


def source_key(config: PrometheusSection) -> str:
    """Under which it is kept how far this was read."""
    tenant = f" of {config.tenant}" if config.tenant else ""
    return f"{config.url}{tenant} {{{','.join(sorted(config.selector))}}}"


class Client:
    def __init__(
        self,
        config: PrometheusSection,
        *,
        max_bytes: int = _MAX_BYTES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = config.url
        self.native_histograms = 0
        """How many were left out so far."""
        self._config = config
        self._max_bytes = max_bytes
        self._sleep = sleep
        self._transport = transport(tls_context(config))
        self._turn = asyncio.Lock()
        self._next = 0.0
        self._by_get = False
        self._warned: set[str] = set()
        self._reach = Reach(config.url, time.monotonic)

    async def now(self) -> float:
        """The server's own clock, in unix seconds."""
        series = await self.query(_SHORTEST)
        if len(series) != 1:
            raise SourceError(f"{self._asking}: it does not tell its time")
        return series[0].points[0][1]

    async def query(self, expression: str, at: float | None = None) -> list[Points]:
        """One point a series, or of a range vector all samples. `at` in unix seconds, else the server's now.

        Raises SourceError; TooMuch and Busy are for whoever can do something about it.
        """
        return await self._ask("query", {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"}))

    async def query_range(self, expression: str, start: float, end: float, step: float) -> list[Points]:
        """A point at every `step` seconds from `start` to `end`, where there is one."""
        window = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return await self._ask("query_range", {"query": expression} | window)

    async def aclose(self) -> None:
        await self._transport.aclose()

    @property
    def _asking(self) -> str:
        return f"could not ask Prometheus at {self.name}"

    async def _ask(self, path: str, question: dict[str, str]) -> list[Points]:
        async with self._turn:
            told = await self._reached(path, question)
        self.native_histograms += told.native_histograms
        for warning in told.warnings:
            self._warn(warning)
        return told.series

    async def _reached(self, path: str, question: dict[str, str]) -> Told:
        """That nobody is there is told here, since all who ask find that out."""
        try:
            told = await self._told(path, question)
        except SourceError as error:
            error.is_told = await self._is_away(error)
            if error.is_told:
                self._reach.lose(error)
            else:
                self._reach.regain()
            raise
        self._reach.regain()
        return told

    async def _is_away(self, error: SourceError) -> bool:
        """Where a question takes too long the shortest one tells whether it is the question."""
        if isinstance(error, TimedOut) and not self._reach.is_lost:
            try:
                await self._told("query", {"query": _SHORTEST})
            except SourceError as shortest:
                return isinstance(shortest, Away | TimedOut)
            return False
        return isinstance(error, Away | TimedOut)

    async def _told(self, path: str, question: dict[str, str]) -> Told:
        timeout = f"{self._config.timeout * _SHARE_OF_TIMEOUT * 1000:.0f}ms"
        answer = await self._answer(path, urlencode({**question, "timeout": timeout, **_WHOLE_AND_RAW}))
        if isinstance(answer, Failure):
            raise failed(answer, self._asking)
        return await asyncio.to_thread(read, answer, self._asking)

    async def _answer(self, path: str, form: str) -> Answer | Failure:
        """By POST, since questions may be longer than an address; who refuses that is asked by GET from then on."""
        answer = await self._send(path, form)
        if isinstance(answer, Answer) and answer.status == 405 and not self._by_get:
            self._by_get = True
            answer = await self._send(path, form)
        return answer

    async def _send(self, path: str, form: str) -> Answer | Failure:
        clock = asyncio.get_running_loop().time
        if (early := self._next - clock()) > 0:
            await self._sleep(early)
        self._next = clock() + 1 / self._config.max_requests_per_second
        url = f"{self.name}/api/v1/{path}"
        return await ask(
            self._transport,
            f"{url}?{form}" if self._by_get else url,
            deadline=clock() + self._config.timeout,
            max_bytes=self._max_bytes,
            form=None if self._by_get else form.encode(),
            headers=self._headers(),
        )

    def _headers(self) -> dict[str, str]:
        headers = dict(self._config.headers)
        if self._config.tenant:
            headers["X-Scope-OrgID"] = self._config.tenant
        if token := bearer_token(self._config):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _warn(self, warning: str) -> None:
        if warning not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add(warning)
            _log.warning("Prometheus at %s warns: %s", self.name, warning)
