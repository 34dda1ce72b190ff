"""Each finding where it should be told, with its numbers, and just below its limit, where it should not."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from urllib.parse import parse_qsl

import pytest

from exporters.table import Quality
from monitor.advise.findings import RULES, advise
from monitor.advise.model import Asked, Confidence
from monitor.advise.rule import lacks
from monitor.advise.world import (
    ACCEPTED,
    AVAILABLE,
    DRAFTED,
    FINISHED,
    GENERATED,
    GPU_BUSY,
    GPU_USED,
    HIT,
    KV,
    KV_HIGHEST,
    LIMIT,
    PREEMPTED,
    PROMPT_P90,
    PROMPTED,
    QUERIED,
    QUEUED_HIGHEST,
    REJECTED,
    RUNNING,
    RUNNING_HIGHEST,
    UP,
    WAITING,
    Gpu,
    Server,
    Steps,
)
from monitor.advise.worth import Worth
from tests.monitor.advise.hand import (
    END,
    GIB,
    HEALTHY,
    START,
    STEP,
    STEPS,
    VLLM,
    Values,
    findings,
    gpu,
    missing,
    names,
    numbers,
    process,
    server,
    told,
    world,
)
from tests.monitor.evaluate.minutes import latency

LMDEPLOY = {"frontend": "lmdeploy"}
SGLANG = {"frontend": "sglang", "version": "0.5.23", "prefix_caching": "true", "block_size": "1"}
NEITHER: dict[Asked, Values] = {KV: None, KV_HIGHEST: None, PREEMPTED: None}


def of_steps(many: int, value: float, rest: float) -> list[float]:
    """The first so many steps, and the others."""
    return [value] * many + [rest] * (STEPS - many)


def test_a_healthy_fleet_gets_no_advice() -> None:
    healthy = world(server(), server(name="s2"), gpus=[gpu()], processes=[process()])
    assert names(healthy) == []


def test_all_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


# KV cache too small


def test_preemptions_mean_a_short_kv_cache() -> None:
    (finding,) = findings(world(server({PREEMPTED: of_steps(3, 90.0, 0.0), KV_HIGHEST: of_steps(3, 1.0, 0.5)})))
    assert finding.name == "kv_cache_short"
    assert numbers(finding) == {
        "preemptions": 270.0, "preemptions per finished request": pytest.approx(0.15), "highest KV-cache use": 1.0,
        "requests waiting, mean": 0.5, "requests running, mean": 20.0,
    }  # fmt: skip
    assert finding.seconds == 900
    assert finding.confidence is Confidence.HIGH
    assert finding.change is not None
    assert finding.change.text == "raise `--gpu-memory-utilization` (the default is 0.9)"


@pytest.mark.parametrize("preempted", [of_steps(3, 60.0, 0.0), of_steps(2, 90.0, 0.0), 3.0])
def test_preemptions_of_a_tenth_or_for_a_moment_are_none_of_a_short_cache(preempted: Values) -> None:
    assert names(world(server({PREEMPTED: preempted}))) == []


def test_ten_preemptions_in_a_quarter_of_an_hour_are_needed_even_where_little_finishes() -> None:
    assert names(world(server({PREEMPTED: 3.0, FINISHED: 20.0}))) == []
    assert names(world(server({PREEMPTED: 4.0, FINISHED: 20.0}))) == ["kv_cache_short"]


def test_where_the_gpus_have_no_memory_left_fewer_requests_at_once_are_advised() -> None:
    def change(used: float) -> tuple[str, float]:
        pressed = server({PREEMPTED: 90.0, KV_HIGHEST: 1.0})
        (finding,) = findings(world(pressed, gpus=[gpu({GPU_USED: 40 * GIB}), gpu({GPU_USED: used * 80 * GIB}, "1")]))
        assert finding.change is not None
        return finding.change.text, round(numbers(finding)["memory of its fullest GPU in use, highest"], 9)

    assert change(0.94) == ("raise `--gpu-memory-utilization` (the default is 0.9)", 0.94)
    assert change(0.95) == ("lower `--max-num-seqs`", 0.95)


def test_preemptions_without_a_full_cache_are_doubted() -> None:
    (finding,) = findings(world(server({PREEMPTED: 100.0})))
    assert finding.confidence is Confidence.LOW
    assert finding.why == "preemptions are counted, and yet the cache was not full"


def test_without_preemptions_a_full_cache_with_a_queue_tells_it() -> None:
    full: dict[Asked, Values] = {PREEMPTED: None, KV: 0.96, KV_HIGHEST: 1.0, WAITING: 2.0, RUNNING_HIGHEST: 20.0}
    (finding,) = findings(world(server(full, framework="lmdeploy", facts=LMDEPLOY)))
    assert finding.name == "kv_cache_short"
    assert finding.confidence is Confidence.MEDIUM
    assert finding.change is not None
    assert finding.change.text == "raise `--cache-max-entry-count` (the default is 0.8)"
    for less in ({KV: 0.95}, {WAITING: 1.0}, {LIMIT: 20.0}):
        healthy = world(server({**full, **less}, framework="lmdeploy", facts=LMDEPLOY))
        assert "kv_cache_short" not in names(healthy)


def test_an_approximate_cache_use_makes_the_conclusion_weaker_and_says_so() -> None:
    full: dict[Asked, Values] = {PREEMPTED: None, KV: 0.96, KV_HIGHEST: 1.0, WAITING: 2.0}
    blurred = {KV.metric: Worth(Quality.APPROXIMATE, "cached prefixes count")}
    (finding,) = findings(world(server(full, facts=LMDEPLOY, worth=blurred)))
    assert finding.confidence is Confidence.LOW
    assert "llm_kv_cache_utilization_ratio is approximate (cached prefixes count)" in finding.why


def test_without_cache_use_and_preemptions_it_says_what_is_missing() -> None:
    assert missing(world(server(NEITHER)), "kv_cache_short") == [
        "`llm_preemptions_total` or `llm_kv_cache_utilization_ratio`"
    ]


# More arrives than is served


def test_refused_requests_mean_overload() -> None:
    (finding,) = findings(world(server({REJECTED: of_steps(3, 60.0, 0.0)})))
    assert finding.name == "overloaded"
    assert finding.text == "More requests arrive at n1/s1 than it works off, and refuses the rest."
    assert numbers(finding)["requests refused"] == 180
    assert finding.confidence is Confidence.HIGH
    assert finding.change is None
    assert "replica" in finding.instead


@pytest.mark.parametrize("rejected", [of_steps(2, 60.0, 0.0), 4.0, 6.0])
def test_few_refusals_are_no_overload(rejected: Values) -> None:
    assert names(world(server({REJECTED: rejected}))) == []
    assert names(world(server({REJECTED: 10.0, FINISHED: 990.0}))) == []


def test_a_full_batch_with_a_queue_is_an_overload_whose_batch_may_grow() -> None:
    busy: dict[Asked, Values] = {LIMIT: 64.0, RUNNING: 64.0, RUNNING_HIGHEST: 64.0, WAITING: 30.0}
    (finding,) = findings(world(server(busy)))
    assert (finding.name, finding.confidence) == ("overloaded", Confidence.HIGH)
    assert finding.change is not None
    assert finding.change.text == "raise `--max-num-seqs` (it is 64)"
    assert names(world(server({**busy, WAITING: 16.0}))) == []


def test_a_batch_without_a_known_limit_is_full_where_it_stays_at_its_most() -> None:
    busy: dict[Asked, Values] = {RUNNING: 63.0, RUNNING_HIGHEST: 64.0, WAITING: 30.0}
    (finding,) = findings(world(server(busy)))
    assert (finding.name, finding.confidence) == ("overloaded", Confidence.MEDIUM)
    assert "does not tell its largest batch" in finding.why


def test_no_larger_batch_is_advised_where_the_cache_has_no_room_for_it() -> None:
    busy: dict[Asked, Values] = {LIMIT: 64.0, RUNNING: 64.0, RUNNING_HIGHEST: 64.0, WAITING: 30.0, KV: 0.85}
    (finding,) = findings(world(server(busy)))
    assert finding.change is None


# Queue for the computation of prompts

QUEUE: dict[Asked, Values] = {WAITING: of_steps(3, 9.0, 0.0), RUNNING: 20.0, RUNNING_HIGHEST: 30.0, KV: 0.5}


def test_a_queue_beside_an_empty_cache_and_a_batch_with_room_is_for_prefill() -> None:
    (finding,) = findings(world(server(QUEUE)))
    assert finding.name == "prefill_bound_queue"
    assert numbers(finding) == {
        "requests waiting, mean": 9.0, "requests running, mean": 20.0, "KV-cache use, mean": pytest.approx(0.5),
        "prompt tokens": 1000.0,
    }  # fmt: skip
    assert finding.confidence is Confidence.MEDIUM
    assert finding.change is not None
    assert finding.change.text == "raise `--max-num-batched-tokens`"
    (sure,) = findings(world(server({**QUEUE, LIMIT: 256.0})))
    assert sure.confidence is Confidence.HIGH


@pytest.mark.parametrize("less", [{WAITING: 5.0}, {WAITING: of_steps(2, 9.0, 0.0)}, {KV: 0.7}])
def test_a_short_queue_or_a_fuller_cache_is_not(less: dict[Asked, Values]) -> None:
    assert names(world(server({**QUEUE, **less}))) == []


def test_a_step_in_which_the_batch_was_full_for_a_while_says_nothing_of_prefill() -> None:
    assert names(world(server({**QUEUE, RUNNING: 200.0, WAITING: 60.0, LIMIT: 256.0, RUNNING_HIGHEST: 244.0}))) == []
    assert names(world(server({**QUEUE, RUNNING: 200.0, WAITING: 60.0, LIMIT: 256.0, RUNNING_HIGHEST: 243.0}))) == [
        "prefill_bound_queue"
    ]


def test_a_step_in_which_the_cache_was_full_for_a_while_says_nothing_of_prefill() -> None:
    assert names(world(server({**QUEUE, KV_HIGHEST: 0.96}))) == []


def test_an_hour_in_which_as_many_ran_as_ever_says_nothing_of_prefill() -> None:
    """The batch may have been full for a part of it. Of five minutes the mean tells."""
    queue = server({**QUEUE, RUNNING_HIGHEST: 30.0})
    assert names(world(queue)) == ["prefill_bound_queue"]
    hourly = {a: {s: replace(p, seconds=3600) for s, p in queue.of(a).items()} for a in queue.told}
    assert names(world(replace(queue, told=hourly))) == []


def test_each_framework_has_its_own_flag_for_prefill() -> None:
    (finding,) = findings(world(server(QUEUE, framework="sglang", facts=SGLANG)))
    assert finding.change is not None
    assert finding.change.text == "raise `--chunked-prefill-size`"


def test_a_queue_that_sticks_on_an_idle_server_is_none() -> None:
    idle: dict[Asked, Values] = {**QUEUE, WAITING: 9.0, FINISHED: 0.0, GENERATED: 0.0}
    sticking = {m: Worth(Quality.APPROXIMATE, "sticks", sticks=True) for m in (WAITING.metric, RUNNING.metric)}
    assert names(world(server(idle, worth=sticking))) == []
    assert names(world(server({**idle, FINISHED: 600.0}, worth=sticking))) == ["prefill_bound_queue"]


# Prefix cache

OFF = {**VLLM, "prefix_caching": "false"}
NO_HITS: dict[Asked, Values] = {QUERIED: 0.0, HIT: 0.0}


def test_a_cache_that_is_off_while_prompts_repeat_elsewhere_is_told() -> None:
    (finding,) = findings(world(server(NO_HITS, facts=OFF), server(name="s2")))
    assert finding.name == "prefix_caching_off"
    assert numbers(finding) == {
        "hit ratio at n1/s2": pytest.approx(0.4), "prompt tokens computed": 300_000.0 * STEPS,
    }  # fmt: skip
    assert finding.confidence is Confidence.MEDIUM
    assert finding.change is not None
    assert finding.change.text == "start without `--no-enable-prefix-caching` (it is off)"
    evidence = dict(parse_qsl(finding.evidence[0].query, keep_blank_values=True))
    assert evidence["metric"] == "llm_prefix_cache_hit_tokens_total"


def test_the_flag_that_switches_it_on_is_that_of_the_release() -> None:
    def text(facts: dict[str, str]) -> str:
        (finding,) = findings(world(server(NO_HITS, facts=facts), server(name="s2")))
        assert finding.change is not None
        return finding.change.text

    assert text({**OFF, "version": "0.6.3"}) == "start with `--enable-prefix-caching` (it is off)"
    assert text({**OFF, "version": ""}) == (
        "start without `--no-enable-prefix-caching` (since 0.8) or start with `--enable-prefix-caching` (before 0.8) "
        "(it is off)"
    )
    assert text({**SGLANG, "prefix_caching": "false"}) == "start without `--disable-radix-cache` (it is off)"
    assert text(LMDEPLOY) == "start with `--enable-prefix-caching`"


def test_nobody_knows_whether_prompts_repeat_without_another_server() -> None:
    alone = world(server(NO_HITS, facts=OFF))
    assert names(alone) == []
    assert missing(alone, "prefix_caching_off") == [
        "whether prompts repeat: another server of the model with prefix caching on, or this one for an hour"
    ]
    unlike = world(server(NO_HITS, facts=OFF), server({HIT: 60_000.0}, name="s2"))
    assert names(unlike) == []
    assert names(world(server(NO_HITS, facts=OFF), server(name="s2", model="other"))) == []


def test_hits_that_nobody_counts_do_not_say_that_the_cache_is_off() -> None:
    blind: dict[Asked, Values] = {QUERIED: None, HIT: None}
    why = {HIT.metric: Worth(Quality.UNAVAILABLE, missing="too old")}
    old = world(server(blind, facts=LMDEPLOY, worth=why), server(name="s2"))
    assert names(old) == []
    assert missing(old, "prefix_caching_off") == ["`llm_prefix_cache_hit_tokens_total`: too old"]


COLLAPSED: dict[Asked, Values] = {HIT: [180_000.0] * 6 + [30_000.0] * 6}


def test_hits_that_fall_to_less_than_half_are_told_with_both_ratios() -> None:
    (finding,) = findings(world(server(COLLAPSED)))
    assert finding.name == "prefix_hits_collapsed"
    assert numbers(finding) == {
        "hit ratio before": pytest.approx(0.6), "hit ratio since": pytest.approx(0.1),
        "highest KV-cache use since": 0.5,
    }  # fmt: skip
    assert [e.since for e in finding.evidence] == [START, START + 6 * STEP, START + 6 * STEP]
    assert finding.change is None
    assert "template" in finding.instead


@pytest.mark.parametrize(
    "hits", [[180_000.0] * 6 + [90_000.0] * 6, [60_000.0] * 6 + [0.0] * 6, [180_000.0] * 10 + [30_000.0] * 2]
)
def test_half_of_it_little_to_lose_or_a_moment_are_no_collapse(hits: Values) -> None:
    assert names(world(server({HIT: hits}))) == []


def test_where_the_cache_is_nearly_full_a_collapse_is_for_want_of_memory() -> None:
    (finding,) = findings(world(server({**COLLAPSED, KV_HIGHEST: [0.5] * 6 + [0.93] * 6})))
    assert finding.change is not None
    assert finding.change.text == "raise `--gpu-memory-utilization` (the default is 0.9)"


def test_a_cache_that_preempts_explains_its_lost_hits() -> None:
    pressed: dict[Asked, Values] = {**COLLAPSED, PREEMPTED: [0.0] * 6 + [100.0] * 6, KV_HIGHEST: 1.0}
    assert names(world(server(pressed))) == ["kv_cache_short"]


SHORT: dict[Asked, Values] = {HIT: 0.0, PROMPT_P90: (9.0, 5.0, 10.0)}


def test_prompts_shorter_than_a_block_are_never_found() -> None:
    (finding,) = findings(world(server(SHORT)))
    assert finding.name == "prompts_below_block"
    assert numbers(finding) == {"hit tokens": 0.0, "P90 of prompt length, at most": 10.0}
    assert finding.confidence is Confidence.HIGH
    assert finding.change is None
    (large,) = findings(world(server(SHORT, facts={**VLLM, "block_size": "528"})))
    assert large.change is not None
    assert large.change.text == "lower `--block-size` (it is 528)"


def test_a_block_whose_size_is_not_told_is_taken_for_the_default() -> None:
    (finding,) = findings(world(server(SHORT, framework="lmdeploy", facts=LMDEPLOY)))
    assert "a block of 64 tokens" in finding.text
    assert finding.confidence is Confidence.MEDIUM
    nothing = world(server(SHORT, facts={"frontend": "nim"}))
    assert missing(nothing, "prompts_below_block") == ["the size of its KV blocks, which the server does not tell"]


@pytest.mark.parametrize(
    "changed", [{PROMPT_P90: (15.0, 10.0, 20.0)}, {PROMPT_P90: (10.0, 10.0, math.inf)}, {HIT: 16.0}]
)
def test_longer_prompts_or_any_hit_are_another_matter(changed: dict[Asked, Values]) -> None:
    assert names(world(server({**SHORT, **changed}))) == []


# Speculation

DRAFTS: dict[Asked, Values] = {DRAFTED: 10_000.0, ACCEPTED: 2_000.0}


def test_speculation_whose_drafts_are_thrown_away_is_told() -> None:
    (finding,) = findings(world(server(DRAFTS)))
    assert finding.name == "speculation_loses"
    assert numbers(finding) == {"drafted tokens accepted": pytest.approx(0.2), "tokens drafted": 120_000.0}
    assert finding.confidence is Confidence.MEDIUM
    assert finding.change is not None
    assert finding.change.text == "start without `--speculative-config`"
    (sure,) = findings(world(server({**DRAFTS, ACCEPTED: 900.0})))
    assert sure.confidence is Confidence.HIGH


def test_speculation_that_is_accepted_or_hardly_used_is_not() -> None:
    assert names(world(server({**DRAFTS, ACCEPTED: 3_000.0}))) == []
    few = world(server({DRAFTED: 800.0, ACCEPTED: 0.0}))
    assert names(few) == []
    assert missing(few, "speculation_loses") == ["10000 tokens drafted; there are 9600"]
    assert missing(world(server()), "speculation_loses") == []


def test_counters_that_run_too_high_make_it_doubtful() -> None:
    blurred = {DRAFTED.metric: Worth(Quality.APPROXIMATE, "far too large")}
    (finding,) = findings(world(server(DRAFTS, worth=blurred)))
    assert finding.confidence is Confidence.LOW


# Replicas


def test_replicas_with_unequal_load_are_told_by_model() -> None:
    busy: dict[Asked, Values] = {RUNNING: 60.0, RUNNING_HIGHEST: 80.0, WAITING: 0.0, FINISHED: 1800.0}
    idle: dict[Asked, Values] = {RUNNING: 10.0, WAITING: 0.0, FINISHED: 300.0}
    (finding,) = findings(world(server(busy), server(idle, name="s2")))
    assert (finding.name, finding.target.name) == ("replicas_imbalanced", "m")
    assert numbers(finding) == {
        "requests running and waiting at n1/s1, mean": 60.0, "requests running and waiting at n1/s2, mean": 10.0,
        "requests finished at n1/s1": 21_600.0, "requests finished at n1/s2": 3_600.0,
    }  # fmt: skip
    assert finding.change is None
    assert finding.confidence is Confidence.HIGH
    for other in ({"model": "x"}, {"framework": "sglang"}, {"role": "decode"}, {"labels": {"team": "b"}}):
        assert names(world(server(busy), server(idle, name="s2", **other))) == []


@pytest.mark.parametrize(
    ("busy", "idle"),
    [
        ({RUNNING: 30.0}, {RUNNING: 10.0}),
        ({RUNNING: 15.0}, {RUNNING: 1.0}),
        ({RUNNING: 60.0, FINISHED: 600.0}, {RUNNING: 10.0, FINISHED: 500.0}),
    ],
)
def test_a_third_of_the_load_few_requests_or_a_slow_replica_are_no_imbalance(
    busy: dict[Asked, Values], idle: dict[Asked, Values]
) -> None:
    quiet: dict[Asked, Values] = {WAITING: 0.0, RUNNING_HIGHEST: 100.0}
    assert names(world(server({**quiet, **busy}), server({**quiet, **idle}, name="s2"))) == []


def test_engines_of_one_server_are_replicas_too() -> None:
    engines = {n: Steps(told({RUNNING: r, WAITING: 0.0})) for n, r in (("0", 60.0), ("1", 2.0))}
    (finding,) = findings(world(server(engines=engines)))
    assert (finding.name, finding.target.name) == ("replicas_imbalanced", "n1/s1")
    assert finding.confidence is Confidence.MEDIUM
    assert [e.where["engine"] for e in finding.evidence] == ["0", "1"]


# The batch and the goal

SLOW: Values = [(0.2, 0.15, 0.2)] * 6 + [(0.04, 0.025, 0.05)] * 6
ITL = Asked("llm_inter_token_latency_seconds", "quantile", 0.99)
LARGE: dict[Asked, Values] = {ITL: SLOW, RUNNING: [100.0] * 6 + [40.0] * 6, RUNNING_HIGHEST: 128.0}
GOAL = latency("itl", 0.1)


def test_a_goal_that_large_batches_alone_miss_asks_for_smaller_ones() -> None:
    (finding,) = findings(world(server(LARGE), slos=[GOAL]))
    assert finding.name == "batch_too_large"
    assert numbers(finding) == {
        "running where the goal was missed, mean": 100.0, "P99 where it was missed, mean": pytest.approx(0.2),
        "running where the goal was met, mean": 40.0, "P99 where it was met, mean": pytest.approx(0.04),
    }  # fmt: skip
    assert finding.change is not None
    assert finding.change.text == "lower `--max-num-seqs` to about 40"
    (known,) = findings(world(server({**LARGE, LIMIT: 256.0}), slos=[GOAL]))
    assert known.change is not None
    assert known.change.text == "lower `--max-num-seqs` to about 40 (it is 256)"


@pytest.mark.parametrize(
    "changed",
    [
        {RUNNING: [48.0] * 6 + [40.0] * 6},
        {RUNNING: [7.0] * 6 + [2.0] * 6},
        {ITL: [(0.12, 0.075, 0.15)] * 6 + [(0.04, 0.025, 0.05)] * 6},
        {ITL: (0.04, 0.025, 0.05)},
    ],
)
def test_alike_or_small_batches_and_what_is_not_certain_are_not(changed: dict[Asked, Values]) -> None:
    assert names(world(server({**LARGE, **changed}), slos=[GOAL])) == []


def test_without_a_goal_or_without_ever_meeting_it_no_batch_is_known_to_be_right() -> None:
    (needs,) = missing(world(server(LARGE)), "batch_too_large")
    assert needs.startswith("a latency objective in the configuration (`slos`) for `itl` or `tpot`")
    never = world(server({**LARGE, ITL: (0.2, 0.15, 0.2)}), slos=[GOAL])
    assert missing(never, "batch_too_large") == [
        "15 min within the objective fast: which batch would meet it was not seen"
    ]
    assert names(never) == []
    elsewhere = world(server(LARGE), slos=[latency("itl", 0.1, select={"model": "other"})])
    assert names(elsewhere) == []


# GPUs


def test_a_full_cache_beside_free_memory_is_told() -> None:
    pressed = server({KV: 0.85, KV_HIGHEST: 0.9})
    (finding,) = findings(world(pressed, gpus=[gpu({GPU_USED: 64 * GIB}), gpu({GPU_USED: 60 * GIB}, "1")]))
    assert finding.name == "memory_head_room"
    assert numbers(finding) == {
        "KV-cache use, mean": pytest.approx(0.85), "memory never used": 16 * GIB,
        "memory in use, highest": pytest.approx(0.8),
    }  # fmt: skip
    assert names(world(pressed, gpus=[gpu({GPU_USED: 0.88 * 80 * GIB})])) == []
    assert names(world(server({KV: 0.8}), gpus=[gpu({GPU_USED: 40 * GIB})])) == []
    assert missing(world(pressed), "memory_head_room") == [
        "`gpu_memory_used_bytes` and `gpu_memory_total_bytes` of the GPUs that it runs on"
    ]


def hours(changed: dict[Asked, Values]) -> Gpu:
    """The steps are hours, and so it was observed for half a day."""
    of = gpu(changed)
    told_of = {a: {s: replace(p, seconds=3600, covered_seconds=3600.0) for s, p in of.of(a).items()} for a in of.told}
    return replace(of, told=told_of)


def test_a_gpu_that_did_nothing_for_hours_while_its_memory_is_held_is_told() -> None:
    (finding,) = findings(world(gpus=[hours({GPU_BUSY: 0.01, GPU_USED: 70 * GIB})]))
    assert (finding.name, finding.target.name, finding.seconds) == ("gpus_idle", "GPU 0 of n1", 12 * 3600)
    assert finding.text == "GPU 0 of n1 did nothing, and its memory is held by s1."
    assert numbers(finding) == {
        "share of time with any kernel": pytest.approx(0.01), "memory in use, highest": 70 * GIB,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changed", [{GPU_BUSY: 0.02}, {GPU_BUSY: of_steps(1, 0.11, 0.0)}, {GPU_BUSY: 0.0, GPU_USED: 8 * GIB}]
)
def test_a_gpu_that_is_used_at_times_or_free_is_not(changed: dict[Asked, Values]) -> None:
    assert names(world(gpus=[hours(changed)])) == []


def test_a_gpu_whose_server_serves_is_not_idle_however_little_that_keeps_it_busy() -> None:
    """Of five minutes: a prefill server whose prompts are nearly all in the cache, and synthetic requests."""
    of = {**dict.fromkeys(HEALTHY, 0.0), PROMPTED: 2_000_000.0, GENERATED: 11.0}
    assert names(world(server({**of, FINISHED: 11.0}), gpus=[hours({GPU_BUSY: 0.0})])) == []
    assert names(world(server({**of, FINISHED: 10.0}), gpus=[hours({GPU_BUSY: 0.0})])) == ["gpus_idle"]


@pytest.mark.parametrize(
    ("trouble", "process_is"),
    [
        ({RUNNING_HIGHEST: 3.0}, 1.0),  # requests run: it hangs, or its gauge does
        ({QUEUED_HIGHEST: 3.0}, 1.0),
        ({FINISHED: 10.0}, 1.0),  # all fail
        ({REJECTED: 60.0}, 1.0),
        ({}, 0.0),
    ],
)
def test_a_gpu_whose_server_is_in_trouble_is_not_idle(trouble: dict[Asked, Values], process_is: float) -> None:
    asleep: dict[Asked, Values] = dict.fromkeys(HEALTHY, 0.0)
    idle, well = hours({GPU_BUSY: 0.0}), process()
    assert names(world(server(asleep), gpus=[idle], processes=[well])) == ["gpus_idle"]
    troubled = world(server({**asleep, **trouble}), gpus=[idle], processes=[process({UP: process_is})])
    assert "gpus_idle" not in names(troubled)
    assert missing(troubled, "gpus_idle") == [
        "`gpu_utilization_ratio` over 6 h, while no server on it is down, hangs or fails"
    ]
    assert "gpus_idle" in names(world(server({**asleep, **trouble}, name="s2"), gpus=[idle], processes=[well]))


def test_an_hour_without_work_or_without_its_memory_says_nothing_of_a_gpu() -> None:
    assert missing(world(gpus=[gpu({GPU_BUSY: 0.0})]), "gpus_idle") == ["`gpu_utilization_ratio` over 6 h"]
    assert missing(world(gpus=[hours({GPU_BUSY: 0.0, GPU_USED: None})]), "gpus_idle") == [
        "`gpu_memory_used_bytes` and `gpu_memory_total_bytes`"
    ]


# Metrics flags


def test_a_server_without_prefix_caching_lacks_nothing_that_would_tell_of_its_hits() -> None:
    """However few tokens were looked up."""
    lengths: dict[Asked, Values] = {QUERIED: 0.0, HIT: 0.0, PROMPT_P90: (40.0, 30.0, 50.0)}
    off = world(server(lengths, facts={**VLLM, "prefix_caching": "false"}))
    assert missing(off, "prefix_hits_collapsed") == missing(off, "prompts_below_block") == []
    assert missing(world(server(lengths)), "prompts_below_block") == ["100000 tokens looked up in the prefix cache"]


def test_what_a_server_shows_while_it_stands_still_is_no_load() -> None:
    """Of gauges, refusals, preemptions and replicas alike."""
    loaded: dict[Asked, Values] = {KV: 0.99, RUNNING: 64.0, RUNNING_HIGHEST: 64.0, WAITING: 100.0, PREEMPTED: 900.0}
    loaded |= {REJECTED: 300.0}
    every = frozenset(START + STEP * n for n in range(STEPS))
    assert names(world(server(loaded))) == ["kv_cache_short"]
    assert names(world(server(loaded, still=every))) == []
    assert names(world(server(loaded, still=every), server({RUNNING: 1.0}, name="s2"))) == []


def test_a_server_that_answers_without_metrics_needs_a_flag() -> None:
    (finding,) = findings(
        world(processes=[process({AVAILABLE: 0.0}, frontend="sglang", remarks={"not_found": "See."})])
    )
    assert (finding.name, finding.confidence, finding.instead) == ("metrics_missing", Confidence.HIGH, "See.")
    assert finding.change is not None
    assert finding.change.text == "start with `--enable-metrics`"
    (unknown,) = findings(world(processes=[process({AVAILABLE: 0.0}, frontend="")]))
    assert unknown.confidence is Confidence.LOW
    assert (
        "lmdeploy: start without `--disable-metrics` (since 0.11) or start with `--enable-metrics`" in unknown.instead
    )


@pytest.mark.parametrize("changed", [{AVAILABLE: 0.0, UP: 0.0}, {AVAILABLE: of_steps(6, 0.0, 1.0)}])
def test_a_server_that_is_down_or_well_again_needs_none(changed: dict[Asked, Values]) -> None:
    assert names(world(processes=[process(changed)])) == []


@pytest.mark.parametrize("reason", ["empty_body", "unauthorized", "timeout"])
def test_what_is_fresh_or_no_matter_of_flags_is_not(reason: str) -> None:
    assert names(world(processes=[process({AVAILABLE: 0.0}, remarks={reason: "See."})])) == []


def test_from_the_history_alone_nobody_knows_why_a_server_can_be_read_no_more() -> None:
    unreadable = process({AVAILABLE: 0.0})
    assert names(world(processes=[unreadable])) == []
    assert missing(world(processes=[unreadable]), "metrics_missing") == [
        "why its engine metrics can be read no more: `inferwatch check` tells it"
    ]
    well_by_now = process({AVAILABLE: 0.0}, remarks={})
    assert names(world(processes=[well_by_now])) == []


@pytest.mark.parametrize(("busy", "found"), [(0.3, ["metrics_missing"]), (0.01, [])])
def test_a_server_without_records_needs_a_flag_if_its_gpu_works(busy: float, found: list[str]) -> None:
    """Without, it may be idle."""
    silent = process({AVAILABLE: 0.0}, frontend="trtllm_serve", version="1.2.1", remarks={"no_records_yet": "See."})
    assert names(world(processes=[silent], gpus=[gpu({GPU_BUSY: busy})])) == found
    assert names(world(processes=[silent], gpus=[gpu({GPU_BUSY: busy}, servers=())])) == []


def test_a_field_that_needs_a_flag_is_told_with_the_others_that_do() -> None:
    note = "only with `enable_iter_perf_stats: true`"
    facts = {"frontend": "trtllm_serve", "version": "1.2.1", "prefix_caching": "true"}
    worth = {asked.metric: Worth(Quality.UNAVAILABLE, note, missing=note) for asked in (KV, RUNNING)}
    hidden: dict[Asked, Values] = {KV: None, KV_HIGHEST: None, RUNNING: None, RUNNING_HIGHEST: None}
    (finding,) = findings(world(server(hidden, framework="tensorrt_llm", facts=facts, worth=worth)))
    assert finding.text == "n1/s1 does not show `llm_kv_cache_utilization_ratio`, `llm_requests_running`."
    assert finding.change is not None
    assert finding.change.text == ("start with `return_perf_metrics`, `enable_iter_perf_stats` (the default is false)")
    assert missing(world(server(hidden, worth=worth)), "prefill_bound_queue") == [
        f"`llm_kv_cache_utilization_ratio`: {note}"
    ]


# All of them


def test_too_short_a_time_is_no_ground_for_advice() -> None:
    short: dict[Asked, Values] = {asked: [1.0] * 5 for asked in HEALTHY}
    told_of = advise(world(server(short)))
    assert told_of.findings == ()
    assert {m.needs for m in told_of.missing if m.name == "overloaded"} == {"30 min of observation; there are 25 min"}


def test_what_is_missing_alike_of_several_servers_is_told_once() -> None:
    both = advise(world(server(NEITHER), server(NEITHER, name="s2")))
    (told_once,) = [m for m in both.missing if m.name == "kv_cache_short"]
    assert [target.name for target in told_once.targets] == ["n1/s1", "n1/s2"]


def test_causes_come_before_what_follows_from_them() -> None:
    everything = server({**COLLAPSED, **QUEUE, WAITING: 9.0})
    assert names(world(everything)) == ["prefix_hits_collapsed", "prefill_bound_queue"]


def test_evidence_leads_to_the_question_that_shows_it() -> None:
    (finding,) = findings(world(server({PREEMPTED: [0.0] * 3 + [100.0] * 5 + [0.0] * 4, KV_HIGHEST: 1.0})))
    assert parse_qsl(finding.evidence[0].query) == [
        ("metric", "llm_preemptions_total"), ("aggregation", "sum"), ("since", str(START + 3 * STEP)),
        ("until", str(START + 8 * STEP)), ("step", "300"), ("where", "node=n1"), ("where", "server=s1"),
        ("where", "model=m"), ("where", "role=unified"),
    ]  # fmt: skip
    assert finding.evidence[0].until <= END


def test_a_time_that_is_nearly_long_enough_is_not_rounded_up_to_it() -> None:
    nearly = cast(Server, SimpleNamespace(has=lambda _: True, seconds=lambda _: 1799.0))
    assert lacks(nearly, ()) == "30 min of observation; there are 29 min"
