from sqlalchemy import Engine

from alerts.budget import Counts
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.replay import Gap, replay
from monitor.evaluate.status import lengths, status
from monitor.history.minutes import Window
from monitor.history.retention import Retention, forget
from tests.monitor.evaluate.minutes import (
    DAY,
    HOUR,
    START,
    available,
    engine,
    minute,
    roll_up_all,
    target,
    up,
    write,
)


def filled(database: Engine, hours: int, bad_from: int, bad_until: int, gap: range = range(0)) -> None:
    """A hundred requests a minute, of which twenty fail in some minutes."""
    for n in range(hours * 60):
        if n not in gap:
            failed = 20.0 if bad_from <= n < bad_until else 0.0
            row = minute(finished={"stop": 100 - failed, "error": failed})
            write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): row})])
    roll_up_all(database)


def test_an_alert_is_told_from_when_it_would_have_held_until_it_would_not(database: Engine) -> None:
    filled(database, 12, 300, 360)
    found = replay(Counter(database), available(objective="99%", alerts=["page"]), START + HOUR, START + 12 * HOUR)
    # 14.4 times 1 % of an hour's 6000 requests are 864: reached in the 44th bad minute, judged every five, and over
    # five minutes after the last.
    (fast,) = [f for f in found.fired if f.window.long == HOUR]
    assert (fast.severity, fast.group, fast.start) == ("page", ("m", "unified"), START + 345 * 60)
    assert fast.end is not None
    assert fast.end >= START + 365 * 60
    assert found.gaps == ()


def test_another_objective_would_have_been_quiet(database: Engine) -> None:
    filled(database, 8, 300, 360)
    assert replay(Counter(database), available(objective="90%"), START + HOUR, START + 8 * HOUR).fired == ()


def test_what_was_not_observed_is_told(database: Engine) -> None:
    filled(database, 6, 0, 0, gap=range(130, 145))
    found = replay(Counter(database), available(objective="99%"), START + HOUR, START + 6 * HOUR)
    assert found.gaps == (Gap(START + 130 * 60, START + 145 * 60, "not known whether a server was up"),)


def test_hours_without_minutes_judge_long_windows_alone(database: Engine) -> None:
    filled(database, 48, 6 * 60, 20 * 60)
    forget(database, Retention(minutes=DAY), START + 2 * DAY)
    found = replay(Counter(database), available(objective="99%"), START + HOUR, START + 2 * DAY)
    assert {f.severity for f in found.fired if f.start < START + DAY} == {"ticket"}
    (gap,) = found.gaps
    assert (gap.start, gap.end) == (START + HOUR, START + DAY)
    assert "page at 14.4x" in gap.why


def test_what_cannot_be_told_is_told_of_what_was_asked_for_alone(database: Engine) -> None:
    filled(database, 48, 0, 0, gap=range(6 * 60, 8 * 60))
    forget(database, Retention(minutes=DAY), START + 2 * DAY)
    since, until = START + 6 * HOUR + 1200, START + 7 * HOUR + 2100
    found = replay(Counter(database), available(objective="99%"), since, until)
    # Of the hour that `until` cuts no part is known.
    assert {(gap.why.partition(":")[0], gap.start, gap.end) for gap in found.gaps} == {
        ("only hours are kept", since, until),
        ("not known whether a server was up", since, START + 7 * HOUR),
    }


def test_a_replay_may_begin_within_an_alert(database: Engine) -> None:
    filled(database, 8, 300, 360)
    found = replay(Counter(database), available(objective="99%", alerts=["page"]), START + 21_000, START + 8 * HOUR)
    (fast,) = [f for f in found.fired if f.window.long == HOUR]
    # Since the 345th minute; judged first at the 355th.
    assert fast.start == START + 355 * 60


def test_replay_and_status_judge_alike(database: Engine) -> None:
    filled(database, 10, 200, 420)
    slo: Slo = available(objective="98%")
    counter = Counter(database)
    fired = replay(counter, slo, START + HOUR, START + 10 * HOUR).fired
    for at in range(START + 2 * HOUR, START + 10 * HOUR, 1500):
        windows: dict[int, Counts] = counter.windows(slo, at, lengths(slo))["m", "unified"]
        holds = {b.window.severity for b in status(slo, ("m", "unified"), windows, at).burns if b.holds}
        assert holds == {f.severity for f in fired if f.start <= at and (f.end is None or at < f.end)}, at
