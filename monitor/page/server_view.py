"""Everything that is known of one server, field by field and engine by engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exporters.histogram import Histogram
from exporters.observation import Labels, Observation, Series
from exporters.schema import IDENTITY, METRICS, PHASES, QUANTILE_PHASES, QUANTILES, Metric, Scope, Unit
from monitor.fleet import FieldOut, ServerRow
from monitor.page import quantities
from monitor.page.figures import Figure, why_missing
from monitor.readings import engines, identity, of_metric, own_labels

_TOLD_ELSEWHERE = {
    "llm_up", "llm_metrics_available", "llm_server_info", "llm_server_state", "llm_field_info",
    "llm_latency_quantile_seconds",
}  # fmt: skip
"""Shown as condition, facts, quality and latencies."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a field; `label` tells it from others of the same field, e.g. the reason of finished requests."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldLine:
    field: str
    help: str
    unit: str
    values: tuple[tuple[Entry, ...], ...]
    """By engine; empty where an engine has none."""
    whole: bool
    """The value is of the server as a whole, not of an engine."""
    quality: str
    source: str
    reason: str

    @property
    def known(self) -> bool:
        return any(self.values)


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """`quantiles` by engine, for each of `QUANTILES` in order."""

    phase: str
    help: str
    quantiles: tuple[tuple[Figure, ...], ...]


@dataclass(frozen=True, slots=True)
class ServerView:
    engines: tuple[str, ...]
    """Headings of the columns."""
    facts: tuple[tuple[str, str], ...]
    phases: tuple[PhaseLine, ...]
    fields: tuple[FieldLine, ...]


def server_view(row: ServerRow, latest: Observation | None) -> ServerView:
    """Of a server that cannot be read there are no values: they would be old ones."""
    observation = latest if latest is not None and row.available else None
    columns = engines(observation) if observation else []
    return ServerView(
        engines=_headings(columns),
        facts=_facts(observation) if observation else (),
        phases=tuple(_phase_line(row, observation, columns, phase) for phase in QUANTILE_PHASES) if observation else (),
        fields=tuple(_field_line(row, observation, columns, metric) for metric in _fields()) if observation else (),
    )


def _fields() -> Iterable[Metric]:
    shown = (Scope.TARGET, Scope.ENGINE)
    return (
        m for m in METRICS.values() if m.scope in shown and m.name.startswith("llm_") and m.name not in _TOLD_ELSEWHERE
    )


def _headings(columns: Sequence[Labels]) -> tuple[str, ...]:
    """The engine, and what else tells two columns apart."""
    found = [dict(labels) for labels in columns]
    telling = [n for n in IDENTITY[Scope.ENGINE] if n != "engine" and len({labels.get(n) for labels in found}) > 1]
    return tuple(" ".join([f"engine {f.get('engine', '')}", *(f.get(n, "") for n in telling)]).strip() for f in found)


def _facts(observation: Observation) -> tuple[tuple[str, str], ...]:
    """What `llm_server_info` says, values of several engines side by side."""
    found: dict[str, list[str]] = {}
    for series, _ in of_metric(observation.values, "llm_server_info"):
        for name, value in own_labels(series):
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return tuple((name, ", ".join(values)) for name, values in found.items())


def _field_line(row: ServerRow, observation: Observation, columns: Sequence[Labels], metric: Metric) -> FieldLine:
    status = next((f for f in row.fields if f.field == metric.name), None)
    values = _values(observation, columns, metric)
    known = any(values)
    return FieldLine(
        field=metric.name,
        help=metric.help,
        unit=_unit(metric),
        values=values,
        whole=metric.scope is Scope.TARGET,
        quality=_quality(status, known),
        source=status.source if status else "",
        reason=_reason(row, status, metric, known),
    )


def _quality(status: FieldOut | None, known: bool) -> str:
    if not known:
        return "unavailable"
    return status.quality if status else "derived"


def _reason(row: ServerRow, status: FieldOut | None, metric: Metric, known: bool) -> str:
    if known:
        return status.reason if status else ""
    return why_missing(row, metric.name, "nothing measured yet" if status else "not measured for this server")


def _unit(metric: Metric) -> str:
    return "" if metric.unit is Unit.NONE else metric.unit.value


def _values(observation: Observation, columns: Sequence[Labels], metric: Metric) -> tuple[tuple[Entry, ...], ...]:
    scalars = of_metric(observation.values, metric.name)
    if metric.scope is Scope.TARGET:
        return (tuple(_entry(metric, series, value) for series, value in scalars),)
    found: dict[Labels, list[Entry]] = {engine: [] for engine in columns}
    for series, value in scalars:
        found[identity(series)].append(_entry(metric, series, value))
    for series, histogram in observation.histograms.items():
        if series.metric == metric.name:
            found[identity(series)].append(Entry("", _histogram(histogram)))
    return tuple(map(tuple, found.values()))


def _entry(metric: Metric, series: Series, value: float) -> Entry:
    own = dict(own_labels(series))
    bounds = own.pop("bounds", None)
    text = _value(metric, value) if bounds is None else _bounds(bounds.split(","))
    return Entry(" ".join(own.values()), text)


def _value(metric: Metric, value: float) -> str:
    """In the base unit of the schema, unrounded as far as a person can use it."""
    if metric.unit is Unit.TIMESTAMP:
        return quantities.moment(value)
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"


def _bounds(bounds: Sequence[str]) -> str:
    return f"{len(bounds)} bounds, {bounds[0]} to {bounds[-1]}"


def _histogram(histogram: Histogram) -> str:
    observed = f"{histogram.count:,.0f} observed"
    if histogram.sum is None or not histogram.count:
        return observed
    return f"{observed}, mean {histogram.sum / histogram.count:.4g}"


def _phase_line(row: ServerRow, observation: Observation, columns: Sequence[Labels], phase: str) -> PhaseLine:
    metric = METRICS[PHASES[phase].metric]
    found: dict[tuple[Labels, str], dict[str, float]] = {}
    for series, value in of_metric(observation.values, "llm_latency_quantile_seconds"):
        if series.label("phase") == phase:
            found.setdefault((identity(series), series.label("q")), {})[series.label("bound")] = value
    why = why_missing(row, metric.name, "no request in the last 5 minutes")
    quantiles = tuple(tuple(_figure(found.get((engine, str(q))), why) for q in QUANTILES) for engine in columns)
    return PhaseLine(phase, metric.help, quantiles)


def _figure(told: Mapping[str, float] | None, why: str) -> Figure:
    if told is None:
        return Figure(None, note=why)
    return Figure(*quantities.quantile(told["estimate"], told["lower"], told["upper"]))
