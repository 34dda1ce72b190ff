"""Store histograms and steady gauges in less room

Histograms lose the gaps between their buckets, and a gauge's maximum is NULL where it is the mean. The rows that are
there keep their maxima.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ENGINE = """
    kv_cache_utilization_ratio:gauge kv_cache_capacity_tokens:gauge requests_running:gauge requests_waiting:gauge
    requests_waiting_api:gauge requests_running_limit:gauge prompt_tokens generation_tokens prefix_cache_query_tokens
    prefix_cache_hit_tokens prefix_cache_hit_ratio:ratio requests_finished_stop requests_finished_length
    requests_finished_abort requests_finished_error requests_finished_unknown requests_rejected:json
    requests_unfinished:gauge preemptions spec_decode_draft_tokens spec_decode_accepted_tokens
    lora_adapters_running:gauge lora_adapters_waiting:gauge lora_adapters_limit:gauge
"""
_TARGET = """
    up:gauge metrics_available:gauge probe_success:gauge probe_time_to_first_token_seconds:gauge
    probe_duration_seconds:gauge
"""
_QUANTILES = " ".join(
    f"{phase}_{q}:plain {phase}_{q}_lower:plain {phase}_{q}_upper:plain"
    for phase in ("ttft", "itl", "tpot", "e2e", "queue")
    for q in ("p50", "p99")
)
_GPU = """
    up:gauge utilization_ratio:gauge memory_used_bytes:gauge memory_total_bytes:gauge power_watts:gauge
    power_limit_watts:gauge energy_joules temperature_celsius_core:gauge temperature_celsius_memory:gauge
    clock_hertz_sm:gauge clock_hertz_memory:gauge clock_hertz_graphics:gauge sm_active_ratio:gauge
    tensor_active_ratio:gauge dram_active_ratio:gauge sm_occupancy_ratio:gauge throttled_seconds_power
    throttled_seconds_thermal throttled_seconds_sync_boost throttled_seconds_board_limit throttled_seconds_reliability
    throttled_seconds_sw_thermal throttled_seconds_hw_thermal throttled_seconds_power_brake ecc_errors_corrected
    ecc_errors_uncorrected remapped_rows_corrected remapped_rows_uncorrected remapped_rows_pending remapped_rows_failed
    xid_errors:json pcie_bytes_tx pcie_bytes_rx nvlink_bytes_tx nvlink_bytes_rx nvlink_errors_replay
    nvlink_errors_recovery nvlink_errors_crc
"""
_HIT_RATIO = """CASE
    WHEN r.prefix_cache_hit_tokens IS NULL OR r.prefix_cache_query_tokens IS NULL THEN r.prefix_cache_hit_ratio_avg
    WHEN r.prefix_cache_query_tokens > 0 THEN r.prefix_cache_hit_tokens / r.prefix_cache_query_tokens
END"""
_OF_ITS_ENGINES = """(
    SELECT e.{column} FROM series e WHERE e.scope = 'engine' AND e.node = s.node AND e.server = s.server
    ORDER BY e.last_seen DESC, e.engine LIMIT 1
)"""
"""A target itself knows neither; of several models the one that was seen last."""

_LENGTHS = ("minute", "hour", "day")


_HISTOGRAMS = tuple(
    f"{phase}_histogram"
    for phase in "ttft itl tpot e2e queue prefill decode prompt_length generation_length".split()  # noqa: SIM905
)
_ALWAYS, _WHERE_NOT_THE_MEAN = "r.{name}_max", "coalesce(r.{name}_max, r.{name}_avg)"
_AT_ONCE = 5000

Part = tuple[int, int, Sequence[float], float | None]
"""Id of bounds, number of the first bucket, counts from there on, sum."""


def _is_postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _moment(seconds: str) -> str:
    """SQLite has no type for it; Grafana's plugin takes numbers for unix seconds."""
    return f"to_timestamp({seconds})" if _is_postgres() else seconds


def _from_info(name: str) -> str:
    return f"s.info ->> '{name}'" if _is_postgres() else f"json_extract(s.info, '$.{name}')"


def _measures(described: str, maximum: str) -> Iterator[tuple[str, str]]:
    """Name and expression."""
    for word in described.split():
        name, _, kind = word.partition(":")
        if kind in ("gauge", "ratio"):
            yield name, f"r.{name}_avg" if kind == "gauge" else _HIT_RATIO
            yield f"{name}_max", maximum.format(name=name)
        else:
            yield name, f"r.{name}"
        if not kind:
            yield f"{name}_per_second", f"CASE WHEN r.increase_seconds > 0 THEN r.{name} / r.increase_seconds END"


def _create(kind: str, scope: str, length: str, who: dict[str, str], described: str, maximum: str) -> None:
    shared = {"samples": "r.samples", "covered_seconds": "r.covered_seconds"}
    if scope != "target":
        shared["increase_seconds"] = "r.increase_seconds"
    columns = {
        "time": _moment("r.start"),
        "start": "r.start",
        "node": "s.node",
        **who,
        "labels": "s.labels",
        "info": "s.info",
        **shared,
        **dict(_measures(described, maximum)),
    }
    listed = ",\n".join(f"{expression} AS {name}" for name, expression in columns.items())
    op.execute(
        f"CREATE VIEW {kind}_{length}_view AS SELECT\n{listed}\n"
        f"FROM {scope}_{length} r JOIN series s ON s.id = r.series_id"
    )


def _make_views(maximum: str) -> None:
    of_engine = {name: f"s.{name}" for name in ("server", "framework", "model", "role", "engine")}
    of_engine |= {"version": _from_info("version"), "gpu": _from_info("gpu")}
    of_server = {"server": "s.server"}
    of_server |= {name: _OF_ITS_ENGINES.format(column=name) for name in ("framework", "model", "role")}
    of_server |= {"gpu": _from_info("gpu")}
    of_gpu = {"uuid": "s.uuid", "gpu": "s.gpu", "name": _from_info("name")}
    for length in _LENGTHS:
        _create("engine", "engine", length, of_engine, _ENGINE, maximum)
        _create("server", "target", length, of_server, _TARGET + ("" if length == "minute" else _QUANTILES), maximum)
        _create("gpu", "gpu", length, of_gpu, _GPU, maximum)


def _drop_views() -> None:
    for kind in ("engine", "server", "gpu"):
        for length in _LENGTHS:
            op.execute(f"DROP VIEW {kind}_{length}_view")


def upgrade() -> None:
    _drop_views()
    _rewrite_histograms(_sparse_parts, _put_dense)
    _make_views(_WHERE_NOT_THE_MEAN)


def downgrade() -> None:
    _drop_views()
    _rewrite_histograms(_dense_parts, _put_sparse)
    _fill_in_maxima()
    _make_views(_ALWAYS)


def _fill_in_maxima() -> None:
    for scope, described in (("engine", _ENGINE), ("target", _TARGET), ("gpu", _GPU)):
        words = (word.partition(":") for word in described.split())
        gauges = [name for name, _, kind in words if kind in ("gauge", "ratio")]
        filled = ", ".join(f"{name}_max = coalesce({name}_max, {name}_avg)" for name in gauges)
        for length in _LENGTHS:
            op.execute(f"UPDATE {scope}_{length} SET {filled}")  # noqa: S608 (names of our own)


def _rewrite_histograms(parts: Callable[[bytes], Iterator[Part]], put: Callable[[bytearray, Part], None]) -> None:
    def rewritten(data: bytes | None) -> bytes | None:
        if data is None:
            return None
        out = bytearray()
        for part in parts(data):
            put(out, part)
        return bytes(out)

    if op.get_context().as_sql:
        raise CommandError(
            f"revision {revision} rewrites what is stored: it needs the database, and cannot be told as SQL"
        )
    for length in _LENGTHS:
        columns = [sa.column(name, sa.LargeBinary()) for name in _HISTOGRAMS]
        _rewrite(sa.table(f"engine_{length}", sa.column("series_id"), sa.column("start"), *columns), rewritten)


def _rewrite(table: sa.TableClause, rewritten: Callable[[bytes | None], bytes | None]) -> None:
    """A few thousand rows at a time, in order of their key."""
    key, connection = sa.tuple_(table.c.series_id, table.c.start), op.get_bind()
    pages = sa.select(table).order_by(table.c.series_id, table.c.start).limit(_AT_ONCE)
    changed = sa.update(table).values({name: sa.bindparam(f"new_{name}") for name in _HISTOGRAMS})
    changed = changed.where(table.c.series_id == sa.bindparam("of"), table.c.start == sa.bindparam("at"))
    rows = connection.execute(pages).all()
    while rows:
        connection.execute(changed, [_changes(row, rewritten) for row in rows])
        last = rows[-1]
        rows = connection.execute(pages.where(key > sa.tuple_(last.series_id, last.start))).all()


def _changes(row: Any, rewritten: Callable[[bytes | None], bytes | None]) -> dict[str, Any]:
    return {"of": row.series_id, "at": row.start} | {
        f"new_{name}": rewritten(value) for name, value in zip(_HISTOGRAMS, row[2:], strict=True)
    }


def _sparse_parts(data: bytes) -> Iterator[Part]:
    """As they were: varints `id << 2 | has sum << 1 | floats` and number of filled buckets; of each how many empty ones
    lie before it, and its count (varint or float); the sum as a float."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        filled, at = _varint(data, at)
        counts: dict[int, float] = {}
        bucket = -1
        for _ in range(filled):
            skipped, at = _varint(data, at)
            bucket += skipped + 1
            counts[bucket], at = (_float if head & 1 else _varint)(data, at)
        total, at = _float(data, at) if head & 2 else (None, at)
        first = min(counts, default=0)
        yield head >> 2, first, [counts.get(each, 0) for each in range(first, bucket + 1)], total


def _put_sparse(out: bytearray, part: Part) -> None:
    bounds_id, first, counts, total = part
    filled = [(bucket, count) for bucket, count in enumerate(counts, first) if count]
    floats = any(count % 1 for _, count in filled)
    has_sum = bool(filled) and total is not None
    out += _as_varint(bounds_id << 2 | has_sum << 1 | floats) + _as_varint(len(filled))
    behind = 0
    for bucket, count in filled:
        out += _as_varint(bucket - behind) + (_as_float(count) if floats else _as_varint(int(count)))
        behind = bucket + 1
    if has_sum and total is not None:
        out += _as_float(total)


def _dense_parts(data: bytes) -> Iterator[Part]:
    """As they become: varints `id << 2 | 0, or 1 with a sum as a varint, or 2 with one as a float` and
    `number of buckets << 1 | floats`; if there are any, how many empty ones lie before them, all counts from the first
    to the last that is filled, and the sum."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        many, at = _varint(data, at)
        if not many:
            yield head >> 2, 0, [], None
            continue
        first, at = _varint(data, at)
        counts: list[float] = []
        for _ in range(many >> 1):
            count, at = (_float if many & 1 else _varint)(data, at)
            counts.append(count)
        total, at = (None, at) if not head & 3 else (_float if head & 2 else _varint)(data, at)
        yield head >> 2, first, counts, total


def _put_dense(out: bytearray, part: Part) -> None:
    bounds_id, first, counts, total = part
    if not counts:
        out += _as_varint(bounds_id << 2) + _as_varint(0)
        return
    floats = not all(map(_is_whole, counts))
    told = 0 if total is None else 1 if _is_whole(total) else 2
    out += _as_varint(bounds_id << 2 | told) + _as_varint(len(counts) << 1 | floats) + _as_varint(first)
    for count in counts:
        out += _as_float(count) if floats else _as_varint(int(count))
    if total is not None:
        out += _as_varint(int(total)) if told == 1 else _as_float(total)


def _is_whole(number: float) -> bool:
    return number % 1 == 0 and 0 <= number <= 2**53


def _as_float(number: float) -> bytes:
    return struct.pack("<d", number)


def _float(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, at)[0], at + 8


def _as_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
