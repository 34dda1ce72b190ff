"""The tables, with types that SQLite and PostgreSQL share. Moments are unix seconds, windows start on the minute."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy import Column as SqlColumn

from monitor.history.columns import (
    ENGINE_COLUMNS,
    TARGET_COLUMNS,
    Column,
    CounterColumn,
    GaugeColumns,
    HistogramColumn,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

series = Table(
    "series",
    metadata,
    SqlColumn("id", Integer, primary_key=True),
    SqlColumn("scope", String(16), nullable=False),
    SqlColumn("identity", Text, nullable=False, unique=True),
    SqlColumn("node", Text, nullable=False),
    SqlColumn("server", Text, nullable=False),
    SqlColumn("framework", Text),
    SqlColumn("model", Text),
    SqlColumn("role", Text),
    SqlColumn("engine", Text),
    SqlColumn("labels", JSON, nullable=False),
    SqlColumn("info", JSON, nullable=False),
    SqlColumn("first_seen", Double),
    SqlColumn("last_seen", Double),
    Index(None, "node", "server"),
)
"""One per engine and one per target. `identity` is the whole identity as canonical JSON; `labels` are the user's;
`info` is what `llm_server_info` said last: version, frontend, wire model and whatever else is known. A target that
never answered was never seen."""

bounds = Table(
    "bounds",
    metadata,
    SqlColumn("id", Integer, primary_key=True),
    SqlColumn("bounds", Text, nullable=False, unique=True),
)
"""Native bounds of histograms, each set once: comma-separated numbers."""

events = Table(
    "events",
    metadata,
    SqlColumn("series_id", ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
    SqlColumn("at", Double, primary_key=True),
    SqlColumn("kind", String(32), primary_key=True),
    SqlColumn("before", Text),
    SqlColumn("after", Text),
)
"""What changed at a target: restart, version, model, state."""

checkpoints = Table(
    "checkpoints",
    metadata,
    SqlColumn("node", Text, primary_key=True),
    SqlColumn("server", Text, primary_key=True),
    SqlColumn("at", Double, nullable=False),
    SqlColumn("state", LargeBinary, nullable=False),
)
"""Where the writer stands with a target: written with its rows, so that a restart goes on exactly from there."""


def _sql(column: Column) -> Iterable[SqlColumn[Any]]:
    if isinstance(column, GaugeColumns):
        return SqlColumn(column.average, Double), SqlColumn(column.maximum, Double)
    if isinstance(column, CounterColumn):
        return (SqlColumn(column.name, Double),)
    if isinstance(column, HistogramColumn):
        return (SqlColumn(column.name, LargeBinary),)
    return (SqlColumn(column.name, JSON(none_as_null=True)),)


def _minute(name: str, columns: dict[str, tuple[Column, ...]], *measures: SqlColumn[Any]) -> Table:
    return Table(
        name,
        metadata,
        SqlColumn("series_id", ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
        SqlColumn("start", BigInteger, primary_key=True),
        SqlColumn("samples", Integer, nullable=False),
        SqlColumn("covered_seconds", Double, nullable=False),
        *measures,
        *chain.from_iterable(_sql(c) for c in chain.from_iterable(columns.values())),
    )


engine_minute = _minute("engine_minute", ENGINE_COLUMNS, SqlColumn("increase_seconds", Double, nullable=False))
"""One row per engine and minute. Counters and histograms hold what `increase_seconds` added."""

target_minute = _minute("target_minute", TARGET_COLUMNS)
"""One row per target and minute: was it up, could it be read."""
