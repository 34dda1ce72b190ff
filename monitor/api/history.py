"""History answers as JSON and as CSV: whole ones, and line by line for as many points as there may be."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator

from monitor.api.models import AnswerOut, HistoryOut, PartOut, PointOut
from monitor.api.parameters import Format
from monitor.history.ask import Answer, Point, Told
from monitor.history.question import Question

_COLUMNS = tuple(PointOut.model_fields)


def answered(asked: Question, told: Told, form: Format) -> str:
    if form is Format.CSV:
        return "".join(csv_lines(asked, [told.answers]))
    return as_model(asked, told).model_dump_json()


def as_model(asked: Question, told: Told) -> HistoryOut:
    return HistoryOut(
        metric=asked.metric.name,
        unit=asked.metric.unit.value,
        aggregation=asked.aggregation.value,
        q=asked.q,
        since=asked.since,
        until=asked.until,
        step=asked.step,
        parts=[PartOut(since=p.since, until=p.until, step=p.step, tiers=list(p.tiers)) for p in told.parts],
        answers=[AnswerOut(labels=a.labels, points=[_point(p) for p in a.points]) for a in told.answers],
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


def csv_lines(asked: Question, pieces: Iterable[Iterable[Answer]]) -> Iterator[str]:
    """A column for each label that was grouped by, then those of a point; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*asked.group_by, *_COLUMNS])
    for piece in pieces:
        for labels, point in _flat(piece):
            writer.writerow([*labels.values(), *(_cell(value) for value in point.values())])
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def json_lines(asked: Question, pieces: Iterable[Iterable[Answer]]) -> Iterator[str]:
    """An object for each point."""
    for piece in pieces:
        for labels, point in _flat(piece):
            yield json.dumps({"metric": asked.metric.name, "labels": labels, **point}) + "\n"


def _flat(answers: Iterable[Answer]) -> Iterator[tuple[dict[str, str], dict[str, float | bool | None]]]:
    for answer in answers:
        for point in answer.points:
            yield answer.labels, _point(point).model_dump()


def _cell(value: float | bool | None) -> object:
    return str(value).lower() if isinstance(value, bool) else value
