"""What is said of a server or GPU beside its figures, as the API gives it."""

from __future__ import annotations

from pydantic import BaseModel

from exporters.findings import Finding
from exporters.observation import FieldStatus
from monitor.history.minutes import Event


class FindingOut(BaseModel, frozen=True):
    reason: str
    severity: str
    message: str
    remedy: str
    detail: str

    @classmethod
    def of(cls, found: Finding) -> FindingOut:
        return cls(
            reason=found.reason,
            severity=found.severity.value,
            message=found.message,
            remedy=found.remedy,
            detail=found.detail,
        )


class FieldOut(BaseModel, frozen=True):
    field: str
    source: str
    quality: str
    reason: str

    @classmethod
    def of(cls, status: FieldStatus) -> FieldOut:
        return cls(field=status.field, source=status.source, quality=status.quality, reason=status.reason)


def in_words(event: Event) -> str:
    if event.kind == "restart":
        return "restarted"
    if event.kind == "state" and "uuid" in dict(event.target):
        return "answers again" if event.after == "up" else "does not answer"
    kind = "GPUs" if event.kind == "gpus" else event.kind.replace("_", " ")
    return f"{kind}: {event.before} → {event.after}"
