"""Keep runs of load tests"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "comparison_runs",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tool", sa.String(length=32), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("imported_at", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=True),
        sa.Column("framework", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Double(), nullable=False),
        sa.Column("measures", sa.JSON(), nullable=False),
        sa.Column("workload", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "number", name=op.f("pk_comparison_runs")),
    )


def downgrade() -> None:
    op.drop_table("comparison_runs")
