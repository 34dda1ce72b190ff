"""What one collection of one target comes to: an observation, sample lines, and what /debug shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exporters import exposition
from exporters.account import Account
from exporters.fetch import Body
from exporters.findings import Finding, Severity
from exporters.normalise import Identity, Reading
from exporters.observation import Observation, Series, labels

_MAX_SHOWN_CHARACTERS = 2**20


@dataclass(frozen=True, slots=True)
class Debug:
    """What /debug shows of the last collection, and the last page that came."""

    url: str
    frontend: str = ""
    content_type: str = ""
    body: str = ""
    body_at: float | None = None
    """Unix seconds; earlier than the collection where that brought no page."""
    mapped: Mapping[str, str] = field(default_factory=dict)
    unmapped: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    documents: Mapping[str, object] = field(default_factory=dict)
    document_problems: Mapping[str, str] = field(default_factory=dict)
    document_ages: Mapping[str, float] = field(default_factory=dict)
    """Seconds since each last answered, or was given up."""


@dataclass(frozen=True, slots=True)
class Collected:
    """`chunks` holds the sample lines of the exposition by metric."""

    observation: Observation
    chunks: dict[str, str]
    debug: Debug


@dataclass(slots=True)
class Outcome:
    """How one collection goes; filled step by step, so that what is known survives an error."""

    at: float
    up: bool = False
    url: str = ""
    body: Body | None = None
    reading: Reading | None = None
    findings: list[Finding] = field(default_factory=list)
    recent: dict[Series, float] = field(default_factory=dict)
    probed: dict[Series, float] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        return self.reading is not None and self.reading.available

    @property
    def error(self) -> Finding | None:
        """Why the collection failed, if it did."""
        errors = (f for f in self.findings if f.severity is Severity.ERROR)
        return None if self.available else next(errors, None)


def observation_of(outcome: Outcome, identity: Identity, duration: float) -> Observation:
    reading = outcome.reading
    first_of_a_reason = {f.reason: f for f in reversed(outcome.findings)}
    return Observation(
        node=identity.node,
        server=identity.server,
        at=outcome.at,
        up=outcome.up,
        available=outcome.available,
        values=outcome.probed if reading is None else {**reading.values, **outcome.recent, **outcome.probed},
        histograms={} if reading is None else reading.histograms,
        start_time=None if reading is None else reading.start_time,
        findings=tuple(reversed(first_of_a_reason.values())),
        fields=() if reading is None else reading.fields,
        user_labels=labels(identity.labels),
        duration=duration,
        unmapped=None if reading is None else len(reading.unmapped),
    )


def chunks_of(outcome: Outcome, observation: Observation, account: Account) -> dict[str, str]:
    reading = outcome.reading
    chunks = account.chunks(
        up=outcome.up,
        available=outcome.available,
        duration=observation.duration,
        findings=observation.findings,
        unmapped=observation.unmapped,
    )
    if reading is not None:
        chunks |= reading.chunks() | account.fields(reading.fields)
    for series, value in (outcome.recent | outcome.probed).items():
        line = exposition.line(series.metric, series.labels, value)
        chunks[series.metric] = chunks.get(series.metric, "") + line
    return chunks


def debug_of(
    outcome: Outcome,
    frontend: str,
    documents: Mapping[str, object],
    document_problems: Mapping[str, str],
    document_ages: Mapping[str, float],
    before: Debug | None,
) -> Debug:
    body, reading = outcome.body, outcome.reading
    shown = Debug(
        outcome.url,
        frontend,
        documents=dict(documents),
        document_problems=dict(document_problems),
        document_ages=dict(document_ages),
    )
    if body is not None:
        text = body.text[:_MAX_SHOWN_CHARACTERS]
        shown = replace(shown, content_type=body.content_type, body=text, body_at=outcome.at)
    elif before is not None:
        shown = replace(shown, content_type=before.content_type, body=before.body, body_at=before.body_at)
    if reading is None:
        return shown
    dropped = tuple(reading.dropped_samples)
    return replace(shown, mapped=reading.mapped, unmapped=reading.unmapped, dropped=dropped)
