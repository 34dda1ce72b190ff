"""One value of every kind of panel, against arithmetic by hand (see by_hand.py for what the servers do)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboards import by_hand
from tests.dashboards.asked import RANGE, RATE_INTERVAL, Grafana, now, one
from tests.dashboards.panels import JSON
from tests.dashboards.recorded import EVERY

FLEET, SERVER, GPUS, SLOS, FRAMEWORKS, ITSELF = (
    JSON[f"dashboards/{name}.json"] for name in ("fleet", "server", "gpus", "slos", "frameworks", "itself")
)
HERE, APART = {"node": [by_hand.NODE]}, {"node": [by_hand.APART]}
MINUTE = 60


def only(series: list[dict[str, Any]]) -> float:
    (found,) = series
    return now(found)


def by(series: list[dict[str, Any]], *labels: str) -> dict[str, float]:
    return {" ".join(s["metric"].get(label, "") for label in labels): now(s) for s in series}


def test_two_scrapes_of_one_sidecar_count_once(grafana: Grafana) -> None:
    assert len(grafana.prometheus.ask(f'llm_up{{node="{by_hand.NODE}"}}', time=str(grafana.at))) == 6
    found = grafana.asked(one(FLEET, "Servers", "stat"), FLEET, **HERE)
    assert (only(found["A"]), only(found["B"])) == (3, 3)


def test_servers_are_up_and_none_is_in_trouble(grafana: Grafana) -> None:
    trouble = grafana.panel(FLEET, "Servers in trouble", **HERE)
    assert (only(trouble["A"]), only(trouble["B"])) == (0, 0)


def test_a_server_that_is_down_is_counted_whatever_it_serves(grafana: Grafana) -> None:
    trouble = grafana.panel(FLEET, "Servers in trouble", node=["node-a"])
    assert only(trouble["A"]) == 1
    assert only(grafana.panel(FLEET, "Servers in trouble", node=["node-a"], framework=["sglang"])["A"]) == 1


@pytest.mark.parametrize(("framework", "servers", "findings"), [("vllm", 3, 0), ("sglang", 1, 1)])
def test_a_server_of_another_framework_is_not_chosen_with_its_namesake(
    grafana: Grafana, framework: str, servers: int, findings: int
) -> None:
    chosen = {"node": [by_hand.NODE, by_hand.TWIN], "framework": [framework]}
    found = grafana.asked(one(FLEET, "Servers", "stat"), FLEET, **chosen)
    assert (only(found["A"]), only(found["B"])) == (servers, servers)
    rows = grafana.asked(one(FLEET, "Servers", "table"), FLEET, **chosen)["A"]
    assert len(rows) == servers
    assert {row["metric"].get("framework") for row in rows} == {framework}
    assert only(grafana.asked(one(FLEET, "Findings", "stat"), FLEET, **chosen)["A"]) == findings


def test_kv_use_is_weighted_by_capacity_and_says_of_how_many_engines(grafana: Grafana) -> None:
    """(0.2 x 1000 + 0.6 x 3000) / 4000; the third does not tell its capacity."""
    found = grafana.panel(FLEET, "KV cache in use", **HERE)
    (mean,) = found["A"]
    assert now(mean) == pytest.approx(0.5)
    assert mean["metric"] == {"n": "2", "m": "3"}
    assert only(found["B"]) == 0.9


def test_hits_come_from_counters(grafana: Grafana) -> None:
    """10 of 20 and 0 of 20 tokens a second."""
    assert only(grafana.panel(FLEET, "Prefix cache", **HERE)["A"]) == pytest.approx(0.25)


def test_tokens_per_second_add_up(grafana: Grafana) -> None:
    found = grafana.panel(FLEET, "Tokens per second", **HERE)
    assert only(found["A"]) == pytest.approx(150)
    assert only(found["B"]) == pytest.approx(400)
    lines = grafana.panel(FLEET, "Generated tokens per second", **HERE)["A"]
    assert by(lines, "framework") == {"vllm": pytest.approx(150)}


def test_percentiles_of_a_group_come_from_its_histograms(grafana: Grafana) -> None:
    """Of 5 a second 4.5 are at most 0.5 s and 4.98 at most 1 s; the grid has bounds at 0.4 and at 0.8 s."""
    found = grafana.panel(FLEET, "Time to first token, P99 and P50", **HERE)
    assert only(found["A"]) == pytest.approx(0.8 + 0.2 * (4.95 - 4.5) / 0.48, rel=1e-3)
    assert only(found["C"]) == pytest.approx(0.4 + 0.1 * 2.5 / 4.5, rel=1e-3)
    assert (found["B"], found["D"]) == ([], [])


def test_where_too_many_lie_beyond_the_buckets_only_at_least_is_told(grafana: Grafana) -> None:
    found = grafana.panel(FLEET, "Time to first token, P99 and P50", **HERE, server=["half"])
    assert found["A"] == []
    assert only(found["B"]) == by_hand.LARGEST
    assert only(found["C"]) == pytest.approx(0.5)
    assert found["D"] == []


def test_a_table_has_a_row_for_each_server(grafana: Grafana) -> None:
    answers = grafana.asked(one(FLEET, "Servers", "table"), FLEET, **HERE)
    assert by(answers["A"], "server") == {"half": 1, "full": 1, "blank": 1}
    assert by(answers["B"], "server", "version") == {"half 1.0": 1, "full 1.0": 1, "blank 1.1": 1}
    assert by(answers["C"], "server") == {"half": 16, "full": 64, "blank": 0}
    assert by(answers["F"], "server") == {"half": pytest.approx(100), "full": pytest.approx(50), "blank": 0}
    assert by(answers["G"], "server")["full"] == pytest.approx(0.4 + 0.1 * 0.99, rel=1e-3)
    assert "half" not in by(answers["G"], "server")


def test_a_server_that_is_down_has_a_row_with_its_name_alone(grafana: Grafana) -> None:
    rows = grafana.asked(one(FLEET, "Servers", "table"), FLEET, node=["node-a"])["A"]
    (down,) = (row for row in rows if row["metric"]["server"] == "down")
    assert (now(down), down["metric"]) == (0, {"node": "node-a", "server": "down"})


def test_a_heatmap_counts_what_came_within_each_interval(grafana: Grafana) -> None:
    found = grafana.panel(SERVER, "Time to first token", one_node=[by_hand.NODE], one_server=["full"])["A"]
    counts = by(found, "le")
    assert counts["0.5"] == pytest.approx(4 * RATE_INTERVAL)
    assert counts["0.4"] == 0
    assert counts["+Inf"] == pytest.approx(4 * RATE_INTERVAL)


def test_states_are_numbers_that_stand_for_words(grafana: Grafana) -> None:
    panel = one(SERVER, "Process and state")
    words = {
        float(value): shown["text"]
        for mapping in panel["fieldConfig"]["defaults"]["mappings"]
        for value, shown in mapping["options"].items()
    }
    for server, state in (("half", "awake"), ("blank", "sleeping")):
        found = grafana.panel(SERVER, "Process and state", one_node=[by_hand.NODE], one_server=[server])["A"]
        assert words[only(found)] == state


def test_an_objective_burns_by_what_may_be_bad(grafana: Grafana) -> None:
    """A tenth is bad where a twentieth may be: twice as fast as allowed."""
    found = grafana.panel(SLOS, "Burn over 1h and 5m", slo=["first-token"])
    assert [only(found[letter]) for letter in "AB"] == pytest.approx([2, 2])
    every = grafana.panel(SLOS, "Burn of every window", slo=["first-token"])["A"]
    assert by(every, "window") == dict.fromkeys(("5m", "30m", "1h", "2h", "6h", "1d", "3d"), pytest.approx(2))


def test_what_is_left_of_a_budget_is_counted_over_the_time_that_is_shown(grafana: Grafana) -> None:
    """1 of 100 is bad where 5 may be."""
    assert only(grafana.panel(SLOS, "Error budget left", slo=["first-token"])["A"]) == pytest.approx(0.8)


def test_an_objective_that_burns_says_so_and_the_others_do_not(grafana: Grafana) -> None:
    states = by(grafana.panel(FLEET, "Objectives", **HERE)["A"], "slo")
    assert states.pop("first-token") == 3
    assert set(states.values()) == {1}
    assert len(states) == 5


def test_no_alerts_are_0_only_where_rules_are_evaluated(grafana: Grafana) -> None:
    found = grafana.panel(FLEET, "Alerts", **HERE)
    assert (only(found["A"]), only(found["B"])) == (2, 1)


def test_alerts_say_since_when_they_are_active(grafana: Grafana) -> None:
    rows = grafana.panel(FLEET, "Alerts that fire", **HERE)["A"]
    began = (grafana.at - 20 * MINUTE) * 1000
    assert by(rows, "alertname") == {"SloBurnPage": began, "ServerDown": began, "GpuIdle": began}


def test_bars_show_what_a_server_made_at_about_so_many_requests_at_once(grafana: Grafana) -> None:
    title = "Tokens per second at about so many requests at once"
    found = by(grafana.panel(FRAMEWORKS, title, **HERE)["A"], "framework", "at_once")
    live = {key: value for key, value in found.items() if "reference" not in key}
    assert live == {"vllm   16": pytest.approx(400), "vllm   64": pytest.approx(150)}
    assert found["sglang, reference estimate  128"] == 27_300


def test_points_stand_at_the_concurrency_of_each_server_beside_the_reference(grafana: Grafana) -> None:
    title = "Tokens per second against concurrency"
    legends = {t["legendFormat"]: t["refId"] for t in one(FRAMEWORKS, title)["targets"]}
    found = grafana.panel(FRAMEWORKS, title, **HERE)
    across, up = by(found["A"], "framework", "server"), by(found[legends["vllm"]], "framework", "server")
    assert (across["vllm half"], up["vllm half"]) == pytest.approx((16, 400))
    assert found[legends["sglang"]] == []
    figures = by(found[legends["sglang, reference estimate"]], "framework", "server")
    place = "sglang, reference estimate at 64"
    assert (across[place], figures[place], len(figures)) == (64, 21_600, 3)
    hidden = grafana.panel(FRAMEWORKS, title, **HERE, reference=["0"])
    assert set(by(hidden["A"], "server")) == {"half", "full"}, "nothing runs at the third"
    assert hidden[legends["sglang, reference estimate"]] == []


def test_power_and_errors_of_gpus_come_from_counters(grafana: Grafana) -> None:
    """Three answer, 500 W each; an XID event in five minutes at each, of fifteen that are shown."""
    assert only(grafana.asked(one(GPUS, "Power", "stat"), GPUS, node=["node-a"])["A"]) == pytest.approx(1500)
    assert only(grafana.panel(GPUS, "XID events", node=["node-a"])["A"]) == pytest.approx(3 * RANGE / 300)
    found = grafana.asked(one(GPUS, "GPUs", "stat"), GPUS, node=["node-a"])
    assert (only(found["A"]), only(found["B"])) == (3, 1)
    assert only(grafana.panel(GPUS, "Without a server", node=["node-a"])["A"]) == 2, "the lost one serves nobody either"


def test_a_servers_gpus_are_those_that_it_runs_on(grafana: Grafana) -> None:
    found = grafana.panel(SERVER, "GPU memory in use", one_node=["node-a"], one_server=["vllm"])["A"]
    assert by(found, "uuid") == {"GPU-0": 60e9}


def test_a_restart_and_a_new_version_are_marked_when_they_happened(grafana: Grafana) -> None:
    choices = grafana.choices(FLEET, **HERE)
    middle = grafana.at - 10 * MINUTE
    for annotation in FLEET["annotations"]["list"]:
        (marked,) = grafana.answers(annotation["target"], choices)
        moments = [moment for moment, _ in marked["values"]]
        assert marked["metric"]["server"] == "blank"
        assert middle <= moments[0] <= middle + MINUTE + EVERY
        assert moments[-1] <= middle + 3 * MINUTE


def test_choices_narrow_each_other_and_a_silent_server_stays(grafana: Grafana) -> None:
    """What is down all the time tells no framework: it must not vanish from anybody's view."""
    server = next(v for v in FLEET["templating"]["list"] if v["name"] == "server")
    chosen = grafana.choices(FLEET, node=["node-a"], framework=["sglang"])
    assert grafana.options(server, chosen) == ["down", "sglang", "sglang-lora", "sglang-respelled"]
    model = next(v for v in FLEET["templating"]["list"] if v["name"] == "model")
    assert grafana.options(model, chosen) == ["Qwen/Qwen2.5-7B-Instruct"]


def test_a_request_that_a_prefill_server_hands_on_ends_once(grafana: Grafana) -> None:
    found = by(grafana.panel(FLEET, "Requests that end", **APART)["A"], "reason")
    assert found == {"stop": pytest.approx(2), "abort": pytest.approx(0.5)}


def test_frameworks_are_compared_by_servers_that_do_both_and_by_their_gpus_alone(grafana: Grafana) -> None:
    """110 tokens a second on one GPU of 300 W, which has no energy counter."""
    assert only(grafana.panel(FRAMEWORKS, "Tokens per second and GPU", **APART)["A"]) == pytest.approx(110)
    assert only(grafana.panel(FRAMEWORKS, "Requests per GPU", **APART)["A"]) == pytest.approx(4)
    assert only(grafana.panel(FRAMEWORKS, "Tokens per joule", **APART)["A"]) == pytest.approx(110 / 300)
    assert only(grafana.panel(FRAMEWORKS, "Side by side", **APART)["A"]) == 1


def test_power_comes_from_the_gauge_where_a_gpu_has_no_counter(grafana: Grafana) -> None:
    assert only(grafana.asked(one(FLEET, "Power", "stat"), FLEET, **APART)["A"]) == pytest.approx(900)


def test_a_configuration_that_one_of_two_processes_refused_is_not_good(grafana: Grafana) -> None:
    assert only(grafana.panel(ITSELF, "Configuration", **APART)["A"]) == 0


def test_budgets_of_groups_by_a_label_of_ones_own_are_not_mixed(grafana: Grafana) -> None:
    """1 of 100 and half of all, where a tenth may be bad."""
    found = by(grafana.panel(SLOS, "Error budget left", slo=["of-teams"])["A"], "team")
    assert found == {"search": pytest.approx(0.9), "chat": pytest.approx(-4)}


def test_a_server_of_which_nobody_tells_any_more_is_in_trouble(grafana: Grafana) -> None:
    assert only(grafana.panel(FLEET, "Servers in trouble", **APART)["C"]) == 1
    assert only(grafana.panel(FLEET, "Servers in trouble", **HERE)["C"]) == 0


def test_of_what_never_happened_there_is_a_zero_and_of_what_did_a_bar_for_each_kind(grafana: Grafana) -> None:
    """No sample of the recorded pages was dropped; readings of GPUs fail once in five minutes."""
    never = grafana.panel(ITSELF, "Samples not used", node=["node-a"])
    assert (never["A"], by(never["B"], "reason")) == ([], {"": 0})
    often = grafana.panel(ITSELF, "Failed readings of GPUs", node=["node-a"])
    assert by(often["A"], "reason") == {"1": pytest.approx(1 / 300)}
    assert often["B"] == []


def test_of_what_nobody_counts_there_is_no_zero(grafana: Grafana) -> None:
    found = grafana.panel(ITSELF, "Failed readings of GPUs", node=[by_hand.APART])
    assert (found["A"], found["B"]) == ([], [])


def test_every_process_has_a_row_also_two_of_one_host_and_version(grafana: Grafana) -> None:
    found = grafana.asked(one(ITSELF, "Processes", "table"), ITSELF, **HERE)
    assert by(found["A"], "node", "job", "version") == {
        f"{by_hand.NODE} {job} 0.1.0": 1 for job in ("inferwatch", "inferwatch-again")
    }
