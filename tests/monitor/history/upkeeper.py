"""A process that rolls up, backs up or restores: `python upkeeper.py roll-up|back-up|restore DATABASE_URL [FILE]`.

It prints a line wherever it tells how far it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from monitor.history import backup, transfer
from monitor.history.database import open_database
from monitor.history.restore import restore
from monitor.history.rollup import roll_up
from tests.monitor.history.fleet import DAY, START


def tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def told() -> bool:
    tell("rolled up")
    return False


def main() -> None:
    work, url, *files = sys.argv[1:]
    engine = open_database(url)
    backup._PAGES_AT_ONCE, transfer._AT_ONCE = 16, 50
    if work == "roll-up":
        while roll_up(engine, START + 100 * DAY, told):
            pass
    elif work == "back-up":
        backup.back_up(engine, Path(files[0]), tell, overwrite=True)
    else:
        restore(Path(files[0]), engine, tell)
    engine.dispose()


if __name__ == "__main__":
    main()
