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
from exporters.loader import shown

_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!=|!~|=)\s*"([^"\\]*)"')
_LITERALS = re.compile(r"[\w.:/ -]+(\|[\w.:/ -]+)*")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_SELECTOR = r"[a-zA-Z_]\w*\s*(\{[^{}]*\})?\s*"
_BY = r"(by\s*\([^()]*\)\s*)?"
_COUNTED = rf"sum\s*{_BY}\(\s*((rate|increase)\s*\(\s*{_SELECTOR}\[[^\]]*\]\s*\)|{_SELECTOR})\s*\)\s*{_BY}"
_COUNTS, _GAUGE = (
    re.compile(rf"\s*{_COUNTED}(\+\s*{_COUNTED})*"),
    re.compile(rf"\s*(max|min|avg)\s*{_BY}\(\s*{_SELECTOR}\)\s*{_BY}"),
)
_OF_REQUESTS = {"le", "reason", "phase", "__name__"}
"""Labels that say which requests are counted, and not whose."""
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
            raise NotImported(f"apiVersion: {shown('', d.get('apiVersion'))}: allowed: openslo/v1")
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
    if not isinstance(only, dict) or only.get("isRolling") is not True or "calendar" in only:
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
    _same_scope(name, sides)
    metrics = {metric for query in sides.values() for metric, _ in named(query).selected}
    if metrics <= _AVAILABILITY:
        return _availability(name, sides)
    return _latency(name, sides, metrics)


def _same_scope(name: str, sides: Mapping[str, str]) -> None:
    total = _scope(name, sides["total"])
    for side, query in sides.items():
        if not _COUNTS.fullmatch(query):
            raise NotImported(
                f"{name}: ratioMetric.{side}: allowed: sum(rate(metric{{…}}[…])), also of several, added up"
            )
        if _scope(name, query) != total:
            raise NotImported(f"{name}: ratioMetric.{side}: allowed: what `total` selects and groups by")


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
    if (
        len(histograms) != 1
        or not histograms <= _PHASE_OF.keys()
        or len(bounds) != 1
        or not _NUMBER.fullmatch(bounds[0])
    ):
        raise NotImported(
            f'{name}: ratioMetric: allowed: `good` with the bucket of one `le="…"` and `total` with the count of '
            f"{' or '.join(_PHASE_OF)}; or {' and '.join(sorted(_AVAILABILITY))}"
        )
    below = {"phase": _PHASE_OF[histograms.pop()], "below": float(bounds[0])}
    return {"indicator": {"latency": below}, **_scope(name, sides["total"])}


def _slices(name: str, query: str, objective: Document, place: str) -> dict[str, Any]:
    metrics = {metric for metric, _ in named(query).selected}
    across = _GAUGE.fullmatch(query)
    operator, value = objective.get("op"), objective.get("value")
    if len(metrics) != 1 or across is None:
        raise NotImported(f"{name}: thresholdMetric: allowed: max, min or avg of one gauge of the schema")
    if objective.get("budgetingMethod", "Timeslices") == "RatioTimeslices" or not _by_minutes(objective):
        raise NotImported(f"{place}: allowed: time slices of 1m, each good or bad")
    if operator not in _OPERATORS or not isinstance(value, int | float):
        raise NotImported(f"{place}: allowed: `op` of {', '.join(_OPERATORS)} and a number as `value`")
    slices = {"metric": metrics.pop(), "across": across[1], "is": _OPERATORS[operator], "value": value}
    return {"indicator": {"slices": slices}, **_scope(name, query)}


def _by_minutes(objective: Document) -> bool:
    return objective.get("timeSliceWindow", "1m") in ("1m", "60s")


def _scope(name: str, query: str) -> dict[str, Any]:
    select: dict[str, list[str]] = {}
    for label, operator, value in _MATCHER.findall(query):
        if label in _OF_REQUESTS:
            continue
        if operator not in ("=", "=~") or not _LITERALS.fullmatch(value):
            raise NotImported(
                f"{name}: {label}{operator}{value!r}: allowed: labels that equal a value, or one of some (a|b)"
            )
        select[label] = value.split("|") if operator == "=~" else [value]
    groups = [label for label in dict.fromkeys(named(query).grouped) if label != "le"]
    return {**({"select": select} if select else {}), "group_by": groups}
