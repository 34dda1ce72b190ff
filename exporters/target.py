"""One server: its documents, what they say, and what is wrong with it. Whatever it does, a collection has a result."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from exporters import detect, probe, tls
from exporters.account import Account
from exporters.collected import Collected, Outcome, chunks_of, debug_of, observation_of
from exporters.config import Server
from exporters.exposition import InvalidExposition
from exporters.fetch import JSON_TYPE, METRICS_TYPE, Body, Failure, fetch, transport
from exporters.findings import Finding, finding
from exporters.normalise import Identity, Limits, Normaliser, Reading, TooManySamples
from exporters.schema import METRICS as SCHEMA
from exporters.schema import Type
from exporters.side import METRICS, SideDocuments
from exporters.table import Document, Form, Frontend
from exporters.tables import FRONTENDS
from exporters.window import Recent

_log = logging.getLogger(__name__)

_DEFAULT_METRICS = "/metrics"
_DEFAULT_HEALTH = Document("health", "/health", Form.STATUS)
_SETTLE_SECONDS = 0.5
"""How long a collection waits for side documents that it has not seen yet, e.g. the first."""
_HEALTH_RESERVE = 0.2
"""Share of a collection's time that is kept to ask for health when the metrics do not come."""
_MAX_RESERVE_SECONDS = 1.0
_MAX_SIDE_BYTES = 2**20
_LINES_PER_SAMPLE = 3
"""A page of one sample a family, each with its HELP and TYPE line: the longest there is for its samples."""
_BIG_CHARACTERS = 2**19
_SAME_START_SECONDS = 1.0

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class Target:
    """Keeps its connection, compiled plans, window and counters from one collection to the next."""

    def __init__(
        self,
        server: Server,
        *,
        node: str,
        timeout: float = 10.0,
        model_aliases: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        destructive: bool = True,
    ) -> None:
        """`timeout` where the server has none of its own; `clock` tells unix seconds."""
        self.server = server
        self.timeout = server.timeout or timeout
        self.last: Collected | None = None
        self.last_error: tuple[float, Finding] | None = None
        self._clock = clock
        self._tls = _tls_context(server)
        self._client = transport(self._tls)
        self._identity = Identity(node, server.name, server.labels, model_aliases or {}, server.role or "")
        self._account = Account({**server.labels, "node": node, "server": server.name})
        self._prober = probe.prober(server, node, self._client, lambda: bearer_token(server), clock)
        self._side = SideDocuments(self._read_side, clock, destructive=destructive)
        self._path = server.metrics_path
        self._normaliser: Normaliser | None = None
        self._recent = Recent()
        self._before: Reading | None = None
        self._running: asyncio.Task[Collected] | None = None
        self._started = 0.0
        if server.frontend:
            self._become(FRONTENDS[server.frontend])

    def is_for(self, server: Server, node: str, timeout: float, model_aliases: Mapping[str, str]) -> bool:
        """Whether a new target with these settings would be the same, certificates included."""
        known = self._identity
        same = (server, node, server.timeout or timeout, dict(model_aliases))
        current = (self.server, known.node, self.timeout, dict(known.model_aliases))
        return same == current and _tls_context(server) is self._tls

    def collecting(self, deadline: float, gate: asyncio.Semaphore) -> asyncio.Task[Collected]:
        """The collection in flight, or a new one: a server is never asked twice at a time."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._when_free(deadline, gate))
        return self._running

    async def _when_free(self, deadline: float, gate: asyncio.Semaphore) -> Collected:
        self._started = _loop_time()
        async with gate:
            return await self.collect(deadline)

    async def collect(self, deadline: float) -> Collected:
        """`deadline` in the running loop's time; the server's own time-out may come before it."""
        self._started = _loop_time()
        if self._prober is not None:
            self._prober.start()
        outcome = Outcome(self._clock())
        try:
            await self._observe(outcome, min(deadline, self._started + self.timeout))
            self.last = self._collected(outcome)
        except Exception as error:
            _log.exception("%s: could not be normalised", self.server.name)
            outcome.reading, outcome.recent = None, {}
            outcome.findings = [finding("internal_error", type(error).__name__)]
            self.last = self._collected(outcome)
        return self.last

    def late(self) -> Collected:
        """What is said of this target while its collection is still running."""
        outcome = Outcome(self._clock(), findings=[finding("timeout", "still being collected")])
        return self._assembled(outcome)

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._prober is not None:
            await self._prober.aclose()
        await self._side.aclose()
        await self._client.aclose()

    def _become(self, frontend: Frontend) -> None:
        limits = Limits(max_samples=self.server.max_samples, max_models=self.server.max_models)
        self._normaliser = Normaliser(frontend, self._identity, limits)
        self._recent = Recent()
        self._before = None
        self._side.follow(frontend)

    async def _observe(self, outcome: Outcome, deadline: float) -> None:
        self._side.refresh()
        reserve = min(_MAX_RESERVE_SECONDS, (deadline - _loop_time()) * _HEALTH_RESERVE)
        answer = await self._metrics(outcome, deadline - reserve)
        outcome.at = self._clock()
        if isinstance(answer, Body):
            outcome.up, outcome.body = True, answer
            await self._normalise(outcome, answer, deadline)
            if not outcome.available and not outcome.findings:
                outcome.findings.append(finding("no_engine_metrics"))
            return
        outcome.findings.append(finding(answer.reason, answer.detail))
        outcome.up = answer.answered or (await self._read(self._health(), deadline)).status is not None
        if not outcome.up:
            self._side.forget()

    async def _metrics(self, outcome: Outcome, deadline: float) -> Body | Failure:
        outcome.url = self._url(self._metrics_path())
        answer = await self._get(outcome.url, deadline, METRICS_TYPE, self.server.max_body_bytes)
        if self._path or self._normaliser or not _points_elsewhere(answer):
            return answer
        for path in _other_metrics_paths(self._metrics_path()):
            other = await self._get(self._url(path), deadline, METRICS_TYPE, self.server.max_body_bytes)
            if isinstance(other, Body) and detect.detect(other.text, other.content_type).frontend:
                self._path, outcome.url = path, self._url(path)
                return other
        return answer

    async def _normalise(self, outcome: Outcome, body: Body, deadline: float) -> None:
        reading = await self._reading(body, deadline)
        if not isinstance(reading, Reading) or not reading.available:
            reading = await self._detected(outcome, body, deadline, reading)
        if isinstance(reading, Finding):
            outcome.findings.append(reading)
        elif reading is not None:
            self._take(outcome, reading)

    async def _reading(self, body: Body, deadline: float) -> Reading | Finding | None:
        """None while nobody knows what frontend this is."""
        if self._normaliser is None:
            return None
        await self._settle(deadline)
        reading = await _worked(body, self._page, self._normaliser, body)
        if isinstance(reading, Reading) and self._before is not None and _is_restart(self._before, reading):
            self._side.forget()
            self._side.refresh()
            await self._settle(deadline)
            reading = await _worked(body, self._page, self._normaliser, body)
        return reading

    def _page(self, normaliser: Normaliser, body: Body) -> Reading | Finding:
        try:
            return normaliser.normalise(body.text, dict(self._side.values))
        except InvalidExposition as error:
            return finding("invalid_exposition", str(error))
        except TooManySamples as error:
            return finding("too_many_samples", str(error))

    async def _detected(
        self, outcome: Outcome, body: Body, deadline: float, reading: Reading | Finding | None
    ) -> Reading | Finding | None:
        """What the page is, if not what it was taken for."""
        if body.text.count("\n") > _LINES_PER_SAMPLE * self.server.max_samples:
            return finding("too_many_samples", f"more than {self.server.max_samples}")
        detected = await _worked(body, detect.detect, body.text, body.content_type)
        frontend, found = detected.frontend, detected.finding
        if found is not None and frontend is not None and not await self._is_confirmed(frontend, deadline):
            found, frontend = detect.unconfirmed(frontend), None
        if found is not None:
            outcome.findings.append(found)
        if frontend is None:
            return None
        if self._normaliser is not None and self._normaliser.frontend is frontend:
            return reading
        if self.server.frontend:
            detail = f"it looks like {frontend.name}, configured is {self.server.frontend}"
            return finding("no_engine_metrics", detail)
        self._become(frontend)
        self._side.refresh()
        return await self._reading(body, deadline)

    async def _is_confirmed(self, frontend: Frontend, deadline: float) -> bool:
        """Whether it is `frontend`, though its page shows no engine metrics."""
        if self.server.frontend == frontend.name:
            return True
        self._side.follow(frontend)
        self._side.refresh()
        await self._settle(deadline)
        return detect.is_confirmed(frontend, self._side.values)

    def _take(self, outcome: Outcome, reading: Reading) -> None:
        outcome.reading = reading
        outcome.findings += reading.findings
        outcome.recent = self._recent.advance(
            outcome.at, reading.values, reading.histograms, start_time=reading.start_time
        )
        self._before = reading

    async def _settle(self, deadline: float) -> None:
        await self._side.settle(min(_SETTLE_SECONDS, deadline - _loop_time()))

    async def _read_side(self, document: Document) -> Body | Failure:
        return await self._read(document, _loop_time() + self.timeout)

    async def _read(self, document: Document, deadline: float) -> Body | Failure:
        accept = JSON_TYPE if document.form is Form.JSON else "*/*"
        return await self._get(self._url(document.path), deadline, accept, _MAX_SIDE_BYTES)

    async def _get(self, url: str, deadline: float, accept: str, max_bytes: int) -> Body | Failure:
        token = bearer_token(self.server)
        got = await fetch(
            self._client, url, deadline=deadline, max_bytes=max_bytes, accept=accept, bearer_token=token or ""
        )
        if token is None and isinstance(got, Failure) and got.reason == "unauthorized":
            return replace(got, reason="credentials_unreadable")
        return got

    def _url(self, path: str) -> str:
        """A path that starts with a port (`:8002/metrics`) stands for another port of the same host."""
        if not path.startswith(":"):
            return self.server.url + path
        parts = urlsplit(self.server.url)
        host = parts.netloc.removesuffix(f":{parts.port}") if parts.port is not None else parts.netloc
        return f"{parts.scheme}://{host}{path}"

    def _metrics_path(self) -> str:
        if self._path:
            return self._path
        return self._normaliser.frontend.document(METRICS).path if self._normaliser else _DEFAULT_METRICS

    def _health(self) -> Document:
        documents = self._normaliser.frontend.documents if self._normaliser else ()
        return next((d for d in documents if d.form is Form.STATUS), _DEFAULT_HEALTH)

    def _collected(self, outcome: Outcome) -> Collected:
        if (error := outcome.error) is not None:
            self.last_error = (outcome.at, error)
            self._account.failed(error.reason)
        if outcome.reading is not None:
            self._account.dropped(outcome.reading.dropped)
        return self._assembled(outcome)

    def _assembled(self, outcome: Outcome) -> Collected:
        frontend = self._normaliser.frontend.name if self._normaliser else ""
        if self._prober is not None:
            outcome.probed, found = self._prober.report(up=outcome.up)
            outcome.findings += found
        before = self.last.debug if self.last else None
        debug = debug_of(outcome, frontend, self._side.values, self._side.problems, before)
        observation = observation_of(outcome, self._identity, _loop_time() - self._started)
        return Collected(observation, chunks_of(outcome, observation, self._account), debug)


def bearer_token(server: Server) -> str | None:
    """Read anew for each request, so that a token may be replaced. None where it cannot be read or is no token."""
    token = ""
    if server.bearer_token_env is not None:
        token = os.environ.get(server.bearer_token_env, "")
    elif server.bearer_token_file is not None:
        try:
            token = server.bearer_token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
    else:
        return ""
    return token if re.fullmatch(r"[!-~]+", token) else None


def _tls_context(server: Server) -> ssl.SSLContext:
    if server.url.startswith("http://"):
        return tls.unused()
    return server.tls.context() if server.tls else tls.context()


async def _worked(body: Body, function: Callable[_Given, _Made], *given: _Given.args, **more: _Given.kwargs) -> _Made:
    """Aside of the event loop where it may take long, so that the other targets do not wait."""
    if len(body.text) < _BIG_CHARACTERS:
        return function(*given, **more)
    return await asyncio.to_thread(function, *given, **more)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _points_elsewhere(answer: Body | Failure) -> bool:
    """Some frontends answer 404, or JSON, where others have their metrics."""
    if isinstance(answer, Failure):
        return answer.reason == "not_found"
    return answer.text.lstrip()[:1] in ("[", "{")


def _other_metrics_paths(path: str) -> list[str]:
    known = [f.document(METRICS).path for f in FRONTENDS.values()]
    return [p for p in dict.fromkeys(known) if p != path]


def _is_restart(before: Reading, now: Reading) -> bool:
    """By the process's start time where it tells, else by a counter that fell."""
    if before.start_time is not None and now.start_time is not None:
        return abs(now.start_time - before.start_time) > _SAME_START_SECONDS
    return any(
        SCHEMA[series.metric].type is Type.COUNTER and value < before.values.get(series, value)
        for series, value in now.values.items()
    )
