"""Queries to the views of the history's database, for PostgreSQL and SQLite alike.

In a series' answer the name is in `metric`. Its value is called "Value", since Grafana then names the series by that
label alone. A window in which nothing is known has no row, and is no 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.model import SqlQuery

ENGINES, SERVERS, GPUS = (f"{kind}_${{step:raw}}_view" for kind in ("engine", "server", "gpu"))
"""Of days or hours, as is chosen."""
LONGEST_STEP = 36 * 3600
"""More than from one day to the next. Of a window in which nothing is known there is no row, so no null either."""
_NONE_YET = "nothing yet"
_CHOSEN = "framework IN (${framework:sqlstring}) AND model IN (${model:sqlstring})"


def of(view: str, *, all_of_them: bool = False) -> str:
    return f"FROM {view}\nWHERE {{within}}" + ("" if all_of_them else f" AND {_CHOSEN}")


def query(text: str, *, series: bool, column: str = "start") -> SqlQuery:
    """`{within}` in the text stands for the dashboard's time range, by this column."""
    by_macro = f"$__unixEpochFilter({column})"
    by_milliseconds = f"{column} BETWEEN $__from / 1000 AND $__to / 1000"
    postgres, sqlite = (text.replace("{within}", within) for within in (by_macro, by_milliseconds))
    return SqlQuery(postgres, sqlite, series)


def table(text: str, *, column: str = "start") -> SqlQuery:
    return query(text, series=False, column=column)


def united(pieces: Sequence[str]) -> SqlQuery:
    return query("\nUNION ALL\n".join(pieces) + "\nORDER BY time", series=True)


def over_time(value: str, name: str, view: str, *, all_of_them: bool = False) -> SqlQuery:
    """One series for each name. `value` aggregates rows, `name` is an expression."""
    return united([piece(value, name, view, all_of_them=all_of_them)])


def piece(value: str, name: str, view: str, *, all_of_them: bool = False) -> str:
    return (
        f'SELECT time, {name} AS metric, {value} AS "Value"\n{of(view, all_of_them=all_of_them)}\n'
        f"GROUP BY time, {name}\nHAVING {value} IS NOT NULL"
    )


def sums(columns: Sequence[tuple[str, str]], view: str) -> SqlQuery:
    """One series for each column, with the name that stands beside it."""
    return united([
        f"SELECT time, '{name}' AS metric, sum({column}) AS \"Value\"\n{of(view)}\n"
        f"GROUP BY time\nHAVING sum({column}) IS NOT NULL"
        for column, name in columns
    ])  # fmt: skip


def in_all(value: str, name: str, view: str, *, all_of_them: bool = False) -> SqlQuery:
    """One number for the whole range."""
    return table(f'SELECT {value} AS "{name}"\n{of(view, all_of_them=all_of_them)}')


def mean(ratio: str, weight: str = "covered_seconds") -> str:
    """By weight, of those rows that have both."""
    return f"sum({ratio} * {weight}) / nullif(sum(CASE WHEN {ratio} IS NOT NULL THEN {weight} END), 0)"


def per(above: str, its_view: str, below: str, name: str) -> SqlQuery:
    """What GPUs took by what servers made, of all, in windows that have both."""
    return united([
        f"SELECT time, '{name}' AS metric, above / below AS \"Value\"\n"
        f"FROM (SELECT time, {above} AS above\n{of(its_view, all_of_them=True)}\nGROUP BY time) AS taken\n"
        f"JOIN (SELECT time, {below} AS below\n{of(ENGINES, all_of_them=True)}\nGROUP BY time) AS made USING (time)\n"
        "WHERE above IS NOT NULL AND below > 0"
    ])  # fmt: skip


def names(column: str, views: Sequence[str] = ("engine_day_view", "engine_hour_view")) -> str:
    """What there is to choose from; one word that fits nothing as long as there is nothing: `IN ()` is no SQL."""
    known = [f"SELECT {column} FROM {view} WHERE {column} IS NOT NULL" for view in views]  # noqa: S608
    neither = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {view})" for view in views)  # noqa: S608
    return "\nUNION ".join([*known, f"SELECT '{_NONE_YET}' WHERE {neither}"]) + "\nORDER BY 1"
