"""The reference estimates as series of a dashboard."""

from __future__ import annotations

from collections.abc import Iterable

from alerts import promql
from alerts.reference import AT_ONCE, Figures, name_of
from exporters.schema import FRAMEWORKS


def points(values: Figures | None = None, frameworks: Iterable[str] = FRAMEWORKS) -> str:
    """The figures of each framework by requests at once, or without figures these numbers; while switched on."""
    every = [
        _point(framework, n, n if values is None else values[framework][i])
        for framework in frameworks
        for i, n in enumerate(AT_ONCE)
    ]
    is_on = promql.binary(promql.call("vector", promql.variable("reference")), "==", "1")
    return promql.binary(promql.first_of(*every), "and", is_on, on=())


def _point(framework: str, at_once: int, value: float) -> str:
    of = promql.call("vector", promql.number(value))
    named = promql.labelled(of, "framework", name_of(framework))
    return promql.labelled(promql.labelled(named, "server", f"at {at_once}"), "at_once", band_name(at_once))


def band_name(at_once: int) -> str:
    """Sorts as a number does."""
    return f"{at_once:4d}"
