from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from demo.dcgm import Load
from demo.faults import FaultError
from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.model import Limits
from demo.server import Spec
from demo.standard import GPUS, SERVICES, SPECS, standard
from demo.truth import Summary, Window
from demo.workload import Mix, Prefixes, Rate

START = 1_796_000_000.0
MIX = Mix("mix", Fixed(100), Fixed(200), Prefixes("system", 320), stops=0.0)


def spec(name: str, *gpus: int, **more: object) -> Spec:
    return Spec(name, "rack-1", "vllm", "0.32.0", "m", gpus, Limits(waiting=100, kv_tokens=40_000), **more)  # type: ignore[arg-type]


def fleet(rate: float = 2.0, *, seed: int = 1) -> Fleet:
    specs = [spec("a", 0), spec("b", 1, engines=2, tensor_parallel=1)]
    return Fleet(specs, [Service("chat", ("a", "b"), MIX, Rate(rate))], {"rack-1": 3}, seed=seed, start=START)


def of(made: Fleet, server: str, window: Window | None = None) -> Summary:
    engines = {made.servers[server].spec.engine(n) for n in range(made.servers[server].spec.engines)}
    return made.truth.summary(window or Window(), engines)


def value(made: Fleet, server: str, name: str, now: float) -> float:
    reply = made.answer(server, "/metrics", now)
    assert reply.answer is not None
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", reply.answer.body.decode(), re.MULTILINE)
    assert found, name
    return sum(map(float, found))


def lived(order: Mapping[str, object] | None = None, *, minutes: float = 10, rate: float = 2.0) -> Fleet:
    made = fleet(rate)
    if order:
        made.order({**order, "after": 60}, START)
    made.advance(START + minutes * 60)
    return made


def test_servers_of_a_service_take_turns_and_so_do_their_engines() -> None:
    made = lived()
    per_engine = [made.truth.summary(engines={engine}).arrived for engine in ("a/0", "b/0", "b/1")]
    assert 1000 < sum(per_engine) < 1400
    assert abs(per_engine[0] - per_engine[1] - per_engine[2]) <= 1
    assert abs(per_engine[1] - per_engine[2]) <= 1


def test_the_same_seed_has_the_same_truth_in_one_stride_or_in_many() -> None:
    whole, steps, other = lived(), fleet(), fleet(seed=2)
    for second in range(0, 601, 7):
        steps.answer("a", "/metrics", START + second)
    steps.advance(START + 600)
    other.advance(START + 600)
    assert told(steps) == told(whole) != told(other)


def told(made: Fleet) -> tuple[object, ...]:
    """Sums of seconds differ in their last digits with the order in which they are added up."""
    summary, slowest = made.truth.summary(), made.truth.percentile("time_to_first_token", 0.99)
    return summary.arrived, summary.finished, summary.generated_tokens, summary.cached_tokens, slowest


def test_a_page_shows_what_is_true_at_that_moment() -> None:
    made = lived()
    assert value(made, "a", "vllm:generation_tokens_total", made.now) == of(made, "a").generated_tokens
    assert value(made, "b", "vllm:request_success_total", made.now) == sum(of(made, "b").finished.values())


def test_a_restart_loses_what_was_in_the_server_and_counts_from_zero() -> None:
    made = lived({"kind": "restart", "target": "a", "down": 30}, minutes=1.4)
    assert made.answer("a", "/metrics", made.now).answer is None
    made.advance(START + 120)
    since = Window(START + 90, START + 120)
    assert value(made, "a", "process_start_time_seconds", START + 120) == START + 90
    assert value(made, "a", "vllm:generation_tokens_total", START + 120) == of(made, "a", since).generated_tokens
    assert of(made, "a").arrived == of(made, "a").lost + sum(of(made, "a").finished.values()) + value(
        made, "a", "vllm:num_requests_running", START + 120
    )


def test_a_server_that_hangs_makes_no_token_until_it_ends() -> None:
    made = lived({"kind": "hang", "target": "a", "seconds": 300}, rate=8)
    hanging = Window(START + 61, START + 359)
    assert of(made, "a", hanging).generated_tokens == 0
    assert of(made, "b", hanging).generated_tokens > 0
    assert of(made, "a", Window(START + 360, START + 600)).generated_tokens > 0


def test_a_hang_that_is_ended_early_is_ended_by_a_restart() -> None:
    made = lived({"kind": "hang", "target": "a", "seconds": 3000}, minutes=2, rate=20)
    made.schedule.end(1, START + 120)
    made.advance(START + 180)
    assert of(made, "a").lost > 0
    assert of(made, "a", Window(START + 120, START + 180)).generated_tokens > 0


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        ("silent", {}, "wait"),
        ("slow_body", {"body_seconds": 3}, "body_seconds"),
        ("truncated_body", {"share": 0.5}, "cut"),
    ],
)
def test_what_a_fault_makes_of_a_reply_ends_with_it(kind: str, more: Mapping[str, object], told: str) -> None:
    made = lived({"kind": kind, "target": "a", "seconds": 120, **more}, minutes=2)
    during, after = (made.answer("a", "/metrics", START + at) for at in (120, 181))
    assert getattr(during, told)
    assert not getattr(after, told)
    if during.cut is not None and during.answer is not None:
        assert during.cut == len(during.answer.body) // 2


@pytest.mark.parametrize(("kind", "status", "size"), [("unauthorized", 401, 24), ("empty", 200, 0)])
def test_a_page_may_be_refused_or_empty(kind: str, status: int, size: int) -> None:
    made = lived({"kind": kind, "target": "a"}, minutes=2)
    answer = made.answer("a", "/metrics", made.now).answer
    assert answer is not None
    assert (answer.status, len(answer.body)) == (status, size)


def test_gauges_freeze_while_counters_go_on() -> None:
    made = lived({"kind": "frozen_gauges", "target": "a"}, rate=20, minutes=1)
    made.answer("a", "/metrics", made.now)
    before = value(made, "a", "vllm:num_requests_running", START + 61)
    running = {value(made, "a", "vllm:num_requests_running", START + 61 + 7 * n) for n in range(20)}
    assert running == {before}
    assert value(made, "a", "vllm:generation_tokens_total", made.now) == of(made, "a").generated_tokens


def test_a_full_cache_preempts_and_a_server_that_is_asked_too_much_rejects() -> None:
    full = lived({"kind": "kv_exhaustion", "target": "a"}, minutes=5)
    assert of(full, "a").preempted > 10
    assert of(full, "b").preempted == 0
    over = lived({"kind": "overload", "target": "a", "factor": 150}, minutes=2)
    assert of(over, "a").rejected > 0
    assert of(over, "b").rejected == 0


def test_prompts_that_all_begin_differently_find_nothing_in_the_cache() -> None:
    made = lived({"kind": "prefix_collapse", "target": "a"})
    during = Window(START + 70, START + 600)
    assert of(made, "a", during).hit_ratio == 0
    assert of(made, "b", during).hit_ratio == pytest.approx(320 / 420)


def test_errors_and_turns_go_as_they_are_told() -> None:
    failing = lived({"kind": "errors", "target": "a", "share": 1.0})
    after = of(failing, "a", Window(START + 70, START + 600)).finished
    assert after["error"] > 200
    assert after["length"] == 0
    uneven = lived({"kind": "imbalance", "target": "chat", "share": 1.0, "at_once": 0})
    assert of(uneven, "b", Window(START + 61, START + 600)).arrived == 0


def test_an_outage_takes_all_servers_of_a_service_and_they_come_back() -> None:
    made = lived({"kind": "outage", "target": "chat", "seconds": 120}, minutes=2)
    assert [made.answer(name, "/metrics", made.now).answer for name in ("a", "b")] == [None, None]
    made.advance(START + 181)
    assert all(made.answer(name, "/metrics", made.now).answer for name in ("a", "b"))


def test_faults_of_a_gpu_are_on_its_hosts_page_and_slow_its_server_down_or_stop_it() -> None:
    made = fleet(rate=20)
    orders = [("xid", 0, {"code": 31}), ("ecc", 1, {"count": 3}), ("thermal", 0, {"factor": 2}), ("gpu_lost", 1, {})]
    made.order([{"kind": k, "target": f"rack-1/{n}", "after": 60, **more} for k, n, more in orders], START)
    page = made.gpu_page("rack-1", "/metrics", START + 300).answer
    assert page is not None
    lines = page.body.decode().splitlines()
    assert sum('gpu="1"' in line for line in lines) == 0
    assert [line[-2:] for line in lines if line.startswith("DCGM_EXP_XID_ERRORS_COUNT{") and 'xid="31"' in line] == [
        " 1"
    ]
    assert made.hosts["rack-1"].gpus[1].ecc_uncorrected == 3
    assert made.answer("b", "/metrics", made.now).answer is None
    times = [made.truth.percentile("between_tokens", 0.5, Window(START + s, START + s + 60), {"a/0"}) for s in (0, 70)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[1] > 1.5 * times[0]


def test_a_gpu_is_as_busy_as_its_server() -> None:
    made = fleet(rate=20)
    loads = [made._load(f"rack-1/{n}", made.now) for n in range(3)]
    assert loads == [Load(0.0, 0.0)] * 3
    made.advance(START + 60)
    busy, _, idle = (made._load(f"rack-1/{n}", made.now) for n in range(3))
    assert busy.busy > 0.9
    assert idle == Load(0.0, 0.0)


def test_upgraded_metrics_have_new_names_until_the_fault_ends() -> None:
    new = spec("a", 0, renamed={"vllm:num_requests_running": "vllm:requests_running"})
    made = Fleet([new], [Service("chat", ("a",), MIX, Rate(2.0))], {"rack-1": 1}, seed=1, start=START)
    made.order({"kind": "renamed", "target": "a", "seconds": 120, "down": 10}, START)
    pages = [made.answer("a", "/metrics", START + at).answer for at in (60, 180)]
    assert [answer is not None and b"vllm:requests_running" in answer.body for answer in pages] == [True, False]


def test_what_a_prefill_server_has_computed_is_decoded_elsewhere() -> None:
    specs = [spec("p", 0, role="prefill"), spec("d", 1, role="decode")]
    service = Service("pair", ("p",), MIX, Rate(2.0), decode="d")
    made = Fleet(specs, [service], {"rack-1": 2}, seed=1, start=START)
    made.advance(START + 600)
    first, then = of(made, "p"), of(made, "d")
    assert first.generated_tokens == first.finished["length"]
    assert then.finished["length"] >= first.finished["length"] - 10
    assert then.latency["duration"].mean is not None


def test_orders_name_what_there_is() -> None:
    made = fleet()
    with pytest.raises(FaultError, match="target: 'rack-1/3': allowed: rack-1/0, rack-1/1, rack-1/2"):
        made.order({"kind": "xid", "target": "rack-1/3"}, START)
    with pytest.raises(FaultError, match=re.escape("[1].target: 'c': allowed: a, b")):
        made.order([{"kind": "hang", "target": "a"}, {"kind": "hang", "target": "c"}], START)
    assert list(made.schedule) == []


def test_the_truth_of_a_demo_is_forgotten_after_a_while() -> None:
    made = Fleet([spec("a", 0)], [Service("chat", ("a",), MIX, Rate(2.0))], {}, seed=1, start=START, kept=60)
    for minute in range(1, 40):
        made.advance(START + 60 * minute)
    assert made.truth.summary().arrived < 2 * (600 + 60) * 1.3


def test_every_release_of_the_standard_fleet_answers_and_every_server_has_requests() -> None:
    made = standard(seed=1, start=START, load=0.2)
    made.advance(START + 600)
    assert all(made.answer(name, "/v1/models", made.now).answer for name in made.servers)
    idle = {name for name in made.servers if not of(made, name).finished["stop"] + of(made, name).finished["length"]}
    assert idle == set()


def test_an_upgrade_renames_a_metric_of_every_server_of_the_standard_fleet() -> None:
    made = standard(seed=1, start=START)
    made.order([{"kind": "renamed", "target": name, "after": 120, "down": 0} for name in made.servers], START)
    pages = [{name: page(made, name, START + at) for name in made.servers} for at in (119, 300)]
    assert {name for name in made.servers if pages[0][name] == pages[1][name]} == set()


def page(made: Fleet, server: str, now: float) -> set[str]:
    """Its families."""
    path = "/prometheus/metrics" if made.servers[server].spec.frontend == "trtllm_serve" else "/metrics"
    answer = made.answer(server, path, now).answer
    return set(re.findall(r"^# TYPE (\S+)", answer.body.decode(), re.MULTILINE)) if answer else set()


def test_no_gpu_of_the_standard_fleet_has_two_servers() -> None:
    places = [(s.node, gpu) for s in SPECS for gpu in s.gpus]
    assert len(places) == len(set(places))
    assert all(gpu < GPUS[node] for node, gpu in places)
    behind = [name for service in SERVICES for name in (*service.servers, service.decode) if name]
    assert sorted(behind) == sorted(spec.name for spec in SPECS)
