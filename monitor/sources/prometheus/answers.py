"""What the query API answered: series, or what is wrong and what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporters.fetch import Answer, Failure
from monitor.sources import SourceError

_TIMED_OUT = re.compile(r"timed out|timeout", re.IGNORECASE)
_LIMITED = re.compile(rf"too many|too long|too large|exceed|more than|limit|{_TIMED_OUT.pattern}", re.IGNORECASE)
_TOO_MUCH = {400: re.compile("exceed"), 413: re.compile(""), 422: _LIMITED, 500: _LIMITED, 503: _TIMED_OUT}
"""By status: what a message says that means so."""
_OF_ALL = frozenset({401, 403, 404, 502})
"""Statuses that say nothing of the question."""
_PARTIAL = re.compile(r"partial|remote_read|receive series|fetch series|no storeapis matched", re.IGNORECASE)
"""Warnings of Thanos, and of a Prometheus with remote storage, that say that data is missing from the answer."""
_SHOWN_CHARACTERS = 300
_NO_API = "what answers there is no query API: see `prometheus.url`"


class Away(SourceError):
    """Whatever is asked, and whoever asks, gets no answer now."""


class TooMuch(SourceError):
    """The question, or its answer, is too large: a shorter one may do."""


class TimedOut(TooMuch):
    """Within our own time or a gateway's. Nobody may be there at all."""


class Busy(SourceError):
    """Another time. `retry_after` is in seconds, where that was told."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(Busy, Away):
    """Such as while it starts."""


class Points(NamedTuple):
    """One series: `labels` with `__name__`, points of unix seconds and values, NaN and infinite ones too."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Told:
    series: list[Points]
    warnings: tuple[str, ...] = ()
    native_histograms: int = 0
    """Left out: the schema has none."""


def read(answer: Answer, of: str) -> Told:
    """`of` says in an error who was asked. Raises SourceError."""
    document = _document(answer.body)
    if not 200 <= answer.status < 300 or document.get("status") == "error":
        raise refused(answer, document, of)
    try:
        warnings = tuple(map(str, document.get("warnings") or ()))
        if document["status"] != "success":
            raise ValueError(document["status"])
        series, native = _series(document["data"]["resultType"], document["data"]["result"])
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise Away(f"{of}: {_NO_API}") from cause
    if partial := _partial(document, warnings):
        raise SourceError(f"{of}: the answer is not whole, and is not used: {_cut(partial)}")
    return Told(series, warnings, native)


def refused(answer: Answer, document: dict[str, Any], of: str) -> SourceError:
    kind, message = str(document.get("errorType") or ""), _cut(str(document.get("error") or ""))
    status = answer.status
    told = f"{of}: HTTP {status}{f' ({kind})' if kind else ''}{f': {message}' if message else ''}"
    remedy = _remedy(status, message)
    told = f"{told}: {remedy}" if remedy else told
    if status == 504:
        return TimedOut(told)
    if (too_much := _TOO_MUCH.get(status)) and too_much.search(message):
        return TooMuch(told)
    if status in (429, 503):
        return (Busy if status == 429 else Unavailable)(told, _seconds(answer.retry_after))
    return (Away if status in _OF_ALL or 300 <= status < 400 else SourceError)(told)


def failed(failure: Failure, of: str) -> SourceError:
    told = f"{of}: {failure.reason}: {failure.detail}"
    match failure.reason:
        case "timeout":
            return TimedOut(told)
        case "too_large":
            return TooMuch(told)
    return Away(told)


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _series(kind: str, result: Any) -> tuple[list[Points], int]:
    """And how many native histograms were left out."""
    if kind == "scalar":
        return [Points({}, _points([result]))], 0
    values = {"vector": _of_vector, "matrix": _of_matrix}[kind]
    series = [Points(dict(one["metric"]), values(one)) for one in result]
    native = sum(("histogram" in one) + len(one.get("histograms", ())) for one in result)
    return [one for one in series if one.points], native


def _of_vector(one: dict[str, Any]) -> list[tuple[float, float]]:
    return _points([one["value"]]) if "value" in one else []


def _of_matrix(one: dict[str, Any]) -> list[tuple[float, float]]:
    return _points(one.get("values", ()))


def _points(values: Iterable[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values]


def _partial(document: dict[str, Any], warnings: Iterable[str]) -> str | None:
    if document.get("isPartial"):
        return "a part of its storage did not answer"
    return next((warning for warning in warnings if _PARTIAL.search(warning)), None)


def _remedy(status: int, message: str) -> str:
    if "no org id" in message:
        return "name the tenant in `prometheus.tenant`"
    if status in (401, 403):
        return "`prometheus.bearer_token_file` or `bearer_token_env` must give a token that may read"
    if status == 404:
        return (
            "see `prometheus.url`: a path may be missing from it, such as /prometheus (Mimir) or "
            "/select/0/prometheus (VictoriaMetrics cluster), or be too much"
        )
    if 300 <= status < 400:
        return "redirects are not followed: `prometheus.url` may lack a path, or a page to log in stands before it"
    return ""


def _seconds(retry_after: str) -> float | None:
    """HTTP allows a date as well: none is told then."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
