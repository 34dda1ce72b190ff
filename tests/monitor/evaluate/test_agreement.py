"""The same samples judged by Prometheus with the rules, and from the history that was read of that Prometheus."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine

from alerts.budget import State, bad_ratio, certain_ratio
from alerts.burn import duration
from alerts.rules.scope import Scope
from alerts.rules.slo import groups_of
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.status import judged_of, statuses
from monitor.history.database import open_database, sqlite_url
from tests.end_to_end.histories import FOR_EVER, NOTHING
from tests.monitor.evaluate.minutes import HOUR, START, available, kv_below, latency, roll_up_all
from tests.monitor.evaluate.recorded import record
from tests.monitor.evaluate.serving import Serving, Work, written
from tests.monitor.following import followed
from tests.servers.prometheus import Prometheus

MINUTES = 20 * 60
UNTIL = START + MINUTES * 60
SLOS = [
    latency("ttft", 0.5, objective="97%", window="7d"),
    available(objective="97%", window="7d"),
    kv_below(0.9, objective="97%", window="7d"),
]


def steady(minute: int, chance: random.Random) -> Work:
    """More is slow and fails in some hours."""
    slow = 4 + 10 * (minute // 60 % 3)
    return Work(
        {0.05: chance.randrange(60, 90), 0.45: slow, 0.7: slow / 2, 3.0: chance.randrange(4)},
        {"stop": 100, "length": 10, "error": 2 + minute // 200, "abort": 5},
        kv=0.8 + 0.15 * (minute // 30 % 4 == 0),
    )


def queueing(minute: int, chance: random.Random) -> Work:
    return Work({0.05: 20, 2.0: 4}, {"stop": 25, "unknown": 2}, waiting=float(minute % 90 == 30), kv=chance.random())


def at_the_end_of_a_piece(second: int) -> Work | None:
    """Between the last scrape of a piece, which ends half a minute before each fifth minute, and the next."""
    return Work({3.0: 40.0}, {"stop": 5, "error": 40}) if 270 < second % 300 <= 270 + 30 else None


def now_and_then(minute: int, _chance: random.Random) -> Work:
    """Its gauge keeps what it said last while nobody asks for anything."""
    works = float(minute % 50 >= 20)
    return Work({0.05: 4 * works}, {"stop": 4 * works}, kv=0.7 + 0.25 * (minute // 25 % 3 == 1))


SERVERS = [
    Serving("a", "vllm", "steady", steady),
    Serving("b", "sglang", "steady", steady),
    Serving("c", "lmdeploy", "queueing", queueing),
    Serving("d", "vllm", "wild", steady, restarts=(500, 801, 1100), down=range(1120, 1128)),
    Serving("e", "vllm", "wild", steady, up_from=950, down=range(1122, 1131)),
    Serving("f", "vllm", "bursts", steady, first=10, burst=at_the_end_of_a_piece),
    Serving("g", "triton", "sticking", now_and_then),
]


@dataclass
class Both:
    prometheus: Prometheus
    counter: Counter

    def ratios(
        self, slo: Slo, kind: str, seconds: int, model: str, until: int = UNTIL
    ) -> tuple[float | None, float | None]:
        """By PromQL and by SQL."""
        name = f"inferwatch:slo_{kind}_ratio:{duration(seconds)}"
        found = self.prometheus.ask(f'{name}{{slo="{slo.name}",model="{model}"}}', time=str(until))
        counts = self.counter.windows(slo, until, [seconds])[model, "unified"][seconds]
        of = certain_ratio if kind == "certain" else bad_ratio
        return float(found[0]["value"][1]) if found else None, of(judged_of(slo, counts), slo.unknown)


def both(
    folder: Path, database: Engine, servers: Sequence[Serving], slos: Sequence[Slo], minutes: int
) -> Iterator[Both]:
    # What is loaded has no marks that say that a series ended: a sample holds for its own minute alone.
    server = Prometheus(NOTHING, folder, FOR_EVER, "--query.lookback-delta=59s")
    server.load(written(servers, folder / "samples.om", START, minutes))
    until = START + minutes * 60
    with server:
        asyncio.run(followed(server.url, database, until + 700, backfill=minutes * 60 + HOUR))
        groups = [group for slo in slos for group in groups_of(Scope(slo), slo.burn_windows()[0])]
        record(server, folder, groups, START, until)
        yield Both(server, Counter(database))


@pytest.fixture(scope="module")
def of_a_day(empty_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("agreement")
    path = folder / "history.sqlite"
    path.write_bytes(empty_history.read_bytes())
    database = open_database(sqlite_url(path))
    found = both(folder, database, SERVERS, SLOS, MINUTES)
    made = next(found)
    roll_up_all(database)
    yield made
    next(found, None)
    database.dispose()


WINDOWS = {seconds for slo in SLOS for w in slo.burn_windows()[0] for seconds in (w.long, w.short)}
ASKED = [
    (slo, kind, seconds)
    for slo in SLOS
    for seconds in sorted(WINDOWS)
    for kind in (("bad", "certain") if slo.indicator.latency else ("bad",))
    if kind == "bad" or seconds in {n for w in slo.burn_windows()[0] if w.severity == "page" for n in (w.long, w.short)}
]


@pytest.mark.parametrize("model", ["steady", "queueing", "wild", "bursts", "sticking"])
@pytest.mark.parametrize(("slo", "kind", "seconds"), ASKED, ids=lambda value: getattr(value, "name", str(value)))
def test_burns_agree(of_a_day: Both, slo: Slo, kind: str, seconds: int, model: str) -> None:
    told, ours = of_a_day.ratios(slo, kind, seconds, model)
    within = 0.01 if seconds >= HOUR and model != "wild" else 0.1
    assert (told is None) == (ours is None) == (slo.name == "fast" and model == "queueing" and seconds == 300)
    assert told is None or ours == pytest.approx(told, rel=within, abs=1e-9)


def test_twelve_slices_are_weighed_by_their_requests(tmp_path: Path, database: Engine) -> None:
    """Eleven of ten requests without error, and one of ten thousand with five hundred."""

    def work(minute: int, _chance: random.Random) -> Work:
        of_slice = {"stop": 9500.0, "error": 500.0} if minute // 5 == 6 else {"stop": 10.0}
        return Work({}, {reason: many / 5 for reason, many in of_slice.items()})

    slo = available(objective="97%")
    for found in both(tmp_path, database, [Serving("a", "vllm", "m", work)], [slo], 60):
        name = 'inferwatch:slo_bad_ratio:1h{slo="available"}'
        (told,) = found.prometheus.ask(name, time=str(START + HOUR))
        counts = found.counter.windows(slo, START + HOUR, [HOUR])["m", "unified"][HOUR]
        assert (counts.good, counts.bad) == pytest.approx((9610, 500), rel=0.002)
        assert 100 * float(told["value"][1]) == pytest.approx(4.95, abs=0.01)
        assert 100 * (bad_ratio(counts) or 0) == pytest.approx(4.95, abs=0.01)


def test_both_take_the_same_minutes_for_an_outage(tmp_path: Path, database: Engine) -> None:
    """One server is down, and the page of the other is missing now and then; a minute goes up to the scrape at its end.

    It is seen to be down from 40:00 to 44:30, and seen last at 49:30, not down then.
    """

    def work(_minute: int, _chance: random.Random) -> Work:
        return Work({}, {"stop": 10.0})

    servers = [
        Serving("a", "vllm", "m", work, down=range(2, 61)),
        Serving("b", "vllm", "m", work, away=[20, 21, 30, 31, 32, *range(50, 61)], down=range(40, 45)),
    ]
    slo, ends = available(objective="99.9%"), range(START + 60, START + HOUR + 1, 60)
    for found in both(tmp_path, database, servers, [slo], 60):
        name = "sum(inferwatch:slo_outage:minute == 1) or vector(0)"
        told = [found.prometheus.ask(name, time=str(at))[0]["value"][1] == "1" for at in ends]
        counts = [found.counter.windows(slo, at, [60])["m", "unified"][60] for at in ends]
        assert [n for n, is_one in enumerate(told, 1) if is_one] == [41, 42, 43, 44, 55, 56, 57, 58, 59, 60]
        assert [of.minutes_outage == 1 for of in counts] == told
        assert [n for n, of in enumerate(counts, 1) if of.minutes_unknown] == [21, 31, 32, 51, 52, 53, 54]
        assert found.ratios(slo, "bad", HOUR, "m", START + HOUR) == pytest.approx((10 / 60, 10 / 60), rel=0.01)


def test_what_servers_count_that_count_successes_alone_is_unknown_to_both(tmp_path: Path, database: Engine) -> None:
    """Beside another server of the model, and as the only one."""
    failing, well = (lambda _minute, _chance, ends=ends: Work({}, ends) for ends in (
        {"stop": 9.0, "error": 1.0}, {"stop": 90.0, "length": 8.0, "error": 2.0},
    ))  # fmt: skip
    servers = [
        Serving("a", "vllm", "shared", failing),
        Serving("b", "trtllm_serve", "shared", well, version="1.2.1"),
        Serving("c", "trtllm_serve", "alone", well, version="1.2.1"),
        Serving("d", "trtllm_serve", "newer", well, version="1.3.0"),
    ]
    slo = available(objective="97%")
    expected = {"shared": (540, 60, 6000), "alone": (0, 0, 6000), "newer": (5880, 120, 0)}
    for found in both(tmp_path, database, servers, [slo], 60):
        for model, counts in expected.items():
            of = found.counter.windows(slo, START + HOUR, [HOUR])[model, "unified"][HOUR]
            assert (of.good, of.bad, of.unknown) == pytest.approx(counts, rel=0.02)
            total = found.prometheus.ask(f'inferwatch:slo_total:1h{{model="{model}"}}', time=str(START + HOUR))
            assert [float(one["value"][1]) for one in total] == pytest.approx([sum(counts[:2])] if counts[0] else [])
            told, ours = found.ratios(slo, "bad", HOUR, model, START + HOUR)
            assert ours is None if model == "alone" else told == pytest.approx(ours, rel=0.01)
        judged = {s.labels["model"]: s for s in statuses(found.counter, [slo], START + HOUR)}
        assert (judged["alone"].state, judged["alone"].left) == (State.UNKNOWN, None)
