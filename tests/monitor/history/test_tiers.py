"""What is asked of hours and days is what their minutes say."""

import math
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from exporters.observation import labels
from exporters.schema import E2E, TTFT
from monitor.history.ask import Answer, History
from monitor.history.minutes import Mean, Minute, Window
from monitor.history.question import InvalidParameter, UnknownLabel, question
from monitor.history.retention import Retention, forget
from monitor.history.store import Store
from monitor.history.tables import Tier
from monitor.history.upsert import Progress
from tests.monitor.history import mixed_fleet
from tests.monitor.history.fleet import DAY, HOUR, START, engine, engine_minute, server_minute, write
from tests.monitor.history.mixed_fleet import roll_up_all

RUNNING, TOKENS = "llm_requests_running", "llm_generation_tokens_total"
LONG_AFTER = START + 10 * DAY


def minutes(since: int, until: int) -> Iterator[int]:
    return iter(range(since, until, 60))


def values(answers: list[Answer]) -> list[Any]:
    return [(p.start - START, p.seconds, p.value) for answer in answers for p in answer.points]


def tiers(history: History, metric: str, since: float, until: float, step: float) -> list[tuple[Tier, ...]]:
    return [p.tiers for p in history.tell(question(metric, None, since, until, step, (), {}, None)).parts]


QUESTIONS = [
    (RUNNING, None, ["framework"], None),
    (RUNNING, None, [], "max"),
    ("llm_kv_cache_utilization_ratio", None, ["team"], None),
    ("llm_prefix_cache_hit_ratio", None, ["gpu"], None),
    (TOKENS, None, ["version"], "rate"),
    ("llm_requests_finished_total", None, ["reason"], "sum"),
    ("llm_requests_rejected_total", None, ["reason"], "rate"),
    ("llm_up", None, ["team"], None),
    ("gpu_temperature_celsius", None, ["name", "sensor"], None),
    ("gpu_xid_errors_total", None, ["xid"], "sum"),
    (TTFT.metric, 0.99, ["framework"], None),
    (E2E.metric, 0.5, [], None),
]


@pytest.mark.parametrize("step", [HOUR, 90 * 60, DAY])
def test_answers_are_the_same_whichever_rows_are_read(database: Engine, history: History, step: int) -> None:
    mixed_fleet.write(database, list(mixed_fleet.windows(random.Random(1), steady=True)))
    asked = [
        question(metric, q, START, mixed_fleet.UNTIL - 1000, step, by, {}, how) for metric, q, by, how in QUESTIONS
    ]
    before = [history.tell(each) for each in asked]
    roll_up_all(database)
    for was, now in zip(before, (history.tell(each) for each in asked), strict=True):
        assert was.parts[0].tiers == (Tier.MINUTE,)
        assert Tier.HOUR in now.parts[0].tiers
        assert (Tier.DAY in now.parts[0].tiers) == (step == DAY)
        assert len(was.answers) == len(now.answers) > 0
        for a, b in zip(was.answers, now.answers, strict=True):
            assert (a.labels, len(a.points)) == (b.labels, len(b.points))
            for p, r in zip(a.points, b.points, strict=True):
                assert (r.value, r.covered_seconds) == pytest.approx((p.value, p.covered_seconds), rel=1e-12)
                assert (r.lower, r.upper, r.series) == (p.lower, p.upper, p.series)


def replaced(since: int, until: int, server: str) -> Iterable[Window]:
    """A server that lived from `since` to `until`, with 10 requests running and 100 tokens/s."""
    for start in minutes(since, until):
        row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0, first_seen=start, last_seen=start + 60)
        row.gauges = {(RUNNING, ""): Mean(40.0, 4, 10.0)}
        row.counters = {(TOKENS, ""): 6000.0}
        yield Window(start, {engine(server=server): row})


@pytest.mark.parametrize("rolled_up", [False, True])
@pytest.mark.parametrize("overlap", [0, 120])
def test_a_server_that_took_the_place_of_another_is_not_added_to_it(
    database: Engine, history: History, store: Store, rolled_up: bool, overlap: int
) -> None:
    half = START + 30 * 60
    write(store, replaced(START, half, "old"))
    write(store, replaced(half - overlap, START + HOUR, "new"))
    if rolled_up:
        roll_up_all(database, LONG_AFTER)
    assert tiers(history, RUNNING, START, START + HOUR, HOUR) == [(Tier.HOUR if rolled_up else Tier.MINUTE,)]
    both = 10 * overlap / HOUR
    assert values(history.ask(RUNNING, None, START, START + HOUR, HOUR)) == [(0, HOUR, pytest.approx(10 + both))]
    assert values(history.ask(TOKENS, None, START, START + HOUR, HOUR)) == [(0, HOUR, pytest.approx(100 + 10 * both))]


@pytest.mark.parametrize("rolled_up", [False, True])
def test_a_counter_that_comes_later_stood_still_before(
    database: Engine, history: History, store: Store, rolled_up: bool
) -> None:
    reason = "llm_requests_rejected_total"
    for start in minutes(START, START + HOUR):
        row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0)
        row.counters = {(reason, "early"): 6.0} | ({(reason, "late"): 60.0} if start >= START + HOUR // 2 else {})
        write(store, [Window(start, {engine(): row})])
    if rolled_up:
        roll_up_all(database, LONG_AFTER)
    assert tiers(history, reason, START, START + HOUR, HOUR) == [(Tier.HOUR if rolled_up else Tier.MINUTE,)]
    told = history.ask(reason, None, START, START + HOUR, HOUR, ["reason"])
    assert {a.labels["reason"]: a.points[0].value for a in told} == {
        "early": pytest.approx(0.1),
        "late": pytest.approx(0.5),
    }
    if not rolled_up:
        first, _ = history.ask(reason, None, START, START + HOUR, 60, ["reason"])
        late = history.ask(reason, None, START, START + HOUR, 60, where={"reason": "late"})[0].points
        assert (len(first.points), len(late), late[0].start) == (60, 30, START + HOUR // 2)


def test_a_server_that_was_there_for_half_the_time_counts_half(history: History, store: Store) -> None:
    write(store, replaced(START, START + HOUR, "a"))
    write(store, replaced(START, START + HOUR // 2, "b"))
    assert values(history.ask(RUNNING, None, START, START + HOUR, HOUR)) == [(0, HOUR, pytest.approx(15))]


def test_increases_that_took_longer_than_their_minute_do_not_lower_the_rate_of_a_fleet(
    history: History, store: Store
) -> None:
    """Each server misses the last reading of another minute, so that its increase moves to the next."""
    for n in range(8):
        for start in minutes(START, START + HOUR):
            seconds = {0: 45.0, 1: 75.0}.get((start - START) // 60 % 8 - n, 60.0)
            row = Minute(samples=4, covered_seconds=60.0, increase_seconds=seconds)
            row.counters = {(TOKENS, ""): 100 * seconds}
            write(store, [Window(start, {engine(server=f"s{n}"): row})])
    assert values(history.ask(TOKENS, None, START, START + HOUR, HOUR)) == [(0, HOUR, pytest.approx(800, rel=0.005))]


def test_a_minute_that_comes_late_shows_at_once(database: Engine, history: History, store: Store) -> None:
    write(store, (server_minute(start) for start in minutes(START, START + 2 * HOUR)))
    roll_up_all(database, LONG_AFTER)

    def hours() -> list[Any]:
        return values(history.ask(TOKENS, None, START, START + 2 * HOUR, HOUR, aggregation="sum"))

    assert hours() == [(0, HOUR, 18_000), (HOUR, HOUR, 18_000)]
    write(store, [server_minute(START + 60, tokens=1100.0)])
    assert hours() == [(0, HOUR, 21_000), (HOUR, HOUR, 18_000)]
    assert tiers(history, TOKENS, START, START + 2 * HOUR, HOUR) == [(Tier.MINUTE, Tier.HOUR)]


def test_where_minutes_are_deleted_points_are_as_long_as_what_is_left(
    database: Engine, history: History, store: Store
) -> None:
    write(store, (server_minute(start) for day in (0, DAY) for start in minutes(START + day, START + day + HOUR)))
    roll_up_all(database, LONG_AFTER)
    forget(database, Retention(minutes=DAY, hours=math.inf, days=math.inf), START + 2 * DAY + HOUR)
    asked = question(TOKENS, None, START + 600, START + DAY + 120, 60, (), {}, "sum")
    told = history.tell(asked)
    assert [(p.since - START, p.until - START, p.step, p.tiers) for p in told.parts] == [
        (0, DAY, HOUR, (Tier.HOUR,)),
        (DAY, DAY + 120, 60, (Tier.MINUTE,)),
    ]
    assert values(told.answers) == [(0, HOUR, 18_000), (DAY, 60, 300), (DAY + 60, 60, 300)]


def test_pieces_of_an_answer_are_together_the_answer(
    database: Engine, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed_fleet.write(database, list(mixed_fleet.windows(random.Random(2))))
    roll_up_all(database)
    asked = question(TTFT.metric, 0.9, START, mixed_fleet.UNTIL, 1200, ["server"], {}, None)
    whole = history.answer(asked)
    monkeypatch.setattr("monitor.history.ask._AT_ONCE", 300)
    pieces = list(history.pieces(asked))
    assert len(pieces) > 5
    for answer in whole:
        assert [p for piece in pieces for a in piece if a.labels == answer.labels for p in a.points] == answer.points


def test_gpus_are_grouped_by_what_they_are_and_servers_by_what_they_run_on(database: Engine, history: History) -> None:
    mixed_fleet.write(database, list(mixed_fleet.windows(random.Random(3)))[:60])

    def groups(metric: str, *names: str) -> list[dict[str, str]]:
        return [a.labels for a in history.ask(metric, None, START, START + DAY, DAY, names)]

    assert groups("gpu_power_watts", "name") == [{"name": "H100"}, {"name": "h200"}]
    assert groups("gpu_power_watts", "uuid", "gpu") == [{"uuid": "GPU-B", "gpu": "1"}, {"uuid": "GPU-a", "gpu": "0"}]
    assert groups(RUNNING, "gpu") == [{"gpu": "NVIDIA H100"}, {"gpu": "nvidia h200"}]
    [only] = history.ask(RUNNING, None, START, START + DAY, DAY, ["server"], {"version": "1.1"})
    assert only.labels == {"server": "B:1"}
    with pytest.raises(UnknownLabel, match=r"gpu_power_watts has no label 'framework'"):
        groups("gpu_power_watts", "framework")


def test_too_many_points_in_all_are_refused_with_the_step_that_would_do(history: History, store: Store) -> None:
    engines = {engine(n): engine_minute() for n in range(30)}
    write(store, [Window(START, {identity: row}) for identity, row in engines.items()])
    with pytest.raises(InvalidParameter, match="60 with 30 groups makes more than 200000 points") as caught:
        history.ask(RUNNING, None, START, START + 7 * DAY, 60, ["engine"])
    assert caught.value.allowed == ("120 or more",)


def test_a_server_whose_life_is_not_known_counts_for_the_whole_window(
    database: Engine, history: History, store: Store
) -> None:
    row = Minute(samples=4, covered_seconds=30.0, increase_seconds=30.0)
    row.counters = {(TOKENS, ""): 300.0}
    other = labels({**dict(engine(server="b"))})
    store.write_windows([Window(START, {engine(): row}), Window(START, {other: row})], [], Progress("test", 0, 0))
    assert values(history.ask(TOKENS, None, START, START + 60, 60)) == [(0, 60, pytest.approx(20))]
