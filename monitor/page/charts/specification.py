"""From a chart to its Vega-Lite specification."""

from __future__ import annotations

from typing import Any

from monitor.page.charts import bars, heatmap, scatter, states, time_series
from monitor.page.charts.model import Bars, Chart, Heatmap, Scatter, StateTimeline, TimeSeries


def specification(chart: Chart) -> dict[str, Any]:
    match chart:
        case TimeSeries():
            return time_series.specification(chart)
        case Bars():
            return bars.specification(chart)
        case Heatmap():
            return heatmap.specification(chart)
        case StateTimeline():
            return states.specification(chart)
        case Scatter():
            return scatter.specification(chart)
