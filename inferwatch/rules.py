from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alerts import promql
from alerts.conditions import condition_groups
from alerts.rules.files import expressions
from alerts.rules.known import Catalogue, Expression, family, lacking, of_schema, problems
from alerts.rules.slo import slo_groups
from alerts.rules.text import prometheus_rule, rule_file
from exporters.loader import read_yaml
from exporters.terminal import printable
from inferwatch.console import MISUSED, CommandError, plural
from inferwatch.misuse import problems_end
from inferwatch.objectives import RulePart
from inferwatch.slo import load

_SEEN_WITHIN_SECONDS = 3600.0
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_OBJECT_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


def build(file: Path, operator_name: str | None, only: RulePart | None) -> None:
    """As a rule file, or as a PrometheusRule of that name."""
    if operator_name is not None and not _OBJECT_NAME.fullmatch(operator_name):
        told = "lower-case letters, digits, - and ., at most 253, as Kubernetes names objects"
        raise CommandError(f"--name: {operator_name!r}: allowed: {told}", status=MISUSED)
    groups = [] if only is RulePart.CONDITIONS else slo_groups(load(file))
    groups += [] if only is RulePart.OBJECTIVES else condition_groups()
    print(rule_file(groups) if operator_name is None else prometheus_rule(groups, operator_name), end="")


def check(files: Sequence[Path], user_labels: Sequence[str], prometheus: str | None) -> None:
    found = [e for file in files for e in _expressions(file)]
    lines = problems(found, of_schema(user_labels))
    if not lines and prometheus:
        live, without = asyncio.run(_live(prometheus, found))
        lines = problems(found, {**live, **without.labels}, f"at {prometheus}")
        for name, why in without.reasons.items():
            print(f"{printable(name)}: no series at {prometheus}: {printable(why)}")
    if lines:
        raise CommandError(*lines)
    print(f"{plural(len(found), 'expression')}: every metric and label is there")


@dataclass(frozen=True, slots=True)
class _Without:
    """Metrics that the fleet lacks and that are named all the same, with their labels by the schema."""

    reasons: Mapping[str, str]
    labels: Catalogue


def _expressions(file: Path) -> list[Expression]:
    try:
        with problems_end():
            return expressions(str(file), read_yaml(file)[0])
    except ValueError as error:
        raise CommandError(str(error), status=MISUSED) from error


async def _live(url: str, found: Sequence[Expression]) -> tuple[dict[str, frozenset[str]], _Without]:
    """What had a sample within the last hour, with the labels that any of its series has."""
    from inferwatch.asking import ask

    known = of_schema()
    metrics = sorted({m for e in found for m in e.metrics if m in known})
    labels: dict[str, frozenset[str]] = {}
    for metric in metrics:
        for series in await ask(url, promql.over_time("last", promql.series(metric), _SEEN_WITHIN_SECONDS)):
            labels[metric] = labels.get(metric, frozenset()) | series.keys() - {"__name__"}
    unavailable = promql.series("llm_field_info", promql.equals("quality", "unavailable"))
    told = await ask(url, promql.over_time("last", unavailable, _SEEN_WITHIN_SECONDS))
    reasons = lacking({t.get("field", ""): t.get("reason", "") for t in told}, labels)
    named = {m: reasons[of] for m in metrics if m not in labels and (of := family(m)) in reasons}
    return labels, _Without(named, {m: known[m] for m in named})
