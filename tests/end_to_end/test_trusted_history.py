"""What a real Prometheus holds comes out as worked out by hand, whoever reads it and when."""

from __future__ import annotations

import asyncio
import math
import random
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tests.end_to_end.compared import differences, rolled_up
from tests.end_to_end.histories import BACKFILL, SETTLED, history, in_file, read_late, roll_up_all, tables
from tests.end_to_end.merged_by_hand import rolled_up as added_up
from tests.end_to_end.worlds import HOURS, World
from tests.monitor.following import followed
from tests.servers.prometheus import Prometheus
from tests.servers.victoria_metrics import VictoriaMetrics

_ROUNDED = ("_ratio_avg", "_ratio_max")


def test_rows_are_those_that_the_definition_gives(undisturbed: Engine, seen: World) -> None:
    mine = seen.by_hand
    assert differences(undisturbed, mine, seen.until) == []
    assert {"restart", "version", "state", "driver"} <= {event[2] for event in mine.events}
    assert len(mine.engines) > 100 * HOURS
    assert len(mine.gpus) == 2 * 60 * HOURS


def test_hours_and_days_are_what_their_minutes_add_up_to(undisturbed: Engine, seen: World) -> None:
    mine = seen.by_hand
    minutes = {"target": mine.targets, "engine": mine.engines, "gpu": mine.gpus}
    for tier, seconds in (("hour", 3600), ("day", 86_400)):
        for kind, of_minutes in minutes.items():
            merged = added_up(of_minutes, seconds)
            assert rolled_up(undisturbed, f"{kind}_{tier}", merged, seen.until) == []


async def test_a_monitor_that_was_there_all_along_has_the_rows_of_one_that_came_late(
    undisturbed: Engine, seen: World, prometheus: Prometheus, tmp_path: Path
) -> None:
    """It looked at odd moments: in the middle of minutes, and not for a while."""
    chance = random.Random(4)
    moments = sorted(seen.start + chance.uniform(0, HOURS * 3600) for _ in range(3 * HOURS))
    with history(in_file(tmp_path)) as database:
        await followed(prometheus.url, database, *moments, seen.until + SETTLED, backfill=BACKFILL)
        roll_up_all(database, seen)
        assert tables(database, seen) == tables(undisturbed, seen)


def test_both_databases_hold_the_same(undisturbed: Engine, undisturbed_postgres: Engine, seen: World) -> None:
    assert tables(undisturbed_postgres, seen) == tables(undisturbed, seen)


async def test_two_monitors_at_once_do_no_harm(
    undisturbed: Engine, seen: World, prometheus: Prometheus, new_url: str
) -> None:
    async def follow(database: Engine, *moments: float) -> None:
        await followed(prometheus.url, database, *moments, seen.until + SETTLED, backfill=BACKFILL)

    with history(new_url) as one, history(new_url) as other:
        await asyncio.gather(follow(one), follow(other, seen.start + 3000.0, seen.until - 1200.0))
        roll_up_all(one, seen)
        assert tables(one, seen) == tables(undisturbed, seen)


async def test_victoria_metrics_gives_the_same_but_for_digits_beyond_the_twelfth(
    undisturbed: Engine, seen: World, openmetrics: Path, tmp_path: Path
) -> None:
    with VictoriaMetrics("", tmp_path) as victoria, history(in_file(tmp_path)) as database:
        victoria.load(openmetrics)
        await read_late(victoria.url, database, seen)
        theirs, ours = tables(database, seen), tables(undisturbed, seen)
    assert theirs["series"] == ours["series"]
    assert theirs["events"] == ours["events"]
    for name in ours.keys() - {"series", "events"}:
        assert _others(theirs[name], ours[name]) == []


def _others(theirs: dict[Any, Any], ours: dict[Any, Any]) -> list[Any]:
    assert theirs.keys() == ours.keys()
    return [
        (key, name, theirs[key][name], value)
        for key, row in ours.items()
        for name, value in row.items()
        if not _is_alike(name, theirs[key][name], value)
    ]


def _is_alike(name: str, theirs: Any, ours: Any) -> bool:
    """Counts and times are the same; what has more than twelve digits may differ in those."""
    if theirs == ours or theirs is None or ours is None:
        return bool(theirs == ours)
    if name.endswith("_histogram"):
        counts = [[(h.bounds, h.counts) for h in of] for of in (theirs, ours)]
        sums = zip((h.sum for h in theirs), (h.sum for h in ours), strict=True)
        return counts[0] == counts[1] and all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6) for a, b in sums)
    return name.endswith(_ROUNDED) and math.isclose(theirs, ours, rel_tol=1e-11)
