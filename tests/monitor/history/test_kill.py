import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import Engine

from monitor.history.postgres import is_postgres
from tests.monitor.history.stored import engine_rows
from tests.monitor.history.writer import INTERVAL, START

ROOT = Path(__file__).parents[3]
WRITER = "tests.monitor.history.writer"
DEATHS = int(os.environ.get("DEATHS", "5"))  # more of them: DEATHS=50


def start(url: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", WRITER, url, str(first), str(last)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], lines: int) -> int:
    """The last index that the process had taken up when it was killed, wherever it was in its work."""
    with process:
        assert process.stdout
        last = [process.stdout.readline() for _ in range(lines)][-1]
        process.send_signal(signal.SIGKILL)
        *_, last = last, *process.stdout
    assert process.returncode == -signal.SIGKILL
    return int(last)


def test_kill_9_in_the_middle_of_writing_loses_and_doubles_nothing(each_database: Engine) -> None:
    url = each_database.url.render_as_string()
    moments = random.Random(2026)
    index = 0
    for _ in range(DEATHS):
        index = 1 + kill_after(start(url, index, 1_000_000), moments.randint(20, 150))
    with start(url, index, index + 40) as process:
        process.communicate()
    assert process.returncode == 0
    last = index + 40
    stored = engine_rows(each_database)
    assert sum(r["generation_tokens"] or 0 for r in stored.values()) == last * (last + 1) / 2
    counts = [h.counts for r in stored.values() for h in r["ttft_histogram"] or []]
    assert [sum(column) for column in zip(*counts, strict=True)] == [last, 3 * last, 4 * last]
    assert list(stored) == list(range(int(START) - 60, int(START + INTERVAL * last), 60)), "no window is missing"
    whole = [start for start, r in stored.items() if r["covered_seconds"] == 60]
    assert len(whole) >= len(stored) - 2 - 2 * DEATHS, "only those around a death are not whole"
    if is_postgres(each_database):
        return
    with each_database.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
