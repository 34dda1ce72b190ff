from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from alerts.burn import SLICE, duration
from alerts.slo.spec import Slo
from inferwatch.console import MISUSED, CommandError, columns, plural
from inferwatch.place import opened
from inferwatch.slo_history import Asked, newest_minute
from monitor.api.parameters import moment
from monitor.evaluate.counts import Counter
from monitor.evaluate.replay import Fired, Gap, Replay, replay


@dataclass(frozen=True, slots=True)
class Span:
    """As people write moments."""

    since: str
    until: str


def print_replay(asked: Asked, span: Span, name: str | None, *, json_wanted: bool) -> None:
    slos = [slo for slo in asked.slos() if name in (None, slo.name)]
    if not slos:
        raise CommandError(f"--slo: {name!r}: allowed: the name of an objective in the file", status=MISUSED)
    with opened(asked.at.settings, current=True) as engine:
        newest = newest_minute(engine)
        since, until = _moments(span, newest)
        found = [replay(Counter(engine), slo, since, until) for slo in slos]
    if json_wanted:
        print(json.dumps([_object(each) for each in found], indent=2))
    else:
        for each in found:
            print(*_lines(each), sep="\n")


def _moments(span: Span, newest: float) -> tuple[int, int]:
    since, until = moment("since", span.since, newest), min(newest, moment("until", span.until, newest))
    first, last = int(since) // SLICE * SLICE, int(until) // SLICE * SLICE
    if first >= last:
        told = f"{duration(SLICE)} or more before --until and before the newest minute, {_time(int(newest))} UTC"
        raise CommandError(f"--since: {span.since!r}: allowed: a moment {told}", status=MISUSED)
    return first, last


def _lines(found: Replay) -> list[str]:
    slo = found.slo
    told = f"{slo.name}: {float(slo.objective * 100):g} % over {slo.days} days"
    alerts = [
        (f.severity, _group(slo, f), _time(f.start), _time(f.end) if f.end else "goes on", _window(f))
        for f in sorted(found.fired, key=lambda f: (f.start, f.severity, f.group))
    ]
    gaps = [(_time(g.start), _time(g.end), g.why) for g in sorted(found.gaps, key=lambda g: g.start)]
    return [
        f"{told}, from {_time(found.since)} to {_time(found.until)} UTC, every {duration(SLICE)}",
        f"would have alerted: {plural(len(alerts), 'time')}",
        *columns(alerts),
        *(["could not be evaluated:", *columns(gaps)] if gaps else []),
        "",
    ]


def _group(slo: Slo, of: Fired) -> str:
    return " ".join(f"{k}={v}" for k, v in zip(slo.groups, of.group, strict=True))


def _window(of: Fired) -> str:
    return f"{of.window.factor}x over {duration(of.window.long)} and {duration(of.window.short)}"


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _object(found: Replay) -> dict[str, object]:
    return {
        "name": found.slo.name,
        "objective": float(found.slo.objective),
        "since": found.since,
        "until": found.until,
        "alerts": [_alert(found.slo, fired) for fired in found.fired],
        "not_evaluated": [_gap(gap) for gap in found.gaps],
    }


def _alert(slo: Slo, of: Fired) -> dict[str, object]:
    return {
        "severity": of.severity,
        "labels": dict(zip(slo.groups, of.group, strict=True)),
        "starts_at": of.start,
        "ends_at": of.end,
        "factor": float(of.window.factor),
        "long_seconds": of.window.long,
        "short_seconds": of.window.short,
    }


def _gap(of: Gap) -> dict[str, object]:
    return {"since": of.start, "until": of.end, "why": of.why}
