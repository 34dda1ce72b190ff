import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, event

from alerts.budget import Counts, bad_ratio
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.history.minutes import Event, Minute, Window
from monitor.history.retention import Retention, forget
from tests.monitor.evaluate.minutes import (
    DAY,
    HOUR,
    START,
    available,
    engine,
    kv_below,
    latency,
    minute,
    roll_up_all,
    target,
    up,
    write,
)

UNIFIED = ("m", "unified")
KV = "llm_kv_cache_utilization_ratio"


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def counted(database: Engine, slo: Slo, until: int, length: int) -> dict[tuple[str, ...], Counts]:
    return {group: found[length] for group, found in Counter(database).windows(slo, until, [length]).items()}


def test_requests_are_interpolated_as_on_the_grid_and_certainly_bad_beyond_their_own_next_bound(
    database: Engine,
) -> None:
    # 8 requests between 0.25 and 1 s: 2/3 of them are taken to be within 0.75 s; 3 lie above 1 s for certain.
    write(database, [Window(START, {target("a"): up(), engine("a"): minute(counts={"ttft": (4, 8, 2, 1)})})])
    found = counted(database, latency("ttft", 0.75), START + 60, 60)[UNIFIED]
    assert (found.good, found.bad) == pytest.approx((4 + 8 * (0.75 - 0.25) / 0.75, 11 - 8 * (0.75 - 0.25) / 0.75))
    assert found.certainly_bad == 3
    assert (found.minutes, found.minutes_unknown, found.minutes_outage) == (1, 0, 0)


def test_beyond_the_largest_own_bound_nothing_is_certainly_bad(database: Engine) -> None:
    write(database, [Window(START, {target("a"): up(), engine("a"): minute(counts={"e2e": (0, 0, 2, 7)})})])
    found = counted(database, latency("e2e", 10), START + 60, 60)[UNIFIED]
    assert (found.good, found.bad, found.certainly_bad) == (9, 0, 0)


def test_a_bound_too_far_above_the_threshold_or_off_the_grid_makes_nothing_certain(database: Engine) -> None:
    rows = {target("a"): up(), target("b"): up(), target("c"): up()}
    for name, bounds in (("a", (0.01, 10.0)), ("b", (0.01, 0.1234)), ("c", (0.01, 0.1234, 0.5))):
        rows[engine(name)] = minute(counts={"itl": [1] * (len(bounds) + 1)}, bounds=bounds)
    write(database, [Window(START, rows)])
    found = counted(database, latency("itl", 0.1), START + 60, 60)[UNIFIED]
    assert found.certainly_bad == 1


def test_servers_with_other_bounds_count_by_their_own(database: Engine) -> None:
    rows = {
        target("a"): up(),
        engine("a"): minute(counts={"ttft": (1, 1, 1, 1)}),
        target("b"): up(),
        engine("b", "sglang"): minute(counts={"ttft": (10, 20)}, bounds=(1.0,)),
    }
    write(database, [Window(START, rows)])
    found = counted(database, latency("ttft", 1), START + 60, 60)[UNIFIED]
    assert (found.good, found.bad, found.certainly_bad) == (12, 22, 22)


def test_prefill_and_decode_are_never_added(database: Engine) -> None:
    rows: dict[Any, Minute] = {}
    for role in ("prefill", "decode"):
        rows |= {target(role): up(), engine(role, role=role): minute(counts={"ttft": (5, 0, 0, 0)})}
    write(database, [Window(START, rows)])
    found = counted(database, latency("ttft", 1), START + 60, 60)
    assert {group: counts.good for group, counts in found.items()} == {("m", "prefill"): 5, ("m", "decode"): 5}


def test_requests_of_lmdeploy_are_unknown_while_others_wait_before_its_clock(database: Engine) -> None:
    def row(waiting: float) -> dict[Any, Minute]:
        more = minute(counts={"ttft": (10, 0, 0, 0)}, gauges={"llm_requests_waiting_api": waiting})
        return {target("a"): up(), engine("a", "lmdeploy"): more}

    # One minute of twelve: its slice of five minutes is not known.
    write(database, [Window(START + 60 * n, row(2.0 if n == 7 else 0.0)) for n in range(12)])
    found = counted(database, latency("ttft", 1), START + 720, 720)[UNIFIED]
    assert (found.good, found.bad, found.unknown) == (70, 0, 50)


def test_an_abort_is_on_neither_side_and_what_vanishes_is_unknown(database: Engine) -> None:
    ends = {"stop": 50, "length": 40, "error": 3, "abort": 1000, "unknown": 2}
    for n, unfinished in enumerate((5.0, 9.0, 9.0)):
        row = minute(finished=ends, rejected=4, gauges={"llm_requests_unfinished": unfinished})
        write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): row})])
    found = counted(database, available(), START + 180, 120)[UNIFIED]
    assert (found.good, found.bad, found.certainly_bad) == (180, 14, 14)
    assert found.unknown == 2 * 2 + (9 - 5)


def test_a_restart_finishes_nothing_that_was_unfinished(database: Engine) -> None:
    values = [20.0] * 30 + [0.0] * 90
    windows = [
        Window(
            START + 60 * n,
            {target("a"): up(), engine("a"): minute(finished={"stop": 1}, gauges={"llm_requests_unfinished": value})},
        )
        for n, value in enumerate(values)
    ]
    write(database, windows, [Event(target("a"), START + 30 * 60 + 5, "restart")])
    roll_up_all(database)
    assert counted(database, available(), START + 2 * HOUR, 2 * HOUR)[UNIFIED].unknown == 0


def test_a_minute_in_which_no_server_of_the_model_is_up_is_an_outage(database: Engine) -> None:
    windows = []
    for n in range(10):
        rows: dict[Any, Minute] = {target("a"): up(n < 4), target("b"): up(n < 7)}
        rows |= {engine(name): minute(finished={"stop": 10}) for name in ("a", "b") if n < (4 if name == "a" else 7)}
        windows.append(Window(START + 60 * n, rows))
    write(database, windows)
    found = counted(database, available(), START + 600, 600)[UNIFIED]
    assert (found.minutes_outage, found.minutes, found.minutes_unknown) == (3, 10, 0)
    assert bad_ratio(found) == pytest.approx(0.3)


def seen(**servers: str) -> list[Window]:
    """A character for each minute: up (`+`), down (`-`) or not seen (`.`). A server's first letter is its model."""
    windows = []
    for n, states in enumerate(zip(*servers.values(), strict=True)):
        rows: dict[Any, Minute] = {}
        for name, state in zip(servers, states, strict=True):
            rows |= {} if state == "." else {target(name): up(state == "+", seen=START + 60 * n)}
            rows |= {engine(name, model=name[0]): minute(finished={"stop": 10})} if state == "+" else {}
        windows.append(Window(START + 60 * n, rows))
    return windows


def test_a_server_that_was_up_when_it_was_seen_last_is_not_known_to_be_down_for_four_more_minutes(
    database: Engine,
) -> None:
    pairs = [
        ("++--------", "++++++.+++", 0, 1),  # one page of the only server that is up is missed
        ("++--------", "++++......", 2, 4),  # seen up in minute 3, so that minutes 4 to 7 are not known
        ("++--------", "++++-.....", 6, 0),  # down when it was seen last
        ("++--------", "++++..-...", 4, 2),
        ("++--------", "++++..+...", 0, 5),
        ("++++++++++", "++++......", 0, 0),  # another is up
        ("++++......", "++++......", 0, 6),  # nothing is seen at all
        ("++..----..", "++++...---", 3, 3),
    ]
    of_models = zip("abcdefgh", pairs, strict=True)
    write(database, seen(**{f"{m}{n}": each for m, (a, b, *_) in of_models for n, each in enumerate((a, b))}))
    found = counted(database, available(), START + 600, 600)
    told = [(counts.minutes_outage, counts.minutes_unknown) for _, counts in sorted(found.items())]
    assert told == [(outage, unknown) for _, _, outage, unknown in pairs]


def test_what_was_seen_shortly_before_a_window_tells_of_its_first_minutes(database: Engine) -> None:
    """Of a server whose hour before is not read, or read as a whole: minutes 120 to 123 are not known."""
    write(database, seen(m0="++" + "-" * 178, m1="+" * 120 + "." * 60))
    expected = {60: (0, 1), 300: (1, 4), 600: (6, 4), HOUR: (56, 4), HOUR + 300: (56, 4), 3 * HOUR: (56, 4)}
    for roll in (False, True):
        if roll:
            roll_up_all(database)
        remembering = Counter(database)
        for length, minutes in expected.items():
            until = START + 2 * HOUR + min(length, HOUR)
            for counter in (remembering, Counter(database)):
                found = counter.windows(available(), until, [length])[UNIFIED][length]
                assert (found.minutes_outage, found.minutes_unknown) == minutes, (roll, length)


def test_of_hours_whose_minutes_are_gone_the_best_server_tells_how_long_an_outage_was(database: Engine) -> None:
    """Nobody was up in 15 of the first hour's minutes; `b` was, in all of the second's in which it was seen."""
    write(database, seen(m0="++" + "-" * 118, m1="+" * 45 + "-" * 15 + "+" * 30 + "." + "+" * 29))
    roll_up_all(database)
    for minutes_are_there in (True, False):
        if not minutes_are_there:
            forget(database, Retention(minutes=DAY), START + 3 * DAY)
        found = counted(database, available(), START + 2 * HOUR, 2 * HOUR)[UNIFIED]
        assert (found.minutes_outage, found.minutes_unknown) == (15, 1 if minutes_are_there else 0)


def test_servers_that_nobody_watches_are_unknown_and_no_outage(database: Engine) -> None:
    watched = [n for n in range(10) if n not in (3, 4)]
    rows = {target("a"): up(), engine("a"): minute(finished={"stop": 10})}
    write(database, [Window(START + 60 * n, dict(rows)) for n in watched])
    found = counted(database, available(), START + 600, 600)[UNIFIED]
    assert (found.minutes_outage, found.minutes, found.minutes_unknown) == (0, 10, 2)


def test_a_server_that_is_down_from_the_beginning_is_one_of_the_model_it_served_last(database: Engine) -> None:
    rows = {target("a"): up(), engine("a"): minute(finished={"stop": 10})}
    write(database, [Window(START, rows)])
    later = START + 3 * HOUR
    write(database, [Window(later + 60 * n, {target("a"): up(0)}) for n in range(5)])
    assert counted(database, available(), later + 300, 300)[UNIFIED].minutes_outage == 5


def test_maintenance_counts_nothing_and_is_told(database: Engine) -> None:
    between = [datetime.fromtimestamp(START + HOUR + at, UTC).isoformat() for at in (600, 1800)]
    planned = [{"start": between[0], "end": between[1], "note": "new driver"}]
    windows = []
    for n in range(120):
        is_out = 60 + 10 <= n < 60 + 30
        rows: dict[Any, Minute] = {target("a"): up(not is_out)}
        if not is_out:
            rows[engine("a")] = minute(finished={"stop": 1})
        windows.append(Window(START + 60 * n, rows))
    write(database, windows)
    for roll in (False, True):
        if roll:
            roll_up_all(database)
        found = counted(database, available(maintenance=planned), START + 2 * HOUR, 2 * HOUR)[UNIFIED]
        assert (found.good, found.minutes, found.minutes_excluded) == (100, 100, 20)
        assert (found.minutes_outage, found.minutes_unknown) == (0, 0)


def test_a_slice_is_judged_by_its_fullest_engine(database: Engine) -> None:
    windows = []
    values: list[tuple[float | Sequence[float], float]] = [(0.5, 0.96), (0.5, 0.5), ((0.9, 0.9, 0.9, 0.99), 0.1)]
    for n, (a, b) in enumerate(values):
        rows = {target("a"): up(), target("b"): up()}
        rows[engine("a")] = minute(gauges={KV: a})
        rows[engine("b")] = minute(gauges={KV: b})
        windows.append(Window(START + 60 * n, rows))
    write(database, windows)
    found = counted(database, kv_below(0.95), START + 180, 180)[UNIFIED]
    assert (found.good, found.bad, found.certainly_bad) == (2, 1, 1)
    least = counted(database, kv_below(0.4, across="min"), START + 180, 180)[UNIFIED]
    assert (least.good, least.bad) == (1, 2)


def sticking(minutes: int, works: Callable[[int], bool], frontend: str = "triton", full: float = 0.99) -> list[Window]:
    """A server of two engines, one of which counts for both."""
    of = engine("a", "tensorrt_llm"), engine("a", "tensorrt_llm", number=1)
    windows = []
    for n in range(minutes):
        gauges, counts = minute(gauges={KV: full}), minute(finished={"stop": float(works(n)), "error": 0.0})
        gauges.info = counts.info = {"version": "1", "frontend": frontend}
        windows.append(Window(START + 60 * n, {target("a"): up(), of[0]: counts, of[1]: gauges}))
    return windows


def test_a_gauge_that_sticks_when_its_server_is_idle_is_judged_where_it_works(database: Engine) -> None:
    write(database, sticking(180, lambda n: 10 <= n < 20 or n == 33))
    for _ in range(2):
        found = counted(database, kv_below(0.95), START + 3 * HOUR, 3 * HOUR)[UNIFIED]
        assert (found.good, found.bad, found.unknown, found.minutes, found.minutes_unknown) == (0, 11, 0, 180, 0)
        least = counted(database, kv_below(0.999), START + 3 * HOUR, 3 * HOUR)[UNIFIED]
        assert (least.good, least.bad, least.unknown) == (11, 0, 0)
        roll_up_all(database)


def test_the_minutes_of_a_gauge_that_does_not_stick_count_whether_its_server_works_or_not(database: Engine) -> None:
    write(database, sticking(60, lambda n: n < 10, frontend="nim"))
    assert counted(database, kv_below(0.95), START + HOUR, HOUR)[UNIFIED].bad == 60


def test_of_hours_whose_minutes_are_gone_a_gauge_that_sticks_tells_where_nothing_was_done(database: Engine) -> None:
    write(database, sticking(120, lambda n: n < 10, full=0.5))
    roll_up_all(database)
    forget(database, Retention(minutes=DAY), START + 3 * DAY)
    found = counted(database, kv_below(0.95), START + 2 * HOUR, 2 * HOUR)[UNIFIED]
    assert (found.good, found.bad, found.unknown) == (0, 0, 60)


def test_selected_servers_alone_count_in_groups_by_label(database: Engine) -> None:
    rows = {}
    for name, framework, team in (("a", "vllm", "x"), ("b", "sglang", "x"), ("c", "vllm", "y")):
        rows[target(name, team=team)] = up()
        rows[tuple(sorted((*engine(name, framework), ("team", team))))] = minute(counts={"ttft": (1, 0, 0, 0)})
    write(database, [Window(START, rows)])
    by_team = latency("ttft", 1, group_by=["team"], select={"framework": "vllm"})
    found = counted(database, by_team, START + 60, 60)
    assert {group: counts.good for group, counts in found.items()} == {("x", "unified"): 1, ("y", "unified"): 1}


def busy_day(chance: random.Random) -> Iterator[Window]:
    """A day of servers that queue, restart, go down one by one and together, with gaps."""
    down = {name: {h * 60 + m for h in chance.sample(range(24), 3) for m in range(10, 35)} for name in "abc"}
    for n in range(24 * 60):
        rows: dict[Any, Minute] = {}
        for name, framework in (("a", "vllm"), ("b", "sglang"), ("c", "lmdeploy")):
            if chance.random() < 0.02:
                continue
            is_down = n in down[name] or 600 <= n < 607
            rows[target(name)] = up(not is_down, seen=START + 60 * n)
            if not is_down:
                rows[engine(name, framework)] = busy(chance, n)
        yield Window(START + 60 * n, rows)


def busy(chance: random.Random, n: int) -> Minute:
    return minute(
        counts={"ttft": [chance.randrange(20) for _ in range(4)]},
        finished={reason: chance.randrange(9) for reason in ("stop", "error", "unknown")},
        rejected=chance.randrange(3),
        gauges={
            "llm_requests_waiting_api": float(n // 60 % 5 == 0 and chance.random() < 0.05),
            KV: 0.5 + 0.49 * (n // 60 % 3) / 2 * chance.random(),
        },
    )


SLOS = [
    latency("ttft", 0.75),
    available(),
    kv_below(0.9),
    kv_below(0.2, way="above"),
    available(maintenance=[{"start": "2026-12-01T02:10:30Z", "end": "2026-12-01T05:00:00Z"}]),
]


def test_hours_come_to_the_same_as_their_minutes(database: Engine) -> None:
    write(database, busy_day(random.Random(7)))
    until, lengths = START + DAY - 1620, [300, HOUR, 6 * HOUR, 22 * HOUR + 420]
    by_minutes = [Counter(database).windows(slo, until, lengths) for slo in SLOS]
    roll_up_all(database)
    for slo, expected in zip(SLOS, by_minutes, strict=True):
        found = Counter(database).windows(slo, until, lengths)
        for length in lengths:
            told, by_minute = (astuple(each[UNIFIED][length]) for each in (found, expected))
            assert told == pytest.approx(by_minute), (slo.name, length)
            assert by_minute[0] > 0


def test_objectives_together_count_what_each_counts_and_read_their_rows_once(database: Engine) -> None:
    write(database, busy_day(random.Random(9)))
    roll_up_all(database)
    slos, until = [latency("ttft", below) for below in (0.25, 0.75, 2.5)], START + DAY - 1620
    reads = list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        reads.append(statement)

    event.listen(database, "before_cursor_execute", note)
    apart = [Counter(database).windows(slo, until, [HOUR, DAY]) for slo in slos]
    of_one, counter = len([text for text in reads if "_histogram" in text]) / len(slos), Counter(database)
    reads.clear()
    with counter.together():
        assert [counter.windows(slo, until, [HOUR, DAY]) for slo in slos] == apart
        assert len([text for text in reads if "_histogram" in text]) == of_one > 0
        blurs = [counter.blurred(slo, until) for slo in slos]
    assert len([text for text in reads if "FROM series" in " ".join(text.split())]) == 1
    assert blurs == [Counter(database).blurred(slo, until) for slo in slos]


def test_what_is_remembered_is_what_is_there(database: Engine) -> None:
    write(database, busy_day(random.Random(8)))
    roll_up_all(database)
    counter = Counter(database)
    for until in range(START + 20 * HOUR, START + DAY, 1740):
        for slo in SLOS:
            lengths = [300, HOUR, 6 * HOUR]
            told, fresh = (c.windows(slo, until, lengths)[UNIFIED] for c in (counter, Counter(database)))
            for length in lengths:
                assert astuple(told[length]) == pytest.approx(astuple(fresh[length]))


def test_minutes_that_come_late_are_counted(database: Engine) -> None:
    rows = {target("a"): up(), engine("a"): minute(counts={"ttft": (1, 0, 0, 0)})}
    write(database, [Window(START + 60 * n, dict(rows)) for n in range(180) if n != 70])
    roll_up_all(database)
    counter, until = Counter(database), START + 3 * HOUR
    assert counter.windows(latency("ttft", 1), until, [3 * HOUR])[UNIFIED][3 * HOUR].good == 179
    write(database, [Window(START + 60 * 70, dict(rows))])
    assert counter.windows(latency("ttft", 1), until, [3 * HOUR])[UNIFIED][3 * HOUR].good == 180
    roll_up_all(database)
    assert counter.windows(latency("ttft", 1), until, [3 * HOUR])[UNIFIED][3 * HOUR].good == 180


def test_hours_are_looked_up_again_the_older_the_seldomer(database: Engine) -> None:
    rows = {target("a"): up(), engine("a"): minute(counts={"ttft": (1, 0, 0, 0)})}
    late = (START + 60 * 70, START + 47 * HOUR)
    starts = [start for start in range(START, START + 2 * DAY, 60) if start not in late]
    write(database, [Window(start, dict(rows)) for start in starts])
    roll_up_all(database)
    now = [0.0]
    counter, until = Counter(database, clock=lambda: now[0]), START + 2 * DAY

    def good() -> float:
        return counter.windows(latency("ttft", 1), until, [2 * DAY])[UNIFIED][2 * DAY].good

    assert good() == len(starts)
    write(database, [Window(start, dict(rows)) for start in late])
    roll_up_all(database)
    now[0] = HOUR + 1
    assert good() == len(starts) + 1  # the hour that ended last
    now[0] = 2 * HOUR
    assert good() == len(starts) + 2


def test_eleven_small_slices_and_a_large_one_are_weighed_by_their_requests(database: Engine) -> None:
    windows = []
    for n in range(12):
        ends = {"stop": 10.0} if n else {"stop": 9500.0, "error": 500.0}
        rows = {target("a"): up(), engine("a"): minute(finished=ends)}
        windows += [Window(START + 300 * n, rows)]
        windows += [Window(START + 300 * n + 60 * m, {target("a"): up(), engine("a"): minute()}) for m in range(1, 5)]
    write(database, windows)
    found = counted(database, available(), START + HOUR, HOUR)[UNIFIED]
    assert bad_ratio(found) == pytest.approx(500 / 10_110)
