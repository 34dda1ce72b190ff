"""What single values of an objective's file may be."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from alerts.burn import DAY, LONGEST_DAYS, SHORTEST_DAYS
from exporters import schema
from exporters.config import RESERVED_LABELS
from exporters.loader import Seconds, Text

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OWN_LABELS = frozenset({"alertname", "alertstate", "severity", "slo"})
_PERCENTAGE = re.compile(r"[0-9]{1,2}(\.[0-9]{1,12})?%")
_OBJECTIVE = 'a share above 0 and below 1, such as 0.999, or "99.9%"'

SELECTABLE = schema.IDENTITY[schema.Scope.ENGINE]
"""Labels that every request's metrics carry, besides those that people give their servers."""

_WINDOW = f"whole days from {SHORTEST_DAYS}d to {LONGEST_DAYS}d, which the burn windows can cover"
DURATION = {"type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$", "exclusiveMinimum": 0}


def _objective(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(_OBJECTIVE)
    if isinstance(value, str):
        if not _PERCENTAGE.fullmatch(value):
            raise ValueError(_OBJECTIVE)
        found = Decimal(value[:-1]) / 100
    else:
        found = Decimal(str(value))
    if not (found.is_finite() and 0 < found < 1):
        hint = f'; did you mean "{value}%"?' if found.is_finite() and 1 < found < 100 else ""
        raise ValueError(_OBJECTIVE + hint)
    return found.normalize()


def _version(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("1")
    return value


def _window(value: object, seconds: ValidatorFunctionWrapHandler) -> int:
    try:
        days = float(seconds(value)) / DAY
    except ValidationError:
        raise ValueError(_WINDOW) from None
    if not (days.is_integer() and SHORTEST_DAYS <= days <= LONGEST_DAYS):
        raise ValueError(_WINDOW)
    return round(days) * DAY


def _moment(value: object) -> datetime:
    told = "a time with its offset from UTC, such as 2026-12-01T22:00:00Z"
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(told)


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("lower-case letters, digits and -, at most 63")
    return value


def _label_name(value: str) -> str:
    if not _LABEL.fullmatch(value) or value.startswith("__"):
        raise ValueError("the name of a label: letters, digits and _, not starting with a digit or __")
    return value


def _routing_label(value: str) -> str:
    if _label_name(value) in _OWN_LABELS or value in SELECTABLE:
        raise ValueError("a label that alerts do not have anyway")
    return value


def _user_label(value: str) -> str:
    if _label_name(value) in _OWN_LABELS or value in RESERVED_LABELS:
        raise ValueError("a label of your own: those of the schema are known")
    return value


def gauges() -> list[str]:
    return [m.name for m in schema.METRICS.values() if is_slice_gauge(m)]


def _gauge(value: str) -> str:
    known = gauges()
    if value in known:
        return value
    if value in schema.METRICS:
        raise ValueError(f"a gauge of an engine without labels of its own: {', '.join(known)}")
    raise ValueError(did_you_mean(value, known))


def is_slice_gauge(metric: schema.Metric) -> bool:
    return metric.type is schema.Type.GAUGE and metric.scope is schema.Scope.ENGINE and not metric.labels


def did_you_mean(value: str, known: list[str]) -> str:
    near = get_close_matches(value, known, 1) or [k for k in known if value in k]
    return f"did you mean `{near[0]}`?" if near else ", ".join(known)


Objective = Annotated[
    Decimal,
    BeforeValidator(_objective),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": f"^{_PERCENTAGE.pattern}$"},
            ]
        }
    ),
]
Version = Annotated[Literal[1], BeforeValidator(_version)]
"""`true` is 1 to Python, and none to a schema."""
Window = Annotated[
    Seconds,
    WrapValidator(_window),
    WithJsonSchema({**DURATION, "minimum": SHORTEST_DAYS * DAY, "maximum": LONGEST_DAYS * DAY}),
]
Length = Annotated[Seconds, WithJsonSchema(DURATION)]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Name = Annotated[Text, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"})]
_LABEL_PATTERN = Field(json_schema_extra={"pattern": f"^(?!__){_LABEL.pattern}$"})
LabelName = Annotated[Text, AfterValidator(_label_name), _LABEL_PATTERN]
RoutingLabel = Annotated[Text, AfterValidator(_routing_label), _LABEL_PATTERN]
UserLabel = Annotated[Text, AfterValidator(_user_label), _LABEL_PATTERN]
Gauge = Annotated[Text, AfterValidator(_gauge), Field(json_schema_extra={"enum": gauges()})]
