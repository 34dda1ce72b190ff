"""Holds the metrics and labels that rules and dashboards name to those that there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from alerts.rules.names import named
from exporters import schema

Catalogue = Mapping[str, frozenset[str]]
"""Labels by name of a series, as Prometheus stores it."""

_PARTS = {"_bucket": frozenset({"le"}), "_sum": frozenset(), "_count": frozenset()}
_OF_PROMETHEUS: Catalogue = {
    "up": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate"}),
    "ALERTS_FOR_STATE": frozenset({"alertname"}),
}
BY_SCRAPING = frozenset({"job", "instance", "pod", "container", "endpoint"})
"""Labels that Prometheus and its operator add: they say how a server is read, and not what it is."""
_WITH_LABELS_OF_RULES = frozenset({"ALERTS", "ALERTS_FOR_STATE"})

_OCCASIONAL = {
    "llm_probe_": "no server has a `synthetic_request`",
    "inferwatch_finding": "there only while something is found",
    "inferwatch_gpu_finding": "there only while something is found",
    "inferwatch_history_": "no monitor is scraped",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """`place` says where it stands; `records` is the series that it makes, `labels` are those that its rule sets."""

    place: str
    text: str
    records: str = ""
    labels: tuple[str, ...] = ()

    @property
    def metrics(self) -> set[str]:
        return {metric for metric, _ in named(self.text).selected}


def of_schema(user_labels: Iterable[str] = ()) -> Catalogue:
    own = frozenset(user_labels) | BY_SCRAPING
    found: dict[str, frozenset[str]] = {}
    for metric in schema.METRICS.values():
        labels = frozenset({*schema.IDENTITY[metric.scope], *metric.labels}) | own
        if metric.type is schema.Type.HISTOGRAM:
            found |= {metric.name + part: labels | more for part, more in _PARTS.items()}
        else:
            found[metric.name] = labels
    return found


def family(name: str) -> str:
    """The metric of the schema that a series of this name is of."""
    parts = (name.removesuffix(part) for part in _PARTS if name.endswith(part))
    return next((metric for metric in parts if metric in schema.METRICS), name)


def lacking(told: Mapping[str, str], live: Catalogue) -> dict[str, str]:
    """Metrics of the schema that a healthy fleet may be without, and why; `told` is what its servers say of fields.

    Of an engine's metric that no server has, and that none says why it lacks it, something is wrong.
    """
    there = {family(name) for name in live}
    missing = [metric for metric in schema.METRICS.values() if metric.name not in there]
    reasons = {metric.name: told.get(metric.name) or _occasional(metric) for metric in missing}
    return {name: why for name, why in reasons.items() if why}


def _occasional(metric: schema.Metric) -> str:
    if metric.scope is schema.Scope.GPU:
        return "no GPU is watched that tells it"
    return next((why for start, why in _OCCASIONAL.items() if metric.name.startswith(start)), "")


def problems(expressions: Iterable[Expression], catalogue: Catalogue, where: str = "of the schema") -> list[str]:
    """A line for each metric and label that is named and is not there."""
    found = list(expressions)
    made = {e.records: None for e in found if e.records}
    return list(dict.fromkeys(line for e in found for line in _of(e, catalogue, set(made), found, where)))


def _of(e: Expression, catalogue: Catalogue, made: set[str], every: list[Expression], where: str) -> Iterator[str]:
    known = {**_OF_PROMETHEUS, **catalogue}
    names, all_labels = named(e.text), _all_labels(known, every)
    for metric, label in names.selected:
        if metric not in known and metric not in made:
            if not label:
                yield f"{e.place}: {metric}: no metric {where}{_meant(metric, [*known, *made])}"
        elif label and label not in (labels := _labels_of(metric, known, all_labels)):
            yield f"{e.place}: {metric}: no label `{label}` {where}{_meant(label, labels)}"
    for label in names.grouped:
        if label not in all_labels | set(names.made):
            yield f"{e.place}: no label `{label}` {where}{_meant(label, all_labels)}"


def _labels_of(metric: str, known: Catalogue, all_labels: frozenset[str]) -> frozenset[str]:
    labels = frozenset[str]() if metric in _WITH_LABELS_OF_RULES else known.get(metric, frozenset())
    return (labels or all_labels) | BY_SCRAPING


def _all_labels(known: Catalogue, every: list[Expression]) -> frozenset[str]:
    return frozenset().union(BY_SCRAPING, *known.values(), *(e.labels for e in every))


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""
