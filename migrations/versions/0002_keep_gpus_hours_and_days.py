"""Keep GPUs, hours and days"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ENGINE = """
    kv_cache_utilization_ratio:gauge kv_cache_capacity_tokens:gauge requests_running:gauge requests_waiting:gauge
    requests_waiting_api:gauge requests_running_limit:gauge prompt_tokens generation_tokens prefix_cache_query_tokens
    prefix_cache_hit_tokens prefix_cache_hit_ratio:gauge requests_finished_stop requests_finished_length
    requests_finished_abort requests_finished_error requests_finished_unknown requests_rejected:json
    requests_unfinished:gauge preemptions spec_decode_draft_tokens spec_decode_accepted_tokens
    lora_adapters_running:gauge lora_adapters_waiting:gauge lora_adapters_limit:gauge ttft_histogram:bytes
    itl_histogram:bytes tpot_histogram:bytes e2e_histogram:bytes queue_histogram:bytes prefill_histogram:bytes
    decode_histogram:bytes prompt_length_histogram:bytes generation_length_histogram:bytes
"""
_TARGET = """
    up:gauge metrics_available:gauge probe_success:gauge probe_time_to_first_token_seconds:gauge
    probe_duration_seconds:gauge
"""
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
_QUANTILES = " ".join(
    f"{phase}_{q} {phase}_{q}_lower {phase}_{q}_upper"
    for phase in ("ttft", "itl", "tpot", "e2e", "queue")
    for q in ("p50", "p99")
)
_NEW_TABLES = ("engine_hour", "engine_day", "target_hour", "target_day", "gpu_minute", "gpu_hour", "gpu_day")


def _columns(described: str) -> Iterable[sa.Column[Any]]:
    for word in described.split():
        name, _, kind = word.partition(":")
        if kind == "gauge":
            yield sa.Column(f"{name}_avg", sa.Double(), nullable=True)
            yield sa.Column(f"{name}_max", sa.Double(), nullable=True)
            yield sa.Column(f"{name}_readings", sa.Integer(), nullable=True)
        else:
            of_kind: dict[str, Any] = {"": sa.Double(), "json": sa.JSON(none_as_null=True), "bytes": sa.LargeBinary()}
            yield sa.Column(name, of_kind[kind], nullable=True)


def _increases() -> Iterable[sa.Column[Any]]:
    return (sa.Column("increase_seconds", sa.Double(), nullable=False),)


def _quantiles() -> Iterable[sa.Column[Any]]:
    return (sa.Column(name, sa.Double(), nullable=True) for name in _QUANTILES.split())


def _gauges(described: str) -> list[str]:
    return [word.removesuffix(":gauge") for word in described.split() if word.endswith(":gauge")]


def _create(name: str, described: str, measures: Iterable[sa.Column[Any]] = (), **options: Any) -> None:
    op.create_table(
        name,
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("covered_seconds", sa.Double(), nullable=False),
        *measures,
        *_columns(described),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name=op.f(f"fk_{name}_series_id_series"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("series_id", "start", name=op.f(f"pk_{name}")),
        **options,
    )


def upgrade() -> None:
    for name in ("uuid", "gpu"):
        op.add_column("series", sa.Column(name, sa.Text(), nullable=True))
    for table, described in (("engine_minute", _ENGINE), ("target_minute", _TARGET)):
        for name in _gauges(described):
            op.add_column(table, sa.Column(f"{name}_readings", sa.Integer(), nullable=True))
    with op.batch_alter_table("checkpoints") as batch:
        batch.add_column(sa.Column("uuid", sa.Text(), nullable=False, server_default=""))
        batch.drop_constraint(op.f("pk_checkpoints"), type_="primary")
        batch.create_primary_key(op.f("pk_checkpoints"), ["node", "server", "uuid"])
    for length in ("hour", "day"):
        _create(f"engine_{length}", _ENGINE, _increases())
        _create(f"target_{length}", _TARGET, _quantiles())
        _create(f"gpu_{length}", _GPU, _increases())
    _create("gpu_minute", _GPU, _increases(), postgresql_partition_by="RANGE (start)")
    _create_small()
    # Minutes that are there already have no hours yet.
    op.execute(
        "INSERT INTO rollup_due (tier, start, touched) "
        "SELECT DISTINCT 'hour', start / 3600 * 3600, 1 FROM target_minute"
    )


def _create_small() -> None:
    op.create_table(
        "progress",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_progress")),
    )
    op.create_table(
        "rollup_due",
        sa.Column("tier", sa.String(length=8), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("touched", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tier", "start", name=op.f("pk_rollup_due")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "alerts",
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("starts_at", sa.Double(), nullable=False),
        sa.Column("ends_at", sa.Double(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=True),
        sa.Column("delivered_at", sa.Double(), nullable=True),
        sa.Column("resolved_at", sa.Double(), nullable=True),
        sa.Column("receivers", sa.JSON(), nullable=False),
        sa.Column("generator_url", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("fingerprint", "starts_at", name=op.f("pk_alerts")),
    )
    op.create_index(op.f("ix_alerts_starts_at"), "alerts", ["starts_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_alerts_starts_at"), "alerts")
    for table in ("alerts", "leases", "rollup_due", "progress", *_NEW_TABLES):
        op.drop_table(table)
    op.execute("DELETE FROM checkpoints WHERE uuid <> ''")
    op.execute("DELETE FROM series WHERE scope = 'gpu'")
    with op.batch_alter_table("checkpoints") as batch:
        batch.drop_constraint(op.f("pk_checkpoints"), type_="primary")
        batch.drop_column("uuid")
        batch.create_primary_key(op.f("pk_checkpoints"), ["node", "server"])
    # Not in batches: those make the table anew, and dropping the old `series` would drop all that refers to it.
    for table, described in (("engine_minute", _ENGINE), ("target_minute", _TARGET)):
        for name in _gauges(described):
            op.execute(f"ALTER TABLE {table} DROP COLUMN {name}_readings")
    for name in ("uuid", "gpu"):
        op.execute(f"ALTER TABLE series DROP COLUMN {name}")
