"""What can be wrong with inferwatch itself."""

from __future__ import annotations

from alerts.burn import DAY, HOUR, MINUTE
from alerts.conditions.condition import Condition, Limit
from alerts.conditions.expression import Always, Expression, Merged, Now, Over, firing
from alerts.conditions.sentence import Sentence

_SCRAPED = ("job", "instance")
_REMEMBERED = Limit(
    "remembered for",
    DAY,
    "seconds",
    "what does not answer does not say what it is: that is known from before, and then from its alert",
)
_SIDECAR = "SidecarDown"


def _known() -> Expression:
    """By what it last said of itself, or, once that is too long ago, by the alert that fires for it."""
    of = ("node", *_SCRAPED)
    return Merged("max", Over("last", "inferwatch_build_info", _REMEMBERED.seconds), by=of).otherwise(
        Merged("max", firing(_SIDECAR), by=of)
    )


SIDECAR = Condition(
    name=_SIDECAR,
    severity="page",
    meaning="A process of inferwatch does not answer: no other alert can tell of its servers and GPUs.",
    summary=Sentence("inferwatch on {node} ({instance}) does not answer"),
    first="see whether its node is up, then look at the process and its log.",
    expression=_known().where(Now("up").equal(0), on=_SCRAPED),
    after=6 * MINUTE,
    limits=(_REMEMBERED,),
    hold=Limit("for", 5 * MINUTE, "seconds", "an upgrade restarts it"),
)

_DAY_BEFORE = Limit("more than a day before, at most over", HOUR, "seconds", "one that is known is not new")
UNMAPPED = Condition(
    name="UnmappedFamilies",
    severity="ticket",
    meaning="The server shows metrics that inferwatch does not know, more than a day before: mostly it was upgraded.",
    summary=Sentence("Metric families of {server} on {node} that are not known: {value}"),
    first="see whether a number that you rely on is missing, and whether a newer inferwatch knows its release.",
    expression=Now("inferwatch_unmapped_families")
    .above(0)
    .unless(
        Now("inferwatch_unmapped_families").at_most(
            Over("max", "inferwatch_unmapped_families", _DAY_BEFORE.seconds, ago=DAY)
        )
    ),
    after=16 * MINUTE,
    limits=(_DAY_BEFORE,),
    hold=Limit("for", 15 * MINUTE, "seconds", "a rolling upgrade is under way"),
)

_LAG = Limit("behind by more than", 5 * MINUTE, "seconds", "a minute is written when it is over, within two more")
LAGGING = Condition(
    name="HistoryLagging",
    severity="ticket",
    meaning="Minutes are not written to the history: budgets and reports stand still.",
    summary=Sentence("The history of {node} lies {value} behind", "seconds"),
    first="read at the top of the monitor's page what keeps it from writing, and do not restart it before.",
    expression=Now("inferwatch_history_lag_seconds").above(_LAG.value),
    after=9 * MINUTE,
    limits=(_LAG,),
    hold=Limit("for", 5 * MINUTE, "seconds", "a restart of the database passes by itself; minutes wait for 4 hours"),
)

WATCHDOG = Condition(
    name="Watchdog",
    severity="none",
    meaning="Always fires. A dead man's switch elsewhere tells when it does not arrive any more.",
    summary=Sentence("Alerts are evaluated and sent"),
    first="nothing, while it fires; where it is no longer heard of, look at Prometheus, then at Alertmanager.",
    expression=Always(),
    after=0,
)

OURSELVES = (SIDECAR, UNMAPPED, LAGGING, WATCHDOG)
