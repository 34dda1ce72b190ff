"""What became of objectives over a month or a quarter, UTC: a table for people and numbers for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from alerts.budget import Counts, bad_ratio, certain_ratio, remaining
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.members import Group
from monitor.evaluate.status import judged_of

_MONTH, _QUARTER = re.compile(r"(\d{4})-(\d\d)"), re.compile(r"(\d{4})-?[Qq]([1-4])")


@dataclass(frozen=True, slots=True)
class Period:
    """`until` is its end, or the newest minute of the history within it. Unix seconds."""

    name: str
    since: int
    until: int
    is_over: bool


def period(text: str, *, months: int, newest: int) -> Period:
    """Of one month or of three. Raises ValueError, saying what is allowed."""
    match = (_MONTH if months == 1 else _QUARTER).fullmatch(text)
    year, number = (int(match[1]), int(match[2])) if match else (0, 0)
    if not match or not (1 <= number <= 12 // months and year >= 1970):
        raise ValueError("a month such as 2026-11" if months == 1 else "a quarter such as 2026-Q4")
    first = year * 12 + (number - 1) * months
    last = datetime.fromtimestamp(newest, UTC)
    if first > last.year * 12 + last.month - 1:
        raise ValueError(f"one that has begun by the newest minute of the history, {last:%Y-%m-%d %H:%M} UTC")
    since, until = _start(first), _start(first + months)
    return Period(text, since, min(until, newest), newest >= until)


def _start(month: int) -> int:
    """Of the month so many after January of the year 0."""
    return int(datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Line:
    """One group of one objective. The budget is that of the period."""

    slo: Slo
    group: Group
    counts: Counts
    good: float | None
    good_certain: float | None
    left: float | None

    @property
    def is_met(self) -> bool | None:
        return None if self.left is None else self.left >= 0


def report(counter: Counter, slos: Iterable[Slo], of: Period) -> list[Line]:
    """Raises ReadError."""
    return [line for slo in slos for line in _lines(counter, slo, of)]


def _lines(counter: Counter, slo: Slo, of: Period) -> Iterable[Line]:
    length = of.until - of.since
    for group, windows in counter.windows(slo, of.until, [length]).items() if length else ():
        counts = judged_of(slo, windows[length])
        bad, certain = bad_ratio(counts, slo.unknown), certain_ratio(counts, slo.unknown)
        yield Line(
            slo,
            group,
            windows[length],
            None if bad is None else 1 - bad,
            None if certain is None else 1 - certain,
            None if bad is None else remaining(bad, slo.objective),
        )


def as_json(of: Period, lines: Sequence[Line]) -> dict[str, object]:
    return {
        "period": of.name,
        "since": of.since,
        "until": of.until,
        "is_over": of.is_over,
        "objectives": [_object(line) for line in lines],
    }


def _object(line: Line) -> dict[str, object]:
    counts = line.counts
    return {
        "name": line.slo.name,
        "objective": float(line.slo.objective),
        "labels": dict(zip(line.slo.groups, line.group, strict=True)),
        "met": line.is_met,
        "good_ratio": line.good,
        "good_ratio_certain": line.good_certain,
        "budget_left": line.left,
        "good": counts.good,
        "bad": counts.bad,
        "certainly_bad": counts.certainly_bad,
        "unknown": counts.unknown,
        "minutes": counts.minutes,
        "minutes_outage": counts.minutes_outage,
        "minutes_unknown": counts.minutes_unknown,
        "minutes_excluded": counts.minutes_excluded,
        "maintenance": [
            {"start": m.start.isoformat(), "end": m.end.isoformat(), "note": m.note} for m in line.slo.maintenance
        ],
    }


_HEAD = (
    "objective", "group", "asked", "was good", "met", "budget left", "requests", "bad", "unknown", "outage",
    "minutes not known", "minutes excluded",
)  # fmt: skip


def as_markdown(of: Period, lines: Sequence[Line]) -> str:
    until = datetime.fromtimestamp(of.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = [_HEAD, tuple("---" for _ in _HEAD), *(_row(line) for line in lines)]
    return "\n".join([
        f"# Objectives in {of.name}",
        "",
        f"Up to {until}." if not of.is_over else "The whole period, in UTC.",
        "",
        *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows),
        "",
        *_notes(lines),
    ])  # fmt: skip


def _row(line: Line) -> tuple[str, ...]:
    counts = line.counts
    unit = " min" if line.slo.indicator.slices else ""
    return (
        line.slo.name,
        " ".join(f"{k}={v}" for k, v in zip(line.slo.groups, line.group, strict=True)),
        _percent(float(line.slo.objective)),
        _share(line),
        {True: "yes", False: "**no**", None: "not known"}[line.is_met],
        "–" if line.left is None else f"{line.left * 100:.1f} %",
        f"{counts.requests:,.0f}{unit}",
        f"{counts.bad:,.0f}{unit}",
        f"{counts.unknown:,.0f}{unit}",
        f"{counts.minutes_outage:,.0f} min",
        f"{counts.minutes_unknown:,.0f} of {counts.minutes:,.0f}",
        f"{counts.minutes_excluded:,.0f}",
    )


def _share(line: Line) -> str:
    if line.good is None or line.good_certain is None:
        return "–"
    told = _percent(line.good)
    at_most = _percent(line.good_certain)
    return told if told == at_most else f"{told} (at most {at_most})"


def _percent(ratio: float) -> str:
    """Never rounded up to what it is not."""
    return f"{int(ratio * 1e5 + 1e-6) / 1e3:g} %"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _notes(lines: Sequence[Line]) -> list[str]:
    """What was left out, of each objective once."""
    slos = {line.slo.name: line.slo for line in lines}.values()
    notes = [
        f"- {slo.name}: {m.start:%Y-%m-%d %H:%M} to {m.end:%Y-%m-%d %H:%M} UTC is left out"
        + (f": {_cell(m.note)}" if m.note else "")
        for slo in slos
        for m in slo.maintenance
    ]
    return [*notes, ""] if notes else []
