"""One number against another: what was measured as dots, with the bounds of y, and curves to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt

from monitor.page.charts import legend, look
from monitor.page.charts.look import Layer, Rows
from monitor.page.charts.model import Group, Measure, Pair, Scatter
from monitor.page.charts.units import Scale


def specification(chart: Scatter) -> dict[str, Any]:
    return look.finished(list(_Plan.of(chart).layers()), chart.size)


@dataclass(frozen=True, slots=True)
class _Plan:
    chart: Scatter
    across: Scale
    up: Scale

    @classmethod
    def of(cls, chart: Scatter) -> _Plan:
        pairs = [pair for group in chart.groups for pair in group.pairs]
        highest = max((max(p.y, p.upper or 0.0) for p in pairs), default=0.0)
        return cls(chart, chart.x.unit.scale(max((p.x for p in pairs), default=0.0)), chart.y.unit.scale(highest))

    def layers(self) -> Iterator[Layer]:
        measured = self._rows([group for group in self.chart.groups if not group.curve])
        curves = self._rows([group for group in self.chart.groups if group.curve])
        bounded = [row for row in measured if row["lower"] is not None and row["upper"] is not None]
        line = alt.Chart().mark_line(strokeWidth=1.5, opacity=0.8, aria=False)
        rule = alt.Chart().mark_rule(strokeWidth=2, opacity=0.35, aria=False)
        dot = alt.Chart().mark_point(filled=True, size=45, opacity=0.85)
        x, y, colour = self.x(), self.y("y"), self._colour()
        yield Layer(curves, line.encode(x, y, colour, self._dashes()))
        yield Layer(bounded, rule.encode(x, self.y("lower"), alt.Y2("upper"), colour))
        yield Layer(measured, dot.encode(x, y, colour, self._shape(), description="said:N"))

    def x(self) -> alt.X:
        title = f"{self.chart.x.title}, {self.across.title}" if self.across.title else self.chart.x.title
        return alt.X("x:Q", axis=look.sideways(title), scale=_scale(self.chart.x))

    def y(self, field: str) -> alt.Y:
        title = f"{self.chart.y.title}, {self.up.title}" if self.up.title else self.chart.y.title
        return alt.Y(f"{field}:Q", axis=look.upright(title), scale=_scale(self.chart.y))

    def _colour(self) -> alt.Color:
        scale = look.told_apart(self._names(), legend.colours(self.chart.groups))
        return alt.Color("name:N", legend=None, scale=scale)

    def _dashes(self) -> alt.StrokeDash:
        by = [list(dashed or ()) for dashed in legend.curves(self.chart.groups)]
        return alt.StrokeDash("name:N", legend=None, scale=look.told_apart(self._names(), by))

    def _shape(self) -> alt.Shape:
        names = self._names()
        return alt.Shape(
            "name:N", legend=None, scale=look.told_apart(names, [legend.shape(i) for i in range(len(names))])
        )

    def _names(self) -> list[str]:
        return [group.name for group in self.chart.groups]

    def _rows(self, groups: list[Group]) -> Rows:
        return [self._row(group, pair) for group in groups for pair in group.pairs]

    def _row(self, group: Group, pair: Pair) -> dict[str, Any]:
        heights = {"y": pair.y, "lower": pair.lower, "upper": pair.upper}
        written = {name: None if v is None else v / self.up.divisor for name, v in heights.items()}
        said = {} if group.curve else {"said": self._said(group, pair)}
        return {"name": group.name, "x": pair.x / self.across.divisor, **written, **said}

    def _said(self, group: Group, pair: Pair) -> str:
        x, y = self.chart.x, self.chart.y
        where = f"{group.name}: {x.title} {x.unit.said(pair.x)}, {y.title} {y.unit.said(pair.y)}"
        bounds = None if pair.lower is None or pair.upper is None else (
            f"between {y.unit.said(pair.lower)} and {y.unit.said(pair.upper)}"
        )  # fmt: skip
        return "\n".join(filter(None, [where, bounds, pair.text]))


def _scale(measure: Measure) -> alt.Scale:
    return alt.Scale(type="log", nice=True) if measure.logarithmic else alt.Scale(zero=True, nice=True)
