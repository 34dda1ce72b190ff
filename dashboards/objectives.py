"""States of objectives, as Prometheus' rules tell them."""

from __future__ import annotations

from alerts import promql
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import BAD, GOOD, NEUTRAL, WARNING, Link, Query, Shown, StateTimeline

GROUPS = ("slo", "node", "server", "framework", "model", "role", "engine")
"""Whatever an objective is grouped by, labels of one's own aside."""
WHO = " ".join(f"{{{{{label}}}}}" for label in GROUPS)
"""What an objective is not grouped by leaves nothing in a legend."""
_PAGE, _TICKET, _OK, _IDLE = 3, 2, 1, 0
STATES = (
    Shown(_PAGE, "burning: page", BAD),
    Shown(_TICKET, "burning: ticket", WARNING),
    Shown(_OK, "no alert", GOOD),
    Shown(_IDLE, "idle", NEUTRAL),
)


def recorded(kind: str, window: str, *more: promql.Matcher) -> str:
    """What the rules count for objectives, under the dashboard's choices."""
    choices = (promql.matching(name, f"${name}") for name in ("model", "role"))
    return promql.series(f"inferwatch:slo_{kind}:{window}", *choices, *more)


def states(width: int = 24, height: int = 7) -> StateTimeline:
    burning = (
        (_PAGE, _alert("SloBurnPage")),
        (_TICKET, _alert("SloBurnTicket")),
    )
    parts_ = [promql.binary(promql.binary(of, "*", "0"), "+", str(state)) for state, of in burning]
    judged = ask.holds(ask.max_by(GROUPS, recorded("total", "5m")), ">", 0)
    return StateTimeline(
        title="Objectives",
        description="Whether each objective burns its error budget so fast that somebody is told, was met by the "
        "last five minutes' traffic without that, or had no traffic. A gap: it cannot be judged. How much of the "
        "budget is left is on the dashboards of objectives and of the history.",
        queries=(Query(promql.first_of(*parts_, judged, on=GROUPS), WHO),),
        shown=STATES,
        links=(Link("Objectives", parts.SLOS),),
        width=width,
        height=height,
    )


def _alert(name: str) -> str:
    firing = promql.series(
        "ALERTS", promql.equals("alertname", name), promql.equals("alertstate", "firing"),
        *(promql.matching(label, f"${label}") for label in ("model", "role")),
    )  # fmt: skip
    return ask.max_by(GROUPS, firing)
