"""Everything that is known of one server, field by field and engine by engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exporters.histogram import Histogram
from exporters.observation import Labels, Observation, Series
from exporters.schema import IDENTITY, METRICS, PHASES, QUANTILE_PHASES, QUANTILES, Metric, Scope, Unit, of_prefix
from monitor.fleet import ServerRow
from monitor.page import quantities
from monitor.page.figures import NOTHING_OBSERVED, Figure, why_missing
from monitor.readings import first_engines, identity, in_order, of_metric, own_labels
from monitor.remarks import FieldOut

MAX_ENGINES = 32

_TOLD_ELSEWHERE = {
    "llm_up": "condition",
    "llm_metrics_available": "condition",
    "llm_server_state": "condition",
    "llm_server_info": "facts",
    "llm_field_info": "quality and reason of each field",
    "llm_latency_quantile_seconds": "latencies",
    "llm_latency_overflow_total": "histogram",
    "llm_latency_native_max_seconds": "histogram",
    "llm_latency_native_bounds_info": "histogram",
    "llm_length_overflow_total": "histogram",
    "llm_length_native_bounds_info": "histogram",
}
"""Metrics without a line of their own, and what shows them."""


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
    """By column; empty where there is none."""
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

    @property
    def why(self) -> str | None:
        """Why nothing at all is known."""
        every = [figure for engine in self.quantiles for figure in engine]
        return every[0].note if every and all(figure.text is None for figure in every) else None


@dataclass(frozen=True, slots=True)
class ServerView:
    engines: tuple[str, ...]
    columns: tuple[str, ...]
    """Headings: the engines, then the server as a whole where some values are of no engine."""
    facts: tuple[tuple[str, str], ...]
    phases: tuple[PhaseLine, ...]
    fields: tuple[FieldLine, ...]
    hidden: int = 0
    """Engines beyond `MAX_ENGINES`."""


def server_view(row: ServerRow, latest: Observation | None) -> ServerView:
    """Of a server that cannot be read there are no values: they would be old ones."""
    if latest is None or not row.available:
        return ServerView((), (), (), (), ())
    latest, hidden = first_engines(latest, MAX_ENGINES)
    columns = _columns(latest)
    engines = [labels for labels in columns if dict(labels).get("engine")]
    return ServerView(
        engines=_headings(engines),
        columns=(*_headings(engines), *("server" for _ in columns[len(engines) :])),
        facts=_facts(latest),
        phases=tuple(_phase_line(row, latest, engines, phase) for phase in QUANTILE_PHASES),
        fields=tuple(_field_line(row, latest, columns, metric) for metric in _fields()),
        hidden=hidden,
    )


def _fields() -> Iterable[Metric]:
    servers = (m for m in of_prefix("llm_") if m.name not in _TOLD_ELSEWHERE)
    return (m for m in servers if m.scope in (Scope.TARGET, Scope.ENGINE))


def _columns(observation: Observation) -> list[Labels]:
    """Identities that have readings: engines in order, then what is of no engine, such as the API process's counts."""
    every = (*observation.values, *observation.histograms)
    found = {identity(series) for series in every if METRICS[series.metric].scope is Scope.ENGINE}
    return sorted(found, key=lambda labels: (not dict(labels).get("engine"), in_order(labels)))


def _headings(engines: Sequence[Labels]) -> tuple[str, ...]:
    """The engine, and what else tells two columns apart."""
    found = [dict(labels) for labels in engines]
    telling = [n for n in IDENTITY[Scope.ENGINE] if n != "engine" and len({labels.get(n) for labels in found}) > 1]
    return tuple(" ".join([f"engine {f['engine']}", *(f.get(n, "") for n in telling)]) for f in found)


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
        quality=_quality(row, status, known),
        source=status.source if status else "",
        reason=_reason(row, status, metric, known),
    )


def _quality(row: ServerRow, status: FieldOut | None, known: bool) -> str:
    """Sources that read the sidecar's page are told of the fields that are not exact alone; "" where of none."""
    if not known:
        return "unavailable"
    if status:
        return status.quality
    return "exact" if row.fields else ""


def _reason(row: ServerRow, status: FieldOut | None, metric: Metric, known: bool) -> str:
    if known:
        return status.reason if status else ""
    return why_missing(row, metric.name, _otherwise(row, status, metric))


def _otherwise(row: ServerRow, status: FieldOut | None, metric: Metric) -> str:
    if metric.name.startswith("llm_probe_"):
        return "not measured for this server"
    return "nothing measured yet" if status or row.fields else "not told here"


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
            found[identity(series)] += _histogram(histogram)
    return tuple(map(tuple, found.values()))


def _entry(metric: Metric, series: Series, value: float) -> Entry:
    return Entry(" ".join(value for _, value in own_labels(series)), _value(metric, value))


def _value(metric: Metric, value: float) -> str:
    """In the base unit of the schema, unrounded as far as a person can use it."""
    if metric.unit is Unit.TIMESTAMP:
        return quantities.moment(value)
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"


def _histogram(histogram: Histogram) -> list[Entry]:
    """Since the server's start; what is beyond the largest bound is counted, how long it took is not known."""
    entries = [Entry("", f"{histogram.count:,.0f} observed")]
    if histogram.sum is not None and histogram.count:
        entries.append(Entry("mean", f"{histogram.sum / histogram.count:.4g}"))
    if histogram.bounds:
        entries.append(Entry(f"beyond {histogram.bounds[-1]:,.6g}", f"{histogram.overflow:,.0f}"))
    return entries


def _phase_line(row: ServerRow, observation: Observation, engines: Sequence[Labels], phase: str) -> PhaseLine:
    metric = METRICS[PHASES[phase].metric]
    found: dict[tuple[Labels, str], dict[str, float]] = {}
    for series, value in of_metric(observation.values, "llm_latency_quantile_seconds"):
        if series.label("phase") == phase:
            found.setdefault((identity(series), series.label("q")), {})[series.label("bound")] = value
    why = why_missing(row, metric.name, NOTHING_OBSERVED)
    quantiles = tuple(tuple(_figure(found.get((engine, str(q))), why) for q in QUANTILES) for engine in engines)
    return PhaseLine(phase, metric.help, quantiles)


def _figure(told: Mapping[str, float] | None, why: str) -> Figure:
    if told is None:
        return Figure(None, note=why)
    return Figure(*quantities.quantile(told["estimate"], told["lower"], told["upper"]))
