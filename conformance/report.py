"""A comparison as text for people and as data for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from conformance.compare import Comparison, Gone, Retyped
from conformance.declarations import Family, Unresolved
from inferwatch.console import columns, plural

_NO_TYPE = "type not shown"


@dataclass(frozen=True, slots=True)
class Subject:
    """What was read and held to which table."""

    framework: str
    release: str
    table: str
    table_releases: str


def as_text(subject: Subject, comparison: Comparison) -> str:
    sections = (
        _section("unknown to the table", map(_unknown, comparison.unknown)),
        _section("read by the table, not declared in this release", map(_gone, comparison.gone)),
        _section("declared as another type than the table expects", map(_retyped, comparison.retyped)),
        _section("not resolved", map(_unresolved, comparison.declared.unresolved)),
    )
    return "\n".join((_head(subject, comparison), *sections, _verdict(comparison)))


def as_data(subject: Subject, comparison: Comparison) -> dict[str, object]:
    return {
        **asdict(subject),
        "good": comparison.good,
        "lost": list(comparison.lost),
        "unknown": [asdict(family) for family in comparison.unknown],
        "gone": [asdict(gone) for gone in comparison.gone],
        "retyped": [asdict(retyped) for retyped in comparison.retyped],
        "unresolved": [asdict(unresolved) for unresolved in comparison.declared.unresolved],
        "declared": [asdict(family) for family in comparison.declared.families],
    }


def _head(subject: Subject, comparison: Comparison) -> str:
    families = comparison.declared.families
    kinds = Counter(family.kind or _NO_TYPE for family in families)
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return (
        f"{subject.framework} {subject.release}, held to the table {subject.table} ({subject.table_releases})\n"
        f"declared: {len(families)} families ({counts}), read from {plural(comparison.declared.files, 'file')}"
    )


def _verdict(comparison: Comparison) -> str:
    if comparison.good:
        return "good: the table knows every name, and every field has a source"
    unknown, lost = len(comparison.unknown), comparison.lost
    told = f": {', '.join(lost)}" if lost else ""
    return f"not good: {plural(unknown, 'unknown name')}, {plural(len(lost), 'field')} without a source{told}"


def _section(title: str, rows: Iterable[Sequence[str]]) -> str:
    found = list(rows)
    return f"{title}: {len(found)}" + "".join(f"\n{line}" for line in columns(found))


def _unknown(family: Family) -> tuple[str, ...]:
    return family.name, family.kind or _NO_TYPE, str(family.place)


def _gone(gone: Gone) -> tuple[str, ...]:
    return gone.name, gone.use, f"replaced by {gone.instead}" if gone.instead else "field lost"


def _retyped(retyped: Retyped) -> tuple[str, ...]:
    family = retyped.family
    return retyped.name, retyped.use, f"{retyped.expected} expected, {family.kind} declared as {family.name}"


def _unresolved(unresolved: Unresolved) -> tuple[str, ...]:
    return str(unresolved.place), unresolved.name, unresolved.why
