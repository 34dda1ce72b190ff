"""Objectives: what is left of their budgets, how fast they burn, and what was counted for them."""

from __future__ import annotations

from alerts import promql
from alerts.burn import WINDOWS_30D, BurnWindow, duration
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import (
    BAD,
    GOOD,
    WARNING,
    BarGauge,
    Colour,
    Column,
    Dashboard,
    Line,
    Look,
    Panel,
    Query,
    Row,
    Table,
    Threshold,
    TimeSeries,
    Unit,
    Variable,
)
from dashboards.objectives import WHO, recorded, states

_CHOSEN = promql.matching("slo", "$slo")
_FIVE_MINUTES = "300"


def _labels_of(label: str, *chosen: str) -> str:
    of = promql.series("inferwatch:slo_total:5m", *(promql.matching(name, f"${name}") for name in chosen))
    return promql.call("label_values", of, label)


_CHOICES = (
    Variable("slo", "Objective", _labels_of("slo"), all_value=parts.ANY),
    Variable("model", "Model", _labels_of("model", "slo"), all_value=parts.ANY),
    Variable("role", "Role", _labels_of("role", "slo", "model"), all_value=parts.ANY),
)


def _counted(kind: str, window: str = "5m") -> str:
    return recorded(kind, window, _CHOSEN)


def _within_range(kind: str) -> str:
    """Pieces of five minutes that do not overlap, added up."""
    pieces = promql.within(recorded(kind, "slice", _CHOSEN), ask.RANGE)
    return promql.call("sum_over_time", pieces)


_OBJECTIVE = ask.max_by(("slo",), promql.series("inferwatch:slo_objective:ratio", _CHOSEN))
_MAY_BE_BAD = promql.binary("1", "-", _OBJECTIVE)


def _burn(ratio: str) -> str:
    """How many times faster than the objective allows."""
    return promql.binary(ratio, "/", _MAY_BE_BAD, on=("slo",), group="left")


_BAD_IN_RANGE = ask.per(_within_range("bad"), _within_range("total"))
_BUDGET_LEFT = promql.binary("1", "-", _burn(_BAD_IN_RANGE))


def _every_window() -> str:
    choices = (promql.matching(name, f"${name}") for name in ("slo", "model", "role"))
    every = promql.among(promql.matching("__name__", "inferwatch:slo_bad_ratio:.+"), *choices)
    named = promql.call("label_replace", every, '"window"', '"$1"', '"__name__"', '".+:(.+)"')
    return _burn(named)


_NOW = (
    states(24),
    BarGauge(
        title="Error budget left",
        description="As if the time that is shown were the objective's window: bad of judged requests by what may be "
        "bad. Below zero it is overspent. Minutes without any server are not in it: they are counted beside. The "
        "budget that counts, day by day, is on the dashboard of the history.",
        unit=Unit.RATIO,
        queries=(Query(_BUDGET_LEFT, WHO),),
        thresholds=parts.BUDGET,
        decimals=1,
        maximum=1,
        width=12,
        height=10,
    ),
    Table(
        title="What was judged",
        description="Of the time that is shown: requests (of time slices: minutes) that were judged, bad, or could "
        "not be judged, and minutes in which no server of the group was up.",
        queries=(
            Query(_within_range("total")),
            Query(_within_range("bad")),
            Query(_BAD_IN_RANGE),
            Query(_within_range("unknown")),
            Query(_within_range("outage")),
        ),
        columns=(
            Column("slo", "Objective"),
            Column("model", "Model"),
            Column("role", "Role", width=90),
            Column("A", "Judged", Unit.NUMBER, width=90),
            Column("B", "Bad", Unit.NUMBER, width=90),
            Column("C", "Bad share", Unit.RATIO, width=100),
            Column("D", "Unknown", Unit.NUMBER, width=90),
            Column("E", "Outage, min", Unit.NUMBER, width=110),
        ),
        sort_by="Bad share",
        descending=True,
        width=12,
        height=10,
    ),
)


def _burning(window: BurnWindow) -> TimeSeries:
    long, short = duration(window.long), duration(window.short)
    return TimeSeries(
        title=f"Burn over {long} and {short}",
        description=f"How many times faster than allowed the budget is spent. A {window.severity} where both are "
        f"above {promql.number(window.factor)} for an objective over 30 days; pages rest on what is certainly bad, "
        "which may be less. Empty for objectives with other windows: the table below has all.",
        unit=Unit.NUMBER,
        axis="times the budget",
        queries=(
            Query(_burn(_counted("bad_ratio", long)), f"{WHO} {long}"),
            Query(_burn(_counted("bad_ratio", short)), f"{WHO} {short}"),
        ),
        looks=(Look(f" {short}$", line=Line.DOTTED),),
        thresholds=(Threshold(None, GOOD), Threshold(float(window.factor), BAD)),
        limits_drawn=True,
        width=12,
        height=9,
        minimum=0,
    )


_BURN: tuple[Panel, ...] = (
    *map(_burning, WINDOWS_30D),
    Table(
        title="Burn of every window",
        description="How many times faster than allowed each objective spends its budget, over each window of its "
        "rules.",
        queries=(Query(_every_window()),),
        columns=(
            Column("slo", "Objective"),
            Column("model", "Model"),
            Column("role", "Role"),
            Column("window", "Window", width=100),
            Column("A", "Burn", Unit.NUMBER, thresholds=(Threshold(None, GOOD), Threshold(1, WARNING)), width=120),
        ),
        sort_by="Burn",
        descending=True,
        width=12,
        height=9,
    ),
    parts.alerts_table(promql.matching("alertname", "SloBurn.*"), width=12, height=9),
)


def _per_second(title: str, kind: str, description: str, unit: Unit = Unit.NUMBER) -> TimeSeries:
    of = promql.binary(_counted(kind), "/", _FIVE_MINUTES)
    return TimeSeries(
        title=title, description=description, unit=unit, axis="per second", queries=(Query(of, WHO),), minimum=0,
    )  # fmt: skip


_EVENTS = (
    _per_second("Judged", "total", "Requests (of time slices: minutes) judged, per second over the last five minutes."),
    _per_second("Bad", "bad", "Those that are bad by estimate, per second over the last five minutes."),
    _per_second("Certainly bad", "certain", "Latency objectives alone: those beyond a bound of the servers' own."),
    TimeSeries(
        title="Bad share",
        description="Bad of judged, over the last five minutes. Empty where nothing was judged.",
        unit=Unit.RATIO,
        queries=(Query(ask.per(_counted("bad"), _counted("total")), WHO),),
        minimum=0,
    ),
    _per_second("Unknown", "unknown", "Requests that could not be judged: their server cannot tell."),
    TimeSeries(
        title="Minutes without any server",
        description="Of the last five minutes those in which no server of the group was up.",
        unit=Unit.NUMBER,
        axis="minutes",
        queries=(Query(_counted("outage"), WHO),),
        looks=(Look(".*", Colour.RED),),
        minimum=0,
        maximum=5,
    ),
)


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.SLOS,
        title="inferwatch / Objectives",
        description="Service level objectives, as the recording rules of `inferwatch rules build` count them. "
        "Without these rules all panels are empty.",
        variables=_CHOICES,
        links=(parts.ALL_DASHBOARDS,),
        since="now-7d",
        rows=(Row("Now", _NOW), Row("Burn", _BURN), Row("What was counted", _EVENTS)),
    )
