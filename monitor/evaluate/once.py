"""What several objectives ask of the history, read once for all of them. Of one moment alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from sqlalchemy import Connection

from alerts.slo.spec import Slo
from exporters.schema import Scope
from monitor.evaluate.members import Members, members
from monitor.history.cells import Columns
from monitor.history.native import bounds
from monitor.history.packed import Ints, add_up
from monitor.history.planning import Span
from monitor.history.scan import scan

Native = tuple[tuple[int, tuple[float, ...]], ...]
"""Engines, by their number among those that were asked about, with bounds of theirs that requests were counted at."""


class Once:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._rows: dict[tuple[object, ...], Columns] = {}
        self._members: dict[str, Members] = {}
        self._native: dict[tuple[object, ...], Native] = {}

    def rows(self, scope: Scope, spans: Iterable[Span], names: Sequence[str], ids: Ints) -> Columns:
        spans = tuple(spans)
        key = scope, spans, tuple(names), ids.tobytes()
        if key not in self._rows:
            self._rows[key] = scan(self.connection, scope, spans, names, ids)
        return self._rows[key]

    def members(self, slo: Slo) -> Members:
        key = slo.model_dump_json(include={"select", "group_by"})
        if key not in self._members:
            self._members[key] = members(self.connection, slo)
        return self._members[key]

    def native(self, phase: str, spans: tuple[Span, ...], ids: Ints) -> Native:
        key = phase, spans, ids.tobytes()
        if key not in self._native:
            self._native[key] = self._read_native(f"{phase}_histogram", spans, ids)
        return self._native[key]

    def _read_native(self, column: str, spans: tuple[Span, ...], ids: Ints) -> Native:
        rows = self.rows(Scope.ENGINE, spans, [column], ids)
        known = np.array([value is not None for value in rows[column]], bool)
        if not known.any():
            return ()
        found = add_up(rows[column][known].tolist(), rows["series"][known], bounds(self.connection))
        return tuple((engine, merged.bounds) for merged in found for engine in merged.cells.tolist())
