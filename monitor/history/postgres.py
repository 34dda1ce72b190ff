"""What is PostgreSQL's alone: how it is reached, what it must be, and who goes first where two would meet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, Connection, Engine, event

OLDEST = 15
"""The oldest release that the tests run on."""

_DRIVER = "postgresql+psycopg"
_SCHEMES = ("postgres", "postgresql", _DRIVER)
_DEFAULTS = {
    "application_name": "inferwatch",
    "connect_timeout": "10",
    # Without these a host that vanished is waited for a quarter of an hour.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""libpq's, where the URL does not say otherwise."""

_LOCK_CLASS = 0x696E6677
"""Ours among the advisory locks of a database that others use too."""


class Turn(IntEnum):
    """What only one may do at a time."""

    MIGRATE = 1
    MAKE_PARTITIONS = 2


def is_postgres(of: Connection | Engine) -> bool:
    return of.dialect.name == "postgresql"


def byte_order(of: Connection) -> str:
    """The collation that sorts text alike everywhere, whatever a database's own is."""
    return "C" if is_postgres(of) else "BINARY"


def with_driver(url: URL) -> URL:
    """People write `postgresql://` and `postgres://`; which driver that is, is ours to know."""
    return url.set(drivername=_DRIVER) if url.drivername in _SCHEMES else url


def connect_args(url: URL) -> Mapping[str, Any]:
    return {name: value for name, value in _DEFAULTS.items() if name not in url.query}


def read_password(engine: Engine, file: Path) -> None:
    """Anew for each connection, so that it may be changed while inferwatch runs."""

    @event.listens_for(engine, "do_connect")
    def _give(_dialect: object, _record: object, _args: object, parameters: dict[str, Any]) -> None:
        try:
            parameters["password"] = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as cause:
            raise psycopg.OperationalError(f"could not read the password in {file}: {cause}") from cause


def take_turn(connection: Connection, turn: Turn) -> None:
    """Until the end of the transaction; whoever else wants it waits. SQLite's writers wait for each other anyway."""
    if is_postgres(connection):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK_CLASS}, {turn.value})")


def unfit(connection: Connection) -> str | None:
    """Why this server or database cannot hold a history."""
    version = connection.dialect.server_version_info or ()
    if version < (OLDEST,):
        return f"PostgreSQL {'.'.join(map(str, version))} is too old; use {OLDEST} or newer"
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        return (
            f"the database's encoding is {encoding}, which cannot hold every name; make one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    return None
