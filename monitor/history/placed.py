"""Which GPUs one server ran on, as the readings of its node's GPUs say one after the other. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from exporters.observation import labels
from monitor.history.minutes import Event, State
from monitor.history.placement import Placement, place

_SOME_TARGET = labels({"node": "-", "server": "-"})
"""Whose facts these are does not matter."""


class Placed:
    def __init__(self, placements: Sequence[tuple[float, Placement]]) -> None:
        """In order of time, in unix seconds."""
        self._placements = placements
        self._moments = [at for at, _ in placements]

    def place(self, state: State, after: float, until: float) -> list[Event]:
        """Takes what was read in that time into the state of the server."""
        return [event for at, placement in self._between(after, until) for event in place(state, at, placement)]

    def facts(self, after: float, until: float) -> dict[str, str]:
        """What is known at the end of that time."""
        state = State(read=frozenset([_SOME_TARGET]))
        before: list[Placement] = []
        for at, placement in self._between(after, until):
            if before[-2:] != [placement, placement]:  # a third time says nothing new
                place(state, at, placement)
            before.append(placement)
        return state.facts

    def _between(self, after: float, until: float) -> Sequence[tuple[float, Placement]]:
        return self._placements[bisect_right(self._moments, after) : bisect_right(self._moments, until)]


NOWHERE = Placed(())
