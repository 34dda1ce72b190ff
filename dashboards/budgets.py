"""Budgets of objectives over months, as the monitor judged each day: of the dashboard of the history."""

from __future__ import annotations

from dashboards import parts, sql
from dashboards.model import BAD, GOOD, Column, Line, Look, Row, Table, Threshold, TimeSeries, Unit, Variable

CHOICE = Variable("slo", "Objective", sql.names("slo", ("budget_day_view",)))
_GROUP = "slo || ' ' || subject"
_NEEDS = (
    "Whole days of UTC, each judged by the objective of its time. Empty without objectives (`slos`) in the monitor's "
    "configuration."
)


def _of(length: str) -> str:
    return f"FROM budget_{length}_view\nWHERE {{within}} AND slo IN (${{slo:sqlstring}})"


def _by_day(length: str, value: str, name: str = _GROUP, where: str = "") -> str:
    """A piece of a query: one series for each name."""
    known = f"{_of(length)} AND {value} IS NOT NULL{where}"
    return f'SELECT DISTINCT time, {name} AS metric, {value} AS "Value"\n{known}'


_LEFT = TimeSeries(
    title="Error budget left",
    description="Over the objective's own window (30 days unless it says otherwise) that ends with the day: 100 % is "
    f"all of it, below 0 it is overspent. Outages are in it where the objective counts them. {_NEEDS}",
    unit=Unit.RATIO,
    queries=(sql.united([_by_day("window", "budget_left")]),),
    thresholds=(Threshold(None, BAD), Threshold(0, GOOD)),
    limits_drawn=True,
    longest_step=sql.LONGEST_STEP,
    width=12,
    height=9,
    maximum=1,
)
_BAD = TimeSeries(
    title="Bad share of each day",
    description="What was bad of what was judged, outages included, and dashed what the objective allows. A day may "
    f"lie above that as long as the window does not. {_NEEDS}",
    unit=Unit.RATIO,
    queries=(
        sql.united([
            _by_day("day", "bad_ratio"),
            _by_day("day", "1 - objective", "slo || ' may be bad'"),
        ]),
    ),
    looks=(Look(" may be bad$", BAD, Line.DASHED),),
    longest_step=sql.LONGEST_STEP,
    width=12,
    height=9,
    minimum=0,
)  # fmt: skip
_OUTAGES = TimeSeries(
    title="Minutes of outage",
    description="In which no server of the group was up. Only of objectives that count them as bad: these spend the "
    f"budget. {_NEEDS}",
    unit=Unit.NUMBER,
    axis="minutes",
    queries=(sql.united([_by_day("day", "minutes_outage", where=" AND counts_outage")]),),
    is_stacked=True,
    bars=True,
    legend_values=("sum",),
    width=12,
    height=9,
    minimum=0,
)
_SHOWN = (
    Column("slo", "Objective"),
    Column("subject", "Group"),
    Column("objective", "Asked", Unit.RATIO, width=80),
    Column("budget_left", "Budget left", Unit.RATIO, parts.BUDGET, width=110),
    Column("budget_left_certain", "At most", Unit.RATIO, width=90),
    Column("bad_ratio", "Bad share", Unit.RATIO, width=100),
    Column("judged", "Judged", Unit.NUMBER, width=90),
    Column("minutes_outage", "Outage, min", Unit.NUMBER, width=110),
    Column("minutes_unknown", "Not known, min", Unit.NUMBER, width=130),
)
_LEAST_FIRST = "budget_left IS NULL, budget_left"
_NAMED = ", ".join(column.name for column in _SHOWN)
_MONTHS = Table(
    title="Months",
    description="Calendar months that begin within the time range, as `inferwatch slo report` tells them; the one that "
    "goes on up to its last whole day. “At most” is what may be left where buckets blur a latency; minutes that are "
    f"not known are neither good nor bad. {_NEEDS}",
    queries=(sql.table(f"SELECT month, {_NAMED}\n{_of('month')}\nORDER BY month DESC, {_LEAST_FIRST}, slo, subject"),),
    columns=(Column("month", "Month", width=80), *_SHOWN),
    width=24,
    height=9,
)
_NEWEST = Table(
    title="Budgets at the end of the newest day",
    description="Over each objective's own window; the least that is left comes first. A group of which nothing was "
    f"known on that day is not among them: look at the months. {_NEEDS}",
    queries=(
        sql.table(
            f"SELECT {_NAMED}\n{_of('window')} AND start = (SELECT max(start) {_of('day')})\n"
            f"ORDER BY {_LEAST_FIRST}, slo, subject"
        ),
    ),
    columns=_SHOWN,
    width=12,
    height=9,
)

ROW = Row("Error budgets", (_LEFT, _BAD, _OUTAGES, _NEWEST, _MONTHS))
