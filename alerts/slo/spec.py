"""The file of objectives: `version: 1`, the labels that people gave their servers, and `slos`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from alerts.burn import DAY, BurnWindow, Severity, reachable, windows
from alerts.slo.terms import (
    SELECTABLE,
    Gauge,
    LabelName,
    Length,
    Moment,
    Name,
    Objective,
    RoutingLabel,
    UserLabel,
    Version,
    Window,
    did_you_mean,
)
from alerts.slo.thresholds import on_grid
from exporters.loader import Count, Flag, Problem, Root, Section, Text, Told, load, shown
from exporters.schema import FRAMEWORKS, METRICS, ROLES

_TEMPLATE = re.compile(r"\{\{ (?:\$labels\.(\w+)|\$value \| humanizePercentage) \}\}")
_UNIQUE, _NOT_EMPTY = Field(json_schema_extra={"uniqueItems": True}), Field(json_schema_extra={"minItems": 1})
_MOST_REQUESTS = 10**9
_ENOUGH_REQUESTS, _ENOUGH_GAPS = 100, 10_000
"""The gaps are those of about a hundred answers."""
_CLOSED = {"framework": FRAMEWORKS, "role": ROLES}
"""Labels whose values are known: any other would select nothing, and nothing would ever alert."""

PHASES = ("ttft", "itl", "tpot", "e2e")
"""Their grids hold every default bound of every framework."""


class LatencyBelow(Section):
    """A request (of `itl`: a gap) is good up to `below`, that value included."""

    phase: Literal["ttft", "itl", "tpot", "e2e"]
    below: Length

    @field_validator("below")
    @classmethod
    def _on_grid(cls, value: float, info: ValidationInfo) -> float:
        return on_grid(info.data["phase"], value) if "phase" in info.data else value


class Availability(Section):
    """A request is good if it stopped or reached its length, bad if it failed or was rejected."""


class TimeSlices(Section):
    """A minute is good if the metric, averaged over it and taken `across` engines, is as said."""

    metric: Gauge
    across: Literal["max", "min", "avg"]
    condition: Literal["below", "at_most", "above", "at_least"] = Field(alias="is")
    value: Annotated[float, Field(strict=True, allow_inf_nan=False)]

    @field_validator("value")
    @classmethod
    def _within(cls, value: float, info: ValidationInfo) -> float:
        if "metric" in info.data and METRICS[info.data["metric"]].is_ratio and not 0 <= value <= 1:
            raise ValueError(f"a share from 0 to 1, as {info.data['metric']} is one")
        return value


class Indicator(Section):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    latency: LatencyBelow | None = None
    availability: Availability | None = None
    slices: TimeSlices | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or not any((self.latency, self.availability, self.slices)):
            raise ValueError("exactly one of `latency`, `availability`, `slices`")
        return self


class Maintenance(Section):
    """Nothing counts from `start` to `end`."""

    start: Moment
    end: Moment
    note: str = ""

    @field_validator("end")
    @classmethod
    def _after_start(cls, value: datetime, info: ValidationInfo) -> datetime:
        if "start" in info.data and value <= info.data["start"]:
            raise ValueError(f"a time after `start`, {info.data['start'].isoformat()}")
        return value


def _apart(found: tuple[Maintenance, ...]) -> tuple[Maintenance, ...]:
    ordered = sorted(range(len(found)), key=lambda i: found[i].start)
    for a, b in pairwise(ordered):
        if found[b].start < found[a].end:
            raise Told(f"[{b}] overlaps [{a}]: allowed: windows apart from each other")
    return found


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"each name once, `{name}` is there twice")
    return names


_T = TypeVar("_T")


def _some(found: tuple[_T, ...]) -> tuple[_T, ...]:
    if not found:
        raise ValueError("at least one")
    return found


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


_Texts = Annotated[list[Text], _NOT_EMPTY]
Values = Annotated[
    tuple[Text, ...], BeforeValidator(_listed, json_schema_input_type=Text | _Texts), AfterValidator(_some)
]


def _selected(found: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    for label, allowed in _CLOSED.items():
        for value in found.get(label, ()):
            if value not in allowed:
                raise Told(f"{label}: {shown('', value)}: allowed: {', '.join(allowed)}")
    return found


class Slo(Section):
    name: Name
    description: str = ""
    objective: Objective
    window: Window = 30 * DAY
    indicator: Indicator
    select: Annotated[Mapping[Text, Values], AfterValidator(_selected)] = Field(default={})
    group_by: Annotated[tuple[Text, ...], AfterValidator(_once), _UNIQUE] = ("model",)
    minimum_requests: Annotated[Count, Field(le=_MOST_REQUESTS)] | None = None
    unknown: Literal["bad", "exclude"] = "exclude"
    outage: Flag | None = None
    maintenance: Annotated[tuple[Maintenance, ...], AfterValidator(_apart)] = ()
    alerts: Annotated[tuple[Severity, ...], AfterValidator(_once), _UNIQUE] = ("page", "ticket")
    labels: Mapping[RoutingLabel, Text] = Field(default={})
    annotations: Mapping[LabelName, Text] = Field(default={})

    @field_validator("minimum_requests")
    @classmethod
    def _of_requests(cls, value: int | None, info: ValidationInfo) -> int | None:
        indicator = info.data.get("indicator")
        if value is not None and indicator is not None and indicator.slices is not None:
            raise ValueError("without it: time slices count minutes")
        return value

    @field_validator("alerts")
    @classmethod
    def _can_fire(cls, value: tuple[Severity, ...], info: ValidationInfo) -> tuple[Severity, ...]:
        if value and {"objective", "window"} <= info.data.keys():
            asked = [w for w in windows(round(info.data["window"]) // DAY) if w.severity in value]
            if not reachable(asked, 1 - info.data["objective"])[0]:
                raise ValueError(
                    f"a higher objective, or alerts that can fire: with {info.data['objective']} none of "
                    f"{', '.join(f'{w.factor}x' for w in asked)} ever does"
                )
        return value

    @field_validator("labels")
    @classmethod
    def _beside_the_groups(cls, value: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        """A label that is put over that of the groups makes them one, and then none of their alerts fires."""
        for label, text in value.items():
            if label in info.data.get("group_by", ()):
                raise Told(f"{label}: {shown('', text)}: allowed: a label that `group_by` does not have")
            if "{{" in text:
                raise Told(f"{label}: {shown('', text)}: allowed: text without a template")
        return value

    @field_validator("annotations")
    @classmethod
    def _simple_templates(cls, value: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        """Those that the monitor fills in too. Prometheus loads none of the rules where one is wrong."""
        known = {"slo", "severity", "role", *info.data.get("group_by", ()), *info.data.get("labels", ())}
        for name, text in value.items():
            if "{{" in _TEMPLATE.sub("", text) or {m[1] for m in _TEMPLATE.finditer(text) if m[1]} - known:
                told = f"text, with {{{{ $labels.NAME }}}} of {', '.join(sorted(known))}"
                raise Told(f"{name}: {shown('', text)}: allowed: {told} and {{{{ $value | humanizePercentage }}}}")
        return value

    @property
    def budget(self) -> Decimal:
        return 1 - self.objective

    @property
    def days(self) -> int:
        return round(self.window) // DAY

    @property
    def groups(self) -> tuple[str, ...]:
        """`group_by` and `role`: a request passes a prefill and a decode server, and counts once on each."""
        return (*self.group_by, *(() if "role" in self.group_by else ("role",)))

    @property
    def minimum(self) -> int:
        """Of gaps where these are counted: one long answer has thousands, and a hundred are half a short one."""
        if self.minimum_requests is not None:
            return self.minimum_requests
        if self.indicator.slices:
            return 0
        is_gaps = self.indicator.latency is not None and self.indicator.latency.phase == "itl"
        return _ENOUGH_GAPS if is_gaps else _ENOUGH_REQUESTS

    @property
    def counts_outage(self) -> bool:
        return self.indicator.availability is not None if self.outage is None else self.outage

    def burn_windows(self) -> tuple[list[BurnWindow], list[BurnWindow]]:
        """Those that alert, and those that never can."""
        return reachable([w for w in windows(self.days) if w.severity in self.alerts], self.budget)


class Specs(Root):
    version: Version
    user_labels: Annotated[tuple[UserLabel, ...], AfterValidator(_once), _UNIQUE] = ()
    slos: Annotated[tuple[Slo, ...], AfterValidator(_some), _NOT_EMPTY]

    @classmethod
    def across(cls, raw: Mapping[str, object]) -> list[Problem]:
        slos = raw.get("slos")
        entries = [(i, s) for i, s in enumerate(slos) if isinstance(s, dict)] if isinstance(slos, list) else []
        own = raw.get("user_labels")
        labels = [*SELECTABLE, *(x for x in own if isinstance(x, str))] if isinstance(own, list) else [*SELECTABLE]
        return [*_repeated(entries), *(p for i, s in entries for p in _unknown_labels(f"slos[{i}]", s, labels))]


def _repeated(slos: list[tuple[int, dict[str, Any]]]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, slo in slos:
        name = slo.get("name")
        if isinstance(name, str) and first.setdefault(name, i) != i:
            told = f"allowed: a name of its own, slos[{first[name]}] has this one"
            yield Problem(f"slos[{i}].name", shown("name", name), told)


def _unknown_labels(path: str, slo: Mapping[str, object], known: list[str]) -> Iterator[Problem]:
    select, group_by = slo.get("select"), slo.get("group_by")
    used = [(f"{path}.select", k) for k in select if isinstance(k, str)] if isinstance(select, dict) else []
    if isinstance(group_by, list):
        used += [(f"{path}.group_by[{i}]", k) for i, k in enumerate(group_by) if isinstance(k, str)]
    for where, label in used:
        if label not in known:
            told = f"no label of the schema: {did_you_mean(label, known)}; labels of your own stand in `user_labels`"
            yield Problem(where, shown("", label), told)


def read(path: Path) -> Specs:
    """Raises ConfigError."""
    return load(path, Specs)
