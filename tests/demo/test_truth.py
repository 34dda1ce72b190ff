from __future__ import annotations

from itertools import islice
from math import ceil

import pytest

from demo.engine import Engine
from demo.model import Limits, Request
from demo.pace import VLLM
from demo.truth import Latency, Summary, Truth, Window, percentile
from demo.workload import CHAT, Rate, open_loop


def answered(truth: Truth, engine: str, number: int, arrived: float, *, first: float, finished: float) -> Request:
    """A request of 100 tokens, 64 of them cached, that is scheduled at once and answered by 5 tokens."""
    request = Request(number, arrived, 100, 5, scheduled=arrived, first_token=first, cached_tokens=64)
    witness = truth.observer(engine)
    witness.arrived(request, arrived)
    witness.scheduled(request, arrived)
    witness.first_token(request, first)
    witness.gaps((finished - first) / 4, 4, finished)
    request.finished, request.reason, request.generated_tokens = finished, "stop", 5
    witness.finished(request, finished)
    return request


def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    hundred = [(float(n), 1) for n in range(1, 101)]

    assert [percentile(hundred, share) for share in (0.5, 0.99, 0.995, 1.0)] == [50.0, 99.0, 100.0, 100.0]
    assert percentile([(1.0, 99), (7.0, 1)], 0.99) == 1.0
    assert percentile([(1.0, 98), (7.0, 2)], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_each_measure_is_seconds_between_two_moments() -> None:
    truth = Truth()
    answered(truth, "a", 0, 10.0, first=10.5, finished=12.5)

    summary = truth.summary()
    assert {measure: latency.p99 for measure, latency in summary.latency.items()} == {
        "time_to_first_token": 0.5,
        "duration": 2.5,
        "queue": 0.0,
        "per_output_token": 0.5,
        "between_tokens": 0.5,
    }
    assert summary.latency["between_tokens"] == Latency(4, 0.5, 0.5, 0.5, 0.5)
    assert (summary.prompt_tokens, summary.cached_tokens, summary.generated_tokens) == (100, 64, 5)
    assert summary.hit_ratio == 0.64


def test_a_window_holds_its_end_but_not_its_start() -> None:
    truth = Truth()
    answered(truth, "a", 0, 10.0, first=10.5, finished=20.0)
    answered(truth, "a", 1, 20.0, first=20.5, finished=30.0)

    assert [truth.summary(Window(start, start + 10.0)).finished["stop"] for start in (0.0, 10.0, 20.0)] == [0, 1, 1]
    assert truth.summary(Window(10.0, 20.0)).arrived == 1
    assert truth.tokens_per_second(Window(0.0, 30.0)) == 2 * 105 / 30
    assert truth.tokens_per_second(Window(20.0, 30.0)) == 105 / 10


def test_engines_are_told_apart() -> None:
    truth = Truth()
    answered(truth, "a", 0, 10.0, first=10.5, finished=20.0)
    answered(truth, "b", 0, 10.0, first=11.0, finished=20.0)

    assert truth.percentile("time_to_first_token", 1.0, engines={"a"}) == 0.5
    assert truth.percentile("time_to_first_token", 1.0) == 1.0
    assert truth.values("time_to_first_token") == [(0.5, 1), (1.0, 1)]


def test_budgets_are_spent_by_what_takes_longer_than_a_threshold() -> None:
    truth = Truth()
    for number, seconds in enumerate((0.5, 1.0, 1.5)):
        answered(truth, "a", number, 10.0 * number, first=10.0 * number + seconds, finished=10.0 * number + 5.0)

    assert truth.within("time_to_first_token", 1.0) == (2, 3)
    assert truth.within("time_to_first_token", 1.0, Window(15.0, 30.0)) == (0, 1)


def test_what_was_not_answered_has_no_duration() -> None:
    truth = Truth()
    witness = truth.observer("a")
    left = Request(0, 1.0, 100, 50, first_token=2.0, finished=3.0, reason="abort", generated_tokens=9)
    witness.first_token(left, 2.0)
    witness.finished(left, 3.0)

    summary = truth.summary()
    assert summary.finished == {"stop": 0, "length": 0, "abort": 1, "error": 0}
    assert summary.latency["duration"] == Latency(0, None, None, None, None)
    assert summary.latency["time_to_first_token"].p50 == 1.0


def test_what_comes_late_is_put_in_its_place() -> None:
    truth = Truth()
    answered(truth, "a", 0, 10.0, first=10.5, finished=20.0)
    answered(truth, "a", 1, 5.0, first=5.5, finished=15.0)

    assert truth.summary(Window(0.0, 15.0)).finished["stop"] == 1


def day(strides: int = 1) -> tuple[Truth, list[Request]]:
    truth, requests = Truth(), list(islice(open_loop(CHAT, Rate(3.0), 0.0, 1), 600))
    engine = Engine(Limits(running=3, kv_tokens=9_216, waiting=5), VLLM, [truth.observer("a")], seed=1)
    for request in requests:
        engine.submit(request)
    for n in range(1, strides + 1):
        engine.advance(150.0 * n / strides)
    truth.observer("a").lost(engine.crash(), 150.0)
    return truth, requests


def test_it_agrees_with_the_requests_themselves() -> None:
    truth, requests = day()
    summary = truth.summary()

    came = [r for r in requests if r.arrived <= 150.0]
    durations = sorted(
        r.finished - r.arrived for r in came if r.finished is not None and r.reason in {"stop", "length"}
    )
    assert summary.arrived == len(came) == summary.rejected + summary.lost + sum(summary.finished.values())
    assert summary.rejected == sum(r.is_rejected for r in came) > 0
    assert summary.lost == sum(r.is_lost for r in came) > 0
    assert summary.preempted == sum(r.preemptions for r in came)
    assert summary.finished["abort"] == sum(r.reason == "abort" for r in came) > 0
    assert summary.generated_tokens == sum(r.generated_tokens for r in came)
    assert summary.cached_tokens == sum(r.cached_tokens for r in came) > 0
    assert summary.latency["duration"].p99 == durations[ceil(0.99 * len(durations)) - 1]
    assert summary.latency["duration"].mean == pytest.approx(sum(durations) / len(durations))


def test_windows_add_up_to_the_whole() -> None:
    truth, _ = day(strides=150)
    whole, parts = truth.summary(), [truth.summary(Window(n, n + 10.0)) for n in range(0, 150, 10)]

    def added(part: Summary) -> tuple[int, ...]:
        return part.arrived, part.rejected, part.prompt_tokens, part.generated_tokens, sum(part.finished.values())

    assert tuple(map(sum, zip(*map(added, parts), strict=True))) == added(whole)


def test_what_is_too_old_can_be_forgotten() -> None:
    truth, _ = day(strides=150)
    recent = truth.summary(Window(100.0, 150.0))
    truth.forget(100.0)

    assert truth.summary() == recent
