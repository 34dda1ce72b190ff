"""Twenty minutes for the pictures: the recorded servers under a load that comes and goes, two GPUs that work for them,
one that nobody uses, one that is lost, and objectives of which one burns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from alerts.rules.model import Recording
from alerts.rules.slo import slo_groups
from alerts.slo.published import DEFAULT
from alerts.slo.spec import read
from tests.dashboards import recorded
from tests.dashboards.recorded import EVERY, NODE, RENAMED, STEPS, is_counter
from tests.end_to_end.samples import Sample, Scrape

_WAVES = frozenset({
    "llm_requests_running", "llm_requests_waiting", "llm_requests_waiting_api", "llm_kv_cache_utilization_ratio",
    "llm_lora_adapters_running",
})  # fmt: skip
"""Gauges that go up and down with the load."""
_BUSY = (0.88, 0.64, 0.0)
"""How hard each GPU works, from 0 to 1."""
_OF_FULL = {
    "gpu_utilization_ratio": 1.0, "gpu_sm_active_ratio": 0.8, "gpu_tensor_active_ratio": 0.42,
    "gpu_dram_active_ratio": 0.6, "gpu_sm_occupancy_ratio": 0.35,
}  # fmt: skip
_IDLE_WATTS, _WATTS, _IDLE_CELSIUS, _CELSIUS = 72.0, 560.0, 33.0, 36.0
_MEMORY = (71e9, 62e9, 0.6e9)
_XID = (("xid", "63"),)
"""Of one GPU, in the middle."""
_FASTER = 60
"""So many times faster than they were recorded the pages are played back: on processors, as they were recorded, servers
make a few tokens a second."""
_PROCESSES = (("inferwatch", "node-a:9840"), ("inferwatch-monitor", "monitor:9840"))
MODELS = ("qwen", "llama")
_SHARES = {
    "first-token": (0.018, 0.031), "first-token-slowest": (0.0006, 0.0012), "inter-token": (0.002, 0.0044),
    "whole-request": (0.011, 0.024), "availability": (0.0004, 0.0005), "kv-headroom": (0.0, 0.0),
}  # fmt: skip
"""Of what is judged so much is bad, of each model."""
_BURNS = ("availability", MODELS[1], 0.011)
"""This one's share of the second half."""


def scrapes(folder: Path, start: int) -> list[Scrape]:
    before, after = (
        [s for s in recorded.of_servers(page) if s.of("server") not in RENAMED]
        for page in recorded.read_by_a_sidecar(folder)
    )
    first = {(s.name, s.labels): s.value for s in before}
    found = []
    for step in range(STEPS + 1):
        at = start + step * EVERY
        samples = [*(_on_its_way(s, first, step / STEPS) for s in after), *_beside(step), Sample("up", (), 1.0)]
        found.append(Scrape(at, samples, _PROCESSES[0]))
        found.append(Scrape(at, list(_monitor()), _PROCESSES[1]))
        found.append(Scrape(at, [*_objectives(step), *_alerts(start, step)], ("", "")))
    return found


def _on_its_way(sample: Sample, first: dict[tuple[str, tuple[tuple[str, str], ...]], float], share: float) -> Sample:
    phase = sum(map(ord, sample.of("server")))
    if sample.name in _WAVES:
        value = sample.value * _load(share, phase)
        return sample._replace(value=value if sample.name.endswith("_ratio") else float(round(value)))
    if not is_counter(sample.name):
        return sample
    then = 0.0 if sample.of("server") in recorded.ONE_PAGE else first.get((sample.name, sample.labels), 0.0)
    faster = _FASTER if sample.name.startswith("llm_") else 1
    return sample._replace(value=then + faster * (sample.value - then) * _done(share, phase))


def _load(share: float, phase: float) -> float:
    """Round 0.8, never above 1: two waves and a bit in the time."""
    return 0.8 + 0.2 * math.sin(2 * math.pi * 2.2 * share + phase)


def _done(share: float, phase: float) -> float:
    """How much of the work, which goes on with the load: its integral, from 0 to 1."""

    def until(x: float) -> float:
        return 0.8 * x - 0.2 / (2 * math.pi * 2.2) * math.cos(2 * math.pi * 2.2 * x + phase)

    return (until(share) - until(0)) / (until(1) - until(0))


def _beside(step: int) -> Iterator[Sample]:
    for sample in recorded.beside(step * EVERY):
        if sample.name in _OF_THE_MONITOR:
            continue
        if sample.name == "gpu_xid_errors_total":
            sample = sample._replace(labels=(*sample.labels[:-1], *_XID))
        if sample.name.startswith("gpu_") and sample.of("uuid") != "GPU-3":
            yield sample._replace(value=_of_gpu(sample, step))
        else:
            yield sample._replace(value=0.0) if is_counter(sample.name) else sample


_OF_THE_MONITOR = {
    "inferwatch_history_lag_seconds": 74.0, "inferwatch_history_size_bytes": 2.1e9,
    "inferwatch_truncated_alerts_total": 0.0, "inferwatch_alertmanager_failures_total": 0.0,
}  # fmt: skip


def _monitor() -> Iterator[Sample]:
    node = (("node", "monitor"),)
    yield Sample("up", (), 1.0)
    yield Sample("inferwatch_build_info", (*node, ("version", "0.1.0"), ("grid", "1")), 1.0)
    yield Sample("inferwatch_config_last_reload_successful", node, 1.0)
    yield Sample("inferwatch_config_last_reload_success_timestamp_seconds", node, 1.796e9)
    yield from (Sample(name, node, value) for name, value in _OF_THE_MONITOR.items())


def _of_gpu(sample: Sample, step: int) -> float:
    number, name = int(sample.of("gpu")), sample.name
    if name in _OF_FULL:
        return _OF_FULL[name] * _busy(number, step)
    if name == "gpu_power_watts":
        return _power(number, step)
    if name == "gpu_energy_joules_total":
        return sum(_power(number, each) for each in range(step)) * EVERY
    if name == "gpu_temperature_celsius":
        return _IDLE_CELSIUS + _CELSIUS * _busy(number, step) + (6 if "memory" in sample.labels[-1] else 0)
    if name == "gpu_memory_used_bytes":
        return _MEMORY[number]
    if name == "gpu_xid_errors_total":
        return 1.0 if number == 1 and step > STEPS / 2 else 0.0
    if is_counter(name):
        return sample.value * _BUSY[number] if name in recorded.VALUES else 0.0
    return sample.value


def _busy(number: int, step: int) -> float:
    return _BUSY[number] * _load(step / STEPS, 2.0 * number) if _BUSY[number] else 0.0


def _power(number: int, step: int) -> float:
    return _IDLE_WATTS + _WATTS * _busy(number, step)


def _objectives(step: int) -> Iterator[Sample]:
    """What the rules of the default objectives record."""
    for group in slo_groups(read(DEFAULT)):
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield from _recorded(rule, step)


def _recorded(rule: Recording, step: int) -> Iterator[Sample]:
    kind = rule.record.removeprefix("inferwatch:slo_").split(":")[0]
    if kind == "objective":
        yield Sample(rule.record, tuple(rule.labels.items()), float(rule.expr.removeprefix("vector(")[:-1]))
        return
    slo = rule.labels["slo"]
    for number, model in enumerate(MODELS):
        share = _SHARES[slo][number]
        if (slo, model) == _BURNS[:2] and step > STEPS / 2:
            share = _BURNS[2]
        judged = 5.0 if slo == "kv-headroom" else 1500 * (number + 1) * _load(step / STEPS, number)
        values = {"total": judged, "bad": share * judged, "certain": 0.9 * share * judged, "bad_ratio": share,
                  "certain_ratio": 0.9 * share}  # fmt: skip
        of = (*rule.labels.items(), ("model", model), ("role", "unified"))
        yield Sample(rule.record, of, values.get(kind, 0.0))


def _alerts(start: int, step: int) -> Iterator[Sample]:
    burning = {"severity": "ticket", "slo": _BURNS[0], "model": _BURNS[1], "role": "unified"}
    for name, labels, since in (
        ("SloBurnTicket", burning, STEPS // 2),
        ("ServerDown", {"severity": "page", "node": NODE, "server": "down"}, 0),
        ("GpuIdle", {"severity": "ticket", "node": NODE, "uuid": "GPU-2"}, 0),
        ("Watchdog", {"severity": "none"}, 0),
    ):
        if step >= since:
            of = (("alertname", name), *labels.items())
            yield Sample("ALERTS", (*of, ("alertstate", "firing")), 1.0)
            yield Sample("ALERTS_FOR_STATE", of, float(start + since * EVERY))
