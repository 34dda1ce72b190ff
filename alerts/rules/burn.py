"""The alerts of an objective: one per severity, whichever of its windows burns."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from alerts import promql
from alerts.burn import MINUTE, SLICE, BurnWindow, Severity, duration
from alerts.rules.model import Alert, runbook
from alerts.rules.scope import EACH_MINUTE, RECENT, Scope
from alerts.rules.windows import held, outage_over
from alerts.slo.spec import Slo

NAMES: dict[Severity, str] = {"page": "SloBurnPage", "ticket": "SloBurnTicket"}


def burn_alert(scope: Scope, severity: Severity, found: Iterable[BurnWindow]) -> Alert:
    windows = list(found)
    return Alert(
        NAMES[severity],
        promql.first_of(*(_burning(scope, ratio_kind(scope, severity), w) for w in windows)),
        {"slo": scope.slo.name, "severity": severity, **scope.slo.labels},
        {**_texts(scope, severity, windows), "runbook": runbook(NAMES[severity]), **scope.slo.annotations},
    )


def ratio_kind(scope: Scope, severity: Severity) -> str:
    """A page rests on what is certainly bad. What failed or was unready is known; latencies are interpolated."""
    return "certain" if severity == "page" and scope.slo.indicator.latency else "bad"


def _burning(scope: Scope, kind: str, window: BurnWindow) -> str:
    """Burning over the long window and still over the short one, with enough requests to say so.

    Where nobody is up any more that could burn, a bad hour is not over.
    """
    limit = promql.number(window.factor * scope.slo.budget)
    long, short = (
        promql.binary(scope.recorded(f"{kind}_ratio", duration(s)), ">", limit) for s in (window.long, window.short)
    )
    nobody = promql.binary(scope.recorded("outage", EACH_MINUTE), "==", "1")
    return promql.all_of(long, promql.first_of(short, nobody), _enough(scope, window, limit))


def _enough(scope: Scope, window: BurnWindow, limit: str) -> str:
    needed = promql.number(least(scope.slo, window))
    totals = [held(scope, "total", window.long)] if window.long > SLICE else []
    enough = [promql.binary(total, ">=", needed) for total in (*totals, scope.recorded("total", RECENT))]
    out = [promql.binary(outage_over(scope, window.long), ">", limit)] if scope.slo.counts_outage else []
    return promql.first_of(*enough, *out)


def least(slo: Slo, window: BurnWindow) -> Decimal:
    """Requests; of minutes as many as may be bad within the whole window, so that the first ones alone say nothing."""
    if slo.indicator.slices is None:
        return Decimal(slo.minimum)
    return window.factor * slo.budget * window.long / MINUTE


def _texts(scope: Scope, severity: Severity, windows: list[BurnWindow]) -> dict[str, str]:
    slo = scope.slo
    who = " ".join(f"{label}={{{{ $labels.{label} }}}}" for label in slo.groups)
    over = " or else ".join(duration(w.long) for w in windows)
    rates = " or ".join(f"{w.factor}x over {duration(w.long)} and {duration(w.short)}" for w in windows)
    return {
        "summary": f"SLO {slo.name} ({who}) burns its error budget",
        "description": (
            f"Over {over}: {{{{ $value | humanizePercentage }}}} {_what(scope, severity)}. "
            f"At most {promql.number(slo.budget * 100)} % may, over {slo.days} days. It burns at least {rates}."
        ),
    }


_SLOWER = {
    "ttft": "of requests {sure} took longer than {seconds} s to their first token",
    "e2e": "of requests {sure} took longer than {seconds} s",
    "itl": "of gaps between tokens {sure} were longer than {seconds} s",
    "tpot": "of requests {sure} took longer than {seconds} s per output token",
}
"""By phase."""


def _what(scope: Scope, severity: Severity) -> str:
    latency, slices = scope.slo.indicator.latency, scope.slo.indicator.slices
    if latency:
        sure, seconds = "certainly" if severity == "page" else "by estimate", promql.number(latency.below)
        return _SLOWER[latency.phase].format(sure=sure, seconds=seconds)
    if slices:
        return f"of minutes had {slices.metric} not {slices.condition.replace('_', ' ')} {promql.number(slices.value)}"
    return "of requests failed or were rejected, minutes without any server up included"
