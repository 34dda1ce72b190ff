"""The tables, with types that SQLite and PostgreSQL share. Moments are unix seconds, windows start on the minute.

On PostgreSQL the minutes are partitioned by day, so that retention drops whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from itertools import chain
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy import Column as SqlColumn

from alerts.budget import Counts
from exporters.schema import Scope
from monitor.history.columns import (
    ENGINE_COLUMNS,
    GPU_COLUMNS,
    QUANTILE_COLUMNS,
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

COUNTED = tuple(field.name for field in fields(Counts))

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
    SqlColumn("uuid", Text),
    SqlColumn("gpu", Text),
    SqlColumn("labels", JSON, nullable=False),
    SqlColumn("info", JSON, nullable=False),
    SqlColumn("first_seen", Double),
    SqlColumn("last_seen", Double),
    Index(None, "node", "server"),
)
"""One per engine, per target and per GPU. `identity` is the whole identity as one text, `storable.key_of`; `labels` are
the user's; `info` is what `llm_server_info` or `gpu_info` said last: version, frontend, wire model and whatever else is
known. A target that never answered was never seen. A GPU has no server: "", since several may run on it."""

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
"""What changed at a target or a GPU: restart, version, model, state, a flag."""

checkpoints = Table(
    "checkpoints",
    metadata,
    SqlColumn("node", Text, primary_key=True),
    SqlColumn("server", Text, primary_key=True),
    SqlColumn("uuid", Text, primary_key=True),
    SqlColumn("at", Double, nullable=False),
    SqlColumn("state", LargeBinary, nullable=False),
)
"""Where the writer stands with a target or a GPU: written with its rows, so that a restart goes on exactly from there.
"" is the server of a GPU, and the uuid of a server."""

progress = Table(
    "progress",
    metadata,
    SqlColumn("source", Text, primary_key=True),
    SqlColumn("since", BigInteger, nullable=False),
    SqlColumn("until", BigInteger, nullable=False),
)
"""Which windows were read of a source that can be asked again: all from `since` to `until`."""

rollup_due = Table(
    "rollup_due",
    metadata,
    SqlColumn("tier", String(8), primary_key=True),
    SqlColumn("start", BigInteger, primary_key=True),
    SqlColumn("touched", BigInteger, nullable=False),
)
"""Hours and days of which finer rows were written since they were rolled up. `touched` counts writes: its update makes
a writer and the roll-up wait for each other."""

objectives = Table(
    "objectives",
    metadata,
    SqlColumn("id", Integer, primary_key=True),
    SqlColumn("name", Text, nullable=False),
    SqlColumn("identity", Text, nullable=False, unique=True),
    SqlColumn("definition", Text, nullable=False),
    SqlColumn("indicator", String(16), nullable=False),
    SqlColumn("objective", Double, nullable=False),
    SqlColumn("window_days", Integer, nullable=False),
    SqlColumn("unknown", String(8), nullable=False),
    SqlColumn("counts_outage", Boolean, nullable=False),
    SqlColumn("maintenance", Text, nullable=False),
    SqlColumn("until", BigInteger, nullable=False),
)
"""One per definition (JSON) by which days were judged: a changed objective is another one. `identity` is name and
definition as one text, `storable.key_of`. Planned maintenance is part of neither. Up to `until` every day that is
rolled up was judged, or is in `budgets_due`."""

budgets = Table(
    "budgets",
    metadata,
    SqlColumn("objective_id", ForeignKey("objectives.id"), primary_key=True),
    SqlColumn("identity", Text, primary_key=True),
    SqlColumn("start", BigInteger, primary_key=True),
    SqlColumn("labels", Text, nullable=False),
    SqlColumn("subject", Text, nullable=False),
    *(SqlColumn(name, Double, nullable=False) for name in COUNTED),
)
"""What a day (UTC) counted of a group of an objective: `alerts.budget.Counts`. `identity` is the group as one text,
`storable.key_of`; `labels` are the same as JSON, and `subject` is it in words. There is no row where nothing was
known."""

budgets_due = Table(
    "budgets_due",
    metadata,
    SqlColumn("start", BigInteger, primary_key=True),
    SqlColumn("touched", BigInteger, nullable=False),
)
"""Days that were rolled up since their budgets were counted. `touched` counts how often."""

leases = Table(
    "leases",
    metadata,
    SqlColumn("name", String(32), primary_key=True),
    SqlColumn("holder", Text, nullable=False),
    SqlColumn("until", Double, nullable=False),
)
"""Who may do what only one process should, and for how long yet, by the database's own clock."""

alerts = Table(
    "alerts",
    metadata,
    SqlColumn("fingerprint", String(64), primary_key=True),
    SqlColumn("starts_at", Double, primary_key=True),
    SqlColumn("ends_at", Double),
    SqlColumn("name", Text, nullable=False),
    SqlColumn("labels", JSON, nullable=False),
    SqlColumn("annotations", JSON, nullable=False),
    SqlColumn("last_seen", Double),
    SqlColumn("delivered_at", Double),
    SqlColumn("resolved_at", Double),
    SqlColumn("receivers", JSON, nullable=False),
    SqlColumn("generator_url", Text),
    Index(None, "starts_at"),
)
"""One per firing of an alert. `last_seen` is the newest sample of Prometheus' ALERTS; `delivered_at` and `resolved_at`
are when Alertmanager told of it, and of its end; `receivers` has both by the receiver that was told."""

comparison_runs = Table(
    "comparison_runs",
    metadata,
    SqlColumn("digest", String(64), primary_key=True),
    SqlColumn("number", Integer, primary_key=True),
    SqlColumn("tool", String(32), nullable=False),
    SqlColumn("file", Text, nullable=False),
    SqlColumn("imported_at", Double, nullable=False),
    SqlColumn("at", Double),
    SqlColumn("framework", Text, nullable=False),
    SqlColumn("version", Text, nullable=False),
    SqlColumn("model", Text, nullable=False),
    SqlColumn("gpu", Text, nullable=False),
    SqlColumn("concurrency", Double, nullable=False),
    SqlColumn("measures", JSON, nullable=False),
    SqlColumn("workload", JSON, nullable=False),
)
"""What load tests measured that somebody handed in. `digest` is the SHA-256 of the file, of which `number` counts the
runs; `at` is when the test began, where the file says so; what is not known of a text is ""."""


def _sql(column: Column) -> Iterable[SqlColumn[Any]]:
    if isinstance(column, GaugeColumns):
        return (
            SqlColumn(column.average, Double),
            SqlColumn(column.maximum, Double),
            SqlColumn(column.readings, Integer),
        )
    if isinstance(column, CounterColumn):
        return (SqlColumn(column.name, Double),)
    if isinstance(column, HistogramColumn):
        return (SqlColumn(column.name, LargeBinary),)
    return (SqlColumn(column.name, JSON(none_as_null=True)),)


def _rows(name: str, columns: Mapping[str, tuple[Column, ...]], measures: Iterable[SqlColumn[Any]]) -> Table:
    """One row per series and window."""
    options: dict[str, Any] = {"postgresql_partition_by": "RANGE (start)"} if name.endswith("_minute") else {}
    return Table(
        name,
        metadata,
        SqlColumn("series_id", ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
        SqlColumn("start", BigInteger, primary_key=True),
        SqlColumn("samples", Integer, nullable=False),
        SqlColumn("covered_seconds", Double, nullable=False),
        *measures,
        *chain.from_iterable(_sql(c) for c in chain.from_iterable(columns.values())),
        **options,
    )


def _increases() -> Iterable[SqlColumn[Any]]:
    """Counters and histograms hold what these seconds added."""
    return (SqlColumn("increase_seconds", Double, nullable=False),)


def _quantiles() -> Iterable[SqlColumn[Any]]:
    return (SqlColumn(name, Double) for columns in QUANTILE_COLUMNS for name in columns.names)


engine_minute = _rows("engine_minute", ENGINE_COLUMNS, _increases())
engine_hour = _rows("engine_hour", ENGINE_COLUMNS, _increases())
engine_day = _rows("engine_day", ENGINE_COLUMNS, _increases())
target_minute = _rows("target_minute", TARGET_COLUMNS, ())
"""Was it up, could it be read."""
target_hour = _rows("target_hour", TARGET_COLUMNS, _quantiles())
target_day = _rows("target_day", TARGET_COLUMNS, _quantiles())
gpu_minute = _rows("gpu_minute", GPU_COLUMNS, _increases())
gpu_hour = _rows("gpu_hour", GPU_COLUMNS, _increases())
gpu_day = _rows("gpu_day", GPU_COLUMNS, _increases())


class Tier(StrEnum):
    """Lengths of windows, the finest first."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return _TIER_SECONDS[self]


_TIER_SECONDS = {Tier.MINUTE: 60, Tier.HOUR: 3600, Tier.DAY: 86_400}


def rows_table(scope: Scope, tier: Tier) -> Table:
    """Raises KeyError for a scope without history."""
    return metadata.tables[f"{scope.value}_{tier.value}"]
