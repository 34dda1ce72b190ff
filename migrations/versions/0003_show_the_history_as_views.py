"""Show the history as views"""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "0003"
down_revision = "0002"
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


def _is_postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _moment(seconds: str) -> str:
    """SQLite has no type for it; Grafana's plugin takes numbers for unix seconds."""
    return f"to_timestamp({seconds})" if _is_postgres() else seconds


def _from_info(name: str) -> str:
    return f"s.info ->> '{name}'" if _is_postgres() else f"json_extract(s.info, '$.{name}')"


def _measures(described: str) -> Iterator[tuple[str, str]]:
    """Name and expression."""
    for word in described.split():
        name, _, kind = word.partition(":")
        if kind in ("gauge", "ratio"):
            yield name, f"r.{name}_avg" if kind == "gauge" else _HIT_RATIO
            yield f"{name}_max", f"r.{name}_max"
        else:
            yield name, f"r.{name}"
        if not kind:
            yield f"{name}_per_second", f"CASE WHEN r.increase_seconds > 0 THEN r.{name} / r.increase_seconds END"


def _create(kind: str, scope: str, length: str, who: dict[str, str], described: str) -> None:
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
        **dict(_measures(described)),
    }
    listed = ",\n".join(f"{expression} AS {name}" for name, expression in columns.items())
    op.execute(
        f"CREATE VIEW {kind}_{length}_view AS SELECT\n{listed}\n"
        f"FROM {scope}_{length} r JOIN series s ON s.id = r.series_id"
    )


def upgrade() -> None:
    of_engine = {name: f"s.{name}" for name in ("server", "framework", "model", "role", "engine")}
    of_engine |= {"version": _from_info("version"), "gpu": _from_info("gpu")}
    of_server = {"server": "s.server"}
    of_server |= {name: _OF_ITS_ENGINES.format(column=name) for name in ("framework", "model", "role")}
    of_server |= {"gpu": _from_info("gpu")}
    of_gpu = {"uuid": "s.uuid", "gpu": "s.gpu", "name": _from_info("name")}
    for length in _LENGTHS:
        _create("engine", "engine", length, of_engine, _ENGINE)
        _create("server", "target", length, of_server, _TARGET + ("" if length == "minute" else _QUANTILES))
        _create("gpu", "gpu", length, of_gpu, _GPU)
    op.execute(
        f"CREATE VIEW event_view AS SELECT {_moment('e.at')} AS time, e.at, s.node, s.server, s.uuid, s.gpu,\n"  # noqa: S608
        "e.kind, e.before, e.after, s.labels FROM events e JOIN series s ON s.id = e.series_id"
    )


def downgrade() -> None:
    op.execute("DROP VIEW event_view")
    for kind in ("engine", "server", "gpu"):
        for length in _LENGTHS:
            op.execute(f"DROP VIEW {kind}_{length}_view")
