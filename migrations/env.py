"""Run by Alembic: on the connection that the product hands in, or from the command line on `-x url=URL`.

Without a URL the command line works on the default history of this user.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from monitor.history.database import default_url, for_writing, open_database
from monitor.history.partitions import Partition
from monitor.history.postgres import Turn, take_turn
from monitor.history.tables import metadata


def is_compared(name: str | None, kind: str, _parents: object) -> bool:
    """Partitions come and go with the days."""
    partition = Partition.named(name or "") if kind == "table" else None
    return partition is None or partition.table not in metadata.tables


def migrate(connection: Connection) -> None:
    take_turn(connection, Turn.MIGRATE)
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transactional_ddl=True,
        render_as_batch=True,
        include_name=is_compared,
    )
    with context.begin_transaction():
        context.run_migrations()


def url() -> str:
    return context.get_x_argument(as_dictionary=True).get("url", default_url())


if context.is_offline_mode():
    context.configure(url=url(), target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
elif (given := context.config.attributes.get("connection")) is not None:
    migrate(given)
else:
    with for_writing(open_database(url())).begin() as own:
        migrate(own)
