"""History answers as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from monitor.api.models import AnswerOut, HistoryOut, PointOut
from monitor.history.ask import Answer, Point
from monitor.history.question import Question

_COLUMNS = tuple(PointOut.model_fields)


def as_model(asked: Question, answers: Sequence[Answer]) -> HistoryOut:
    return HistoryOut(
        metric=asked.metric.name,
        unit=asked.metric.unit.value,
        aggregation=asked.aggregation.value,
        q=asked.q,
        since=asked.since,
        until=asked.until,
        step=asked.step,
        answers=[AnswerOut(labels=a.labels, points=[_point(p) for p in a.points]) for a in answers],
    )


def _point(point: Point) -> PointOut:
    at_least = point.upper is not None and math.isinf(point.upper)
    return PointOut(
        start=point.start,
        seconds=point.seconds,
        value=point.value,
        lower=point.lower,
        upper=None if at_least else point.upper,
        at_least=at_least,
        covered_seconds=point.covered_seconds,
        series=point.series,
    )


def as_csv(told: HistoryOut, group_by: Sequence[str]) -> str:
    """A column for each label that was grouped by, then those of a point; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*group_by, *_COLUMNS])
    for answer in told.answers:
        labels = [answer.labels[name] for name in group_by]
        for point in answer.points:
            values = point.model_dump()
            writer.writerow([*labels, *(_cell(values[name]) for name in _COLUMNS)])
    return text.getvalue()


def _cell(value: float | bool | None) -> object:
    return str(value).lower() if isinstance(value, bool) else value
