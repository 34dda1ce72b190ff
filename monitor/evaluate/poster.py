"""Tells Alertmanager what fires, as Prometheus does: again and again while it does, and for a while that it is over."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from alerts.holding_back import Holding
from exporters import tls
from exporters.connection import bearer_token
from exporters.fetch import JSON_TYPE, Answer, ask, transport
from exporters.observation import Labels
from monitor.config import AlertmanagerAccess
from monitor.evaluate.raised import Raised

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 2**16
_VALID_SECONDS = 240.0
"""Four evaluations: what is not told again by then is over for Alertmanager, whose monitor may be gone."""
_TOLD_OVER_SECONDS = 900.0
_HEAD_START_SECONDS = 2.0
"""Alertmanager tells people at once of what fires for longer than a group waits, whether or not it knows by then what
holds it back: that has to be there before."""


class Poster:
    """Each Alertmanager of a cluster is told by itself: one that does not answer delays no other."""

    def __init__(
        self,
        urls: Sequence[str],
        access: AlertmanagerAccess,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._told = [_Alertmanager(url, access) for url in urls]
        self._pause = pause
        self._firing: dict[Labels, Raised] = {}
        self._over: dict[Labels, tuple[Raised, float]] = {}

    @property
    def failures(self) -> int:
        """How often an Alertmanager could not be told so far."""
        return sum(each.failures for each in self._told)

    def problems(self) -> list[str]:
        return [each.problem for each in self._told if each.problem]

    async def post(self, raised: Iterable[Raised], now: float) -> None:
        """`now` in unix seconds. What was not taken is told again the next time."""
        firing = {each.labels: each for each in raised}
        over = self._over | {of: (each, now) for of, each in self._firing.items()}
        self._over = {of: told for of, told in over.items() if now - told[1] <= _TOLD_OVER_SECONDS and of not in firing}
        self._firing = firing
        first, *others = _in_turns(firing.values()) or [[]]
        await self._tell([*((each, now + _VALID_SECONDS) for each in first), *self._over.values()])
        for held in others:
            await self._pause(_HEAD_START_SECONDS)
            await self._tell([(each, now + _VALID_SECONDS) for each in held])

    async def _tell(self, ends: Sequence[tuple[Raised, float]]) -> None:
        if ends:
            body = json.dumps([_alert(each, end) for each, end in ends]).encode()
            await asyncio.gather(*(each.tell(body) for each in self._told))

    async def aclose(self) -> None:
        for each in self._told:
            await each.aclose()


class _Alertmanager:
    def __init__(self, url: str, access: AlertmanagerAccess) -> None:
        self.problem: str | None = None
        self.failures = 0
        self._url = f"{url.rstrip('/')}/api/v2/alerts"
        self._access = access
        context = tls.unused() if url.startswith("http://") else access.tls.context() if access.tls else tls.context()
        self._transport = transport(context)

    async def tell(self, body: bytes) -> None:
        """What goes wrong is logged once, until it works again."""
        problem = await self._post(body)
        if problem is None:
            if self.problem is not None:
                _log.info("Alertmanager at %s is told again", self._url)
            self.problem = None
            return
        told = f"could not tell Alertmanager at {self._url}: {problem}"
        if self.problem is None:
            _log.error("%s", told)
        self.problem = told
        self.failures += 1

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _post(self, body: bytes) -> str | None:
        """What went wrong."""
        authorization = _authorization(self._access)
        if authorization is None:
            return "its credentials cannot be read: see `alertmanager.access` in the configuration"
        answer = await ask(
            self._transport,
            self._url,
            deadline=asyncio.get_running_loop().time() + _TIMEOUT_SECONDS,
            max_bytes=_MAX_BYTES,
            form=body,
            headers={"Content-Type": JSON_TYPE, **authorization},
        )
        if not isinstance(answer, Answer):
            return f"{answer.reason}: {answer.detail}"
        if 200 <= answer.status < 300:
            return None
        return f"it answers {answer.status}: {answer.body[:200].decode(errors='replace').strip()}"


def _in_turns(firing: Iterable[Raised]) -> list[list[Raised]]:
    """Each after what holds it back."""
    turns, left = [], list(firing)
    while left:
        holding = Holding(dict(each.labels) for each in left)
        held = [each for each in left if holding.back(dict(each.labels))]
        turns.append([each for each in left if each not in held])
        left = held
    return turns


def _authorization(access: AlertmanagerAccess) -> dict[str, str] | None:
    """None where it cannot be read."""
    basic = access.basic_auth
    secret = bearer_token(access) if basic is None else basic.password()
    if secret is None:
        return None
    if basic is not None:
        return {"Authorization": f"Basic {b64encode(f'{basic.username}:{secret}'.encode()).decode()}"}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _alert(of: Raised, end: float) -> dict[str, Any]:
    return {
        "labels": dict(of.labels),
        "annotations": dict(of.annotations),
        "startsAt": _moment(of.since),
        "endsAt": _moment(end),
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
