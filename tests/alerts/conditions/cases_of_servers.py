from __future__ import annotations

from exporters.rhythm import STICKS
from tests.alerts.conditions.world import Case, Fires, Samples, World, gone, held, rising

AT = 'node="n1",server="a"'
ENGINE = f'{AT},framework="vllm",model="m",role="unified",engine="0"'
A = {"node": "n1", "server": "a"}
M = {**A, "framework": "vllm", "model": "m", "role": "unified", "engine": "0"}
OF_MODEL = {**A, "framework": "vllm", "model": "m", "role": "unified"}


def up(samples: Samples) -> World:
    return {f"llm_up{{{AT}}}": samples}


def missing(available: Samples, reason: str = "", *, is_up: float = 1) -> World:
    minutes = len(available) / 2
    found = {f'inferwatch_finding{{{AT},reason="{reason}",severity="error"}}': held(1, minutes)} if reason else {}
    return {**up(held(is_up, minutes)), f"llm_metrics_available{{{AT}}}": available, **found}


def emptied(is_up: Samples) -> World:
    """Full for 5 minutes, and empty for the next 30."""
    full = [*held(1, 5.5), *held(0, 30), *held(1, 4.5)]
    available: Samples = [(a or 0) * (up or 0) for a, up in zip(full, is_up, strict=True)]
    found = f'inferwatch_finding{{{AT},reason="empty_body",severity="warning"}}'
    return {**up(is_up), f"llm_metrics_available{{{AT}}}": available, found: held(1, 40)}


def engine(**samples: Samples) -> World:
    return {f"llm_{name}{{{ENGINE}}}": values for name, values in samples.items()}


def saturated(
    minutes: float, *, kv: float = 0.97, waiting: float = 5, tokens: float = 600, running: float = 32
) -> World:
    return engine(
        kv_cache_utilization_ratio=[*held(0.5, 10), *held(kv, minutes), *held(0.5, 30)],
        requests_waiting=held(waiting, 40 + minutes),
        requests_running=held(running, 40 + minutes),
        requests_running_limit=held(256, 40 + minutes),
        generation_tokens_total=rising(tokens, 40 + minutes),
    )


def preempting(preemptions: Samples, finished: float, *, of: str = ENGINE) -> World:
    """`of` says of whom requests are counted as finished."""
    minutes = len(preemptions) / 2
    stop, length = (f'llm_requests_finished_total{{{of},reason="{r}"}}' for r in ("stop", "length"))
    return {
        **engine(preemptions_total=preemptions),
        stop: rising(finished / 2, minutes),
        length: rising(finished / 2, minutes),
    }


def two_engines() -> World:
    """As SGLang counts: finished requests for all engines together."""
    both = AT + ',framework="vllm",model="m",role="unified"'
    found = preempting([*held(0, 30.5), *rising(1, 40, 1), *held(41, 60)], finished=10, of=both)
    second = {k.replace('engine="0"', 'engine="1"'): v for k, v in found.items() if "preemptions" in k}
    return {k.replace('"vllm"', '"sglang"'): v for k, v in {**found, **second}.items()}


def labelled(world: World, **more: str) -> World:
    return {k.replace("{", "{" + "".join(f'{n}="{v}",' for n, v in more.items()), 1): s for k, s in world.items()}


def sticking(*, finishes: float) -> World:
    """Two Tritons, one with a gauge that says 30; `finishes` a minute."""
    world = replicas(30, 0, framework="tensorrt_llm")
    of = 'node="n0",server="s0",framework="tensorrt_llm",model="m",role="unified",engine="0",reason="stop"'
    note = f'node="n0",server="s0",field="llm_requests_running",source="x",quality="approximate",reason="{STICKS}"'
    return {
        **world,
        f"llm_field_info{{{note}}}": held(1, 60),
        f"llm_requests_finished_total{{{of}}}": rising(finishes, 60),
    }


def cached(queries: float, before: float, after: float) -> World:
    """300 minutes as it was, then an hour with another share of hits."""
    hits = rising(queries * before, 300)
    return engine(
        prefix_cache_query_tokens_total=rising(queries, 360),
        prefix_cache_hit_tokens_total=[*hits, *rising(queries * after, 60, (hits[-1] or 0) + queries * after / 2)],
    )


def latency(metric: str, per_minute: float, before: float, after: float) -> World:
    """300 minutes with one mean, then an hour with another."""
    sums = rising(per_minute * before, 300)
    return engine(**{
        f"{metric}_seconds_count": rising(per_minute, 360),
        f"{metric}_seconds_sum": [*sums, *rising(per_minute * after, 60, (sums[-1] or 0) + per_minute * after / 2)],
    })  # fmt: skip


def replicas(*loads: float, state: str = "", framework: str = "vllm") -> World:
    world: dict[str, Samples] = {}
    for number, load in enumerate(loads):
        of = f'node="n{number}",server="s{number}",framework="{framework}",model="m",role="unified",engine="0"'
        world |= {f"llm_requests_running{{{of}}}": held(load, 60), f"llm_requests_waiting{{{of}}}": held(0, 60)}
        if state:
            world[f'llm_server_state{{{of},state="{state if load == min(loads) else "awake"}"}}'] = held(1, 60)
    return world


def tilting() -> World:
    found = replicas(10, 10)
    return {k: [*v[:60], *(held(30 if "s0" in k else 2, 30))] if "running" in k else v for k, v in found.items()}


TTFT, ITL = "time_to_first_token", "inter_token_latency"
GROUP = {"framework": "vllm", "model": "m", "role": "unified"}

SERVER_CASES = [
    # the tenth reading of 18 that fails is that of minute 15; up again at minute 31, and kept for three
    Case("a crash", "ServerDown", up([*held(1, 10.5), *held(0, 20), *held(1, 20)]), (Fires(15, 34, A),), since=10),
    Case("a restart that takes four and a half minutes", "ServerDown",
         up([*held(1, 10.5), *held(0, 4.5), *held(1, 20)])),
    Case("a restart that takes six minutes", "ServerDown", up([*held(1, 10.5), *held(0, 6), *held(1, 20)]),
         (Fires(15, 20, A),)),
    Case("two restarts one after the other", "ServerDown",
         up([*held(1, 10.5), *held(0, 2), *held(1, 3), *held(0, 2), *held(1, 20)])),
    Case("never up", "ServerDown", up(held(0, 20.5)), (Fires(15, None, A),)),
    Case("a new server that loads for eleven minutes", "ServerDown", up([*held(0, 11), *held(1, 20)])),
    Case("down for more than a day", "ServerDown", up([*held(1, 10.5), *held(0, 1500)]), (Fires(15, None, A),)),
    # 10 of 18 readings fail at minute 26
    Case("crashes again and again", "ServerDown", up([*held(1, 20.5), *([*held(0, 2), *held(1, 0.5)] * 12)]),
         (Fires(26, None, A),)),
    Case("loads for three minutes, and crashes again after one and a half", "ServerDown",
         up([*held(1, 20.5), *([*held(0, 3), *held(1, 1.5)] * 8)]), (Fires(27, None, A),)),
    Case("still loading when somebody begins to look again", "ServerDown",
         up([*held(1, 5), *gone(20), *held(0, 2.5), *held(1, 10)])),
    Case("still down when somebody begins to look again", "ServerDown", up([*held(1, 5), *gone(20), *held(0, 10)]),
         (Fires(28, None, A),)),
    Case("up", "ServerDown", up(held(1, 30))),
    Case("sees one reading of three failing", "ServerDown", up([*held(1, 10), *([0.0, 1.0, 1.0] * 20)])),
    Case("configured no more", "ServerDown", up([*held(1, 10), *gone(30)])),
    Case("another server's crash", "ServerDown",
         {**up(held(1, 30.5)), 'llm_up{node="n2",server="b"}': [*held(1, 10.5), *held(0, 20)]},
         (Fires(15, None, {"node": "n2", "server": "b"}),)),

    Case("metrics switched off", "MetricsMissing", missing([*held(1, 5.5), *held(0, 20), *held(1, 10)], "not_found"),
         (Fires(16, 26, A),), since=5),
    Case("no word why", "MetricsMissing", missing([*held(1, 5.5), *held(0, 20)]), (Fires(16, None, A),)),
    Case("readable again within 10 minutes", "MetricsMissing", missing([*held(1, 5.5), *held(0, 10), *held(1, 10)])),
    Case("fresh", "MetricsMissing", missing(held(0, 30), "empty_body")),
    Case("full, and then empty", "MetricsMissing", emptied(held(1, 40)), (Fires(16, 36, A),)),
    Case("empty after a restart", "MetricsMissing", emptied([*held(1, 5.5), *held(0, 2), *held(1, 32.5)])),
    Case("empty after a crash of its own while it was empty", "MetricsMissing",
         emptied([*held(1, 20), *held(0, 2), *held(1, 18)]), (Fires(16, 20, A),)),
    Case("without records for a while", "MetricsMissing",
         missing([*held(1, 5.5), *held(0, 30)], "no_records_yet")),
    Case("fresh, without records", "MetricsMissing", missing(held(0, 30), "no_records_yet")),
    Case("down", "MetricsMissing", missing(held(0, 30), "connection_refused", is_up=0)),

    # 0.95 is passed when all 20 readings of 10 minutes are 0.97, or 19.3 of them; 5 minutes later it fires
    Case("full while requests wait", "KvCacheSaturated", saturated(30.5), (Fires(25, 51, M),), since=10),
    Case("full for ten minutes", "KvCacheSaturated", saturated(10)),
    Case("just below", "KvCacheSaturated", saturated(60, kv=0.95)),
    Case("full and nobody waits", "KvCacheSaturated", saturated(60, waiting=0)),
    Case("a gauge that sticks while the server is idle", "KvCacheSaturated", saturated(60, tokens=0)),
    Case("a batch that is as large as it may be", "KvCacheSaturated", saturated(60, running=250)),
    Case("no limit known", "KvCacheSaturated",
         {k: v for k, v in saturated(30.5).items() if "limit" not in k}, (Fires(25, 51, M),)),

    # +2 a minute from minute 20: more than 10 at 26, for 5 minutes; at 54 the mean is 56.7, before it was 38.5
    Case("more and more", "QueueGrowing", engine(requests_waiting=[*held(0, 20), *rising(2, 30), *held(60, 60)]),
         (Fires(31, 64, M),), since=20),
    Case("long, and steady", "QueueGrowing", engine(requests_waiting=held(50, 60))),
    Case("short, and growing", "QueueGrowing", engine(requests_waiting=[*held(0, 20), *rising(0.4, 30)])),
    Case("one burst", "QueueGrowing", engine(requests_waiting=[*held(0, 20), *held(90, 2), *held(0, 30)])),
    Case("not told", "QueueGrowing", engine(requests_running=held(5, 60))),

    # more than 15 of 150 within 15 minutes from 38 on, and until 78; then kept for 10 minutes
    Case("one in five", "PreemptionsFrequent",
         preempting([*held(0, 30.5), *rising(2, 40, 1), *held(81, 60)], finished=10), (Fires(43, 88, OF_MODEL),),
         since=30),
    Case("one in five of two engines together", "PreemptionsFrequent", two_engines(),
         (Fires(43, 88, {**OF_MODEL, "framework": "sglang"}),)),
    Case("one in twenty", "PreemptionsFrequent", preempting([*held(0, 30), *rising(0.5, 60)], finished=10)),
    Case("a few at night", "PreemptionsFrequent", preempting([*held(0, 30), *rising(0.2, 60)], finished=0.4)),
    Case("a restart, from 5000 back to 0", "PreemptionsFrequent",
         preempting([*held(5000, 30), *held(0, 30)], finished=10)),
    Case("none", "PreemptionsFrequent", preempting(held(0, 60), finished=10)),
    Case("nothing finishes at all", "PreemptionsFrequent", preempting([*held(0, 30.5), *rising(2, 30, 1)], finished=0),
         (Fires(40, None, OF_MODEL),)),

    # 0.6 before, 0 after: half of it is passed when more than half of 30 minutes are without hits
    Case("no hits any more", "PrefixHitsCollapsed", cached(10_000, 0.6, 0), (Fires(320, None, M),), since=300),
    Case("a third less", "PrefixHitsCollapsed", cached(10_000, 0.6, 0.4)),
    Case("a cache that never helped", "PrefixHitsCollapsed", cached(10_000, 0.15, 0)),
    Case("few prompts", "PrefixHitsCollapsed", cached(3_000, 0.6, 0)),
    Case("no past", "PrefixHitsCollapsed", engine(
        prefix_cache_query_tokens_total=rising(10_000, 60), prefix_cache_hit_tokens_total=held(0, 60))),

    # 0.5 s before, 2 s after: the mean of 30 minutes is 1 s when a third of them are slow
    Case("four times as slow", "TimeToFirstTokenRegressed", latency(TTFT, 60, 0.5, 2), (Fires(315, None, M),),
         since=300),
    Case("half as slow again", "TimeToFirstTokenRegressed", latency(TTFT, 60, 0.5, 0.75)),
    Case("slower, and fast all the same", "TimeToFirstTokenRegressed", latency(TTFT, 60, 0.02, 0.08)),
    Case("few requests", "TimeToFirstTokenRegressed", latency(TTFT, 3, 0.5, 2)),
    Case("a young server", "TimeToFirstTokenRegressed",
         {k: v[580:] for k, v in latency(TTFT, 60, 0.5, 2).items()}),
    Case("four times as slow", "InterTokenLatencyRegressed", latency(ITL, 600, 0.02, 0.08), (Fires(315, None, M),),
         since=300),
    Case("half as slow again", "InterTokenLatencyRegressed", latency(ITL, 600, 0.02, 0.03)),
    Case("slower, and fast all the same", "InterTokenLatencyRegressed", latency(ITL, 600, 0.002, 0.01)),

    Case("thirty here, two there", "ReplicasImbalanced", replicas(30, 28, 2), (Fires(10, None, GROUP),)),
    # of 30 readings 15 with 30 and 2 requests after 15 with 10 and 10: 20 and 6
    Case("all go to one of two from minute 30 on", "ReplicasImbalanced", tilting(),
         (Fires(47, None, GROUP),), since=30),
    Case("thirty here, ten there", "ReplicasImbalanced", replicas(30, 10)),
    Case("little to do", "ReplicasImbalanced", replicas(12, 0)),
    Case("the idle one sleeps", "ReplicasImbalanced", replicas(30, 28, 0, state="sleeping")),
    Case("the idle one does not sleep", "ReplicasImbalanced", replicas(30, 28, 0, state="awake"),
         (Fires(10, None, GROUP),)),
    Case("a fleet's own labels stay, and those of scraping do not", "ReplicasImbalanced",
         {**labelled(replicas(30), team="a", instance="x", pod="x-1"),
          **labelled({k.replace("0", "1"): v for k, v in replicas(2).items()}, team="a", instance="y", pod="x-2")},
         (Fires(10, None, {**GROUP, "team": "a"}),)),
    Case("replicas of two environments", "ReplicasImbalanced",
         {**labelled(replicas(30), env="prod"),
          **labelled({k.replace("s0", "s9"): v for k, v in replicas(0).items()}, env="test")}),
    Case("a Triton that fell idle while its gauge was high", "ReplicasImbalanced", sticking(finishes=0)),
    # what it finishes is known from the second reading on
    Case("a Triton that works", "ReplicasImbalanced", sticking(finishes=9),
         (Fires(11, None, {**GROUP, "framework": "tensorrt_llm"}),)),
    Case("one replica", "ReplicasImbalanced", replicas(30)),
    Case("replicas of two frameworks", "ReplicasImbalanced",
         {**replicas(30), **{k.replace('"vllm"', '"sglang"').replace("s0", "s9"): v for k, v in replicas(2).items()}}),
]  # fmt: skip

_FOR_LONG = missing([*held(1, 10.5), *held(0, 1500)], "empty_body")
EMPTY_FOR_LONG = Case("empty for more than a day", "MetricsMissing", _FOR_LONG, (Fires(21, None, A),))
"""Of Prometheus alone, which knows it by its alert then."""
EMPTY_FOR_A_DAY = Case("empty, of rows", "MetricsMissing", _FOR_LONG, (Fires(21, 1450, A),))
"""Of minute rows alone, a day of which is looked at."""
