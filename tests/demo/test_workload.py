from __future__ import annotations

from dataclasses import astuple
from itertools import islice, pairwise, takewhile
from random import Random
from statistics import fmean, median

import pytest

from demo.engine import Engine
from demo.lengths import Lognormal
from demo.model import Limits, Request
from demo.observers import Silent
from demo.pace import VLLM
from demo.workload import CHAT, LORA, MIXES, RAG, Burst, ClosedLoop, Mix, Rate, arrivals, benchmark, open_loop

HOUR = 3600.0


def times(rate: Rate, start: float, end: float, seed: int = 1) -> list[float]:
    return list(takewhile(lambda now: now < end, arrivals(rate, start, seed)))


def test_the_same_seed_asks_the_same_and_another_seed_something_else() -> None:
    def asked(seed: int) -> list[tuple[object, ...]]:
        return [astuple(request) for request in islice(open_loop(CHAT, Rate(1.0), 0.0, seed), 50)]

    assert asked(1) == asked(1) != asked(2)


def test_requests_come_as_often_as_the_rate_says() -> None:
    came = times(Rate(2.0), 100.0, 100.0 + 10 * HOUR)

    assert came == sorted(came)
    assert len(came) == pytest.approx(72_000, rel=0.02)
    gaps = [later - earlier for earlier, later in pairwise(came)]
    assert fmean(gap * gap for gap in gaps) == pytest.approx(2 * 0.5**2, rel=0.05)  # as of an exponential distribution


def test_the_day_has_its_peak_and_the_night_its_rest() -> None:
    rate = Rate(1.0, swing=0.8, peak_hour=15.0)

    assert (rate.at(15 * HOUR), rate.at(3 * HOUR), rate.at(9 * HOUR)) == pytest.approx((1.8, 0.2, 1.0))
    assert len(times(rate, 0.0, 24 * HOUR)) == pytest.approx(86_400, rel=0.02)
    assert len(times(rate, 14 * HOUR, 16 * HOUR)) > 5 * len(times(rate, 2 * HOUR, 4 * HOUR))


def test_a_burst_multiplies_the_rate_while_it_lasts() -> None:
    rate = Rate(1.0, bursts=(Burst(1000.0, 500.0, 4.0),))
    came = times(rate, 0.0, 2500.0)

    assert sum(1000 <= now < 1500 for now in came) == pytest.approx(2000, rel=0.1)
    assert sum(not 1000 <= now < 1500 for now in came) == pytest.approx(2000, rel=0.1)


def test_lengths_stay_within_their_bounds_around_their_median() -> None:
    chance = Random(1)
    drawn = [Lognormal(180, 0.9, 8, 3000).draw(chance) for _ in range(20_000)]

    assert min(drawn) >= 8 and max(drawn) <= 3000
    assert median(drawn) == pytest.approx(180, rel=0.03)


def test_bounds_that_leave_the_median_out_are_refused() -> None:
    with pytest.raises(ValueError, match="the median 5 must lie between 8 and 3000 tokens"):
        Lognormal(5, 0.9, 8, 3000)


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_all_that_is_asked_for_fits_into_the_context(mix: Mix) -> None:
    for request in islice(open_loop(mix, Rate(1.0), 0.0, 1), 2000):
        assert request.output_tokens > 0
        assert request.prefix_tokens < request.prompt_tokens
        assert request.prompt_tokens + request.output_tokens <= Limits().context_tokens
        assert request.leaves_after is None or request.leaves_after < request.output_tokens


def test_some_documents_are_asked_about_more_often_than_others() -> None:
    asked = [request.prefix for request in islice(open_loop(RAG, Rate(1.0), 0.0, 1), 4000)]

    assert asked.count("document-0") == pytest.approx(2 * asked.count("document-1"), rel=0.25)
    assert len(set(asked)) == 40


def test_adapters_are_asked_for_by_name() -> None:
    assert {request.adapter for request in islice(open_loop(LORA, Rate(1.0), 0.0, 1), 100)} == set(LORA.adapters)


def test_the_benchmark_is_512_tokens_in_and_256_out_whatever_is_shared() -> None:
    for shared in (0, 256):
        request = next(open_loop(benchmark(shared), Rate(1.0), 0.0, 1))
        assert (request.prompt_tokens, request.prefix_tokens, request.output_tokens) == (512, shared, 256)
        assert (request.ends_by, request.leaves_after) == ("length", None)


class Arrivals(Silent):
    def __init__(self) -> None:
        self.asked: list[tuple[int, int, float]] = []

    def arrived(self, request: Request, now: float, /) -> None:
        self.asked.append((request.number, request.prompt_tokens, now))


def test_an_open_loop_asks_the_same_of_a_fast_and_of_a_slow_server() -> None:
    def asked(slowdown: float) -> list[tuple[int, int, float]]:
        heard = Arrivals()
        engine = Engine(Limits(), VLLM, [heard])
        engine.slow_down(slowdown)
        for request in islice(open_loop(CHAT, Rate(5.0), 0.0, 1), 100):
            engine.submit(request)
        engine.advance(1000.0)
        return heard.asked

    assert asked(1.0) == asked(10.0)


@pytest.mark.parametrize("waiting", [None, 2])
def test_a_closed_loop_keeps_so_many_under_way(waiting: int | None) -> None:
    engine = Engine(Limits(running=6, waiting=waiting), VLLM)
    loop = ClosedLoop(benchmark(), 8, engine.submit, seed=1)
    engine.observe(loop)
    loop.start(0.0)

    for n in range(1, 100):
        engine.advance(n / 3)
        under_way = len(engine.running) + len(engine.waiting)
        assert under_way == 8 if waiting is None else under_way <= 8
    assert engine.running
