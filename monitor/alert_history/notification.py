"""What Alertmanager's webhook sends (version 4), checked. Keys that are not used are left alone."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
from pydantic.alias_generators import to_camel

from exporters.loader import problems_of
from monitor.alert_history.fingerprint import fingerprint
from monitor.history.storable import storable

_EPOCH = datetime.fromtimestamp(0, UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_SHOWN_PROBLEMS = 10

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidNotification(ValueError):
    """Says what is wrong, where, and what is allowed."""


def _moment(value: object) -> float:
    """Unix seconds, cut to milliseconds as Prometheus cuts them."""
    try:
        if not isinstance(value, str) or not _RFC3339.fullmatch(value):
            raise ValueError
        found = datetime.fromisoformat(value.upper())
    except ValueError:
        raise ValueError("an RFC 3339 time such as 2026-11-30T09:00:00.000Z") from None
    return (found - _EPOCH) // timedelta(milliseconds=1) / 1000


def _started(moment: float) -> float:
    if moment < 0:
        raise ValueError("a time after 1970")
    return moment


_Text = Annotated[str, Strict(), AfterValidator(storable)]
_Moment = Annotated[float, BeforeValidator(_moment)]
_Fingerprint = Annotated[str, Strict(), Field(pattern="^[0-9a-f]{16}$")]


class _Sent(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


class Notified(_Sent):
    """One alert of a notification. Moments are unix seconds."""

    status: Literal["firing", "resolved"]
    labels: Annotated[dict[_Text, _Text], Field(min_length=1)]
    annotations: dict[_Text, _Text] = {}
    starts_at: Annotated[_Moment, AfterValidator(_started)]
    ends_at: _Moment | None = None
    """Of one that fires Alertmanager says the year 1."""
    generator_url: Annotated[_Text, Field(alias="generatorURL")] = ""
    told_fingerprint: Annotated[_Fingerprint | None, Field(alias="fingerprint")] = None
    """Alertmanager before 0.19 tells none."""

    @property
    def fingerprint(self) -> str:
        return self.told_fingerprint or fingerprint(self.labels)

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")

    @property
    def is_resolved(self) -> bool:
        return self.status == "resolved"


class Notification(_Sent):
    version: Literal["4"]
    receiver: _Text
    alerts: tuple[Notified, ...]
    truncated_alerts: Annotated[int, Strict(), Field(ge=0)] = 0
    """How many Alertmanager left out, for its `max_alerts`."""


def parse(body: bytes) -> Notification:
    """Raises InvalidNotification."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as cause:
        raise InvalidNotification(f"the body is no JSON: {cause}") from cause
    if not isinstance(document, dict):
        raise InvalidNotification("the body: allowed: an object, as Alertmanager's webhook sends it (version 4)")
    return _checked(document, Notification)


def _checked(document: dict[str, object], model: type[_Model]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as cause:
        problems = [problem.line("") for problem in problems_of(cause, model)]
        more = len(problems) - _SHOWN_PROBLEMS
        told = [*problems[:_SHOWN_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        raise InvalidNotification("; ".join(told)) from cause
