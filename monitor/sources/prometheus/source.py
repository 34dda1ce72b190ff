"""The fleet as a Prometheus has it now."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping

from alerts import promql
from exporters.gpu.gathered import Gathered
from exporters.observation import Observation
from exporters.schema import IDENTITY
from monitor.config import PrometheusSection
from monitor.fleet import FORGET_AFTER_SECONDS
from monitor.sources import SourceError
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.answers import Points, TimedOut, TooMuch
from monitor.sources.prometheus.client import Client
from monitor.sources.prometheus.readings import GPU_NAMES, SERVER_NAMES, Target

_log = logging.getLogger(__name__)

_WINDOW_SECONDS = 90.0
"""Room for a scrape interval of a minute."""
_RENAMED = frozenset(f"exported_{name}" for names in IDENTITY.values() for name in names)
_HONOR_LABELS = (
    "Prometheus at %s gave its targets labels that the sidecars' own series have, such as `node`: servers may be shown "
    "under wrong names; set `honor_labels: true` in its scrape configuration"
)
_NAMES = (*SERVER_NAMES[:1], *GPU_NAMES[:1], *SERVER_NAMES[1:], *GPU_NAMES[1:])


class PrometheusSource:
    """Servers and GPUs that are not scraped any more are told as they were last, as long as the fleet keeps them."""

    is_recorded = False

    def __init__(self, client: Client, config: PrometheusSection, *, clock: Callable[[], float] = time.time) -> None:
        self.name = client.name
        self._client = client
        self._selector = config.selector
        self._dropped = readings.dropped_labels(config.replica_labels)
        self._clock = clock
        self._questions: list[tuple[str, ...]] = [_NAMES]
        self._servers: dict[Target, Observation] = {}
        self._gpus: dict[str, Gathered] = {}
        self._warned = False
        self._answers_since: float | None = -math.inf

    async def observe(self) -> list[Observation]:
        try:
            matrix = await self._samples()
        except SourceError:
            self._answers_since = None
            raise
        if self._answers_since is None:
            self._answers_since = self._clock()
        # Half a second of work for 64 servers: nobody who looks at the page waits for it.
        await asyncio.to_thread(self._take, matrix)
        self._forget(self._clock() - FORGET_AFTER_SECONDS)
        return list(self._servers.values())

    def gpus(self) -> Mapping[str, Gathered | None]:
        return self._gpus

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _samples(self) -> list[Points]:
        """In one question, or as many as it takes. The first asks for what every scrape has: so no other is taken
        as a scrape that has come only in part meanwhile."""
        found: list[Points] = []
        asked: list[tuple[str, ...]] = []
        waiting = self._questions
        while waiting:
            names, *others = waiting
            try:
                found += await self._client.query(self._question(names))
            except TooMuch as error:
                if len(names) == 1 or isinstance(error, TimedOut):
                    raise
                half = len(names) // 2
                waiting = [names[:half], names[half:], *others]
            else:
                asked, waiting = [*asked, names], others
        self._questions = asked
        return found

    def _question(self, names: Iterable[str]) -> str:
        return promql.raw(promql.selector(names, *self._selector), _WINDOW_SECONDS)

    def _take(self, matrix: list[Points]) -> None:
        servers, gpus = readings.servers(matrix, self._dropped), readings.gpus(matrix, self._dropped)
        if not servers and not gpus and not self._has_just_come_back:
            raise SourceError(self._nothing())
        self._servers |= {t: readings.observation(t, readings.newest_server(of)) for t, of in servers.items()}
        self._gpus |= {node: readings.gathered(node, readings.newest_gpus(of)) for node, of in gpus.items()}
        if not self._warned and any(_RENAMED & series.labels.keys() for series in matrix):
            self._warned = True
            _log.warning(_HONOR_LABELS, self.name)

    def _forget(self, before: float) -> None:
        self._servers = {target: told for target, told in self._servers.items() if told.at >= before}
        self._gpus = {node: told for node, told in self._gpus.items() if told.at >= before}

    @property
    def _has_just_come_back(self) -> bool:
        """It has scraped nothing yet, perhaps."""
        return self._answers_since is None or self._clock() - self._answers_since < _WINDOW_SECONDS

    def _nothing(self) -> str:
        where = f" with {', '.join(self._selector)}" if self._selector else ""
        return (
            f"Prometheus at {self.name} answers, but has no `llm_up`{where} of the last {_WINDOW_SECONDS:.0f} s: "
            "does it scrape the sidecars? See its page of targets, `prometheus.selector` and `prometheus.tenant`"
        )
