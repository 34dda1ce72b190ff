"""Which alerts are held back by others that fire, as the example of Alertmanager's configuration has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from alerts.alertmanager import INHIBITIONS

_Place = tuple[str, tuple[str, ...]]
"""An alert that holds others back, and the values that these share with it."""


class Holding:
    """By the labels of all that fires."""

    def __init__(self, firing: Iterable[Mapping[str, str]]) -> None:
        self._places: set[_Place] = {
            (each.cause, _values(labels, each.equal))
            for labels in firing
            for each in INHIBITIONS
            if each.cause == labels.get("alertname")
        }

    def back(self, labels: Mapping[str, str]) -> str:
        """The alert that holds this one back; empty where none does."""
        mine = (each for each in INHIBITIONS if labels.get("alertname") in each.held)
        return next((each.cause for each in mine if (each.cause, _values(labels, each.equal)) in self._places), "")


def _values(labels: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    """What neither has is equal."""
    return tuple(labels.get(name, "") for name in names)
