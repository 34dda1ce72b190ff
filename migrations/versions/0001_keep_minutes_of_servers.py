"""Keep minutes of servers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bounds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bounds", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bounds")),
        sa.UniqueConstraint("bounds", name=op.f("uq_bounds_bounds")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node", "server", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("framework", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("engine", sa.Text(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("info", sa.JSON(), nullable=False),
        sa.Column("first_seen", sa.Double(), nullable=True),
        sa.Column("last_seen", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint("identity", name=op.f("uq_series_identity")),
    )
    op.create_index(op.f("ix_series_node_server"), "series", ["node", "server"])
    op.create_table(
        "engine_minute",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("covered_seconds", sa.Double(), nullable=False),
        sa.Column("increase_seconds", sa.Double(), nullable=False),
        sa.Column("kv_cache_utilization_ratio_avg", sa.Double(), nullable=True),
        sa.Column("kv_cache_utilization_ratio_max", sa.Double(), nullable=True),
        sa.Column("kv_cache_capacity_tokens_avg", sa.Double(), nullable=True),
        sa.Column("kv_cache_capacity_tokens_max", sa.Double(), nullable=True),
        sa.Column("requests_running_avg", sa.Double(), nullable=True),
        sa.Column("requests_running_max", sa.Double(), nullable=True),
        sa.Column("requests_waiting_avg", sa.Double(), nullable=True),
        sa.Column("requests_waiting_max", sa.Double(), nullable=True),
        sa.Column("requests_waiting_api_avg", sa.Double(), nullable=True),
        sa.Column("requests_waiting_api_max", sa.Double(), nullable=True),
        sa.Column("requests_running_limit_avg", sa.Double(), nullable=True),
        sa.Column("requests_running_limit_max", sa.Double(), nullable=True),
        sa.Column("prompt_tokens", sa.Double(), nullable=True),
        sa.Column("generation_tokens", sa.Double(), nullable=True),
        sa.Column("prefix_cache_query_tokens", sa.Double(), nullable=True),
        sa.Column("prefix_cache_hit_tokens", sa.Double(), nullable=True),
        sa.Column("prefix_cache_hit_ratio_avg", sa.Double(), nullable=True),
        sa.Column("prefix_cache_hit_ratio_max", sa.Double(), nullable=True),
        sa.Column("requests_finished_stop", sa.Double(), nullable=True),
        sa.Column("requests_finished_length", sa.Double(), nullable=True),
        sa.Column("requests_finished_abort", sa.Double(), nullable=True),
        sa.Column("requests_finished_error", sa.Double(), nullable=True),
        sa.Column("requests_finished_unknown", sa.Double(), nullable=True),
        sa.Column("requests_rejected", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("requests_unfinished_avg", sa.Double(), nullable=True),
        sa.Column("requests_unfinished_max", sa.Double(), nullable=True),
        sa.Column("preemptions", sa.Double(), nullable=True),
        sa.Column("spec_decode_draft_tokens", sa.Double(), nullable=True),
        sa.Column("spec_decode_accepted_tokens", sa.Double(), nullable=True),
        sa.Column("lora_adapters_running_avg", sa.Double(), nullable=True),
        sa.Column("lora_adapters_running_max", sa.Double(), nullable=True),
        sa.Column("lora_adapters_waiting_avg", sa.Double(), nullable=True),
        sa.Column("lora_adapters_waiting_max", sa.Double(), nullable=True),
        sa.Column("lora_adapters_limit_avg", sa.Double(), nullable=True),
        sa.Column("lora_adapters_limit_max", sa.Double(), nullable=True),
        sa.Column("ttft_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("itl_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("tpot_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("e2e_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("queue_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("prefill_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("decode_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("prompt_length_histogram", sa.LargeBinary(), nullable=True),
        sa.Column("generation_length_histogram", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name=op.f("fk_engine_minute_series_id_series"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("series_id", "start", name=op.f("pk_engine_minute")),
        postgresql_partition_by="RANGE (start)",
    )
    op.create_table(
        "events",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name=op.f("fk_events_series_id_series"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("series_id", "at", "kind", name=op.f("pk_events")),
    )
    op.create_table(
        "target_minute",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("covered_seconds", sa.Double(), nullable=False),
        sa.Column("up_avg", sa.Double(), nullable=True),
        sa.Column("up_max", sa.Double(), nullable=True),
        sa.Column("metrics_available_avg", sa.Double(), nullable=True),
        sa.Column("metrics_available_max", sa.Double(), nullable=True),
        sa.Column("probe_success_avg", sa.Double(), nullable=True),
        sa.Column("probe_success_max", sa.Double(), nullable=True),
        sa.Column("probe_time_to_first_token_seconds_avg", sa.Double(), nullable=True),
        sa.Column("probe_time_to_first_token_seconds_max", sa.Double(), nullable=True),
        sa.Column("probe_duration_seconds_avg", sa.Double(), nullable=True),
        sa.Column("probe_duration_seconds_max", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name=op.f("fk_target_minute_series_id_series"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("series_id", "start", name=op.f("pk_target_minute")),
        postgresql_partition_by="RANGE (start)",
    )


def downgrade() -> None:
    op.drop_table("target_minute")
    op.drop_table("events")
    op.drop_table("engine_minute")
    op.drop_table("series")
    op.drop_table("checkpoints")
    op.drop_table("bounds")
