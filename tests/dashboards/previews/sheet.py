"""A dashboard as one page: its panels in their grid, with real answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from dashboards.model import COLUMNS, Dashboard, Panel, Row
from monitor.page.assets import FOLDER
from monitor.page.charts.artist import Artist
from tests.dashboards.previews.answers import Mark, Source
from tests.dashboards.previews.drawing import COLUMN, GAP, ROW, drawing

WIDTH = COLUMNS * COLUMN + 2 * GAP
_STYLE = f"""
body {{ width: {WIDTH}px; padding: {GAP}px; box-sizing: border-box; }}
h1 {{ margin: 2px 0 2px; }} h2 {{ margin: 10px 0 4px; }} h3 {{ margin: 0 0 4px; line-height: 22px; font-weight: 600; }}
.about {{ margin: 0; color: var(--muted); }}
.grid {{ display: grid; grid-template-columns: repeat({COLUMNS}, 1fr); grid-auto-rows: {ROW}px; gap: {GAP}px; }}
.panel {{ overflow: hidden; padding: 8px 10px; background: var(--surface); border: 1px solid var(--edge);
  border-radius: 4px; }}
.panel > svg {{ display: block; width: 100%; }} .panel svg text {{ font-family: inherit; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 0 14px; margin: 2px 0 0; overflow: hidden; font-size: 12px;
  line-height: 20px; }}
.key {{ white-space: nowrap; }} .key svg {{ vertical-align: -1px; margin-right: 3px; }}
.numbers {{ display: flex; flex-wrap: wrap; gap: 2px 18px; }} .number {{ display: flex; flex-direction: column; }}
.value {{ font-size: 24px; line-height: 1.2; font-weight: 600; white-space: nowrap; }}
.many .value, .value.long {{ font-size: 18px; }} .name {{ color: var(--muted); font-size: 12px; }}
table {{ width: 100%; border-collapse: collapse; font-size: 12px; }}
th {{ text-align: left; color: var(--muted); font-weight: 500; }}
th, td {{ padding: 3px 6px; border-bottom: 1px solid var(--edge); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; max-width: 240px; }}
.none {{ color: var(--muted); text-align: center; }} .text {{ font-size: 13px; }}
"""


@dataclass(frozen=True, slots=True)
class Sheet:
    html: str
    empty: tuple[str, ...] = field(default=())
    """Titles of panels without an answer."""


def sheet(dashboard: Dashboard, source: Source, artist: Artist, about: str) -> Sheet:
    marks = [mark for annotation in dashboard.annotations for mark in source.marks(annotation)]
    empty: list[str] = []
    rows = Markup("").join(_row(row, source, marks, artist, empty) for row in dashboard.rows)
    style = Markup((FOLDER / "page.css").read_text() + _STYLE)
    html = Markup(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>'
        '<body><h1>{title}</h1><p class="about">{about}</p>{rows}</body></html>'
    ).format(title=dashboard.title, style=style, about=about, rows=rows)
    return Sheet(str(html), tuple(empty))


def _row(row: Row, source: Source, marks: list[Mark], artist: Artist, empty: list[str]) -> Markup:
    panels = Markup("").join(_panel(p, source, marks, artist, empty) for p in row.panels)
    return Markup('<h2>{}</h2><div class="grid">{}</div>').format(row.title, panels)


def _panel(panel: Panel, source: Source, marks: list[Mark], artist: Artist, empty: list[str]) -> Markup:
    drawn = drawing(panel, source, marks, artist)
    if drawn.is_empty:
        empty.append(panel.title)
    return Markup('<section class="panel" style="grid-column:span {};grid-row:span {}"><h3>{}</h3>{}</section>').format(
        panel.width, panel.height, panel.title, drawn.html
    )
