"""What the monitor knows now of itself, of the sidecars that it reads, and of metrics that they do not know."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from alerts.burn import DAY, HOUR, MINUTE
from alerts.conditions.ourselves import SIDECAR, UNMAPPED
from alerts.conditions.rows import Minute, MinuteRows, Reading, SeriesRows, key
from exporters.observation import Labels, Observation, labels

_LAG, _UNMAPPED = "inferwatch_history_lag_seconds", "inferwatch_unmapped_families"
METRICS = frozenset({"up", "ALERTS", "inferwatch_build_info", _LAG, _UNMAPPED})
"""Of which the history knows nothing."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One elsewhere. `node` as it said itself; None while it never did."""

    url: str
    node: str | None
    answers: bool

    @property
    def instance(self) -> str:
        """As Prometheus names what it scrapes."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or {'https': 443}.get(parts.scheme, 80)}"


class Knowledge(Protocol):
    def lag(self) -> float:
        """Of the history, in seconds."""
        ...

    def sidecars(self) -> Iterable[Sidecar]: ...

    def observations(self, now: float) -> Iterable[Observation]:
        """The latest of every server that was heard of lately."""
        ...


@dataclass(slots=True)
class _Counts:
    """How many families of one server are not known: from each moment until the next."""

    since: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)

    def add(self, at: int, count: int) -> None:
        if not self.count or self.count[-1] != count:
            self.since.append(at)
            self.count.append(count)

    def most(self, start: int, end: int) -> int | None:
        """Within (start, end]; None before the first."""
        first = max(0, bisect_right(self.since, start) - 1)
        return max(self.count[first : bisect_right(self.since, end)], default=None)

    def forget(self, before: int) -> None:
        gone = max(0, bisect_right(self.since, before) - 1)
        del self.since[:gone], self.count[:gone]


class Ourselves:
    def __init__(self, node: str, knowledge: Knowledge) -> None:
        self._node = node
        self._knowledge = knowledge
        self._nodes: dict[str, str] = {}
        """Of sidecars, by instance."""
        self._counts: dict[Labels, _Counts] = {}
        self._fires_since: dict[Labels, int] = {}

    def remember(self, name: str, of: Labels, since: float) -> None:
        """An alert that fired when this process began: it tells of what was before."""
        if name == SIDECAR.name:
            self._nodes[dict(of).get("instance", "")] = dict(of).get("node", "")
        elif name == UNMAPPED.name:
            self._fires_since[of] = round(since)

    def rows(self, at: int, known_since: Mapping[Labels, float]) -> MinuteRows:
        """Enough for an evaluation at `at`. `known_since`: when the history has each target first."""
        own = SeriesRows(labels({"node": self._node}), [_minute(at, _LAG, self._knowledge.lag())])
        return MinuteRows([own, *self._of_sidecars(at), *self._of_servers(at, known_since)])

    def _of_sidecars(self, at: int) -> Iterator[SeriesRows]:
        for sidecar in self._knowledge.sidecars():
            instance = sidecar.instance
            if sidecar.node:
                self._nodes[instance] = sidecar.node
            node = self._nodes.get(instance) or urlsplit(sidecar.url).hostname or ""
            yield SeriesRows(labels({"instance": instance}), [_minute(at, "up", float(sidecar.answers))])
            yield SeriesRows(labels({"instance": instance, "node": node}), [_minute(at, "inferwatch_build_info", 1.0)])

    def _of_servers(self, at: int, known_since: Mapping[Labels, float]) -> Iterator[SeriesRows]:
        for observation in self._knowledge.observations(at):
            of = target_labels(observation)
            began = self._began(of, at, known_since.get(of))
            if observation.unmapped is None or began is None:
                continue
            counts = self._counts.setdefault(of, _Counts())
            counts.add(at if counts.count else began, observation.unmapped)
            counts.forget(at - DAY - HOUR)
            before = counts.most(at - DAY - HOUR, at - DAY)
            past = [] if before is None else [_minute(at - DAY, _UNMAPPED, before)]
            yield SeriesRows(of, [*past, _minute(at, _UNMAPPED, observation.unmapped)])

    def _began(self, of: Labels, at: int, known_since: float | None) -> int | None:
        """Since when the first count is taken to be so: of a server that was there a day ago, all along."""
        if of in self._fires_since:
            return self._fires_since[of]
        if known_since is None:
            return None
        return at if known_since > at - DAY else 0


def target_labels(observation: Observation) -> Labels:
    user_labels = dict(observation.user_labels)
    return labels({**user_labels, "node": observation.node, "server": observation.server})


def _minute(at: int, metric: str, value: float) -> Minute:
    return Minute(at - MINUTE, gauges={key(metric): Reading(value, value)})
