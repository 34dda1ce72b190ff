"""Rules over samples of the past: what a Prometheus that had them would have recorded, by its own evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from alerts.rules.model import Recording, RuleGroup
from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus

_MOST_POINTS = 10_000
_ADDED_UP = ("minute", "5m", "slice")
"""What others look back at; those are wanted at the end alone."""


def record(prometheus: Prometheus, folder: Path, groups: Iterable[RuleGroup], since: int, until: int) -> None:
    """Rules that build on others come after them; one that builds on itself is evaluated twice.

    Each step restarts the server, since only one that is stopped takes samples of the past.
    """
    rules = [(r, g.interval) for g in groups for r in g.rules if isinstance(r, Recording)]
    done: set[str] = set()
    while rules:
        ready = [(r, every) for r, every in rules if not _needs(r, [q for q, _ in rules], done)]
        assert ready, [r.record for r, _ in rules]
        for again in (False, True):
            wanted = [(r, every) for r, every in ready if not again or r.record in r.expr]
            if wanted:
                _load(
                    prometheus, folder, [line for r, e in wanted for line in _recorded(prometheus, r, e, since, until)]
                )
        done |= {_key(r) for r, _ in ready}
        rules = [(r, every) for r, every in rules if _key(r) not in done]


def _key(rule: Recording) -> str:
    return f"{rule.record} {rule.labels['slo']}"


def _needs(rule: Recording, others: Sequence[Recording], done: set[str]) -> bool:
    """Whether it reads what is still to be recorded of its own objective."""
    return any(
        other.record in rule.expr and other.record != rule.record and _key(other) not in done
        for other in others
        if other.labels == rule.labels
    )


def _recorded(prometheus: Prometheus, rule: Recording, every: int, since: int, until: int) -> list[str]:
    lines = []
    kept = rule.record.rpartition(":")[2] in _ADDED_UP
    for start in range(since if kept else until - 2 * every, until + 1, every * _MOST_POINTS):
        asked = {"start": str(start), "end": str(min(until, start + every * (_MOST_POINTS - 1))), "step": str(every)}
        answer = get(f"{prometheus.url}/api/v1/query_range", query=rule.expr, **asked).json()["data"]["result"]
        for series in answer:
            labels = {k: v for k, v in series["metric"].items() if k != "__name__"} | dict(rule.labels)
            told = ",".join(f'{k}="{v}"' for k, v in labels.items())
            lines += [f"{rule.record}{{{told}}} {value} {at}" for at, value in series["values"]]
    return lines


def _load(prometheus: Prometheus, folder: Path, lines: Sequence[str]) -> None:
    if not lines:
        return
    file = folder / "recorded.om"
    file.write_text("\n".join([*lines, "# EOF", ""]))
    prometheus.stop()
    prometheus.load(file)
    prometheus.start()
