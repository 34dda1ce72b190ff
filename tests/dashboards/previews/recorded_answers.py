"""What a real Prometheus answers to a dashboard, as Grafana would ask and join it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from dashboards.model import Annotation, Panel, Query
from tests.dashboards.asked import RANGE, Grafana
from tests.dashboards.panels import Json
from tests.dashboards.previews.answers import Mark, Series

STEP = 60
_LABEL = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Recorded:
    grafana: Grafana
    dashboard: Json
    chosen: Mapping[str, Sequence[str]]

    @property
    def since(self) -> int:
        return self.grafana.at - RANGE

    @property
    def until(self) -> int:
        return self.grafana.at

    @property
    def step(self) -> int:
        return STEP

    @property
    def before(self) -> float:
        return STEP / 2

    @cached_property
    def _choices(self) -> dict[str, str]:
        return self.grafana.choices(self.dashboard, **self.chosen)

    def series(self, panel: Panel) -> list[list[Series]]:
        return [
            [_series(query, answer) for answer in self._answers(query, instant=panel.is_instant)]
            for query in panel.queries
            if isinstance(query, Query)
        ]

    def table(self, panel: Panel) -> list[dict[str, Any]]:
        """Rows with the same labels are one, as far as all queries have these labels."""
        found = [self._answers(query, instant=True) for query in panel.queries if isinstance(query, Query)]
        names = [{name for answer in answers for name in _labels(answer)} for answers in found if answers]
        common = set.intersection(*names) if names else set()
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for letter, answers in zip(ascii_uppercase, found, strict=False):
            for answer in answers:
                labels = _labels(answer)
                row = rows.setdefault(tuple(labels.get(name, "") for name in sorted(common)), {})
                row.update(labels, **{letter: float(answer["value"][1])})
        return list(rows.values())

    def marks(self, annotation: Annotation) -> list[Mark]:
        """One for each stretch of time."""
        assert isinstance(annotation.query, Query)
        found = []
        for answer in self._answers(annotation.query, instant=False):
            moments = [float(at) for at, _ in answer["values"]]
            firsts = [at for i, at in enumerate(moments) if i == 0 or at - moments[i - 1] > STEP]
            found += [Mark(at, _said(annotation.title, _labels(answer))) for at in firsts]
        return found

    def _answers(self, query: Query, *, instant: bool) -> list[dict[str, Any]]:
        return self.grafana.answers({"expr": query.expr, "instant": instant}, self._choices)


def _labels(answer: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in answer["metric"].items() if name != "__name__"}


def _series(query: Query, answer: Mapping[str, Any]) -> Series:
    values = answer["values"] if "values" in answer else [answer["value"]]
    labels = _labels(answer)
    return Series(_said(query.legend, labels).strip(), labels, tuple((float(at), float(v)) for at, v in values))


def _said(legend: str, labels: Mapping[str, str]) -> str:
    return " ".join(_LABEL.sub(lambda match: labels.get(match[1], ""), legend).split())
