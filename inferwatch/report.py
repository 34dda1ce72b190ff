"""What `check` says of one server or saved page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from exporters.collected import Collected
from exporters.detect import Detected
from exporters.findings import Finding, Severity
from exporters.normalise import Reading
from exporters.observation import FieldStatus, Series
from exporters.terminal import printable
from inferwatch.console import columns, plural

_UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Report:
    """`up` is None for a saved page, `url` (of the metrics page) too. `dropped` are samples with the reason.

    `over_time` are fields that come of the difference of two readings, and this is one.
    """

    subject: str
    url: str | None
    up: bool | None
    available: bool
    facts: Mapping[str, str]
    engines: int
    fields: Sequence[FieldStatus]
    over_time: Sequence[str]
    findings: Sequence[Finding]
    mapped: Mapping[str, str]
    unmapped: Sequence[str]
    dropped: Sequence[tuple[str, str]]

    @property
    def is_good(self) -> bool:
        return not any(finding.severity in (Severity.WARNING, Severity.ERROR) for finding in self.findings)


def of_server(subject: str, collected: Collected) -> Report:
    seen, debug = collected.observation, collected.debug
    return Report(
        subject,
        debug.url or None,
        seen.up,
        seen.available,
        _facts(seen.values) or ({"frontend": debug.frontend} if debug.frontend else {}),
        _engines(seen.values),
        seen.fields,
        _over_time(seen.fields, (*seen.values, *seen.histograms)),
        seen.findings,
        debug.mapped,
        debug.unmapped,
        debug.dropped,
    )


def of_page(subject: str, detected: Detected, reading: Reading | None) -> Report:
    """`reading` is None where no frontend was detected."""
    own = [detected.finding] if detected.finding else []
    if reading is None:
        return Report(subject, None, None, False, {}, 0, (), (), own, {}, (), ())
    findings = [*own, *(f for f in reading.findings if f.reason not in {o.reason for o in own})]
    return Report(
        subject,
        None,
        None,
        reading.available,
        _facts(reading.values),
        _engines(reading.values),
        reading.fields,
        _over_time(reading.fields, (*reading.values, *reading.histograms)),
        findings,
        reading.mapped,
        reading.unmapped,
        reading.dropped_samples,
    )


def _facts(values: Mapping[Series, float]) -> dict[str, str]:
    """What is told of the server; where engines differ the first is shown."""
    shown = {
        s.metric: dict(s.labels) for s in reversed(list(values)) if s.metric in ("llm_server_info", "llm_server_state")
    }
    info = shown.get("llm_server_info", {})
    state = shown.get("llm_server_state", {}).get("state", "unknown")
    identity = ("node", "server", "engine", "role")
    facts = {name: text for name, text in info.items() if name not in identity}
    return facts | ({"state": state} if state != "unknown" else {})


def _over_time(fields: Sequence[FieldStatus], series: Sequence[Series]) -> list[str]:
    """What has a source and no value yet."""
    shown = {s.metric for s in series}
    return [f.field for f in fields if f.quality != _UNAVAILABLE and f.field not in shown]


def _engines(values: Mapping[Series, float]) -> int:
    return len({series.label("engine") for series in values if series.label("engine")})


def as_json(report: Report) -> dict[str, Any]:
    return asdict(report) | {"dropped": [{"sample": sample, "reason": reason} for sample, reason in report.dropped]}


def as_text(report: Report) -> str:
    return "\n".join(map(printable, (f"{report.subject}: {_headline(report)}", *_body(report))))


def _headline(report: Report) -> str:
    facts = report.facts
    if not facts.get("frontend"):
        return "no inference server recognised" if report.up is not False else "not reachable"
    name = " ".join(filter(None, (facts["frontend"], facts.get("version", ""))))
    parts = [name]
    parts += [f"model {facts['model']}"] if "model" in facts else []
    parts += [plural(report.engines, "engine")] if report.available else []
    parts += [facts["state"]] if "state" in facts else []
    return ", ".join(parts) + ("" if report.available else ": no engine metrics")


def _body(report: Report) -> Iterator[str]:
    there = [field for field in report.fields if field.quality != _UNAVAILABLE]
    missing = [field for field in report.fields if field.quality == _UNAVAILABLE]
    if report.url:
        yield f"  metrics page: {report.url}"
    if report.available:
        yield from _section("known", [_row(f) for f in there if f.field not in report.over_time])
        yield from _section("over time, from two readings", [_row(f) for f in there if f.field in report.over_time])
        yield from _section("not known", [(f.field, f.reason) for f in missing])
    yield from _section("families that inferwatch does not know", [(name,) for name in report.unmapped])
    yield from _section("samples left out", [(sample, reason) for sample, reason in report.dropped])
    for finding in report.findings:
        detail = f" ({finding.detail})" if finding.detail else ""
        yield f"  {finding.severity.value} {finding.reason}: {finding.message}{detail}"
        if finding.remedy:
            yield f"    {finding.remedy}"


def _row(field: FieldStatus) -> tuple[str, str, str]:
    return field.field, field.quality, f"{field.source}; {field.reason}" if field.reason else field.source


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"  {title}:"
        yield from columns(rows, "    ")
