"""A process that rolls up, backs up or restores: `upkeeper.py LIVES roll-up|back-up|restore DATABASE_URL [FILE]`.

Wherever it tells how far it is it loses a life; with the last it dies by SIGKILL, some moment later, but before it
tells anything more.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path
from threading import Thread

from monitor.history import backup, transfer
from monitor.history.database import open_database
from monitor.history.restore import restore
from monitor.history.rollup import roll_up
from tests.monitor.history.fleet import DAY, START


def main() -> None:
    lives, work, url, *files = sys.argv[1:]
    times = count(1)

    def tell(_: str = "") -> None:
        lost = next(times)
        if lost == int(lives):
            Thread(target=os.kill, args=(os.getpid(), signal.SIGKILL)).start()
        elif 0 < int(lives) < lost:
            signal.pause()

    def wants_to_end() -> bool:
        tell()
        return False

    engine = open_database(url)
    backup._PAGES_AT_ONCE, transfer._AT_ONCE = 16, 50
    if work == "roll-up":
        while roll_up(engine, START + 100 * DAY, wants_to_end):
            pass
    elif work == "back-up":
        backup.back_up(engine, Path(files[0]), tell, overwrite=True)
    else:
        restore(Path(files[0]), engine, tell)
    engine.dispose()


if __name__ == "__main__":
    main()
