"""Reads rows by columns, past SQLAlchemy's own rows: a question may take tens of thousands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, cast

import numpy as np
from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    LargeBinary,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from exporters.schema import Scope
from monitor.history import tables
from monitor.history.cells import Columns
from monitor.history.columns import MEANS
from monitor.history.packed import Ints
from monitor.history.planning import Span
from monitor.history.postgres import is_postgres
from monitor.history.retention import horizon
from monitor.history.tables import Tier, rows_table

KEY = ("series_id", "start")
LENGTH = "length"
"""Of the row's window, in seconds."""
_BLOCK = 1000
_SLICE = 2000
"""Rows that lie near each other in the file, since they are written in order of time: SQLite's cache holds their pages.
Read series by series, all of a longer time would bring each page in once for each series."""


def scan(connection: Connection, scope: Scope, spans: Iterable[Span], names: Sequence[str], ids: Ints) -> Columns:
    """The rows of these series, in order of `ids` and of time, with `series` (its place in `ids`), start and length."""
    read: list[list[Any]] = [[] for _ in (*KEY, *names)]
    length: list[int] = []
    at_once = math.inf if is_postgres(connection) else max(1, _SLICE // max(1, len(ids)))
    for span in spans if len(ids) else ():
        wanted = _wanted(scope, span.tier, names, ids.tolist())
        for part in span.slices(at_once):
            _read(connection, wanted, {"since": part.since, "until": part.until}, read)
        length += [span.tier.seconds] * (len(read[0]) - len(length))
    kinds = rows_table(scope, Tier.MINUTE).c
    columns = {name: _array(column, kinds[name].type) for name, column in zip((*KEY, *names), read, strict=True)}
    columns |= {LENGTH: np.array(length, np.int64), "series": _places(columns["series_id"], ids)}
    order = np.lexsort((columns["start"], columns["series"]))
    return {name: column[order] for name, column in columns.items()}


def _wanted(scope: Scope, tier: Tier, names: Sequence[str], ids: Sequence[int]) -> Select[Any]:
    c = rows_table(scope, tier).c
    wanted = select(*(_readable(c, name) for name in (*KEY, *names)))
    # Spelled out once: as parameters they would be put together anew for each slice.
    of_these = c.series_id.bool_op("IN")(literal_column(f"({', '.join(map(str, ids))})"))
    return wanted.where(of_these, c.start >= bindparam("since"), c.start < bindparam("until"))


def _read(connection: Connection, wanted: Select[Any], within: dict[str, int], columns: Sequence[list[Any]]) -> None:
    """Adds to the columns, in blocks that are soon done with: that spares the memory and the garbage collector."""
    result = cast("CursorResult[Any]", connection.execute(wanted, within))
    driver_error = connection.dialect.loaded_dbapi.Error
    try:
        while block := result.cursor.fetchmany(_BLOCK):
            for number, column in enumerate(columns):
                column.extend(map(itemgetter(number), block))
    except driver_error as cause:
        raise DBAPIError(str(wanted), within, cause) from cause
    finally:
        result.close()


def _readable(c: ReadOnlyColumnCollection[str, Any], name: str) -> ColumnElement[Any]:
    """JSON as its text: one driver would parse it, the other would not."""
    if name in MEANS:
        return func.coalesce(c[name], c[MEANS[name]])
    return sql_cast(c[name], Text) if isinstance(c[name].type, JSON) else c[name]


def _array(values: Sequence[Any], kind: object) -> np.ndarray[Any, Any]:
    if isinstance(kind, LargeBinary | JSON):
        column = np.empty(len(values), object)
        column[:] = values
        return column
    return np.array(values, np.int64 if isinstance(kind, BigInteger) else np.float64)


def _places(series_ids: Ints, ids: Ints) -> Ints:
    order = np.argsort(ids)
    return order[np.searchsorted(ids[order], series_ids)]


def kept_since(connection: Connection) -> dict[Tier, int]:
    """Before which moment rows of a tier may be gone."""
    progress = tables.progress.c
    told: dict[str, int] = dict(connection.execute(select(progress.source, progress.until)).all())
    return {tier: told[horizon(tier)] for tier in Tier if horizon(tier) in told}
