"""What a target or a GPU said that it was, from reading to reading. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporters.observation import Labels


class Said(NamedTuple):
    """`of` is whose row it is, `facts` are empty where it could not be read."""

    at: float
    of: Labels
    facts: Mapping[str, str]


class Told:
    def __init__(self, said: Iterable[Said]) -> None:
        self._said = list(said)
        self._moments = [said.at for said in self._said]

    def facts(self, after: float, until: float) -> dict[str, str]:
        """Each as it was told last in that time."""
        found: dict[str, str] = {}
        last: Mapping[str, str] = found
        for said in self._between(after, until):
            if said.facts is not last:  # mostly the same object all along
                found, last = {**found, **said.facts}, said.facts
        return found

    def last(self, after: float, until: float) -> Labels | None:
        said = self._between(after, until)
        return said[-1].of if said else None

    def _between(self, after: float, until: float) -> list[Said]:
        return self._said[bisect_right(self._moments, after) : bisect_right(self._moments, until)]
