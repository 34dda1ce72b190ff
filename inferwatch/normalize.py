from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from exporters import exposition
from exporters.account import Account
from exporters.findings import Finding, Severity
from exporters.normalise import Reading
from exporters.observation import Series, labels
from exporters.schema import QUANTILE_WINDOW_SECONDS
from exporters.table import Frontend
from exporters.tables import FRONTENDS
from exporters.terminal import log, printable
from exporters.window import Recent
from inferwatch.console import FOUND, MISUSED, CommandError
from inferwatch.saved import IDENTITY, Saved, normalised, normaliser, read_all, refuse_repeated_stdin, told


def normalize(files: Sequence[str], *, interval: float, frontend: str | None, verbose: bool = False) -> None:
    log(shown=verbose)
    refuse_repeated_stdin(files)
    pages = read_all(files)
    by = normaliser(_chosen(pages, frontend))
    readings = [normalised(by, page) for page in pages]
    sys.stdout.write(exposition.page(_chunks(readings, interval)))
    findings = _findings(pages[-1], readings[-1])
    for finding in findings:
        print(printable(f"inferwatch: {pages[-1].name}: {told(finding)}"), file=sys.stderr)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise CommandError(status=FOUND)


def _chosen(pages: Sequence[Saved], name: str | None) -> Frontend:
    if name is not None:
        if name not in FRONTENDS:
            raise CommandError(f"--frontend: {name!r}: allowed: {', '.join(FRONTENDS)}", status=MISUSED)
        return FRONTENDS[name]
    detected = [page.detected() for page in pages]
    problems = [
        f"{page.name}: {told(found.finding)}"
        for page, found in zip(pages, detected, strict=True)
        if found.frontend is None and found.finding is not None
    ]
    if problems:
        raise CommandError(*problems)
    return next(found.frontend for found in reversed(detected) if found.frontend is not None)


def _chunks(readings: Sequence[Reading], interval: float) -> Iterator[dict[str, str]]:
    """As the sidecar would export the last reading, less what only a live server has."""
    last = readings[-1]
    identity = {"node": IDENTITY.node, "server": IDENTITY.server}
    available = exposition.line("llm_metrics_available", labels(identity), float(last.available))
    yield {"llm_metrics_available": available}
    if last.available:
        yield last.chunks()
        yield _lines(_windowed(readings, interval))
        yield Account(identity).fields(last.fields)


def _windowed(readings: Sequence[Reading], interval: float) -> dict[Series, float]:
    """The first file is a base line, whenever its server was started: when a file was saved is not known."""
    origin = (readings[0].start_time or 0.0) + 2 * QUANTILE_WINDOW_SECONDS
    recent = Recent()
    found: dict[Series, float] = {}
    for i, reading in enumerate(readings):
        if not reading.is_complete:
            continue
        at = origin + i * interval
        found = recent.advance(
            at,
            reading.values,
            reading.histograms,
            start_time=reading.start_time,
            proves_absence=reading.proves_absence,
        )
    return found


def _lines(values: Mapping[Series, float]) -> dict[str, str]:
    lines: dict[str, str] = {}
    for series, value in values.items():
        lines[series.metric] = lines.get(series.metric, "") + exposition.line(series.metric, series.labels, value)
    return lines


def _findings(page: Saved, reading: Reading) -> list[Finding]:
    found = page.detected().finding
    return [*([found] if found else []), *(f for f in reading.findings if found is None or f.reason != found.reason)]
