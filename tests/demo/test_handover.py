from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from demo.engine import Engine
from demo.handover import Handover
from demo.model import Limits, Request
from demo.pace import Curve, Pace
from demo.truth import Truth

PACE = Pace(
    decode=Curve(((1, 0.01),)), kv_token=0.0, prefill=0.001, prefill_step=0.1, is_mixed=False, delay=Curve(((1, 0.0),))
)
ROOMY = Limits()


class Pair:
    def __init__(self, prefill: Limits = ROOMY, decode: Limits = ROOMY) -> None:
        self.truth = Truth()
        witness = self.truth.observer("decode")
        self.prefill, self.decode = Engine(prefill, PACE), Engine(decode, PACE, [witness])
        self.handover = Handover(self.prefill, self.decode, witness, seconds=0.05, token=0.001)

    def advance(self, until: float) -> None:
        self.prefill.advance(until)
        self.decode.advance(until)


def test_the_first_token_comes_when_the_kv_cache_has_travelled() -> None:
    pair, request = Pair(), Request(0, 1.0, 100, 11)
    pair.handover.submit(request)
    pair.advance(60.0)

    assert request.scheduled == 1.0
    assert request.first_token == pytest.approx(1.0 + 0.2 + 0.05 + 0.1)
    assert request.finished == pytest.approx(1.35 + 10 * 0.01)
    assert (request.reason, request.generated_tokens) == ("length", 11)


def test_each_request_is_counted_once_however_the_engines_are_advanced() -> None:
    def run(strides: int) -> tuple[Pair, list[Request]]:
        pair, chance = Pair(Limits(waiting=4), Limits(kv_tokens=3008)), Random(4)
        pair.prefill.error_share = 0.05
        requests = [
            Request(n, chance.uniform(0, 60), chance.randrange(1, 900), chance.randrange(1, 400), leaves_after=leaves)
            for n, leaves in enumerate([None, None, 0, 3] * 50)
        ]
        for request in requests:
            pair.handover.submit(request)
        for n in range(1, strides + 1):
            pair.advance(600.0 * n / strides)
        return pair, requests

    (pair, requests), (other, _) = run(1), run(97)

    truth = pair.truth.summary()
    assert truth == replace(other.truth.summary(), latency=truth.latency)
    assert truth.arrived == 200 == truth.rejected + sum(truth.finished.values())
    assert truth.rejected > 0 and truth.preempted > 0 and truth.finished["error"] > 0
    assert truth.generated_tokens == sum(r.generated_tokens for r in requests)
    for measure, latency in truth.latency.items():
        assert latency.mean == pytest.approx(other.truth.summary().latency[measure].mean)


def test_a_crash_loses_what_is_on_its_way_between_them() -> None:
    pair = Pair()
    computed, travelling, to_come = Request(0, 0.0, 100, 900), Request(1, 1.0, 100, 11), Request(2, 2.0, 100, 11)
    for request in (computed, travelling, to_come):
        pair.handover.submit(request)
    pair.advance(1.25)

    assert pair.handover.crash() == [computed, travelling]
    pair.advance(60.0)
    assert (travelling.is_lost, travelling.finished, to_come.is_lost) == (True, None, False)
