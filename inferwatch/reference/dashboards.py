from __future__ import annotations

from collections.abc import Iterable

from dashboards.model import Dashboard, Panel, Row
from inferwatch.reference.markdown import page, table


def dashboards_page(dashboards: Iterable[Dashboard]) -> str:
    """Every panel, as its description in Grafana has it."""
    return page(
        "Panels of the dashboards",
        "What each panel of the [dashboards](../dashboards.md) shows. The same stands behind the `i` of the panel.",
        *map(_dashboard, dashboards),
    )


def _dashboard(dashboard: Dashboard) -> str:
    return "\n\n".join([f"## {dashboard.title}", dashboard.description, *map(_row, dashboard.rows)])


def _row(row: Row) -> str:
    return f"### {row.title}\n\n{table(('panel', 'what it shows'), map(_panel, row.panels))}"


def _panel(panel: Panel) -> tuple[str, str]:
    return panel.title, panel.description
