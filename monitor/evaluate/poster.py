"""Tells Alertmanager what fires, as Prometheus does: again and again while it does, and for a while that it is over."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from exporters import tls
from exporters.fetch import JSON_TYPE, Answer, ask, transport
from exporters.observation import Labels
from monitor.evaluate.raised import Raised

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 2**16
_VALID_SECONDS = 240.0
"""Four evaluations: what is not told again by then is over for Alertmanager, whose monitor may be gone."""
_TOLD_OVER_SECONDS = 900.0


class PostError(Exception):
    pass


class Poster:
    def __init__(self, url: str, generator_url: str = "") -> None:
        self._url = f"{url.rstrip('/')}/api/v2/alerts"
        self._transport = transport(tls.context(None, None, None, False))
        self._generator_url = generator_url
        self._firing: dict[Labels, Raised] = {}
        self._over: dict[Labels, tuple[Raised, float]] = {}
        self._problem: str | None = None

    def problems(self) -> list[str]:
        return [self._problem] if self._problem else []

    async def post(self, raised: Iterable[Raised], now: float) -> None:
        """`now` in unix seconds. What was not taken is logged, and told again the next time."""
        firing = {each.labels: each for each in raised}
        self._over |= {of: (each, now) for of, each in self._firing.items() if of not in firing}
        self._over = {
            of: (each, at)
            for of, (each, at) in self._over.items()
            if now - at <= _TOLD_OVER_SECONDS and of not in firing
        }
        self._firing = firing
        ends = [*((each, now + _VALID_SECONDS) for each in firing.values()), *self._over.values()]
        try:
            if ends:
                await self._send([self._alert(each, end) for each, end in ends])
        except PostError as error:
            if str(error) != self._problem:
                _log.error("%s", error)
            self._problem = str(error)
        else:
            self._problem = None

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _alert(self, of: Raised, end: float) -> dict[str, Any]:
        return {
            "labels": dict(of.labels),
            "annotations": dict(of.annotations),
            "startsAt": _moment(of.since),
            "endsAt": _moment(end),
            **({"generatorURL": self._generator_url} if self._generator_url else {}),
        }

    async def _send(self, alerts: list[dict[str, Any]]) -> None:
        answer = await ask(
            self._transport,
            self._url,
            deadline=asyncio.get_running_loop().time() + _TIMEOUT_SECONDS,
            max_bytes=_MAX_BYTES,
            form=json.dumps(alerts).encode(),
            headers={"Content-Type": JSON_TYPE},
        )
        if not isinstance(answer, Answer):
            raise PostError(f"could not tell Alertmanager at {self._url}: {answer.detail or answer.reason}")
        if answer.status != 200:
            told = answer.body[:200].decode(errors="replace")
            raise PostError(f"could not tell Alertmanager at {self._url}: it answers {answer.status}: {told}")


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
