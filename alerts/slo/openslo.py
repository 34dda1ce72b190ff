"""OpenSLO v1 objectives over metrics of the schema, as objectives of ours.

Queries are recognised by the metrics that they name: a latency histogram's bucket over its count, finished and
rejected requests, or one gauge against a value. Whatever cannot be said here is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from alerts.rules.names import named
from alerts.slo.spec import PHASES
from alerts.slo.terms import SELECTABLE
from exporters import schema

_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!=|!~|=)\s*"([^"\\]*)"')
_LITERALS = re.compile(r"[\w.:/ -]+(\|[\w.:/ -]+)*")
_AVAILABILITY = {"llm_requests_finished_total", "llm_requests_rejected_total"}
_OPERATORS = {"lt": "below", "lte": "at_most", "gt": "above", "gte": "at_least"}
_PHASE_OF = {schema.PHASES[p].metric: p for p in PHASES}

Document = Mapping[str, Any]


class NotImported(ValueError):
    """Says where, and what is allowed there."""


def imported(documents: list[object]) -> dict[str, Any]:
    """The content of a file of ours. Raises NotImported."""
    found = [d for d in documents if isinstance(d, dict)]
    for d in found:
        if d.get("apiVersion") != "openslo/v1":
            raise NotImported(f"apiVersion: {d.get('apiVersion')!r}: allowed: openslo/v1")
    indicators = {_name(d): d for d in found if d.get("kind") == "SLI"}
    slos = [slo for d in found if d.get("kind") == "SLO" for slo in _slos(d, indicators)]
    if not slos:
        raise NotImported("allowed: at least one document of `kind: SLO`")
    own = sorted({k for s in slos for k in (*s.get("select", {}), *s["group_by"])} - set(SELECTABLE))
    return {"version": 1, **({"user_labels": own} if own else {}), "slos": slos}


def _name(document: Document) -> str:
    return str(_mapping(document, "metadata").get("name", ""))


def _mapping(of: Document, key: str) -> Document:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _slos(document: Document, indicators: Mapping[str, Document]) -> Iterator[dict[str, Any]]:
    name, spec = _name(document), _mapping(document, "spec")
    objectives = spec.get("objectives")
    if not isinstance(objectives, list) or not objectives:
        raise NotImported(f"{name}: spec.objectives: allowed: at least one")
    for i, objective in enumerate(objectives):
        place = f"{name}: spec.objectives[{i}]"
        known = objective if isinstance(objective, dict) else {}
        yield {
            "name": name if len(objectives) == 1 else f"{name}-{i + 1}",
            **({"description": spec["description"]} if isinstance(spec.get("description"), str) else {}),
            "objective": _target(known, place),
            "window": _window(name, spec),
            **_indicator(name, _sli(name, spec, known, indicators), {**spec, **known}, place),
        }


def _target(objective: Document, place: str) -> str | float:
    if isinstance(percent := objective.get("targetPercent"), int | float):
        return f"{percent}%"
    if isinstance(target := objective.get("target"), int | float):
        return float(target)
    raise NotImported(f"{place}.target: allowed: `target` or `targetPercent`")


def _window(name: str, spec: Document) -> str:
    windows = spec.get("timeWindow")
    only = windows[0] if isinstance(windows, list) and len(windows) == 1 else None
    if not isinstance(only, dict) or only.get("isRolling") is not True:
        raise NotImported(
            f"{name}: spec.timeWindow: allowed: one rolling window, such as [{{duration: 30d, isRolling: true}}]"
        )
    length = re.fullmatch(r"(\d+)([dw])", str(only.get("duration")))
    if length is None:
        raise NotImported(
            f"{name}: spec.timeWindow[0].duration: {only.get('duration')!r}: allowed: days or weeks, such as 30d"
        )
    return f"{int(length[1]) * (7 if length[2] == 'w' else 1)}d"


def _sli(name: str, spec: Document, objective: Document, indicators: Mapping[str, Document]) -> Document:
    for place in (spec, objective):
        if inline := _mapping(place, "indicator"):
            return _mapping(inline, "spec")
        if isinstance(reference := place.get("indicatorRef"), str):
            if reference not in indicators:
                raise NotImported(f"{name}: indicatorRef: {reference!r}: allowed: an SLI of the same file")
            return _mapping(indicators[reference], "spec")
    raise NotImported(f"{name}: spec.indicator: allowed: `indicator` or `indicatorRef`")


def _indicator(name: str, sli: Document, objective: Document, place: str) -> dict[str, Any]:
    if threshold := _mapping(sli, "thresholdMetric"):
        return _slices(name, _query(name, "thresholdMetric", threshold), objective, place)
    if (method := objective.get("budgetingMethod", "Occurrences")) != "Occurrences":
        raise NotImported(f"{name}: spec.budgetingMethod: {method!r}: allowed with a ratio: Occurrences")
    ratio = _mapping(sli, "ratioMetric")
    sides = {
        side: _query(name, f"ratioMetric.{side}", _mapping(ratio, side))
        for side in ("good", "bad", "total")
        if side in ratio
    }
    if "total" not in sides or len(sides) < 2:
        raise NotImported(f"{name}: ratioMetric: allowed: `total` and one of `good`, `bad`")
    metrics = {metric for query in sides.values() for metric, _ in named(query).selected}
    if metrics <= _AVAILABILITY:
        return _availability(name, sides)
    return _latency(name, sides, metrics)


def _availability(name: str, sides: Mapping[str, str]) -> dict[str, Any]:
    for side, reasons in (("good", {"stop", "length"}), ("bad", {"error"})):
        told = {r for k, _, value in _MATCHER.findall(sides.get(side, "")) if k == "reason" for r in value.split("|")}
        if side in sides and told != reasons:
            raise NotImported(
                f"{name}: ratioMetric.{side}: allowed: requests with reason {' and '.join(sorted(reasons))}"
            )
    return {"indicator": {"availability": {}}, **_scope(name, sides["total"])}


def _query(name: str, place: str, metric: Document) -> str:
    query = _mapping(_mapping(metric, "metricSource"), "spec").get("query")
    if not isinstance(query, str):
        raise NotImported(f"{name}: {place}.metricSource.spec.query: allowed: a query of PromQL")
    return query


def _latency(name: str, sides: Mapping[str, str], metrics: set[str]) -> dict[str, Any]:
    histograms = {m.removesuffix("_bucket").removesuffix("_count") for m in metrics}
    bounds = [value for k, op, value in _MATCHER.findall(sides.get("good", "")) if (k, op) == ("le", "=")]
    if len(histograms) != 1 or not histograms <= _PHASE_OF.keys() or len(bounds) != 1:
        raise NotImported(
            f'{name}: ratioMetric: allowed: `good` with the bucket of one `le="…"` and `total` with the count of '
            f"{' or '.join(_PHASE_OF)}; or {' and '.join(sorted(_AVAILABILITY))}"
        )
    below = {"phase": _PHASE_OF[histograms.pop()], "below": float(bounds[0])}
    return {"indicator": {"latency": below}, **_scope(name, sides["total"])}


def _slices(name: str, query: str, objective: Document, place: str) -> dict[str, Any]:
    metrics = {metric for metric, _ in named(query).selected}
    across = re.match(r"\s*(max|min|avg)\b", query)
    operator, value = objective.get("op"), objective.get("value")
    if len(metrics) != 1 or across is None:
        raise NotImported(f"{name}: thresholdMetric: allowed: max, min or avg of one gauge of the schema")
    if operator not in _OPERATORS or not isinstance(value, int | float):
        raise NotImported(f"{place}: allowed: `op` of {', '.join(_OPERATORS)} and a number as `value`")
    slices = {"metric": metrics.pop(), "across": across[1], "is": _OPERATORS[operator], "value": value}
    return {"indicator": {"slices": slices}, **_scope(name, query)}


def _scope(name: str, query: str) -> dict[str, Any]:
    select: dict[str, list[str]] = {}
    for label, operator, value in _MATCHER.findall(query):
        if label in ("le", "reason", "phase", "__name__"):
            continue
        if operator not in ("=", "=~") or not _LITERALS.fullmatch(value):
            raise NotImported(
                f"{name}: {label}{operator}{value!r}: allowed: labels that equal a value, or one of some (a|b)"
            )
        select[label] = value.split("|") if operator == "=~" else [value]
    groups = [label for label in dict.fromkeys(named(query).grouped) if label != "le"]
    return {**({"select": select} if select else {}), "group_by": groups}
