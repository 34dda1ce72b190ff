"""What Alertmanager's webhook sends (version 4), checked. Keys that are not used are left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
from pydantic.alias_generators import to_camel

from exporters.loader import problems_of
from exporters.quote import cut, quoted
from monitor.alert_history.fingerprint import fingerprint
from monitor.history.storable import storable

_EPOCH = datetime.fromtimestamp(0, UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_SHOWN_PROBLEMS = 10
_MOST_LEFT_OUT = 10**9

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidNotification(ValueError):
    """Says what is wrong, where, and what is allowed."""


def _moment(value: object) -> float:
    """Unix seconds, cut to milliseconds as Prometheus cuts them."""
    try:
        if not isinstance(value, str) or not _RFC3339.fullmatch(value):
            raise ValueError
        found = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("an RFC 3339 time such as 2026-11-30T09:00:00.000Z") from None
    return (found - _EPOCH) // timedelta(milliseconds=1) / 1000


def _started(moment: float) -> float:
    if moment < 0:
        raise ValueError("a time after 1970")
    return moment


def _some(labels: dict[str, str]) -> dict[str, str]:
    if not labels:
        raise ValueError("at least one label")
    return labels


def _named(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{16}", text):
        raise ValueError("16 hexadecimal digits, letters in lower case")
    return text


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_LEFT_OUT:
        raise ValueError(f"a whole number from 0 to {_MOST_LEFT_OUT}")
    return value


_Text = Annotated[str, Strict(), AfterValidator(storable)]
_Moment = Annotated[float, BeforeValidator(_moment)]
_Fingerprint = Annotated[str, Strict(), AfterValidator(_named)]


class _Sent(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


class Notified(_Sent):
    """One alert of a notification. Moments are unix seconds."""

    status: Literal["firing", "resolved"]
    labels: Annotated[dict[_Text, _Text], AfterValidator(_some)]
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
    truncated_alerts: Annotated[int, BeforeValidator(_number)] = 0
    """How many Alertmanager left out, for its `max_alerts`."""


def parse(body: bytes) -> Notification:
    """Raises InvalidNotification."""
    try:
        document = json.loads(body, object_pairs_hook=_object)
    except InvalidNotification:
        raise
    except (ValueError, RecursionError) as cause:
        raise InvalidNotification(f"the body{_place(cause)}: allowed: JSON in UTF-8") from cause
    if not isinstance(document, dict):
        raise InvalidNotification("the body: allowed: an object, as Alertmanager's webhook sends it (version 4)")
    return _checked(document, Notification)


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Of a name that is given twice nobody knows which value is meant."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidNotification(f"the body: {quoted(name)}: stands twice; allowed: each name once in an object")
        found[name] = value
    return found


def _place(cause: Exception) -> str:
    match cause:
        case json.JSONDecodeError():
            return f", line {cause.lineno}, column {cause.colno}"
        case UnicodeDecodeError():
            return f", byte {cause.start}"
        case RecursionError():
            return ", which is nested too deeply"
    return ", which has a number of too many digits"


def _checked(document: dict[str, object], model: type[_Model]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as cause:
        problems = problems_of(cause, model)
        more = len(problems) - _SHOWN_PROBLEMS
        told = [replace(problem, path=_short(problem.path)).line("") for problem in problems[:_SHOWN_PROBLEMS]]
        told += [f"and {more} more"] if more > 0 else []
        raise InvalidNotification("; ".join(told)) from cause


def _short(path: str) -> str:
    """Names of labels may be long, and may be anything."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut(path))
