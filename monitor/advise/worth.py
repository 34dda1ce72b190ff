"""What the stored numbers of a server are worth, where only its table can tell: of the history's past, or without a
sidecar to ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isinf

from exporters.rhythm import STICKS, Refresh
from exporters.table import Field, Frontend, Quality, Source
from exporters.tables import FRONTENDS
from exporters.wire import Page, parse_version
from exporters.worth import quality_of_late, refreshes
from monitor.remarks import FieldOut

_OF_RELEASE = "version"


@dataclass(frozen=True, slots=True)
class Worth:
    """`note` says why it is not exact."""

    quality: Quality = Quality.EXACT
    note: str = ""
    sticks: bool = False
    """A gauge that keeps its value when the server falls idle."""
    missing: str = ""
    """Why the server may not show it."""

    @property
    def is_exact(self) -> bool:
        return self.quality in (Quality.EXACT, Quality.DERIVED)


def of_field(told: FieldOut) -> Worth:
    """As the sidecar says it now."""
    quality = Quality(told.quality)
    missing = told.reason if quality is Quality.UNAVAILABLE else ""
    return Worth(quality, told.reason, STICKS in told.reason, missing)


def of_table(frontend: str, version: str) -> dict[str, Worth]:
    """By metric: the worst that this release may mean, as its page is not at hand."""
    table = FRONTENDS.get(frontend)
    if table is None:
        return {}
    release = Page(facts={_OF_RELEASE: at} if (at := parse_version(version)) else {})
    return {entry.metric: _worth(table, entry, release) for entry in table.fields}


def _worth(table: Frontend, entry: Field, release: Page) -> Worth:
    possible = [_of_source(table, entry.metric, source, release) for source in _possible(entry, release)]
    missing, order = _missing(entry, release), list(Quality)
    if not possible:
        return Worth(Quality.UNAVAILABLE, missing, missing=missing)
    return replace(max(possible, key=lambda worth: (order.index(worth.quality), worth.sticks)), missing=missing)


def _possible(entry: Field, release: Page) -> Iterator[Source]:
    """In order, up to the first that the release certainly has."""
    for source in entry.sources:
        about_release = [need for need in source.needs if need.startswith(_OF_RELEASE)]
        if release.facts and not release.holds(about_release, ()):
            continue
        yield source
        if release.facts and len(about_release) == len(source.needs) and not source.lacks and about_release:
            return


def _of_source(table: Frontend, metric: str, source: Source, release: Page) -> Worth:
    late = max(_late(refreshes(table, metric, source), release), key=lambda each: each.idle_seconds, default=None)
    if late is None:
        return Worth(source.quality, source.note)
    note = "; ".join(filter(None, (source.note, late.told)))
    return Worth(quality_of_late(source), note, isinf(late.idle_seconds))


def _late(known: Iterable[Refresh], release: Page) -> Iterator[Refresh]:
    """In order, up to the first that is certain, as for sources."""
    for refresh in known:
        about_release = [need for need in refresh.needs if need.startswith(_OF_RELEASE)]
        if release.facts and not release.holds(about_release, ()):
            continue
        yield refresh
        if release.facts and len(about_release) == len(refresh.needs):
            return


def _missing(entry: Field, release: Page) -> str:
    """The first reason that is of the release alone; whatever else it depends on stood on the page."""
    of_release = (r for r in entry.missing if all(need.startswith(_OF_RELEASE) for need in r.needs) and not r.lacks)
    return next((reason.text for reason in of_release if release.holds(reason.needs, ())), "")
