"""What servers and GPUs say of themselves, of which the history knows nothing: noticed minute by minute."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from alerts.burn import HOUR, MINUTE
from alerts.conditions.rows import Key, Minute, Reading, SeriesRows, key
from exporters.findings import GPU_KINDS
from exporters.observation import Labels, Observation, labels
from monitor.evaluate.ourselves import target_labels
from monitor.fleet import Fleet
from monitor.readings import identity, own_labels
from monitor.remarks import FindingOut

_OF_GPUS = frozenset({*GPU_KINDS, "internal_error"})
_LASTING = ("llm_server_info", "llm_server_state")
_FINDINGS = frozenset({"inferwatch_finding", "inferwatch_gpu_finding"})
"""A fault may be seconds old when it is noticed first; what a server is, it was before."""
_KEPT = 2 * HOUR

Told = Mapping[Key, Reading]


@dataclass(slots=True)
class _Course:
    """Of one series: what it told from each minute until the next."""

    since: list[int] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def add(self, minute: int, told: Told) -> None:
        while self.since and self.since[-1] >= minute:  # noticed again, or the clock was set back
            self._cut(slice(-1, None))
        if not self.told or self.told[-1] != told:
            self.since.append(minute)
            self.told.append(told)

    def at(self, minute: int) -> Told:
        place = bisect_right(self.since, minute)
        if place:
            return self.told[place - 1]
        return {of: reading for of, reading in self.told[0].items() if of[0] not in _FINDINGS}

    def forget(self, before: int) -> None:
        self._cut(slice(0, max(0, bisect_right(self.since, before) - 1)))

    def is_over(self, before: int) -> bool:
        return not self.told[-1] and self.since[-1] <= before

    def _cut(self, places: slice) -> None:
        del self.since[places], self.told[places]


class Facts:
    """Not to be asked from several threads at once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._courses: dict[Labels, _Course] = {}

    def notice(self, minute: int) -> None:
        """What is told now, as that of the minute which ended last."""
        found: defaultdict[Labels, dict[Key, Reading]] = defaultdict(dict)
        for of, values in self._told(minute):
            found[of] |= {k: Reading(value, value) for k, value in values.items()}
        for of in self._courses.keys() | found.keys():
            course = self._courses.setdefault(of, _Course())
            course.add(minute, found.get(of, {}))
            course.forget(minute - _KEPT)
        self._courses = {of: c for of, c in self._courses.items() if not c.is_over(minute - _KEPT)}

    def rows(self, since: int, at: int) -> Iterator[SeriesRows]:
        """Of the minutes that end from `since` to `at`. Before a series was noticed first its findings are not known,
        and all else is taken to have been as it was then."""
        for of, course in self._courses.items():
            ends = range(since, at + 1, MINUTE)
            minutes = [Minute(end - MINUTE, gauges=told) for end in ends if (told := course.at(end))]
            if minutes:
                yield SeriesRows(of, minutes)

    def _told(self, minute: int) -> Iterator[tuple[Labels, Mapping[Key, float]]]:
        for row in self._fleet.rows(minute):
            observation = self._fleet.latest(row.node, row.server)
            if observation is not None and row.last_seen is not None:
                yield from _of_server(observation)
        for gpu in self._fleet.gpus.rows(minute):
            of = labels({"node": gpu.node, "uuid": gpu.uuid, "gpu": gpu.gpu})
            yield of, _of_gpus(gpu.findings)
            yield of, {key("gpu_server_info", server=server): 1.0 for server in gpu.servers}
        for host in self._fleet.gpus.hosts(minute):
            yield labels({"node": host.node}), _of_gpus(host.findings)


def _of_server(observation: Observation) -> Iterator[tuple[Labels, Mapping[Key, float]]]:
    for series, value in observation.values.items():
        if series.metric in _LASTING:
            yield identity(series), {(series.metric, own_labels(series)): value}
    of = target_labels(observation)
    yield of, {key("inferwatch_finding", reason=f.reason): 1.0 for f in observation.findings}
    told = (f for f in observation.fields if f.quality != "exact")
    yield of, {key("llm_field_info", field=f.field, quality=f.quality, reason=f.reason): 1.0 for f in told}


def _of_gpus(findings: Iterable[FindingOut]) -> Mapping[Key, float]:
    """As the sidecar tells them; what the monitor finds itself is no finding of a GPU."""
    told = (f for f in findings if f.reason in _OF_GPUS)
    return {key("inferwatch_gpu_finding", reason=f.reason, severity=f.severity): 1.0 for f in told}
