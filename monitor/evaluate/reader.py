"""Reads the rows that an objective is judged by, hours or minutes, and counts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from alerts.burn import HOUR, MINUTE
from alerts.slo.spec import Slo
from exporters.schema import Scope
from monitor.evaluate import presence
from monitor.evaluate.indicators import KINDS, Rows, judge_of
from monitor.evaluate.once import Once
from monitor.evaluate.plausible import plausible
from monitor.evaluate.tally import FIELDS, Cells, Tally, cells_of, nothing
from monitor.history import tables
from monitor.history.cells import Columns
from monitor.history.native import bounds
from monitor.history.packed import Floats, Ints
from monitor.history.planning import Span
from monitor.history.scan import kept_since
from monitor.history.tables import Tier

Flags = NDArray[np.bool_]
_HOURS = 10**8
"""More than there are since 1970."""


@dataclass(frozen=True, slots=True)
class _Blurred:
    """Which rows their minutes tell more than they do."""

    engines: Flags
    targets: Flags
    suspected: Flags
    """By group and cell: hours that may have had an outage."""


class Reader:
    def __init__(self, once: Once, slo: Slo) -> None:
        self.slo = slo
        self.members = once.members(slo)
        self._once = once
        self._judge = judge_of(slo, self.members)
        self._bounds = bounds(once.connection)
        self._minutes_since = kept_since(once.connection).get(Tier.MINUTE, 0)

    def count(self, hours: Sequence[int], by_minutes: Collection[int], until: int) -> Tally:
        """Of these whole hours; the last one ends at `until` if that is within it.

        Cells are minutes of the hours `by_minutes`, while they are kept, and hours else.
        """
        if not hours or not self.members.groups:
            return nothing(self.members.groups)
        fine = [h for h in hours if h in by_minutes and h >= self._minutes_since]
        spans = [*_spans(Tier.MINUTE, fine, until), *_spans(Tier.HOUR, [h for h in hours if h not in fine], until)]
        cells = cells_of(spans)
        engines, targets = self._engines(spans, cells), self._targets(spans)
        found = self._blurred(engines, targets, cells)
        engines = self._instead(Scope.ENGINE, engines, found.engines)
        targets = self._instead(Scope.TARGET, targets, found.targets)
        away = presence.unseen(_together(targets, self._before(presence.beginnings(cells, found.suspected))))
        return self._counted(engines, targets, cells, found.suspected, away)

    def _engines(self, spans: Sequence[Span], cells: Cells) -> Columns:
        """With rows before those of the spans, where each is compared with the one before."""
        seconds = self._judge.lead_seconds
        firsts = [span for span in spans if seconds and cells.of(np.array([span.since - 1]))[0] < 0]
        lead = [Span(s.tier, s.since - -(-seconds // s.tier.seconds) * s.tier.seconds, s.since) for s in firsts]
        return self._scan(Scope.ENGINE, [*lead, *spans], self.members.engine_ids)

    def _targets(self, spans: Sequence[Span]) -> Columns:
        return self._scan(Scope.TARGET, spans, self.members.target_ids)

    def _before(self, moments: Ints) -> Columns:
        """Minutes of targets that end not long before, where minutes are read from one of these moments on."""
        kept = moments[moments >= self._minutes_since].tolist()
        return self._targets([Span(Tier.MINUTE, moment - presence.LEAD_SECONDS, moment) for moment in kept])

    def _scan(self, scope: Scope, spans: Sequence[Span], ids: Ints) -> Columns:
        names = self._judge.columns if scope is Scope.ENGINE else presence.COLUMNS
        found = self._once.rows(scope, spans, names, ids)
        return {name: plausible(column) if column.dtype.kind == "f" else column for name, column in found.items()}

    def _blurred(self, engines: Columns, targets: Columns, cells: Cells) -> _Blurred:
        rows = self._rows(engines, cells)
        served = presence.serving(self.members, cells, engines, cells.of(engines["start"]))
        suspected = presence.suspect(cells, served, targets)
        partly = self._excluded(Cells(engines["start"], engines["length"])) > 0
        of_targets = self._excluded(Cells(targets["start"], targets["length"])) > 0
        return _Blurred(
            (self._judge.blurred(rows) | partly) & rows.is_hour,
            presence.blurred(cells, served, targets, suspected) | (of_targets & (targets["length"] == HOUR)),
            suspected,
        )

    def _instead(self, scope: Scope, rows: Columns, blurred: Flags) -> Columns:
        """Minutes instead of the rows of these hours, where they are kept."""
        blurred = blurred & (rows["start"] >= self._minutes_since)
        if not blurred.any():
            return rows
        hours, series = np.unique(rows["start"][blurred]), np.unique(rows["series"][blurred])
        ids = self.members.engine_ids if scope is Scope.ENGINE else self.members.target_ids
        spans = _spans(Tier.MINUTE, hours.tolist(), int(hours[-1]) + HOUR)
        minutes = dict(self._scan(scope, spans, ids[series]))
        minutes["series"] = series[minutes["series"]]
        wanted = _places(rows["series"], rows["start"])[blurred]
        kept = np.isin(_places(minutes["series"], minutes["start"] // HOUR * HOUR), wanted)
        return _together(_of(rows, ~blurred), _of(minutes, kept))

    def _counted(
        self, engines: Columns, targets: Columns, cells: Cells, suspected: Flags, away: presence.Unseen
    ) -> Tally:
        groups, excluded = self.members.groups, self._excluded(cells)
        served = presence.serving(self.members, cells, engines, cells.of(engines["start"]))
        targets = _of(targets, self._excluded(Cells(targets["start"], targets["length"])) == 0)
        there = presence.presence(cells, served, targets, suspected, away)
        counted = self._judge.count(self._rows(engines, cells)).reshape(len(KINDS), len(groups), cells.many)
        minutes = np.broadcast_to(cells.length / MINUTE - excluded, (len(groups), cells.many))
        by_name: dict[str, Floats] = dict(zip(KINDS, counted, strict=True)) | {
            "minutes": minutes,
            "minutes_outage": there.outage,
            "minutes_unknown": minutes - np.minimum(there.known, minutes),
            "minutes_excluded": np.broadcast_to(excluded, minutes.shape),
        }
        return Tally(groups, cells, np.array([by_name[name] for name in FIELDS]))

    def _rows(self, engines: Columns, cells: Cells) -> Rows:
        at = cells.of(engines["start"])
        fits = (at >= 0) & (engines["start"] + engines["length"] <= cells.end[at] if cells.many else False)
        fits &= self._excluded(Cells(engines["start"], engines["length"])) == 0
        key = np.where(fits, self.members.engine_group[engines["series"]] * cells.many + at, -1)
        keys = len(self.members.groups) * cells.many
        return Rows(self.members, engines, key, keys, self._bounds, self._restarts(cells))

    def _restarts(self, cells: Cells) -> list[tuple[int, float]]:
        if not self._judge.lead_seconds or not cells.many:
            return []
        c, targets = tables.events.c, self.members.target_ids.tolist()
        wanted = select(c.series_id, c.at).where(c.kind == "restart", c.series_id.in_(targets))
        found = self._once.connection.execute(wanted.where(c.at > int(cells.start[0]), c.at <= int(cells.end[-1])))
        return [(targets.index(row.series_id), row.at) for row in found]

    def _excluded(self, cells: Cells) -> Floats:
        """Minutes of each cell that maintenance touches."""
        found = np.zeros(cells.many)
        for m in self.slo.maintenance:
            first = np.floor(m.start.timestamp() / MINUTE) * MINUTE
            last = np.ceil(m.end.timestamp() / MINUTE) * MINUTE
            found += np.maximum(np.minimum(cells.end, last) - np.maximum(cells.start, first), 0) / MINUTE
        return np.minimum(found, cells.length / MINUTE)


def _spans(tier: Tier, hours: Sequence[int], until: int) -> list[Span]:
    found: list[Span] = []
    for hour in hours:
        end = hour + HOUR if tier is Tier.HOUR else min(hour + HOUR, until)
        if found and found[-1].until == hour:
            found[-1] = Span(tier, found[-1].since, end)
        else:
            found.append(Span(tier, hour, end))
    return found


def _places(series: Ints, hour: Ints) -> Ints:
    """One number for both."""
    return series * _HOURS + hour // HOUR


def _together(a: Columns, b: Columns) -> Columns:
    """In order of series and time."""
    found = {name: np.concatenate([a[name], b[name]]) for name in a}
    order = np.lexsort((found["start"], found["series"]))
    return {name: column[order] for name, column in found.items()}


def _of(rows: Columns, chosen: NDArray[np.bool_]) -> Columns:
    return {name: column[chosen] for name, column in rows.items()}
