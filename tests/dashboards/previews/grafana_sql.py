"""SQL as Grafana sends it: variables and macros replaced as its documentation says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine

from dashboards.model import Dialect, SqlQuery

Chosen = Mapping[str, str | Sequence[str]]
_VARIABLE = re.compile(r"\$\{(\w+):(\w+)\}")


def expanded(text: str, since: int, until: int, chosen: Chosen) -> str:
    """First the variables, in the browser; then macros, in the data source."""
    text = _VARIABLE.sub(lambda match: _formatted(chosen[match[1]], match[2]), text)
    text = text.replace("$__from", str(since * 1000)).replace("$__to", str(until * 1000))
    text = re.sub(r"\$__unixEpochFilter\((\w+)\)", rf"\1 >= {since} AND \1 <= {until}", text)
    assert "$" not in text, f"Grafana would not know this: {text}"
    return text


def _formatted(value: str | Sequence[str], form: str) -> str:
    assert form in {"raw", "sqlstring"}
    return str(value) if form == "raw" else _sqlstring(value)


def _sqlstring(value: str | Sequence[str]) -> str:
    values = [value] if isinstance(value, str) else value
    return ",".join("'" + each.replace("'", "''") + "'" for each in values)


def dialect(database: Engine) -> Dialect:
    return Dialect.POSTGRES if database.dialect.name == "postgresql" else Dialect.SQLITE


def answer(database: Engine, query: SqlQuery, since: int, until: int, chosen: Chosen) -> list[dict[str, Any]]:
    return rows(database, expanded(query.text(dialect(database)), since, until, chosen))


def rows(database: Engine, text: str) -> list[dict[str, Any]]:
    with database.connect() as connection:
        return [dict(row) for row in connection.exec_driver_sql(text.replace("%", "%%")).mappings()]
