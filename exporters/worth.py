"""What a source's value is worth: its own quality and note, and the rhythm of the gauges that it reads."""

from __future__ import annotations

from exporters.rhythm import Refresh
from exporters.table import Frontend, Quality, Series, Source
from exporters.terms import walk
from exporters.wire import Page


def refreshes(frontend: Frontend, metric: str, source: Source) -> tuple[Refresh, ...]:
    """When what `source` reads on the page for `metric` is set; the first whose conditions hold counts."""
    if not any(isinstance(term, Series) for part in source.parts for term in walk(part)):
        return ()
    return tuple(refresh for refresh in frontend.rhythm.gauges if metric in refresh.metrics)


def quality_of_late(source: Source) -> Quality:
    """What comes late is approximate at best."""
    return max(source.quality, Quality.APPROXIMATE, key=list(Quality).index)


def worth(frontend: Frontend, page: Page, metric: str, source: Source) -> tuple[str, str]:
    """Quality and reason."""
    for refresh in refreshes(frontend, metric, source):
        if page.holds(refresh.needs, ()):
            return quality_of_late(source).value, "; ".join(filter(None, (source.note, refresh.told)))
    return source.quality.value, source.note
