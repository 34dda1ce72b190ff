"""Keep budgets by day"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COUNTS = (
    "good", "bad", "unknown", "certainly_bad", "minutes", "minutes_outage", "minutes_unknown", "minutes_excluded",
)  # fmt: skip
_DAY_SECONDS, _DAY_MINUTES = 86_400, 1440.0
_JUDGED = """
    {counts},
    {good} + {bad} + {added} AS judged, {bad} + {added} AS failed, {certainly_bad} + {added} AS certainly_failed,
    CASE WHEN o.counts_outage THEN {minutes_outage} ELSE 0.0 END AS outage_judged
"""
"""Counts as the objective takes them, from expressions of each. Requests that had vanished may turn up on another day:
none are less than unknown."""
_ABOUT = """
    {time} AS time, r.start, r.slo, r.objective, r.window_days, r.indicator, r.subject, {labels} AS labels,
    r.objective_id, {definition} AS definition
"""


def _is_postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _about() -> str:
    if _is_postgres():
        return _ABOUT.format(
            time="to_timestamp(r.start)", labels="CAST(r.labels AS json)", definition="CAST(r.definition AS json)"
        )
    return _ABOUT.format(time="r.start", labels="r.labels", definition="r.definition")


def _judged(of: dict[str, str]) -> str:
    of = of | {"unknown": f"CASE WHEN {of['unknown']} > 0 THEN {of['unknown']} ELSE 0.0 END"}
    added = f"CASE WHEN o.unknown = 'bad' THEN {of['unknown']} ELSE 0.0 END"
    return _JUDGED.format(counts=", ".join(f"{of[name]} AS {name}" for name in _COUNTS), added=added, **of)


def _bad_ratio(failed: str) -> str:
    """A minute of an outage weighs as much as an average minute of the window, all of it bad."""
    ratio = f"r.{failed} / nullif(r.judged, 0)"
    out = "CASE WHEN r.outage_judged >= r.minutes THEN 1.0 ELSE r.outage_judged / r.minutes END"
    return (
        "CASE WHEN r.outage_judged > 0 AND r.minutes > 0\n"
        f"THEN {out} + (1 - {out}) * coalesce({ratio}, 0) ELSE {ratio} END"
    )


def _create(name: str, rows: str, *more: str) -> None:
    columns = [*_COUNTS, "judged", "failed", "certainly_failed"]
    listed = ",\n".join([_about(), *(f"r.{column}" for column in columns), *more])
    op.execute(f"CREATE VIEW {name} AS SELECT {listed}\nFROM ({rows}) r")


def _make_views() -> None:
    ratios = {"bad_ratio": _bad_ratio("failed"), "bad_ratio_certain": _bad_ratio("certainly_failed")}
    shown = [f"{ratio} AS {name}" for name, ratio in ratios.items()]
    key = "b.objective_id, b.identity, b.labels, b.subject, b.start"
    what = "o.name AS slo, o.objective, o.window_days, o.indicator, o.definition"
    known = "FROM budgets b JOIN objectives o ON o.id = b.objective_id"
    of_day = _judged({name: f"b.{name}" for name in _COUNTS})
    _create("budget_day_view", f"SELECT {key}, {what}, {of_day} {known}", *shown)

    sums = {name: f"sum(w.{name})" for name in _COUNTS}
    sums["minutes"] = f"(o.window_days * {_DAY_MINUTES} - sum(w.minutes_excluded))"
    sums["minutes_unknown"] = f"({sums['minutes']} - sum(w.minutes - w.minutes_unknown))"
    window = (
        "JOIN budgets w ON w.objective_id = b.objective_id AND w.identity = b.identity\n"
        f"AND w.start > b.start - o.window_days * {_DAY_SECONDS} AND w.start <= b.start"
    )
    groups = (
        f"GROUP BY {key}, o.name, o.objective, o.window_days, o.indicator, o.definition, o.unknown, o.counts_outage"
    )
    left = {"budget_left": ratios["bad_ratio"], "budget_left_certain": ratios["bad_ratio_certain"]}
    more = [f"1 - ({ratio}) / (1 - r.objective) AS {name}" for name, ratio in left.items()]
    rows = f"SELECT {key}, {what}, {_judged(sums)} {known} {window} {groups}"
    _create("budget_window_view", rows, *shown, *more)


def upgrade() -> None:
    op.create_table(
        "objectives",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("indicator", sa.String(length=16), nullable=False),
        sa.Column("objective", sa.Double(), nullable=False),
        sa.Column("window_days", sa.Integer(), nullable=False),
        sa.Column("unknown", sa.String(length=8), nullable=False),
        sa.Column("counts_outage", sa.Boolean(), nullable=False),
        sa.Column("maintenance", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_objectives")),
        sa.UniqueConstraint("identity", name=op.f("uq_objectives_identity")),
    )
    op.create_table(
        "budgets",
        sa.Column("objective_id", sa.Integer(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _COUNTS),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_budgets_objective_id_objectives")),
        sa.PrimaryKeyConstraint("objective_id", "identity", "start", name=op.f("pk_budgets")),
    )
    op.create_table(
        "budgets_due",
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("touched", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("start", name=op.f("pk_budgets_due")),
    )
    _make_views()


def downgrade() -> None:
    op.execute("DROP VIEW budget_window_view")
    op.execute("DROP VIEW budget_day_view")
    for name in ("budgets_due", "budgets", "objectives"):
        op.drop_table(name)
