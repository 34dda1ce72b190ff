"""All findings, in the order in which to look at them: causes before what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from alerts.conditions.condition import duration
from monitor.advise import (
    batch_too_large,
    gpus_idle,
    kv_cache_short,
    memory_head_room,
    metrics_missing,
    overloaded,
    prefill_bound,
    prefix_caching_off,
    prefix_hits_collapsed,
    prompts_below_block,
    replicas_imbalanced,
    speculation_loses,
)
from monitor.advise.model import Advice, Finding, Missing, Target
from monitor.advise.rule import Rule
from monitor.advise.world import SHORTEST, World

RULES: Sequence[Rule] = tuple(
    module.RULE
    for module in (
        metrics_missing, replicas_imbalanced, kv_cache_short, prefix_hits_collapsed, prefix_caching_off,
        prompts_below_block, overloaded, prefill_bound, batch_too_large, speculation_loses, memory_head_room, gpus_idle,
    )
)  # fmt: skip
"""A replica that is sent most requests runs out of memory, and a cache without hits makes a queue."""


def advise(world: World) -> Advice:
    found: list[Finding] = []
    missing: dict[tuple[str, str], list[Target]] = {}
    for rule in RULES:
        told = list(rule.judge(world))
        findings = (_with_steps(f) for f in told if isinstance(f, Finding))
        found += sorted(findings, key=lambda f: (-f.seconds, f.target))
        for lack in (m for m in told if isinstance(m, Missing)):
            missing.setdefault((lack.name, lack.needs), []).extend(lack.targets)
    return Advice(world.since, world.until, tuple(found), tuple(_missing(missing)))


def _with_steps(finding: Finding) -> Finding:
    """Says how long the steps are that its first number is of, where some are longer than those of a short window."""
    lengths = finding.evidence[0].steps
    if lengths[-1] <= SHORTEST:
        return finding
    told = " to ".join(dict.fromkeys(duration(length) for length in (lengths[0], lengths[-1])))
    return replace(finding, why=f"{finding.why}; by steps of {told}")


def _missing(by_need: dict[tuple[str, str], list[Target]]) -> Iterable[Missing]:
    for (name, needs), targets in by_need.items():
        yield Missing(name, needs, tuple(sorted(set(targets))))
