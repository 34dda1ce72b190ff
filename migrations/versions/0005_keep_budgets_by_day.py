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
    {time} AS time, r.start, r.slo, r.objective, r.window_days, r.indicator, r.counts_outage, r.subject,
    {labels} AS labels, r.objective_id, {definition} AS definition
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


_KEY = "b.objective_id, b.identity, b.labels, b.subject"
_WHAT = "o.objective, o.window_days, o.indicator, o.counts_outage, o.definition, o.name"
_FROM = "FROM budgets b JOIN objectives o ON o.id = b.objective_id"
_SETTINGS = "o.unknown, o.until"
_RATIOS = {"bad_ratio": _bad_ratio("failed"), "bad_ratio_certain": _bad_ratio("certainly_failed")}
_LEFT = {"budget_left": "bad_ratio", "budget_left_certain": "bad_ratio_certain"}


def _create(name: str, rows: str, *more: str, with_budget: bool) -> None:
    columns = [*_COUNTS, "judged", "failed", "certainly_failed", "outage_judged"]
    shown = [*(f"r.{column}" for column in columns), *(f"{ratio} AS {of}" for of, ratio in _RATIOS.items())]
    if with_budget:
        shown += [f"1 - ({_RATIOS[ratio]}) / (1 - r.objective) AS {of}" for of, ratio in _LEFT.items()]
    listed = ",\n".join([_about(), *more, *shown])
    op.execute(f"CREATE VIEW {name} AS SELECT {listed}\nFROM ({rows}) r")


def _summed(of: str, minutes: str) -> str:
    """Of rows `of` budgets. What no row is there for is not known."""
    sums = {name: f"sum({of}.{name})" for name in _COUNTS}
    sums["minutes"] = f"({minutes} - sum({of}.minutes_excluded))"
    sums["minutes_unknown"] = f"({sums['minutes']} - sum({of}.minutes - {of}.minutes_unknown))"
    return _judged(sums)


def _month(moved: str = "") -> str:
    """Its start in unix seconds, or with one more month its end."""
    if _is_postgres():
        began = "date_trunc('month', to_timestamp(b.start) AT TIME ZONE 'UTC')"
        return f"CAST(extract(epoch FROM {began}{' + interval ' if moved else ''}{moved}) AS bigint)"
    return f"CAST(strftime('%s', b.start, 'unixepoch', 'start of month'{', ' if moved else ''}{moved}) AS INTEGER)"


def _make_views() -> None:
    of_day = _judged({name: f"b.{name}" for name in _COUNTS})
    rows = f"SELECT {_KEY}, b.start, {_WHAT} AS slo, {of_day} {_FROM}"
    _create("budget_day_view", rows, with_budget=False)
    days = (
        f"SELECT {_KEY}, b.start, {_WHAT} AS slo, {_summed('w', f'o.window_days * {_DAY_MINUTES}')} {_FROM}\n"
        "JOIN budgets w ON w.objective_id = b.objective_id AND w.identity = b.identity\n"
        f"AND w.start > b.start - o.window_days * {_DAY_SECONDS} AND w.start <= b.start\n"
        f"GROUP BY {_KEY}, b.start, {_WHAT}, {_SETTINGS}"
    )
    _create("budget_window_view", days, with_budget=True)
    start, end = _month(), _month("'1 month'" if _is_postgres() else "'+1 month'")
    seconds = f"(CASE WHEN {end} < o.until THEN {end} ELSE o.until END - {start})"
    months = (
        f"SELECT {_KEY}, {start} AS start, {_WHAT} AS slo, {_summed('b', f'{seconds} / 60.0')} {_FROM}\n"
        f"GROUP BY {_KEY}, {start}, {end}, {_WHAT}, {_SETTINGS}"
    )
    named = "to_char(to_timestamp(r.start) AT TIME ZONE 'UTC', 'YYYY-MM')"
    named = named if _is_postgres() else "strftime('%Y-%m', r.start, 'unixepoch')"
    _create("budget_month_view", months, f"{named} AS month", with_budget=True)


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
    for length in ("month", "window", "day"):
        op.execute(f"DROP VIEW budget_{length}_view")
    for name in ("budgets_due", "budgets", "objectives"):
        op.drop_table(name)
