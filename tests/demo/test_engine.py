"""The engine's own books: nothing gets lost, nothing is counted twice, and how it is advanced changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field, replace
from functools import partial

import pytest

from demo.engine import Engine
from demo.model import Limits, Request, Steps
from demo.pace import VLLM, Curve, Pace

AT_ONCE = replace(VLLM, delay=Curve(((1, 0.0),)))
PLAIN = Pace(
    decode=Curve(((1, 0.01),)), kv_token=0.0, prefill=0.001, prefill_step=0.1, is_mixed=False, delay=Curve(((1, 0.0),))
)
"""Steps of 10 ms for one request or for many, and 0.1 s + 1 ms a token for prompts."""
SMALL = Limits(running=8, kv_tokens=4096, context_tokens=2048)


@dataclass
class Log:
    """Everything that an engine told, in one line each."""

    lines: list[tuple[str, float, int]] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    between: list[tuple[float, int]] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def _tell(self, what: str, request: Request, now: float) -> None:
        self.lines.append((what, now, request.number))
        self.moments.append(now)

    def arrived(self, request: Request, now: float) -> None:
        self._tell("arrived", request, now)

    def rejected(self, request: Request, now: float) -> None:
        self._tell("rejected", request, now)

    def scheduled(self, request: Request, now: float) -> None:
        self._tell("scheduled", request, now)

    def first_token(self, request: Request, now: float) -> None:
        self._tell("first token", request, now)

    def gaps(self, seconds: float, count: int, now: float) -> None:
        self.between.append((seconds, count))
        self.moments.append(now)

    def preempted(self, request: Request, now: float) -> None:
        self._tell("preempted", request, now)

    def finished(self, request: Request, now: float) -> None:
        self._tell("finished", request, now)

    def stepped(self, steps: Steps, now: float) -> None:
        self.steps.append(steps)
        self.moments.append(now)

    def of(self, what: str) -> list[int]:
        return [number for told, _, number in self.lines if told == what]

    def has_gap(self, seconds: float) -> bool:
        return any(gap == pytest.approx(seconds) for gap, _ in self.between)

    @property
    def busy(self) -> float:
        return sum(steps.count * steps.seconds for steps in self.steps)

    @property
    def prompt_tokens(self) -> int:
        return sum(steps.prompt_tokens for steps in self.steps)

    @property
    def generated_tokens(self) -> int:
        return sum(steps.generated_tokens for steps in self.steps)


def mixed_requests(seed: int, count: int = 200, seconds: float = 40.0) -> Iterator[Request]:
    """Some share a prefix, some use an adapter, some leave early."""
    chance, now = random.Random(seed), 0.0
    for number in range(count):
        now += chance.expovariate(count / seconds)
        prompt = chance.randrange(1, 700)
        yield Request(
            number, now, prompt, chance.randrange(1, 300),
            prefix=chance.choice(["", "a", "b"]), prefix_tokens=min(prompt, 200),
            adapter=chance.choice(["", "", "x", "y", "z"]),
            leaves_after=chance.choice([None, None, None, 0, 5]),
        )  # fmt: skip


def run(requests: list[Request], engine: Engine, until: float, strides: int = 1) -> None:
    for request in requests:
        engine.submit(request)
    for n in range(1, strides + 1):
        engine.advance(until * n / strides)


def engine_and_log(limits: Limits = SMALL, pace: Pace = AT_ONCE, seed: int = 1) -> tuple[Engine, Log]:
    log = Log()
    return Engine(limits, pace, [log], seed=seed), log


def one(number: int = 0, arrived: float = 0.0, prompt: int = 100, output: int = 11, **rest: object) -> Request:
    return replace(Request(number, arrived, prompt, output), **rest)  # type: ignore[arg-type]


LIMITS = {
    "roomy": Limits(kv_tokens=400_000, adapters=8),
    "short of KV cache": replace(SMALL, adapters=2),
    "short of places": replace(SMALL, running=2, kv_tokens=400_000, adapters=2),
    "with a short queue": replace(SMALL, waiting=3, adapters=3),
    "without a prefix cache": replace(SMALL, prefix_caching=False, adapters=1),
    "in small chunks": replace(SMALL, prefill_tokens_per_step=64, adapters=3),
    "without adapters": SMALL,
}
PACES = {"mixed": VLLM, "prompts first": replace(VLLM, is_mixed=False), "without delay": AT_ONCE}


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_every_request_comes_to_its_end_and_every_token_is_counted_once(limits: Limits, pace: Pace) -> None:
    engine, log = engine_and_log(limits, pace)
    requests = list(mixed_requests(7))

    run(requests, engine, 10_000.0)

    assert log.of("arrived") == [r.number for r in requests]
    assert sorted(log.of("finished") + log.of("rejected")) == log.of("arrived")
    assert sorted(log.of("scheduled")) == sorted(log.of("finished"))
    finished = [r for r in requests if not r.is_rejected]
    for r in finished:
        target = r.output_tokens if r.leaves_after is None else min(r.output_tokens, r.leaves_after)
        assert r.generated_tokens == target
        assert r.reason == ("abort" if target < r.output_tokens else "length")
        assert (r.first_token is None) == (target == 0)
    assert log.generated_tokens == sum(r.generated_tokens for r in finished)
    assert sum(count for _, count in log.between) == sum(max(0, r.generated_tokens - 1) for r in finished)
    between = sum(r.finished - r.first_token for r in finished if r.first_token is not None and r.finished is not None)
    assert sum(seconds * count for seconds, count in log.between) == pytest.approx(between)
    assert len(log.of("preempted")) == sum(r.preemptions for r in requests)
    if not log.of("preempted"):
        assert log.prompt_tokens == sum(r.prompt_tokens - r.cached_tokens for r in finished if r.generated_tokens)
    assert (engine.kv_tokens, list(engine.running), list(engine.waiting)) == (0, [], [])
    assert log.moments == sorted(log.moments)


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_how_it_is_advanced_changes_nothing(limits: Limits, pace: Pace) -> None:
    (whole, told), (cut, told_in_pieces) = engine_and_log(limits, pace), engine_and_log(limits, pace)
    requests, same = list(mixed_requests(3)), list(mixed_requests(3))

    run(requests, whole, 100.0)
    run(same, cut, 100.0, strides=211)

    assert told.lines == told_in_pieces.lines
    assert [astuple(r) for r in requests] == [astuple(r) for r in same]
    assert told.busy == pytest.approx(told_in_pieces.busy)
    assert (told.prompt_tokens, told.generated_tokens) == (
        told_in_pieces.prompt_tokens,
        told_in_pieces.generated_tokens,
    )


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_it_never_holds_more_than_its_kv_cache_and_its_places(limits: Limits) -> None:
    engine, log = engine_and_log(limits, VLLM)
    for request in mixed_requests(5):
        engine.submit(request)
    for n in range(500):
        engine.advance(n / 7)
        assert engine.kv_tokens + engine.cached_kv_tokens <= limits.kv_tokens
        assert len(engine.running) <= limits.running
        assert len({r.adapter for r in engine.running} - {""}) <= limits.adapters
        assert limits.waiting is None or len(engine.waiting) <= limits.waiting + len(log.of("preempted"))
        used = sum(r.prompt_tokens + r.generated_tokens for r in engine.running)
        assert limits.prefix_caching or engine.kv_tokens >= used
        assert not engine.running or engine.kv_tokens > 0


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_how_it_is_advanced_changes_nothing_while_things_go_wrong(pace: Pace) -> None:
    def told(strides: int) -> tuple[list[tuple[str, float, int]], list[Request], Engine]:
        engine, log = engine_and_log(replace(SMALL, adapters=2), pace)
        requests = list(mixed_requests(9))
        for request in requests:
            engine.submit(request)
        faults: dict[float, Callable[[], object]] = {
            5.0: lambda: engine.hang(8.0),
            6.0: lambda: engine.hang(9.0),
            12.0: lambda: engine.resize(2048),
            15.0: lambda: engine.slow_down(3.0),
            22.0: lambda: engine.slow_down(1.0),
            25.0: lambda: engine.resize(4096),
            2000.0: lambda: None,
        }
        for start, go_wrong in faults.items():
            begun = engine.now
            for n in range(1, strides + 1):
                engine.advance(start if n == strides else begun + (start - begun) * n / strides)
            go_wrong()
        return log.lines, requests, engine

    (whole, requests, engine), (pieces, _, _) = told(1), told(37)

    assert whole == pieces
    assert all(r.is_rejected or r.reason for r in requests)
    assert (engine.kv_tokens, list(engine.waiting)) == (0, [])
    assert not [line for line in whole if line[0] == "first token" and 6.0 < line[1] < 9.0]


def test_the_same_seed_has_the_same_truth_and_another_seed_another() -> None:
    def told(seed: int) -> list[tuple[str, float, int]]:
        engine, log = engine_and_log(pace=VLLM, seed=seed)
        run(list(mixed_requests(3, 50)), engine, 100.0)
        return log.lines

    assert told(1) == told(1) != told(2)


def test_one_request_alone_takes_as_long_as_its_steps() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    request = one(prompt=100, output=11)
    run([request], engine, 10.0)

    assert request.first_token == pytest.approx(0.1 + 100 * 0.001)
    assert request.finished == pytest.approx(0.2 + 10 * 0.01)
    assert [(s.count, s.running, s.prompt_tokens, s.generated_tokens) for s in log.steps] == [
        (1, 1, 100, 1),
        (10, 1, 0, 10),
    ]
    assert log.busy == pytest.approx(0.3)


def test_prompts_that_go_first_hold_up_those_that_decode() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    run([one(0, 0.0), one(1, 0.245)], engine, 10.0)  # in the fifth step of the first

    assert log.has_gap(0.01 + 0.1 + 100 * 0.001)
    assert log.busy == pytest.approx(0.2 * 2 + 0.01 * 15)  # 5 steps together


def test_those_that_come_together_are_computed_together() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    run([one(0), one(1)], engine, 10.0)

    assert [steps.prompt_tokens for steps in log.steps] == [200, 0]


def test_one_that_comes_as_a_step_begins_is_computed_in_it() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    run([one(0), one(1, 1.0)], engine, 1.0)
    engine.submit(one(2, 1.0))
    engine.advance(10.0)

    assert [steps.prompt_tokens for steps in log.steps] == [100, 0, 200, 0]


def test_prompts_are_computed_beside_those_that_decode_where_steps_are_mixed() -> None:
    engine, log = engine_and_log(pace=replace(PLAIN, is_mixed=True))
    run([one(0, 0.0), one(1, 0.245)], engine, 10.0)

    assert log.has_gap(0.01 + 100 * 0.001)


def test_a_long_prompt_is_computed_in_chunks() -> None:
    engine, log = engine_and_log(replace(SMALL, prefill_tokens_per_step=512), PLAIN)
    request = one(prompt=1100, output=1)
    run([request], engine, 10.0)

    assert [steps.prompt_tokens for steps in log.steps] == [512, 512, 76]
    assert request.finished == request.first_token == pytest.approx(3 * 0.1 + 1100 * 0.001)


def test_whole_blocks_of_a_prefix_are_computed_once() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    shared = partial(one, prefix="system", prefix_tokens=70)
    first, second, other = shared(0), shared(1, 5.0), one(2, 10.0, prefix="other", prefix_tokens=70)
    run([first, second, other], engine, 20.0)

    assert (first.cached_tokens, second.cached_tokens, other.cached_tokens) == (0, 64, 0)
    assert log.prompt_tokens == 100 + 36 + 100
    assert engine.cached_kv_tokens == 2 * 64


def test_a_prefix_is_held_once_however_many_use_it() -> None:
    engine, _ = engine_and_log(replace(SMALL, kv_tokens=8192), PLAIN)
    for number in range(4):
        engine.submit(one(number, float(number), prompt=160, output=400, prefix="system", prefix_tokens=80))
    engine.advance(4.0)

    assert len(engine.running) == 4
    own = sum(-(-(80 + r.generated_tokens) // 16) * 16 for r in engine.running)
    assert engine.kv_tokens == 80 + own


def test_a_prompt_that_ends_with_a_prefix_in_use_does_not_take_its_place() -> None:
    engine, _ = engine_and_log(pace=PLAIN)
    run(
        [
            one(0, prompt=100, output=500, prefix="a", prefix_tokens=16),
            one(1, 1.0, 16, 5, prefix="a", prefix_tokens=16),
        ],
        engine,
        60.0,
    )

    assert (engine.kv_tokens, engine.cached_kv_tokens) == (0, 16)


def test_prefixes_that_nobody_uses_give_way_the_oldest_first() -> None:
    engine, _ = engine_and_log(replace(SMALL, kv_tokens=600), PLAIN)
    for number, prefix in enumerate("abc"):
        engine.submit(one(number, 5.0 * number, prompt=208, prefix=prefix, prefix_tokens=208))
    again_c, again_a = (
        one(3, 20.0, 209, prefix="c", prefix_tokens=208),
        one(4, 25.0, 209, prefix="a", prefix_tokens=208),
    )
    run([again_c, again_a], engine, 60.0)

    assert (again_c.cached_tokens, again_a.cached_tokens) == (208, 0)


def test_adapters_do_not_share_prefixes() -> None:
    engine, _ = engine_and_log(replace(SMALL, adapters=2), PLAIN)
    requests = [
        one(n, 5.0 * n, adapter=adapter, prefix="a", prefix_tokens=64) for n, adapter in enumerate(("", "x", "x"))
    ]
    run(requests, engine, 60.0)

    assert [r.cached_tokens for r in requests] == [0, 0, 64]


def test_the_youngest_is_preempted_when_the_kv_cache_runs_out_and_is_computed_again() -> None:
    engine, log = engine_and_log(replace(SMALL, kv_tokens=640), PLAIN)
    old, young = one(0, 0.0, 256, 200), one(1, 0.0, 256, 200)
    run([old, young], engine, 60.0)

    assert (old.preemptions, young.preemptions) == (0, 1)
    assert old.finished is not None and young.finished is not None and old.finished < young.finished
    # Blocks of 16: both have room for 20 blocks, so both have generated 64 tokens when the next is wanted.
    assert log.prompt_tokens == 256 + 256 + (256 + 64)
    assert log.generated_tokens == 400


def test_what_is_too_long_is_rejected() -> None:
    engine, log = engine_and_log(replace(SMALL, kv_tokens=512, context_tokens=600), PLAIN)
    run([one(0, prompt=590, output=11), one(1, prompt=500, output=13), one(2, prompt=500, output=12)], engine, 60.0)

    assert (log.of("rejected"), log.of("finished")) == ([0, 1], [2])


def test_a_request_that_no_longer_fits_into_a_smaller_kv_cache_ends_with_an_error() -> None:
    engine, _ = engine_and_log(pace=PLAIN)
    request, small = one(0, 0.0, 500, 500), one(1, 6.0)
    engine.submit(request)
    engine.submit(small)
    engine.advance(1.0)
    engine.resize(512)
    engine.advance(60.0)

    assert (request.reason, small.reason) == ("error", "length")
    assert engine.kv_tokens == 0


def test_a_server_that_hangs_goes_on_where_it_was() -> None:
    engine, log = engine_and_log(pace=PLAIN)
    running, waiting = one(0, 0.0), one(1, 1.0)
    engine.submit(running)
    engine.submit(waiting)
    engine.advance(0.225)  # in the third of ten steps
    engine.hang(4.225)
    engine.advance(1.0)
    engine.hang(5.225)
    engine.hang(3.0)
    engine.advance(5.0)
    assert (len(engine.running), len(engine.waiting)) == (1, 1)
    engine.advance(60.0)

    assert log.has_gap(5.01)
    assert waiting.scheduled == pytest.approx(5.23)
    assert running.finished == pytest.approx(0.3 + 5.0 + 0.2)  # and the other's prompt is computed first


def test_an_idle_server_that_hangs_begins_late() -> None:
    engine, _ = engine_and_log(pace=PLAIN)
    request = one(0, 1.0)
    engine.submit(request)
    engine.hang(5.0)
    engine.advance(60.0)

    assert request.scheduled == 5.0


def test_a_slow_gpu_stretches_every_step() -> None:
    engine, _ = engine_and_log(pace=PLAIN)
    engine.slow_down(2.0)
    request = one()
    run([request], engine, 60.0)

    assert request.finished == pytest.approx(2 * 0.3)


def test_a_crash_loses_what_waits_and_what_runs() -> None:
    engine, log = engine_and_log(replace(SMALL, running=1), PLAIN)
    done, running, waiting = one(0, 0.0), one(1, 1.0), one(2, 1.0)
    for request in (done, running, waiting):
        engine.submit(request)
    engine.advance(1.25)

    assert engine.crash() == [running, waiting]
    engine.advance(60.0)
    assert log.of("finished") == [0]
    assert [r.is_lost for r in (done, running, waiting)] == [False, True, True]
    assert running.generated_tokens == 6


def test_without_prefix_caching_nothing_is_found_and_nothing_is_kept() -> None:
    engine, _ = engine_and_log(Limits(prefix_caching=False), PLAIN)
    requests = [one(n, 5.0 * n, prefix="a", prefix_tokens=64) for n in range(3)]
    run(requests, engine, 60.0)

    assert [r.cached_tokens for r in requests] == [0, 0, 0]
    assert engine.cached_kv_tokens == 0


def test_requests_fail_in_the_share_that_is_asked_for() -> None:
    engine, _ = engine_and_log(Limits(), PLAIN)
    engine.error_share = 0.2
    requests = [one(n, float(n)) for n in range(1000)]
    run(requests, engine, 2000.0)

    assert 160 < sum(r.reason == "error" for r in requests) < 240


def test_requests_of_the_past_are_refused() -> None:
    engine, _ = engine_and_log()
    engine.advance(10.0)
    with pytest.raises(ValueError, match=r"request 0 comes at 9\.0, but the engine is at 10\.0 already"):
        engine.submit(one(arrived=9.0))
