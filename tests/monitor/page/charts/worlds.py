"""Charts to draw."""

from __future__ import annotations

import math

from monitor.page.charts.model import (
    Bar,
    Bars,
    Chart,
    Column,
    Form,
    Group,
    Heatmap,
    Line,
    Look,
    Mark,
    Measure,
    Pair,
    Point,
    Row,
    Scatter,
    Span,
    State,
    StateTimeline,
    Threshold,
    TimeSeries,
)  # fmt: skip
from monitor.page.charts.units import RATIO, SECONDS, counted

T = 1_764_500_400
"""2025-11-30 11:00:00 UTC."""
REQUESTS = counted("requests")
RATE = counted("tokens/s")


def minutes(values: list[float | None], lower: float | None = None, upper: float | None = None) -> tuple[Point, ...]:
    return tuple(Point(T + 60 * i, 60, v, lower, upper) for i, v in enumerate(values) if v is not None)


def lines(*named: tuple[str, tuple[Point, ...]], **more: object) -> TimeSeries:
    drawn = tuple(Line(name, points) for name, points in named)
    return TimeSeries("Time to first token, P99", SECONDS, T, T + 600, drawn, **more)  # type: ignore[arg-type]


UP, DOWN = State("up", Look.GOOD), State("down", Look.BAD)

CHARTS: dict[str, Chart] = {
    "lines": lines(
        ("vllm", minutes([0.2, 0.4, None, 0.3, None, 0.2, 0.1], 0.1, 0.5)),
        ("sglang", minutes([0.5, 0.5], 0.4, math.inf)),
        marks=(Mark(T + 120, "restart of <gpu-1>"),),
        thresholds=(Threshold(1.0, "objective"),),
    ),
    "stack": TimeSeries("Tokens per minute", counted("tokens"), T, T + 600, (
        Line("vllm", minutes([1e6, 2e6])), Line("sglang", minutes([3e6, None, 1e6]))), form=Form.STACK),
    "share": TimeSeries("KV cache", RATIO, T, T + 600, (Line("", minutes([0.2, 0.3])),), top=1.0),
    "bare": TimeSeries("Tokens per second", RATE, T, T + 600, (Line("", minutes([200, 300])),), bare=True),
    "nothing": lines(),
    "bars": Bars("P99", SECONDS, (Bar("vllm", 0.25, "of 12 servers"), Bar("<b>'\"\\", 1.2))),
    "heatmap": Heatmap("Time to first token", SECONDS, REQUESTS, T, T + 600, (0.1, 0.25, 2.5), (
        Column(T, 60, (1, 5, 0, 0)), Column(T + 120, 60, (0, 2, 7, 3)))),
    "states": StateTimeline("Servers", T, T + 600, (
        Row("gpu-1/a", (Span(T, T + 60, UP), Span(T + 60, T + 90, DOWN))), Row("gpu-2/b", ()))),
    "scatter": Scatter("Tokens against batch", Measure("Requests running", REQUESTS), Measure("Rate", RATE), (
        Group("vllm", (Pair(16, 900, "20 minutes", 850, 970), Pair(64, 2100))),
        Group("article", (Pair(16, 1000), Pair(128, 3000)), curve=True))),
}  # fmt: skip
