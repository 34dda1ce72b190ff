from __future__ import annotations

import json
from pathlib import Path

import pytest

from alerts.slo.check import Seen, errors, warnings
from alerts.slo.outcomes import reasons, sources
from alerts.slo.published import DEFAULT, json_schema
from alerts.slo.spec import Slo, Specs, read
from alerts.slo.thresholds import defaults
from exporters.schema import FRAMEWORKS
from exporters.tables import FRONTENDS


def specs_of(folder: Path, *lines: str) -> Specs:
    path = folder / "slo.yml"
    path.write_text("version: 1\nslos:\n  - name: chat\n" + "".join(f"    {line}\n" for line in lines))
    return read(path)


def test_a_threshold_between_a_frameworks_bounds_is_told_with_its_neighbours(tmp_path: Path) -> None:
    specs = specs_of(
        tmp_path, "objective: 99%", "indicator: {latency: {phase: ttft, below: 0.5s}}", "select: {framework: sglang}"
    )
    assert warnings(specs) == [
        "slos[0] chat: sglang: 0.5 s is none of its own bounds of ttft: requests between 0.4 and 0.6 s are "
        "interpolated, tickets and budgets are off by up to that share, and only those above 0.6 s page"
    ]


def test_a_threshold_beyond_a_frameworks_largest_bound_never_pages_there(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "objective: 99%", "indicator: {latency: {phase: ttft, below: 10s}}")
    assert warnings(specs) == [
        "slos[0] chat: triton: 10.0 s is beyond its largest bound of ttft, 5.0 s: slower requests are counted and not "
        "timed, so none is certainly bad and nothing pages"
    ]


def test_bounds_that_servers_really_have_stand_before_the_defaults(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "objective: 99%", "indicator: {latency: {phase: ttft, below: 2s}}")
    both = frozenset({"vllm", "sglang"})
    seen = Seen(both, {"vllm (3 servers)": (1.0, 4.0), "sglang (1 server)": (1.0, 2.0)})
    (told,) = warnings(specs, {"chat": seen})
    assert told.startswith(
        "slos[0] chat: vllm (3 servers): 2.0 s is none of its own bounds of ttft: requests between 1.0 and 4.0 s"
    )
    assert warnings(specs, {"chat": Seen(both)}) == ["slos[0] chat: no server measures ttft at present"]
    assert warnings(specs, {}) == ["slos[0] chat: selects no server that there was within the last hour"]


@pytest.mark.parametrize(
    ("unknown", "sglang", "lmdeploy"),
    [
        (
            "exclude",
            "unknown and left out, and only minutes without any server are bad",
            "unknown and left out, and only minutes without any server are bad",
        ),
        ("bad", "unknown and bad, so that it always burns", "unknown and bad"),
    ],
)
def test_frameworks_that_do_not_tell_how_requests_ended_are_named(
    unknown: str, sglang: str, lmdeploy: str, tmp_path: Path
) -> None:
    specs = specs_of(tmp_path, "objective: 99%", "indicator: {availability: {}}", f"unknown: {unknown}")
    assert warnings(specs) == [
        f"slos[0] chat: sglang: does not tell how requests ended: they are {sglang}",
        f"slos[0] chat: lmdeploy: does not tell failed requests from cancelled ones: they are {lmdeploy}",
        "slos[0] chat: trtllm_serve: old releases count no request that fails: all of theirs are unknown and "
        f"{'bad' if unknown == 'bad' else 'left out'}",
    ]
    assert errors(specs) == []
    assert warnings(specs, {"chat": Seen(frozenset({"vllm"}))}) == []


def test_gauges_that_mislead_when_servers_are_idle_are_named(tmp_path: Path) -> None:
    indicator = "{slices: {metric: llm_kv_cache_utilization_ratio, across: max, is: below, value: 0.9}}"
    specs = specs_of(tmp_path, "objective: 99%", f"indicator: {indicator}")
    names = [told.split(": ")[1] for told in warnings(specs)]
    assert names == ["trtllm_serve", "triton", "sglang", "lmdeploy", "lmdeploy"]
    assert warnings(specs)[1].endswith(
        "keeps its value when the server falls idle: minutes in which nothing finishes do not count"
    )
    assert warnings(specs)[2].endswith("of old releases: there minutes without requests count by it")
    assert warnings(specs)[-1].endswith("an idle server may look full, and burn for ever")
    assert warnings(specs, {"chat": Seen(frozenset({"vllm"}))}) == []


def test_unknown_requests_are_not_bad_where_no_framework_tells_how_any_ended(tmp_path: Path) -> None:
    lines = ("objective: 99%", "indicator: {availability: {}}", "select: {framework: sglang}", "unknown: bad")
    told = (
        "slos[0] chat: unknown: 'bad': sglang does not tell how requests ended, so all would be bad: "
        "allowed: exclude, or more frameworks"
    )
    specs = specs_of(tmp_path, *lines)
    assert errors(specs) == [told]
    assert errors(specs, {"chat": Seen(frozenset({"sglang"}))}) == [told]
    assert errors(specs_of(tmp_path, *lines[:3])) == []


@pytest.mark.parametrize("name", FRONTENDS)
def test_where_failures_are_counted_successes_are_too(name: str) -> None:
    """Else what is known of it is failures alone, and all of them are bad."""
    for source in sources(FRONTENDS[name]):
        of = reasons(source)
        assert "error" not in of or "stop" in of or "unknown" not in of


def test_frameworks_that_do_not_measure_it_are_named(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "objective: 99%", "indicator: {latency: {phase: itl, below: 0.1s}}")
    assert warnings(specs) == [
        f"slos[0] chat: {name}: does not measure itl; its requests do not count" for name in ("trtllm_serve", "triton")
    ]


def test_burn_windows_that_can_never_fire_are_named(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, "objective: 90%", "indicator: {availability: {}}", "select: {framework: vllm}")
    assert warnings(specs) == [
        "slos[0] chat: the page at 14.4x over 1h is left out: 14.4 times a budget of 10 % is all requests or more"
    ]


DEFAULTS = read(DEFAULT)


@pytest.mark.parametrize("slo", [s for s in DEFAULTS.slos if s.indicator.latency], ids=lambda s: s.name)
def test_default_thresholds_are_native_to_every_framework(slo: Slo) -> None:
    assert slo.indicator.latency is not None
    by_frontend = defaults(slo.indicator.latency.phase, FRAMEWORKS)
    # Triton's own four bounds of TTFT are shared by nobody.
    assert all(slo.indicator.latency.below in bounds for name, bounds in by_frontend.items() if name != "triton")


def test_defaults_have_every_burn_window_and_every_kind_of_objective() -> None:
    assert [w for slo in DEFAULTS.slos for w in slo.burn_windows()[1]] == []
    kinds = {name for slo in DEFAULTS.slos for name in slo.indicator.model_fields_set}
    assert kinds == {"latency", "availability", "slices"}


def test_the_published_schema_names_the_keys_that_are_read() -> None:
    schema = json.loads(json_schema())
    assert schema["properties"].keys() == {"version", "user_labels", "slos"}
    assert schema["$defs"]["Slo"]["properties"].keys() == Slo.model_fields.keys()
    assert "is" in schema["$defs"]["TimeSlices"]["properties"]
    assert schema["$defs"]["Slo"]["additionalProperties"] is False


def test_a_threshold_far_below_a_frameworks_bounds_never_pages_there(tmp_path: Path) -> None:
    indicator = "indicator: {latency: {phase: ttft, below: 0.005s}}"
    specs = specs_of(tmp_path, "objective: 99%", indicator, "select: {framework: sglang}")
    (told,) = warnings(specs)
    assert "requests between 0.0 and 0.1 s are interpolated" in told
    assert told.endswith("none is certainly slower, so nothing pages: that is more than 10 times the threshold")
