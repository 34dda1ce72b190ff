"""A night and a day of the fleet that `inferwatch up --demo` shows, every face of it, with all that it is usually
asked: it is well, and so gets no advice, over whichever window.

A whole day would take half an hour of work. Four parts of it are lived for twenty minutes each, in the night, in the
morning, at noon and in the evening, and what was lived then stands for the six hours around it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alerts.slo.published import DEFAULT
from alerts.slo.spec import read as slos_of
from demo.standard import SPECS, standard
from inferwatch.sidecars import record_past
from monitor.advise.findings import advise
from monitor.advise.reading import read
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url
from tests.end_to_end.advised_days import HOUR, Copy, copy

MINUTE = 60
START = 1_796_083_200
"""2026-12-01 00:00 UTC."""
PARTS = {2: "night", 8: "morning", 14: "afternoon", 20: "evening"}
"""By the hour (UTC) from which on they were lived. At 14 most services have most to do."""
LIVED, SETTLED, EACH = 20 * MINUTE, 5 * MINUTE, 6 * HOUR
"""Seconds of a part; of its beginning, while servers are not as busy as they will be; for how long it stands."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    url = sqlite_url(tmp_path_factory.mktemp("day") / "history.sqlite")
    for hour in PARTS:
        begin = START + hour * HOUR
        record_past(standard(seed=7, start=begin), url, begin + LIVED, MINUTE)
    database = open_database(url)
    copy(database, [each for hour in PARTS for each in _copies(START + hour * HOUR)])
    yield History(database)
    database.dispose()


def _copies(begin: int) -> Iterator[Copy]:
    since, until, end = begin + SETTLED, begin + LIVED, begin + EACH
    yield from (Copy(since, min(until, since + end - to), to) for to in range(until, end, until - since))


@pytest.mark.parametrize(
    "window",
    [
        *(pytest.param((hour, hour + 1), id=f"an hour of the {name}") for hour, name in PARTS.items()),
        *(pytest.param((hour - 6, hour), id=f"six hours before {hour}:00") for hour in (8, 14, 20)),
        pytest.param((5, 17), id="twelve hours from night to day"),
        pytest.param((2, 26), id="a night and a day"),
    ],
)
def test_a_fleet_that_is_well_gets_no_advice(history: History, window: tuple[int, int]) -> None:
    since, until = (START + hour * HOUR for hour in window)
    world = read(history, since, until, slos_of(DEFAULT).slos)
    assert [(finding.name, finding.target.name, finding.why) for finding in advise(world).findings] == []
    assert {server.name for server in world.servers} == {spec.name for spec in SPECS}
