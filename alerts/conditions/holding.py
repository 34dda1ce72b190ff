"""From "it holds at this moment" to "it fires": `for` and `keep_firing_for`, as Prometheus reckons them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from alerts.conditions.expression import Vector
from exporters.observation import Labels


@dataclass(frozen=True, slots=True)
class Firing:
    """`end` is the first evaluation at which it is over, None while it lasts; `value` is the last.

    `seen` is the last evaluation that said that it fires.
    """

    labels: Labels
    start: int
    end: int | None
    value: float
    seen: int


@dataclass(slots=True)
class _Active:
    since: int
    value: float
    fires_since: int | None = None
    seen: int = 0
    missing_since: int | None = None
    over_since: int | None = None
    excused_until: int = 0


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
            active.value, active.seen, active.missing_since, active.over_since = value, at, None, None
            if active.fires_since is None and at - active.since >= self._hold:
                active.fires_since = at
        gone = [labels for labels in self._active.keys() - vector.keys() if not self._is_kept(labels, at)]
        ended = [(labels, self._active.pop(labels)) for labels in sorted(gone)]
        return [_firing(labels, a, a.over_since) for labels, a in ended if a.fires_since is not None]

    def pause(self, seconds: int, excused_until: int) -> None:
        """Nothing was evaluated for so long: no time of a `for`. What fires may be missing until then, and go on."""
        for active in self._active.values():
            if active.fires_since is None:
                active.since += seconds
            else:
                active.excused_until = excused_until

    def forget_pending(self) -> None:
        self._active = {labels: active for labels, active in self._active.items() if active.fires_since is not None}

    def resume(self, labels: Labels, fires_since: int, seen: int) -> None:
        """As one that fired before this was made."""
        active = self._active.setdefault(labels, _Active(fires_since, math.nan))
        active.fires_since, active.seen = fires_since, seen

    def suspend(self) -> None:
        """Nothing fires yet; what held for long enough does with the next evaluation."""
        for active in self._active.values():
            active.fires_since = None

    def firing(self) -> list[Firing]:
        found = sorted(self._active.items())
        return [_firing(labels, a, None) for labels, a in found if a.fires_since is not None]

    def _is_kept(self, labels: Labels, at: int) -> bool:
        active = self._active[labels]
        if active.fires_since is None:
            return False
        active.missing_since = at if active.missing_since is None else active.missing_since
        if at - active.missing_since < self._keep:
            active.seen = at
            return True
        active.over_since = at if active.over_since is None else active.over_since
        return at < active.excused_until


def _firing(labels: Labels, active: _Active, end: int | None) -> Firing:
    return Firing(labels, active.fires_since or 0, end, active.value, active.seen)
