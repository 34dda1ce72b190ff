"""The whole product against the truth: hours of the simulated fleet with every kind of fault, through all faces,
sidecars, history, objectives and alerts. What the product says is held to what happened to each request.

HOURS=24 lets a whole day pass, of which the faults take the first two hours: nothing may be told in the rest of it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean

import pytest

from demo.faults import KINDS
from demo.standard import CODER, LARGE, QWEN, SPECS
from demo.truth import Measure, Summary
from monitor.alert_history.alert import Alert
from monitor.evaluate.status import Status
from tests.end_to_end.simulated import MINUTE, START, Lived, live

HOURS = float(os.environ.get("HOURS", "2.25"))
LOAD = 0.5
SHORT_OF_A_PAGE, SHORT_OF_A_TICKET = 30, 360
"""Minutes of the longest short window of a burn, by how it is told."""
LORA, MISTRAL, REPORTS, SORTING = (
    "Llama-3.1-8B-Instruct", "Mistral-7B-Instruct-v0.3", "ensemble", "internlm2_5-7b-chat",
)  # fmt: skip
"""What servers call their models; Triton's is its entry's name."""


@dataclass(frozen=True)
class Told:
    """A fault from minute `at` on, the alerts that it must bring, and those that may follow from it."""

    kind: str
    target: str
    at: float
    minutes: float = 20.0
    alerts: Collection[str] = ()
    also: Collection[str] = ()
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def order(self) -> dict[str, object]:
        seconds = max(1.0, self.minutes * MINUTE)
        return {"kind": self.kind, "target": self.target, "after": self.at * MINUTE, "seconds": seconds, **self.more}

    @property
    def begins(self) -> float:
        return START + self.at * MINUTE

    def is_own(self, alert: Alert) -> bool:
        """An alert begins while its fault lasts, or with the first judgement after it."""
        in_time = self.begins <= alert.starts_at <= self.begins + (self.minutes + 15) * MINUTE
        return name_of(alert) in self.alerts and in_time

    def may_bring(self, alert: Alert) -> bool:
        """A burn can begin as long as its shorter window holds something of the fault."""
        lasts = self.minutes + (SHORT_OF_A_TICKET if alert.name == "SloBurnTicket" else SHORT_OF_A_PAGE) + 5
        in_time = self.begins <= alert.starts_at <= self.begins + lasts * MINUTE
        return in_time and name_of(alert) in (*self.alerts, *self.also)


def slow(model: str, *objectives: str) -> list[str]:
    """Objectives of latency that burn while requests wait."""
    named = objectives or ("first-token", "first-token-slowest", "whole-request")
    return [f"{name} {objective} {model}" for name in ("SloBurnPage", "SloBurnTicket") for objective in named]


def burning(objective: str, model: str) -> list[str]:
    return [f"SloBurnPage {objective} {model}", f"SloBurnTicket {objective} {model}"]


def regressed(server: str) -> list[str]:
    return [f"TimeToFirstTokenRegressed {server}", f"InterTokenLatencyRegressed {server}"]


# An ordinary restart, a slow page and frozen gauges bring nothing: they do no harm.
FAULTS = (
    Told("restart", "vllm-chat-3", 40, 0),
    Told("slow_body", "trtllm-new", 45, 30),
    Told("frozen_gauges", "trtllm-code", 45),
    Told("empty", "sglang-search", 45, 20, ["MetricsMissing sglang-search"]),
    Told("hang", "vllm-chat-2", 44, 18, ["ServerStuck vllm-chat-2"],
         [*slow(QWEN), *regressed("vllm-chat-2"), "QueueGrowing vllm-chat-2", f"ReplicasImbalanced {QWEN}"]),
    Told("overload", "vllm-chat-2", 41, 5, (), (), {"factor": 60}),  # so that it hangs with work to do
    Told("silent", "lmdeploy-old", 45, 20, ["ServerDown lmdeploy-old", f"SloBurnPage availability {SORTING}"],
         burning("availability", SORTING)),
    Told("outage", "reports", 45, 20, ["ServerDown triton-batch", f"SloBurnPage availability {REPORTS}"],
         burning("availability", REPORTS)),
    Told("down", "sglang-old", 45, 15, ["ServerDown sglang-old", f"SloBurnPage availability {MISTRAL}"],
         burning("availability", MISTRAL)),
    Told("truncated_body", "vllm-lora", 40, 18, ["MetricsMissing vllm-lora"]),
    Told("unauthorized", "lmdeploy-new", 45, 20, ["MetricsMissing lmdeploy-new"]),
    Told("renamed", "vllm-chat-3", 45, 30, ["UnmappedFamilies vllm-chat-3"]),
    Told("errors", "vllm-chat-1", 45, 20, [f"SloBurnPage availability {QWEN}"], burning("availability", QWEN),
         {"share": 1.0}),
    Told("prefix_collapse", "sglang-wide", 45, 60, ["PrefixHitsCollapsed sglang-wide"]),
    Told("overload", "sglang-large", 45, 15, ["QueueGrowing sglang-large", f"SloBurnPage first-token {LARGE}"],
         [*slow(LARGE), *burning("inter-token", LARGE), *regressed("sglang-large")], {"factor": 180}),
    Told("thermal", "sim-3/2", 45, 25, ["GpuSlowedDown sim-3/2"], (), {"factor": 1.2}),
    Told("gpu_lost", "sim-3/5", 45, 15, ["GpuLost sim-3/5"]),
    Told("xid", "sim-3/6", 50, 0, ["GpuXidHardware sim-3/6"]),
    Told("ecc", "sim-3/7", 50, 0, ["GpuEccUncorrected sim-3/7"]),
    Told("kv_exhaustion", "vllm-lora", 65, 28, ["PreemptionsFrequent vllm-lora", "KvCacheSaturated vllm-lora"],
         [*slow(LORA), f"SloBurnTicket kv-headroom {LORA}", *burning("inter-token", LORA), *regressed("vllm-lora"),
          "QueueGrowing vllm-lora"]),
    Told("imbalance", "chat", 88, 32, [f"ReplicasImbalanced {QWEN}"], regressed("vllm-chat-1"), {"factor": 30}),
)  # fmt: skip
DISTURBED = {
    "vllm-chat-2", "vllm-chat-3", "vllm-lora", "sglang-search", "sglang-old", "lmdeploy-new", "lmdeploy-old",
    "triton-batch",
}  # fmt: skip
"""Whose pages were missing for a while, or whose work was lost: what was counted meanwhile nobody can know."""
WHOLE = {spec.name for spec in SPECS} - DISTURBED


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    made = live(HOURS, [fault.order for fault in FAULTS], tmp_path_factory.mktemp("lived"), load=LOAD)
    yield made
    made.monitor.close()


def name_of(alert: Alert) -> str:
    """What it is called, and what it is about."""
    labels = alert.labels
    place = f"{labels['node']}/{labels['gpu']}" if "gpu" in labels else labels.get("server", labels.get("model", ""))
    return " ".join(filter(None, (alert.name, labels.get("slo"), place)))


def truth(lived: Lived, server: str) -> Summary:
    return lived.fleet.truth.summary(lived.window, lived.engines(server))


def test_every_kind_of_fault_happens() -> None:
    assert {fault.kind for fault in FAULTS} == KINDS.keys()


def test_every_fault_is_told_by_its_own_alerts(lived: Lived) -> None:
    alerts = lived.alerts()
    missing = [
        (fault.kind, name)
        for fault in FAULTS
        for name in fault.alerts
        if not any(fault.is_own(alert) and name_of(alert) == name for alert in alerts)
    ]
    assert missing == []


def test_no_alert_is_told_without_a_fault(lived: Lived) -> None:
    strangers = [
        (name_of(alert), (alert.starts_at - START) / MINUTE)
        for alert in lived.alerts()
        if alert.name != "Watchdog" and not any(fault.may_bring(alert) for fault in FAULTS)
    ]
    assert strangers == []


def test_nothing_keeps_the_product_from_its_work(lived: Lived) -> None:
    assert lived.monitor.recorder.history_problems() == []
    assert lived.monitor.recorder.source_problems() == {}
    assert lived.monitor.watch.history_problems() == []


def gone(lived: Lived, server: str) -> list[float]:
    """Prompt tokens of each request whose client went away before its first token."""
    witnesses = [lived.fleet.truth.observer(engine) for engine in lived.engines(server)]
    ends = [end for witness in witnesses for end in witness.ends.rows(lived.window)]
    return [prompt for _, since_first, prompt, _, _ in ends if math.isnan(since_first)]


def unseen(lived: Lived, server: str) -> list[float]:
    """SGLang counts nothing of these."""
    return gone(lived, server) if server.startswith("sglang") else []


def test_requests_are_counted_to_the_last(lived: Lived) -> None:
    """vLLM does not count requests whose clients went away."""
    told = lived.told("llm_requests_finished_total", aggregation="sum")
    for server in WHOLE:
        finished = truth(lived, server).finished
        uncounted = finished["abort"] if server.startswith("vllm") else len(unseen(lived, server))
        assert told[server].value == sum(finished.values()) - uncounted, server


def test_tokens_are_counted_to_the_last(lived: Lived) -> None:
    """The first token of a decode server is its prefill server's. To vLLM the prompts of errors are none."""
    prompts, generated = (
        lived.told(metric, aggregation="sum") for metric in ("llm_prompt_tokens_total", "llm_generation_tokens_total")
    )
    for server in WHOLE - {"sglang-decode", "trtllm-code"}:
        of = truth(lived, server)
        assert generated[server].value == of.generated_tokens, server
        if server != "vllm-chat-1":
            assert prompts[server].value == of.prompt_tokens - sum(unseen(lived, server)), server
    decoded = truth(lived, "sglang-decode")
    assert generated["sglang-decode"].value == decoded.generated_tokens - sum(decoded.finished.values())
    # Of this one iterations are told: prompts as far as they were computed, and some in a row as if they were alike.
    of = truth(lived, "trtllm-code")
    assert generated["trtllm-code"].value == pytest.approx(of.generated_tokens, rel=1e-5, abs=2)
    computed = of.prompt_tokens - sum(gone(lived, "trtllm-code"))
    assert computed <= prompts["trtllm-code"].value <= of.prompt_tokens


def test_the_prefix_cache_finds_what_was_there(lived: Lived) -> None:
    """TensorRT-LLM counts what it looks up in whole blocks, and not what it found for clients that had gone."""
    looked_up, hits = (
        lived.told(f"llm_prefix_cache_{part}_tokens_total", aggregation="sum") for part in ("query", "hit")
    )
    for server in WHOLE - {"sglang-decode"}:
        of, uncounted = truth(lived, server), sum(unseen(lived, server))
        lost = sum(gone(lived, server)) if server.startswith("trtllm") else uncounted
        assert of.cached_tokens - lost <= hits[server].value <= of.cached_tokens, server
        assert looked_up[server].value == pytest.approx(of.prompt_tokens - uncounted, rel=0.01), server


PHASES: Mapping[str, Measure] = {
    "llm_time_to_first_token_seconds": "time_to_first_token",
    "llm_request_duration_seconds": "duration",
    "llm_inter_token_latency_seconds": "between_tokens",
    "llm_time_per_output_token_seconds": "per_output_token",
}


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("metric", PHASES)
def test_true_percentiles_lie_within_the_bounds(lived: Lived, metric: str, q: float) -> None:
    told, checked = lived.told(metric, q), []
    for server in WHOLE & told.keys():
        true = lived.fleet.truth.percentile(PHASES[metric], q, lived.window, lived.engines(server))
        upper = math.inf if told[server].upper is None else told[server].upper
        if true is not None:
            assert told[server].lower <= true <= upper, server  # type: ignore[operator]  # quantiles have bounds
            checked.append(server)
    assert {"vllm-chat-1", "sglang-large", "sglang-wide"} & told.keys() <= set(checked)


def test_gauges_are_means_of_what_the_engines_had(lived: Lived) -> None:
    """vLLM sets them with every step, and leaves one block out of the size of its cache; SGLang every 40 steps."""
    running, kv = (lived.told(name, aggregation="avg") for name in ("llm_requests_running", _KV))
    for server, off in (("vllm-chat-1", 1e-4), ("sglang-large", 0.05)):
        shown = [each for each in lived.shown[server] if each.at < lived.until]
        assert running[server].value == pytest.approx(fmean(each.running for each in shown), rel=off), server
        assert kv[server].value == pytest.approx(fmean(each.kv_share for each in shown), rel=off), server


_KV = "llm_kv_cache_utilization_ratio"


def judged(lived: Lived, objective: str, model: str) -> Status:
    found = [s for s in lived.monitor.watch.told.statuses if (s.slo.name, s.labels["model"]) == (objective, model)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("model", [REPORTS, SORTING, MISTRAL])
def test_outages_are_as_long_as_they_were(lived: Lived, model: str) -> None:
    """A reading each minute: what is between two is not known, so each end may be off by one."""
    minutes = {REPORTS: 20, SORTING: 20, MISTRAL: 15}[model]
    status = judged(lived, "availability", model)
    assert abs(status.counts.minutes_outage - minutes) <= 1
    spent = status.counts.minutes_outage / (30 * 24 * 60) / 0.005
    if status.counts.bad == 0 and status.left is not None:
        assert status.left == pytest.approx(1 - spent)


@pytest.mark.parametrize("model", [LARGE, CODER, "Qwen3-30B-A3B"])
def test_budgets_are_what_the_requests_left_of_them(lived: Lived, model: str) -> None:
    """95 % may wait at most a second for their first token."""
    status = judged(lived, "first-token", model)
    (server,) = (spec.name for spec in SPECS if spec.model == model)
    waits = [
        seconds for seconds, _ in lived.fleet.truth.values("time_to_first_token", lived.window, lived.engines(server))
    ]
    late = sum(seconds > 1 for seconds in waits)
    assert status.counts.certainly_bad <= late <= status.counts.bad
    assert status.counts.good + status.counts.bad == len(waits)
    assert status.left == pytest.approx(1 - late / len(waits) / 0.05)
