"""From "it holds at this moment" to "it fires": `for` and `keep_firing_for`, as Prometheus reckons them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from alerts.conditions.expression import Vector
from exporters.observation import Labels


@dataclass(frozen=True, slots=True)
class Firing:
    """`end` is the first evaluation at which it is over, None while it lasts; `value` is the last."""

    labels: Labels
    start: int
    end: int | None
    value: float


@dataclass(slots=True)
class _Active:
    since: int
    value: float
    fires_since: int | None = None
    over_since: int | None = None


class Holder:
    """Takes one evaluation after the other."""

    def __init__(self, hold_seconds: int, keep_seconds: int) -> None:
        self._hold = hold_seconds
        self._keep = keep_seconds
        self._active: dict[Labels, _Active] = {}

    def take(self, at: int, vector: Vector) -> list[Firing]:
        """Those that are over since this evaluation."""
        for labels, value in vector.items():
            active = self._active.setdefault(labels, _Active(at, value))
            active.value, active.over_since = value, None
            if active.fires_since is None and at - active.since >= self._hold:
                active.fires_since = at
        gone = [labels for labels in self._active.keys() - vector.keys() if not self._is_kept(labels, at)]
        ended = [(labels, self._active.pop(labels)) for labels in sorted(gone)]
        return [Firing(labels, a.fires_since, at, a.value) for labels, a in ended if a.fires_since is not None]

    def resume(self, labels: Labels, fires_since: int) -> None:
        """As one that fired before this was made."""
        self._active[labels] = _Active(fires_since, math.nan, fires_since)

    def firing(self) -> list[Firing]:
        found = sorted(self._active.items())
        return [Firing(labels, a.fires_since, None, a.value) for labels, a in found if a.fires_since is not None]

    def _is_kept(self, labels: Labels, at: int) -> bool:
        active = self._active[labels]
        if active.fires_since is None:
            return False
        active.over_since = at if active.over_since is None else active.over_since
        return at - active.over_since < self._keep
