from __future__ import annotations

import logging

import pytest
from sqlalchemy import Engine, update

from exporters.observation import Observation
from monitor.history.lease import SCRAPED, Lease
from monitor.history.orphans import PATIENCE_SECONDS
from monitor.history.recording import Recording
from monitor.history.store import Store
from monitor.history.tables import leases
from tests.monitor.gpu_data import gathered, reading, uuid
from tests.monitor.observations import observation

INTERVAL = 15.0
TOLD = (
    "nobody writes the history of b on node-1: the inferwatch that writes here (first) seems not to read them; "
    "give this one a database of its own, or both the same servers"
)


@pytest.fixture
def monitors(each_database: Engine) -> tuple[Recording, Recording]:
    first, second = (
        Recording(Store(each_database, Lease(each_database, SCRAPED, name)), INTERVAL) for name in ("first", "second")
    )
    return first, second


def read(recording: Recording, at: float, *servers: str) -> None:
    recording.record([_of(server, at) for server in servers], at)


def _of(server: str, at: float) -> Observation:
    return observation(at, server=server, node="node-1")


def both_read(monitors: tuple[Recording, Recording], until: float, *by_second: str, since: float = 0.0) -> None:
    first, second = monitors
    for at in range(int(since) + 15, int(until) + 15, 15):
        read(first, at, "a")
        read(second, at, *by_second)


def test_servers_that_only_the_one_that_stands_by_reads_are_told_loudly(
    monitors: tuple[Recording, Recording], caplog: pytest.LogCaptureFixture
) -> None:
    _, second = monitors
    both_read(monitors, PATIENCE_SECONDS, "a", "b")
    assert (second.orphans, second.orphans_told) == (frozenset(), None), "it may be new, or the other may restart"
    both_read(monitors, PATIENCE_SECONDS + 240, "a", "b", since=PATIENCE_SECONDS)
    assert second.orphans == {("node-1", "b", "")}
    assert second.orphans_told == TOLD
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"history: {TOLD}"], "once"


def test_what_is_not_read_any_more_is_nobodys(monitors: tuple[Recording, Recording]) -> None:
    _, second = monitors
    both_read(monitors, 600, "a", "b")
    for at in range(615, 1020, 15):
        read(second, at, "a")
    assert second.orphans == {("node-1", "a", "")}, "the other has written nothing for minutes"


def test_who_takes_over_writes_them(monitors: tuple[Recording, Recording], each_database: Engine) -> None:
    _, second = monitors
    both_read(monitors, 600, "a", "b")
    with each_database.begin() as connection:
        connection.execute(update(leases).values(until=0))
    second.attend()
    assert (second.orphans, second.orphans_told) == (frozenset(), None)


def test_gpus_that_nobody_writes_are_named_by_their_uuid(monitors: tuple[Recording, Recording]) -> None:
    first, second = monitors
    for at in range(15, 615, 15):
        for recording, number in ((first, "0"), (second, "1")):
            recording.record([], at, gathered(at, reading(number), node="n1").gpus)
    assert second.orphans_told is not None
    assert second.orphans_told.startswith(f"nobody writes the history of {uuid('1')} on n1: ")


def test_of_many_the_first_are_named(monitors: tuple[Recording, Recording]) -> None:
    _, second = monitors
    both_read(monitors, 600, *(f"s{n}" for n in range(8)))
    assert second.orphans_told is not None
    assert "s3 on node-1, s4 on node-1 and 3 more: the inferwatch" in second.orphans_told
