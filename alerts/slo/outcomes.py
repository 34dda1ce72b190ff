"""What frontends tell of how requests ended: an availability objective can know no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alerts.rules.availability import BAD, GOOD, UNKNOWN
from exporters.table import Frontend, Json, Series, Source, Term
from exporters.tables import FRONTENDS

_FINISHED = "llm_requests_finished_total"


def reasons(source: Source) -> set[str]:
    """With which a source of finished requests may count them."""
    return {reason for part in source.parts for reason in _of(part)}


def sources(frontend: Frontend) -> Iterator[Source]:
    for field in frontend.fields:
        if field.metric == _FINISHED:
            yield from field.sources


def _of(part: Term) -> Iterator[str]:
    if isinstance(part, Series | Json) and "reason" in part.add:
        yield part.add["reason"]
    if isinstance(part, Series):
        for keep in part.keep.values():
            yield from (*keep.values.values(), *((keep.other,) if keep.other else ()))


def untold(frameworks: Iterable[str]) -> dict[str, bool]:
    """Frontends of these frameworks that do not tell which requests failed, and whether they tell which went well."""
    wanted = set(frameworks)
    told = {
        f.name: {r for source in sources(f) for r in reasons(source)}
        for f in FRONTENDS.values()
        if f.framework in wanted
    }
    return {name: bool(of & set(GOOD)) for name, of in told.items() if not of & set(BAD) and of & set(UNKNOWN)}
