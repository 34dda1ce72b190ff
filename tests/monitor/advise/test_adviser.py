"""Advice from a database: what is read, and what is told of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from alerts.slo.spec import Slo
from exporters.table import Quality
from monitor.advise.adviser import Adviser, Told
from monitor.advise.framework import Basis
from monitor.advise.reading import read, step_of
from monitor.advise.world import KV, PREEMPTED, RUNNING, WAITING
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.question import InvalidParameter
from tests.monitor.advise.minutes import VLLM, engine, gpu, minute, process, store
from tests.monitor.evaluate.minutes import START, latency, roll_up_all

GIB = 2.0**30
HOUR, DAY = 3600, 86_400


def adviser(database: Engine, slos: Sequence[Slo] = ()) -> Adviser:
    return Adviser(History(database), lambda: slos)


def told(database: Engine, minutes: int = 60, slos: Sequence[Slo] = (), server: str = "") -> Told:
    return adviser(database, slos).advise(START, START + 60 * minutes, server)


def names(of: Told) -> list[tuple[str, str]]:
    return [(finding.name, finding.target.name) for finding in of.advice.findings]


def test_the_step_grows_with_the_window() -> None:
    lengths = (HOUR, 2 * HOUR, 6 * HOUR, DAY, 7 * DAY, 365 * DAY)
    assert [step_of(0, length) for length in lengths] == [300, 300, 300, HOUR, HOUR, DAY]
    assert [step_of(0, 30 * DAY, groups) for groups in (100, 277, 278)] == [HOUR, HOUR, DAY]


def test_what_is_read_of_servers_is_what_was_stored(database: Engine) -> None:
    store(database, 60, dict([process(gpus="GPU-1 NVIDIA H100"), gpu("GPU-1", 74 * GIB), gpu("GPU-2", GIB)]) | {
        engine(number=0, team="a"): minute({"llm_preemptions_total": 2.0}),
        engine(number=1, team="a"): minute({"llm_preemptions_total": 3.0}),
    })  # fmt: skip
    world = read(History(database), START, START + HOUR)
    (server,) = world.servers
    assert (server.target.name, server.model, server.version) == ("n1/s1", "m", "0.32.0")
    assert server.labels == {"team": "a"}
    assert server.total(PREEMPTED) == 60 * 5
    assert server.mean(RUNNING) == pytest.approx(40)
    assert server.mean(KV) == pytest.approx(0.4)
    assert {engine: steps.mean(RUNNING) for engine, steps in server.engines.items()} == {"0": 20.0, "1": 20.0}
    assert [(gpu.number, gpu.servers) for gpu in world.gpus] == [("1", ("s1",)), ("2", ("s1",))]
    assert [g.number for g in world.gpus_of(server)] == ["1", "2"]


def test_gpus_of_a_node_with_several_servers_belong_to_those_that_say_so(database: Engine) -> None:
    both = dict([process("s1", gpus="GPU-1 NVIDIA H100"), process("s2"), gpu("GPU-1", GIB), gpu("GPU-2", GIB)])
    store(database, 60, both)
    assert [gpu.servers for gpu in read(History(database), START, START + HOUR).gpus] == [("s1",), ()]


def test_without_a_sidecar_the_table_of_the_release_says_what_numbers_are_worth(database: Engine) -> None:
    store(database, 60, {
        **dict([process("s1"), process("s2"), process("s3")]),
        engine("s1"): minute(),
        engine("s2", framework="lmdeploy"): minute({"llm_preemptions_total": None}, info={"frontend": "lmdeploy"}),
        engine("s3", framework="sglang"): minute(info={"frontend": "sglang", "version": "0.5.23"}),
    })  # fmt: skip
    vllm, lmdeploy, sglang = read(History(database), START, START + HOUR).servers
    assert vllm.worth_of(KV).quality is Quality.EXACT
    assert lmdeploy.worth_of(KV).quality is Quality.APPROXIMATE
    assert lmdeploy.worth_of(PREEMPTED).quality is Quality.UNAVAILABLE
    assert lmdeploy.worth_of(PREEMPTED).missing
    assert sglang.worth_of(WAITING).quality is Quality.APPROXIMATE
    assert "refreshed" in sglang.worth_of(WAITING).note


@pytest.mark.parametrize("hours", [1, 30])
def test_preemptions_are_found_in_minutes_and_in_hours(database: Engine, hours: int) -> None:
    rows = {**dict([process()]), engine(): minute({"llm_preemptions_total": 9.0})}
    store(database, 60 * hours, rows)
    roll_up_all(database)
    found = told(database, 60 * hours)
    assert names(found) == [("kv_cache_short", "n1/s1")]
    evidence = {e.what: (e.value, e.until - e.since) for e in found.advice.findings[0].evidence}
    assert evidence["preemptions"] == (540.0 * hours, HOUR * hours)
    assert evidence["preemptions per finished request"][0] == pytest.approx(0.15)


def test_a_day_that_is_asked_for_of_a_short_history_is_looked_at_as_the_history_is(database: Engine) -> None:
    """Of hours, the mean batch would have room while requests wait."""
    full = {"llm_requests_running": 256.0, "llm_requests_waiting": 510.0}
    rows = [{**dict([process()]), engine(): minute(of, info={**VLLM, "max_num_seqs": "256"})} for of in ({}, full)]
    store(database, 25, rows[0])
    store(database, 35, rows[1], begin=25)
    found = adviser(database, ()).advise(START + HOUR - DAY, START + HOUR)
    assert [(f.name, f.seconds) for f in found.advice.findings] == [("overloaded", 35 * 60)]


def test_both_databases_tell_the_same(each_database: Engine) -> None:
    store(each_database, 60, {**dict([process()]), engine(): minute({"llm_preemptions_total": 9.0})})
    found = told(each_database, slos=[latency("ttft", 1.0)])
    assert names(found) == [("kv_cache_short", "n1/s1")]


def test_a_healthy_fleet_gets_none(database: Engine) -> None:
    store(database, 60, {**dict([process(), gpu("GPU-1", 74 * GIB)]), engine(): minute()})
    assert names(told(database)) == []


def test_advice_for_one_server_is_that_of_its_model_too(database: Engine) -> None:
    store(database, 60, {
        **dict([process("s1"), process("s2"), process("s3")]),
        engine("s1"): minute({"llm_preemptions_total": 9.0}),
        engine("s2"): minute({"llm_preemptions_total": 9.0}),
        engine("s3", model="other"): minute(),
    })  # fmt: skip
    assert names(told(database)) == [("kv_cache_short", "n1/s1"), ("kv_cache_short", "n1/s2")]
    for name in ("s1", "n1/s1"):
        assert names(told(database, server=name)) == [("kv_cache_short", "n1/s1")]
    assert names(told(database, server="s3")) == []
    assert [choice.traits.model for choice in told(database, server="s3").choices] == ["other"]


def test_an_unknown_server_is_told_with_what_was_probably_meant(database: Engine) -> None:
    store(database, 1, {**dict([process("gpu-1:8000")]), engine("gpu-1:8000"): minute()})
    with pytest.raises(InvalidParameter, match=r"server: 'gpu-1:800' .* did you mean 'gpu-1:8000'\?"):
        told(database, server="gpu-1:800")


def test_an_empty_history_has_no_advice_and_no_error(database: Engine) -> None:
    found = told(database)
    assert (found.advice.findings, found.choices, found.capacities) == ((), (), ())


def test_capacity_is_told_by_the_objective_s_own_counts(database: Engine) -> None:
    """From 1 to 8 requests a second; of a hundred, as many are too slow as there are requests a second beyond 4."""
    for n in range(8):
        requests = 60.0 * (n + 1)
        slow = requests * 0.01 * max(0, n + 1 - 4)
        counts = {"llm_time_to_first_token_seconds": (requests - slow, 0.0, slow, 0.0)}
        store(database, 15, {**dict([process()]), engine(): minute(counts=counts)}, begin=15 * n)
    (capacity,) = told(database, 120, [latency("ttft", 1.0, objective="98%")]).capacities
    assert capacity.labels == {"model": "m", "role": "unified"}
    assert capacity.limits.value == pytest.approx(6.0, abs=0.3)
    assert capacity.now == pytest.approx((5 + 6 + 7 + 8) / 4)
    assert capacity.more[0] == pytest.approx(6.0 - 6.5, abs=0.3)
    assert not capacity.limits.extrapolated
    (easy,) = told(database, 120, [latency("ttft", 5.0, objective="98%")]).capacities
    assert easy.limits.value == math.inf
    assert easy.limits.seen == pytest.approx(8.0, abs=0.5)


def test_without_an_objective_or_enough_requests_capacity_says_what_it_needs(database: Engine) -> None:
    store(
        database, 30, {**dict([process()]), engine(): minute(counts={"llm_time_to_first_token_seconds": (9, 0, 0, 0)})}
    )
    (without,) = [m for m in told(database, 30).advice.missing if m.name == "capacity"]
    assert without.needs == "a latency objective in the configuration (`slos`) for `ttft`, `tpot`, `e2e`"
    (few,) = [m for m in told(database, 30, [latency("ttft", 1.0)]).advice.missing if m.name == "capacity"]
    assert few.needs == "60 minutes or hours with requests; there are 30"


def test_frameworks_side_by_side_are_measured_against_the_article(database: Engine) -> None:
    """SGLang makes twice the tokens of vLLM at the same concurrency."""
    store(database, 60, {
        **dict([process("s1"), process("s2")]),
        engine("s1"): minute(),
        engine("s2", framework="sglang"): minute(
            {"llm_generation_tokens_total": 30_000.0, "llm_prompt_tokens_total": 60_000.0},
            info={"frontend": "sglang", "version": "0.5.23"},
        ),
    })  # fmt: skip
    (choice,) = told(database).choices
    assert (choice.first, choice.basis) == ("sglang", Basis.MEASURED)


def test_what_servers_say_now_goes_before_their_table(database: Engine) -> None:
    store(database, 60, {**dict([process()]), engine(): minute()})
    assert adviser(database).advise(START, START + HOUR).advice.findings == ()
    with_fleet = Adviser(History(database), list, Fleet())
    assert with_fleet.advise(START, START + HOUR, now=START + HOUR).advice.findings == ()


def test_what_was_just_worked_out_is_not_worked_out_again(database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for another server; but for another minute, or for other objectives."""
    store(database, 60, {**dict([process()]), engine(): minute({"llm_preemptions_total": 9.0})})
    slos: list[Slo] = []
    asked, adviser = 0, Adviser(History(database), lambda: slos)
    read_all = History.ask

    def counted(self: History, *given: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return read_all(self, *given, **more)

    monkeypatch.setattr(History, "ask", counted)
    first = adviser.advise(START, START + HOUR)
    once = asked
    assert adviser.advise(START, START + HOUR + 59) == first
    assert adviser.advise(START, START + HOUR, "s1").advice.findings == first.advice.findings
    assert asked == once
    adviser.advise(START, START + HOUR + 60)
    assert asked == 2 * once
    slos.append(latency("ttft", 1.0))
    adviser.advise(START, START + HOUR + 60)
    assert asked > 3 * once


def test_what_is_missing_of_all_is_missing_of_one(database: Engine) -> None:
    store(database, 60, {**dict([process()]), engine(): minute()})
    names_of = [m.name for m in told(database, server="s1").advice.missing]
    assert "capacity" in names_of
