"""A throw-away PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from tests.end_to_end.processes import DEADLINE, free_port
from tests.servers.server import Server, ran
from tests.services import require

USER = "inferwatch"
# Sorts text as a language does, like the databases that people have, and unlike SQLite.
LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US")


class Postgres(Server):
    """A cluster that lets everybody in, by TCP and by the socket in `folder`."""

    ends_by = signal.SIGQUIT  # at once, without a last checkpoint: it recovers from its log at the next start

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self.folder = folder
        self.port = free_port()
        self._names = (f"test_{number}" for number in count(1))
        command = [*_not_as_root(), require("postgres"), "-D", f"{folder}/data", "-k", str(folder)]
        listen = ["-h", "127.0.0.1", "-p", str(self.port), "-c", f"fsync={'on' if durable else 'off'}"]
        super().__init__([*command, *listen], folder, self._answers)

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Every statement is its own transaction."""
        return psycopg.connect(host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True)

    @contextmanager
    def new_database(self, template: str = "template1", options: str = "") -> Iterator[str]:
        """Its URL. Dropped at the end, whoever is still connected; for both a stopped cluster is started."""
        name = next(self._names)
        self.start()
        self._tell(f"CREATE DATABASE {name} TEMPLATE {template} {options}")
        try:
            yield f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}?connect_timeout={DEADLINE:.0f}"
        finally:
            self.start()
            self._tell(f"DROP DATABASE {name} WITH (FORCE)")

    def _tell(self, statement: str) -> None:
        """Again while a session that stands still is still there: PostgreSQL waits for its end for five seconds."""
        end = time.monotonic() + DEADLINE
        with self.connect() as connection:
            while True:
                try:
                    connection.execute(statement.encode())
                except psycopg.errors.ObjectInUse:
                    if time.monotonic() > end:
                        raise
                else:
                    return

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_cluster(*, durable: bool = False) -> Iterator[Postgres]:
    """A durable one waits for the disk at every commit: slow, and only the machine's own crash shows the difference."""
    initdb = require("initdb")
    # not in pytest's folders: those are root's alone, and too deep for the path of a socket
    with TemporaryDirectory(prefix="inferwatch-pg-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, "postgres", "postgres")
        ran([*_not_as_root(), initdb, f"{name}/data", f"--username={USER}", "--auth=trust", "--no-sync", *LOCALE])
        with Postgres(Path(name), durable=durable) as postgres:
            yield postgres


def _not_as_root() -> tuple[str, ...]:
    """PostgreSQL refuses to run as root."""
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups") if os.geteuid() == 0 else ()
