"""Questions as people write them in a URL."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from exporters.quote import quoted
from monitor.history.question import InvalidParameter, Question, closest, question, refuse_backwards

Parameters = Sequence[tuple[str, str]]
"""Of a query string."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAY_WITHOUT_DASHES = re.compile(r"((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_AIMED_POINTS = 300
AUTO = "auto"
_DAY = 86_400
_LAST_MOMENT = 4_102_444_800.0
"""The end of the year 2099: a question is planned day by day, and milliseconds are told from seconds."""
_MOMENTS = ("unix seconds", "an RFC 3339 time such as 2026-11-30T09:00:00Z", "an age such as 90m or 7d", "now")


def duration(text: str) -> float | None:
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _SECONDS[match[2]]


def moment(parameter: str, text: str, now: float, also: Sequence[str] = ()) -> float:
    """Unix seconds; an age that reaches back beyond 1970 means everything. Raises InvalidParameter; `also` is what else
    is allowed there."""
    age = duration(text)
    if age is not None:
        return max(0.0, now - age)
    if text == "now":
        return now
    if day := _DAY_WITHOUT_DASHES.fullmatch(text.strip()):
        told = f"{quoted(text)} may be a day, or seconds of the year 1970"
        raise InvalidParameter(parameter, told, [*also, *_MOMENTS], "-".join(day.groups()))
    found = _number(text)
    if found is None:
        found = _rfc3339(text)
    if found is None or not 0 <= found <= _LAST_MOMENT:
        raise InvalidParameter(parameter, f"{quoted(text)} is no moment", [*also, *_MOMENTS], closest(text, also))
    return found


def window(since: str, until: str, now: float) -> tuple[float, float]:
    """Unix seconds. Raises InvalidParameter."""
    found = moment("since", since, now), moment("until", until, now)
    refuse_backwards(*found)
    return found


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _rfc3339(text: str) -> float | None:
    """A `+` of the offset that arrived as a space is taken as one; without offset it is UTC."""
    try:
        found = datetime.fromisoformat(re.sub(r" (\d\d:\d\d)$", r"+\1", text.strip()))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def step(text: str, since: float, until: float) -> float:
    """`auto` is one that makes at most about 300 points: whole days for long windows. Raises InvalidParameter."""
    if text == AUTO:
        days = math.ceil((until - since) / _AIMED_POINTS / _DAY) * _DAY
        return next((s for s in _STEPS if (until - since) / s <= _AIMED_POINTS), days)
    found = duration(text)
    if found is None:
        found = _number(text)
    if found is None:
        raise InvalidParameter(
            "step", f"{quoted(text)} is no duration", [AUTO, "seconds", "a duration such as 5m or 1h"]
        )
    return found


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"


MOMENT = "unix seconds, an RFC 3339 time, or an age such as 90m or 7d"


class HistoryQuery(BaseModel):
    """The query string of /history."""

    model_config = ConfigDict(extra="forbid")

    metric: str = Field(
        description="a metric of the schema, such as llm_requests_running", examples=["llm_requests_running"]
    )
    q: float | None = Field(default=None, description="the quantile, 0 to 1 for a histogram metric", examples=[0.99])
    since: str = Field(default="1h", description=f"{MOMENT}; rounded down to the step")
    until: str = Field(default="now", description=MOMENT)
    step: str = Field(
        default=AUTO,
        description="whole minutes, such as 300 or 5m; `auto` makes at most about 300 points. Where only hours or days "
        "are kept, points are as long as those",
    )
    group_by: list[str] = Field(default=[], description="labels, repeated or comma-separated", examples=[["framework"]])
    where: list[str] = Field(
        default=[], description="label=value, repeated; all must hold", examples=[["framework=vllm"]]
    )
    aggregation: str | None = Field(
        default=None, description="gauges: avg (default) or max; counters: rate per second (default) or sum"
    )
    format: Format = Field(default=Format.JSON, description="json or csv")

    def question(self, now: float) -> Question:
        """Raises QuestionError."""
        since, until = moment("since", self.since, now), moment("until", self.until, now)
        chosen = step(self.step, since, until)
        group_by = [name.strip() for text in self.group_by for name in text.split(",") if name.strip()]
        where = _filters(self.where)
        return question(self.metric, self.q, since, until, chosen, group_by, where, self.aggregation)


def _filters(texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in map(_filter, texts):
        if found.setdefault(name, value) != value:
            raise InvalidParameter("where", f"{quoted(name)} is given two values", ["one value of each label"])
    return found


def _filter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidParameter("where", f"{quoted(text)} is no filter", ["label=value, for example framework=vllm"])
    return name, value
