"""All rules of a file of objectives."""

from __future__ import annotations

from collections.abc import Sequence

from alerts import promql
from alerts.burn import MINUTE, SLICE, BurnWindow
from alerts.rules.availability import availability_rules
from alerts.rules.burn import NAMES, burn_alert, ratio_kind
from alerts.rules.latency import latency_rules
from alerts.rules.model import Recording, RuleGroup
from alerts.rules.outage import outage_rules
from alerts.rules.scope import PIECE, RECENT, Scope
from alerts.rules.slices import slice_rules
from alerts.rules.windows import lengths, ratio_rule, sum_rules
from alerts.slo.spec import Specs


def slo_groups(specs: Specs) -> list[RuleGroup]:
    scopes = [Scope(slo, specs.user_labels) for slo in specs.slos]
    return [group for scope in scopes for group in groups_of(scope, scope.slo.burn_windows()[0])]


def groups_of(scope: Scope, windows: Sequence[BurnWindow]) -> list[RuleGroup]:
    objective = scope.rule("objective", "ratio", promql.call("vector", promql.number(scope.slo.objective)))
    counts, pieces = [*_counts(scope), *outage_rules(scope)], _pieces(scope)
    kinds = [rule.record.removeprefix("inferwatch:slo_").split(":")[0] for rule in pieces]
    ratios = [ratio_rule(scope, kind, seconds) for kind, seconds in _ratios(scope, windows)]
    alerts = [burn_alert(scope, s, of) for s in NAMES if (of := [w for w in windows if w.severity == s])]
    return [
        RuleGroup(f"slo-{scope.slo.name}", MINUTE, (objective, *counts, *ratios, *alerts)),
        # A colon is in no name, so that no other objective's group is called so.
        RuleGroup(f"slo-{scope.slo.name}:windows", SLICE, (*pieces, *sum_rules(scope, kinds, lengths(windows)))),
    ]


def _counts(scope: Scope) -> list[Recording]:
    slices = scope.slo.indicator.slices
    return slice_rules(scope, slices) if slices else _requests(scope)


def _pieces(scope: Scope) -> list[Recording]:
    """Minutes are recorded one by one, and are not missed between two pieces: those are the counts as they are."""
    minutes = ["total", "bad", "outage"] if scope.slo.indicator.slices else ["outage"]
    requests = [] if scope.slo.indicator.slices else _requests(scope.of_pieces)
    return [*requests, *(scope.rule(kind, PIECE, scope.recorded(kind, RECENT)) for kind in minutes)]


def _requests(scope: Scope) -> list[Recording]:
    latency = scope.slo.indicator.latency
    return latency_rules(scope, latency) if latency else availability_rules(scope)


def _ratios(scope: Scope, windows: Sequence[BurnWindow]) -> list[tuple[str, int]]:
    """What is bad over every window, and over those of pages also what is certainly bad."""
    found = [("bad", seconds) for seconds in lengths(windows)]
    certain = [w for w in windows if ratio_kind(scope, w.severity) != "bad"]
    return [*found, *(("certain", seconds) for seconds in lengths(certain))]
