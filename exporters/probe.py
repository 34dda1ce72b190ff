"""The synthetic request of a target: sent in the background on a clock of its own, and what came of the last one."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable

from exporters.completion import MODELS, PATHS, Answer, Problem, Times, no_models, question, served_model
from exporters.config import Server, SyntheticRequest
from exporters.fetch import JSON_TYPE, Client, Failure, fetch, post
from exporters.findings import Finding, finding
from exporters.observation import Labels, Series, labels

_log = logging.getLogger(__name__)

_MAX_BYTES = 2**18
_MAX_MODELS_BYTES = 2**20
_FRESH_INTERVALS = 2

Token = Callable[[], str | None]
"""The server's bearer token, "" where it has none, None where it cannot be read."""
Pause = Callable[[float], Awaitable[None]]


class Asker:
    """Sends the request once and says what came of it."""

    def __init__(
        self,
        client: Client,
        url: str,
        settings: SyntheticRequest,
        token: Token,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._client = client
        self._url = url
        self._settings = settings
        self._token = token
        self._clock = clock

    async def ask(self) -> Times | Problem:
        settings, token = self._settings, self._token() or ""
        deadline = asyncio.get_running_loop().time() + settings.time_allowed
        model = settings.model or await self._served_model(deadline, token)
        if isinstance(model, Problem):
            return model
        content = question(settings.endpoint, model, settings.prompt, settings.max_tokens)
        url = self._url + PATHS[settings.endpoint]
        answer = Answer(self._clock, settings.max_tokens)
        failure = await post(
            self._client, url, content, answer, deadline=deadline, max_bytes=_MAX_BYTES, bearer_token=token
        )
        return answer.judged(failure, settings.time_allowed)

    async def _served_model(self, deadline: float, token: str) -> str | Problem:
        """Asked for each time: the server may have been started anew, with another model."""
        got = await fetch(
            self._client, self._url + MODELS, deadline=deadline, max_bytes=_MAX_MODELS_BYTES, accept=JSON_TYPE,
            bearer_token=token,
        )  # fmt: skip
        return no_models(got, self._settings.time_allowed) if isinstance(got, Failure) else served_model(got.text)


class Prober:
    """Asks every `interval` seconds, one request at a time, and remembers how the last went."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[Times | Problem]],
        identity: Labels,
        interval: float,
        clock: Callable[[], float],
        pause: Pause = asyncio.sleep,
    ) -> None:
        """`clock` tells unix seconds."""
        self._ask = ask
        self._identity = identity
        self._interval = interval
        self._clock = clock
        self._pause = pause
        self._last: tuple[float, Times | Problem] | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns at once; what runs already goes on."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def once(self) -> None:
        try:
            result = await self._ask()
        except Exception as error:
            _log.exception("a synthetic request failed")
            result = Problem(f"inferwatch failed: {type(error).__name__}", "Report it with the traceback in its log.")
        self._last = self._clock(), result

    def report(self, *, up: bool) -> tuple[dict[Series, float], list[Finding]]:
        """Nothing before the first request has ended and once the last is two intervals ago.

        Nor a success while the server is down: that was before.
        """
        if self._last is None or not 0 <= self._clock() - self._last[0] <= _FRESH_INTERVALS * self._interval:
            return {}, []
        result = self._last[1]
        if isinstance(result, Problem):
            return self._values(llm_probe_success=0.0), [finding("probe_failed", result.detail, remedy=result.remedy)]
        times = {
            "llm_probe_time_to_first_token_seconds": result.first_token,
            "llm_probe_duration_seconds": result.whole,
        }
        return self._values(llm_probe_success=1.0, **times) if up else {}, []

    def _values(self, **values: float) -> dict[Series, float]:
        return {Series(metric, self._identity): value for metric, value in values.items()}

    async def _run(self) -> None:
        await self._pause(self._phase())
        while True:
            started = self._clock()
            await self.once()
            took = self._clock() - started
            await self._pause(min(max(self._interval - took, 0.0), self._interval))

    def _phase(self) -> float:
        """Seconds until the first: each server has its own moment, so that those of a fleet do not coincide."""
        return zlib.crc32(repr(self._identity).encode()) / 2**32 * self._interval


def prober(server: Server, node: str, client: Client, token: Token, clock: Callable[[], float]) -> Prober | None:
    settings = server.synthetic_request
    if settings is None:
        return None
    identity = labels({**server.labels, "node": node, "server": server.name})
    return Prober(Asker(client, server.url, settings, token).ask, identity, settings.interval, clock)
