"""One server: its documents, what they say, and what is wrong with it. Whatever it does, a collection has a result."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import ParamSpec, TypeVar

from exporters import detect, pageless, probe
from exporters.account import Account
from exporters.collected import Collected, Outcome, chunks_of, debug_of, observation_of
from exporters.config import Server
from exporters.connection import Connection, bearer_token, tls_context
from exporters.delta import is_another_process
from exporters.detect import Detected
from exporters.exposition import InvalidExposition
from exporters.fetch import Body, Failure, Transport, transport
from exporters.findings import Finding, finding
from exporters.normalise import Identity, Limits, Normaliser, Reading, TooManySamples
from exporters.paths import MetricsPaths, points_elsewhere, url_of
from exporters.schema import METRICS as SCHEMA
from exporters.schema import Type
from exporters.shared import SharedPlans
from exporters.side import SideDocuments
from exporters.table import Document, Form, Frontend
from exporters.tables import FRONTENDS
from exporters.turns import Turns
from exporters.window import Recent

_log = logging.getLogger(__name__)

_DEFAULT_HEALTH = Document("health", "/health", Form.STATUS)
_SETTLE_SECONDS = 0.5
"""How long a collection waits for side documents that it has not seen yet, e.g. the first."""
_STOOD_STILL_SECONDS = 0.1
"""How late a wait ends at least that this process, or its event loop, did not follow."""
_HEALTH_RESERVE = 0.2
"""Share of a collection's time that is kept to ask for health when the metrics do not come."""
_MAX_RESERVE_SECONDS = 1.0
_LINES_PER_SAMPLE = 3
"""A page of one sample a family, each with its HELP and TYPE line: the longest there is for its samples."""
_BIG_CHARACTERS = 2**19

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class Target:
    """Keeps its connection, compiled plans, window and counters from one collection to the next."""

    def __init__(  # noqa: PLR0913
        self,
        server: Server,
        *,
        node: str,
        timeout: float = 10.0,
        model_aliases: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        destructive: bool = True,
        patience: float | None = None,
        transport: Transport = transport,
        turns: Turns | None = None,
        plans: SharedPlans | None = None,
    ) -> None:
        """`timeout` where the server has none of its own; `clock` tells unix seconds.

        `destructive`: whether documents may be read whose reading takes records away. `patience`: how many seconds a
        collection waits for side documents that it has not seen yet. `turns` and `plans`: those of all targets.
        """
        self.server = server
        self.timeout = server.timeout or timeout
        self.last: Collected | None = None
        self.last_error: tuple[float, Finding] | None = None
        self._clock = clock
        self._patience = patience
        self._connection = Connection(server, self.timeout, transport)
        self._identity = _identity(server, node, model_aliases or {})
        self._account = Account({**server.labels, "node": node, "server": server.name})
        self._prober = probe.prober(server, node, self._connection.client, lambda: bearer_token(server), clock)
        self._side = SideDocuments(self._connection.read_aside, clock, destructive=destructive)
        self._paths = MetricsPaths(server.metrics_path)
        self._normaliser: Normaliser | None = None
        self._recent = Recent()
        self._before: Reading | None = None
        self._running: asyncio.Task[Collected] | None = None
        self._started = 0.0
        self._turns = turns or Turns()
        self._plans = plans
        self._outcome: Outcome | None = None
        if server.frontend:
            self._become(FRONTENDS[server.frontend])

    def is_for(self, server: Server, node: str, timeout: float, model_aliases: Mapping[str, str]) -> bool:
        """Whether a new target with these settings would be the same, certificates included."""
        known = self._identity
        same = (server, node, server.timeout or timeout, dict(model_aliases))
        current = (self.server, known.node, self.timeout, dict(known.model_aliases))
        return same == current and tls_context(server) is self._connection.tls

    def collecting(self, deadline: float, gate: asyncio.Semaphore) -> asyncio.Task[Collected]:
        """The collection in flight, or a new one: a server is never asked twice at a time."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._when_free(deadline, gate))
        return self._running

    async def _when_free(self, deadline: float, gate: asyncio.Semaphore) -> Collected:
        self._started, self._outcome = _loop_time(), None
        async with gate:
            return await self.collect(deadline)

    async def collect(self, deadline: float) -> Collected:
        """`deadline` in the running loop's time; the server's own time-out may come before it."""
        self._started = _loop_time()
        if self._prober is not None:
            self._prober.start()
        self._outcome = outcome = Outcome(self._clock())
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
        now = self._outcome
        if now is None:
            outcome = Outcome(self._clock(), self._was_up, findings=[finding("not_read_yet", "not asked yet")])
        elif now.up:
            outcome = Outcome(self._clock(), True, findings=[finding("not_read_yet", "it has answered")])
        else:
            outcome = Outcome(self._clock(), findings=[finding("timeout", "still being collected")])
        return self._assembled(outcome)

    @property
    def _was_up(self) -> bool:
        return self.last is not None and self.last.observation.up

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._prober is not None:
            await self._prober.aclose()
        await self._side.aclose()
        await self._connection.aclose()

    @property
    def _frontend(self) -> Frontend | None:
        return self._normaliser.frontend if self._normaliser else None

    def _become(self, frontend: Frontend) -> Normaliser:
        """What follows is `frontend`'s, as it was if it is the one already."""
        if self._normaliser is None or self._normaliser.frontend is not frontend:
            limits = Limits(max_samples=self.server.max_samples, max_models=self.server.max_models)
            self._normaliser = Normaliser(frontend, self._identity, limits, self._plans)
            self._recent = Recent()
            self._before = None
            self._side.follow(frontend)
        self._side.refresh()
        return self._normaliser

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
        outcome.up = answer.answered or await self._lives(deadline)
        if not outcome.up:
            self._side.forget()
            self._paths.forget()
        is_elsewhere = not outcome.url.startswith(f"{self.server.url}/")
        if outcome.up and (answer.reason in ("not_found", "json_body") or (is_elsewhere and not answer.answered)):
            await self._without_page(outcome, answer, deadline)
        else:
            outcome.findings.append(finding(answer.reason, answer.detail))

    async def _metrics(self, outcome: Outcome, deadline: float) -> Body | Failure:
        frontend = self._frontend or await self._owner(deadline)
        paths = self._paths.candidates(frontend)
        answers = []
        for path in paths:
            outcome.url = url_of(self.server.url, path)
            answer = await self._connection.metrics(outcome.url, deadline)
            outcome.up |= isinstance(answer, Body)
            if isinstance(answer, Body) and len(paths) > 1 and await self._is_recognised(answer, deadline):
                self._paths.found(path)
                return answer
            answers.append((outcome.url, answer))
            if not points_elsewhere(path, answer):
                break
        outcome.url, answer = answers[0]
        return answer if frontend else self._paths.judged(answer)

    async def _owner(self, deadline: float) -> Frontend | None:
        """Asked before the metrics page: at its common path some servers have records that can be read only once."""
        self._side.follow(detect.UNKNOWN)
        self._side.refresh()
        await self._settle(deadline)
        return detect.owner_of(self._side.values)

    async def _without_page(self, outcome: Outcome, answer: Failure, deadline: float) -> None:
        """The server lives and has no metrics page: what it is, and what its other documents tell."""
        await self._settle(deadline)
        self._paths.lost()
        owned = detect.by_owner(self._side.values)
        frontend = FRONTENDS[self.server.frontend] if self.server.frontend else owned.frontend
        detail = "; ".join(filter(None, (answer.detail, owned.detail)))
        if frontend is None:
            self._normaliser = None
            outcome.findings.append(finding(answer.reason, detail))
            return
        normaliser = self._become(frontend)
        await self._settle(deadline)
        reading = self._page(normaliser, "")
        why = pageless.why(answer.reason, detail, frontend, self._side)
        if isinstance(reading, Finding):
            outcome.findings.append(why)
            return
        # There is no page that could be empty.
        found = [f for f in reading.findings if f.reason != "empty_body"]
        self._take(outcome, replace(reading, findings=tuple(found if reading.available else [why, *found])))

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
        reading = await self._worked(body, deadline, self._page, self._normaliser, body.text)
        if isinstance(reading, Reading) and self._before is not None and _is_restart(self._before, reading):
            self._side.forget()
            self._side.refresh()
            await self._settle(deadline)
            reading = await self._worked(body, deadline, self._page, self._normaliser, body.text)
        return reading

    def _page(self, normaliser: Normaliser, text: str) -> Reading | Finding:
        try:
            return normaliser.normalise(text, self._side.take(), self._side.unread)
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
        detected = await self._worked(body, deadline, detect.detect, body.text, body.content_type)
        frontend, found = await self._confirmed(detected, deadline)
        if found is not None:
            outcome.findings.append(found)
        if frontend is None or (found is not None and found.reason == "json_body"):
            if frontend is not None:
                self._become(frontend)
            return None
        if self._frontend is frontend:
            return reading
        if self.server.frontend:
            detail = f"it looks like {frontend.name}, configured is {self.server.frontend}"
            return finding("no_engine_metrics", detail)
        self._become(frontend)
        return await self._reading(body, deadline)

    async def _confirmed(self, detected: Detected, deadline: float) -> tuple[Frontend | None, Finding | None]:
        """Whose page it is where it shows no engine metrics: as far as side documents, or the configuration, tell."""
        found = detected.finding
        if found is None or (detected.frontend is None and found.reason not in ("empty_body", "json_body")):
            return detected.frontend, found
        await self._settle(deadline)
        owner = FRONTENDS[self.server.frontend] if self.server.frontend else detect.owner_of(self._side.values)
        if detected.frontend is not None:
            is_it = owner is detected.frontend
            return (owner, finding(found.reason)) if is_it else (None, detect.unconfirmed(detected.frontend))
        if owner is None:
            return None, found
        remedy = owner.no_metrics if found.reason == "json_body" else ""
        return owner, finding(found.reason, f"it is {owner.name}", remedy=remedy)

    def _take(self, outcome: Outcome, reading: Reading) -> None:
        outcome.reading = reading
        if reading.available:
            outcome.findings = [f for f in outcome.findings if f.reason != "empty_body"]
        outcome.findings += reading.findings
        if not reading.is_complete:
            return
        recent = self._recent.advance(
            outcome.at,
            reading.values,
            reading.histograms,
            start_time=reading.start_time,
            proves_absence=reading.proves_absence,
        )
        if reading.available:
            outcome.recent, self._before = recent, reading

    async def _settle(self, deadline: float) -> None:
        """Waits anew where this process itself stood still past the end of the wait: what came then is not read yet."""
        patience = _SETTLE_SECONDS if self._patience is None else self._patience
        end = _loop_time()
        while end < deadline:
            end = min(_loop_time() + patience, deadline)
            await self._side.settle(end - _loop_time(), health=self._patience is not None)
            if _loop_time() - end < _STOOD_STILL_SECONDS:
                return

    async def _lives(self, deadline: float) -> bool:
        """Whether it answers HTTP, where its metrics do not come. Health that takes its time is not waited for."""
        documents = self._frontend.documents if self._frontend else ()
        quick = [d for d in documents if d.form is Form.STATUS and not d.within]
        others = [d for d in documents if d.name == "models"]
        asked = next(iter((*quick, *others)), _DEFAULT_HEALTH)
        return (await self._connection.read(asked, deadline)).status is not None

    async def _is_recognised(self, body: Body, deadline: float) -> bool:
        detected = await self._worked(body, deadline, detect.detect, body.text, body.content_type)
        return detected.frontend is not None

    async def _worked(
        self, body: Body, deadline: float, function: Callable[_Given, _Made], *given: _Given.args, **more: _Given.kwargs
    ) -> _Made:
        """In turns, and aside of the event loop where one takes very long, so that the other targets do not wait."""
        if len(body.text) < _BIG_CHARACTERS:
            piece = partial(function, *given, **more)
            return await (self._turns.new(deadline, piece) if self._before is None else self._turns.work(piece))
        return await asyncio.to_thread(function, *given, **more)

    def _collected(self, outcome: Outcome) -> Collected:
        if (error := outcome.error) is not None:
            self.last_error = (outcome.at, error)
            self._account.failed(error.reason)
        if outcome.reading is not None:
            self._account.dropped(outcome.reading.dropped)
        return self._assembled(outcome)

    def _assembled(self, outcome: Outcome) -> Collected:
        frontend = self._frontend.name if self._frontend else ""
        if self._prober is not None:
            outcome.probed, found = self._prober.report(up=outcome.up)
            outcome.findings += found
        before = self.last.debug if self.last else None
        ages = {name: max(outcome.at - at, 0.0) for name, at in self._side.read_at.items()}
        debug = debug_of(outcome, frontend, self._side.values, self._side.problems, ages, before)
        observation = observation_of(outcome, self._identity, _loop_time() - self._started)
        return Collected(observation, chunks_of(outcome, observation, self._account), debug)


def _identity(server: Server, node: str, model_aliases: Mapping[str, str]) -> Identity:
    prefer = {"entry": server.entry_model or "", "engine": server.engine_model or ""}
    return Identity(
        node, server.name, server.labels, model_aliases, server.role or "", server.model or "", prefer=prefer
    )


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _is_restart(before: Reading, now: Reading) -> bool:
    """By the process's start time where it tells, else by a counter that fell."""
    if before.start_time is not None and now.start_time is not None:
        return is_another_process(before.start_time, now.start_time)
    return any(
        SCHEMA[series.metric].type is Type.COUNTER and value < before.values.get(series, value)
        for series, value in now.values.items()
    )
