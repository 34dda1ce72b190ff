"""Thresholds that are none of a server's own bounds, in the history as a monitor writes it."""

from __future__ import annotations

from sqlalchemy import Engine

from alerts.slo.thresholds import Blur
from monitor.evaluate.counts import Counter
from monitor.evaluate.status import statuses
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import HOUR, START, engine, latency, minute, target, up, write

VLLM, SGLANG = (1.0, 10.0, 80.0), (1.0, 5.0, 200.0)
AT = START + 10 * 60


def serve(database: Engine, minutes: int = 10, **bounds: tuple[float, ...]) -> None:
    """Ten requests a minute of each framework, all of the same model."""
    rows = {}
    for framework, own in bounds.items():
        rows[target(framework)] = up()
        rows[engine(framework, framework)] = minute(counts={"ttft": (10, *[0] * len(own))}, bounds=own)
    write(database, [Window(START + 60 * n, rows) for n in range(minutes)])


def blurs(database: Engine, below: float, at: int = AT) -> tuple[Blur, ...]:
    (found,) = statuses(Counter(database), [latency("ttft", below)], at)
    return found.blurs


def test_a_threshold_beyond_the_largest_bound_is_told_of_who_has_it(database: Engine) -> None:
    serve(database, vllm=VLLM, sglang=SGLANG)
    beyond, between = sorted(blurs(database, 100.0), key=lambda blur: -blur.high)
    assert (beyond.who, beyond.low) == ("vllm", 80.0)
    assert "100.0 s is beyond its largest bound of ttft, 80.0 s" in beyond.text
    assert (between.who, between.low, between.high) == ("sglang", 5.0, 200.0)


def test_a_threshold_that_is_a_bound_of_all_rests_on_nothing_else(database: Engine) -> None:
    serve(database, vllm=VLLM, sglang=SGLANG)
    assert blurs(database, 1.0) == ()


def test_what_was_served_within_the_day_counts_and_what_is_older_does_not(database: Engine) -> None:
    serve(database, vllm=VLLM)
    assert len(blurs(database, 100.0, AT + HOUR)) == 1
    assert blurs(database, 100.0, AT + 30 * HOUR) == ()
