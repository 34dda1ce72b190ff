"""What a collection of one target yields, in the schema: the hand-over between sidecar, sources and history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporters.findings import Finding, tell_of_a_part, tell_of_nothing
from exporters.histogram import Histogram

Labels = tuple[tuple[str, str], ...]
"""Sorted by name; empty values are left out, as Prometheus treats them."""


def labels(values: Mapping[str, str]) -> Labels:
    return tuple(sorted((k, v) for k, v in values.items() if v))


@dataclass(frozen=True, slots=True)
class Series:
    """One series of the schema, identity and user labels included."""

    metric: str
    labels: Labels

    def label(self, name: str, default: str = "") -> str:
        return next((v for k, v in self.labels if k == name), default)


@dataclass(frozen=True, slots=True)
class FieldStatus:
    """Where one schema field of one target comes from, how good it is, and why it is missing if it is."""

    field: str
    source: str
    quality: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One target at one moment.

    `values` holds gauges, counters and the `…_info` series; histograms keep the server's native bounds. A target that
    is down or not readable has `up`/`available` False and no values, never cached ones; at most those of `llm_probe_…`.
    """

    node: str
    server: str
    at: float
    """Unix seconds at which the server answered."""
    up: bool
    available: bool
    values: Mapping[Series, float] = field(default_factory=dict)
    histograms: Mapping[Series, Histogram] = field(default_factory=dict)
    start_time: float | None = None
    """Unix seconds at which the server's process started, where it tells."""
    findings: tuple[Finding, ...] = ()
    fields: tuple[FieldStatus, ...] = ()
    user_labels: Labels = ()
    duration: float = 0.0
    unmapped: int | None = None
    """Metric families that are not known here; None where no page was read."""

    @property
    def is_complete(self) -> bool:
        """Whether it tells what the server has counted. So does an empty page, if it is known whose it is: nothing."""
        is_known = any(s.metric == "llm_server_info" for s in self.values)
        return self.available or (is_known and tell_of_nothing(self.findings))

    @property
    def proves_absence(self) -> bool:
        """Whether what a complete reading does not show does not exist yet.

        Not while a document has not answered that counters or their labels come from, nor where something was left out.
        """
        return not tell_of_a_part(self.findings)
