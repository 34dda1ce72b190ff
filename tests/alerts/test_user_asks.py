"""What people who run such fleets complained of, where objectives are concerned."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.budget import Counts, State, bad_ratio, state
from alerts.slo.check import Seen, errors, warnings
from alerts.slo.spec import Specs, read
from tests.alerts.rules.worlds import Engine, counter, expect, gauge, rules_of, slo_of

AVAILABILITY = "{availability: {}}"


def latency(folder: Path, phase: str, below: str) -> Specs:
    indicator = f"{{latency: {{phase: {phase}, below: {below}}}}}"
    (folder / "slo.yml").write_text(f"version: 1\nslos: [{{name: a, objective: 99%, indicator: {indicator}}}]\n")
    return read(folder / "slo.yml")


def test_a_threshold_beyond_the_last_bucket_is_refused_for_such_servers(tmp_path: Path) -> None:
    seen = {"a": Seen(frozenset({"vllm"}), {"vllm (1 server)": (40.0, 50.0, 60.0)})}
    told = "slos[0] a: 80.0 s is beyond the largest bound of e2e of all its servers: allowed: at most 60.0 s"
    assert errors(latency(tmp_path, "e2e", "80s"), seen) == [told]
    assert errors(latency(tmp_path, "e2e", "60s"), seen) == []
    assert errors(latency(tmp_path, "e2e", "80s")) == []


def test_servers_without_a_bucket_at_the_threshold_are_listed_with_its_neighbours(tmp_path: Path) -> None:
    seen = {"a": Seen(frozenset({"vllm"}), {"x (1 server)": (1.0, 2.5)})}
    (told,) = warnings(latency(tmp_path, "ttft", "2s"), seen)
    assert "between 1.0 and 2.5 s" in told


@pytest.mark.parametrize("spelling", ["1", "1.0"])
def test_a_bucket_is_found_in_either_spelling(spelling: str, tmp_path: Path) -> None:
    engine, metric = Engine(), "llm_time_to_first_token_seconds"
    series = engine.series(f"{metric}_bucket", counter((60, 9)), le=spelling)
    series |= engine.series(f"{metric}_count", counter((60, 10)))
    rules = rules_of(slo_of(tmp_path, indicator="{latency: {phase: ttft, below: 1s}}"))
    expect(tmp_path, rules, series, {(61, "sum(inferwatch:slo_bad_ratio:1h)"): {"{}": 0.1}})


def test_requests_that_vanish_are_unknown_and_not_good(tmp_path: Path) -> None:
    # 65.5 and 69 a minute; the hour ended half a minute ago.
    engine = Engine("vllm")
    series = engine.finished(stop=counter((90, 65)), length=counter((90, 0.5)), abort=counter((90, 0)))
    series |= engine.series("llm_requests_unfinished", counter((90, 69)))
    rules = rules_of(slo_of(tmp_path, indicator=AVAILABILITY))
    asked = {(90, f"sum(inferwatch:slo_{kind}:1h)"): {"{}": n} for kind, n in (("total", 3930.0), ("unknown", 4140.0))}
    expect(tmp_path, rules, series, asked)
    assert state(
        Counts(unknown=4140, minutes=60), slo_of(tmp_path, indicator=AVAILABILITY).objective, burning=False
    ) is (State.UNKNOWN)


def test_without_errors_without_samples_and_without_traffic_are_three_things(tmp_path: Path) -> None:
    objective = slo_of(tmp_path, indicator=AVAILABILITY).objective
    healthy, absent, idle = Counts(good=5000, minutes=60), Counts(minutes=60, minutes_unknown=60), Counts(minutes=60)
    found = [state(counts, objective, burning=False) for counts in (healthy, absent, idle)]
    assert found == [State.OK, State.UNKNOWN, State.IDLE]
    assert [bad_ratio(counts) for counts in (healthy, absent, idle)] == [0.0, None, None]


@pytest.mark.parametrize(
    ("first", "second", "across", "limit", "bad"),
    [
        (0.95, 0.12, "max", 0.95, 5.0),
        (0.95, 0.12, "avg", 0.53, 5.0),
        (0.95, 0.12, "avg", 0.54, 0.0),
        (0.4, 0.4, "max", 0.41, 0.0),
        (0.4, 0.4, "avg", 0.41, 0.0),
    ],
)
def test_the_use_of_several_engines_is_their_largest_or_their_average_and_never_a_sum(
    first: float, second: float, across: str, limit: float, bad: float, tmp_path: Path
) -> None:
    kv, engine = "llm_kv_cache_utilization_ratio", Engine()
    series = engine.series(kv, gauge((20, first))) | engine.series(kv, gauge((20, second)), engine="1")
    indicator = f"{{slices: {{metric: {kv}, across: {across}, is: below, value: {limit}}}}}"
    asked = {(15, "sum(inferwatch:slo_bad:5m)"): {"{}": bad}, (15, "sum(inferwatch:slo_total:5m)"): {"{}": 5.0}}
    expect(tmp_path, rules_of(slo_of(tmp_path, indicator=indicator)), series, asked)
