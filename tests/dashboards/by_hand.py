"""A small fleet whose numbers can be worked out in the head. Two jobs scrape its sidecar: each series is there twice.

Three engines of one model: `half` and `full` tell how large their KV cache is, `blank` does not. `half` finishes a
request a second, of which 2 % take longer than its largest bucket (80 s); `full` four a second, between 0.4 and 0.5 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from alerts.rules.model import Recording
from alerts.rules.slo import slo_groups
from alerts.slo.published import DEFAULT
from alerts.slo.spec import read
from exporters import schema
from exporters.exposition import format_bound
from tests.dashboards import recorded
from tests.dashboards.recorded import EVERY, STEPS
from tests.end_to_end.samples import ONLY, Sample, Scrape

NODE, APART = "by-hand", "apart"
"""On the second, `prefill` hands on to `decode`, and `whole` does both: each on a GPU without an energy counter."""
TWIN = "twin"
"""On the third a server of another framework has the name of one on the first."""
AGAIN = ("inferwatch-again", "n1:9840")
RESTART_STEP = STEPS // 2
KV = {"half": (0.2, 1000.0), "full": (0.6, 3000.0), "blank": (0.9, None)}
RUNNING = {"half": 16.0, "full": 64.0, "blank": 0.0}
PER_SECOND = {
    "llm_prompt_tokens_total": {"half": 300.0, "full": 100.0, "blank": 0.0},
    "llm_generation_tokens_total": {"half": 100.0, "full": 50.0, "blank": 0.0},
    "llm_prefix_cache_query_tokens_total": {"half": 20.0, "full": 20.0},
    "llm_prefix_cache_hit_tokens_total": {"half": 10.0, "full": 0.0},
}
FIRST_TOKENS = {"half": {0.5: 0.5, 1.0: 0.98}, "full": {0.5: 4.0}}
"""Per second: so many at most so long."""
FINISHED = {"half": 1.0, "full": 4.0}
OVERFLOW = {"half": 0.02, "full": 0.0}
LARGEST = 80.0
ROLES = {"whole": "unified", "prefill": "prefill", "decode": "decode"}
GENERATED = {"whole": 10.0, "prefill": 1.0, "decode": 20.0}
ENDED = {"whole": {"stop": 1.0}, "prefill": {"length": 1.0, "abort": 0.5}, "decode": {"stop": 1.0, "abort": 0.0}}
"""Per second, as the tokens."""
PROMPT, WATTS = 100.0, 300.0
TEAMS = {"search": (100.0, 1.0), "chat": (1000.0, 500.0)}
"""Of an objective that is grouped by a label of one's own: judged and bad, at every evaluation."""
COUNTED = {
    "total": 100.0, "bad": 1.0, "certain": 1.0, "unknown": 2.0, "outage": 0.5, "bad_ratio": 0.1, "certain_ratio": 0.1,
}  # fmt: skip
"""By the rules of each objective, at every evaluation."""


def scrapes(start: int) -> Iterator[Scrape]:
    for step in range(STEPS + 1):
        page = list(_page(step))
        yield Scrape(start + step * EVERY, page, ONLY)
        yield Scrape(start + step * EVERY + 1, page, AGAIN)
        gone = [Sample("llm_up", (("node", APART), ("server", "gone")), 1.0)] if step < RESTART_STEP else []
        yield Scrape(start + step * EVERY, [*_apart(step * EVERY), _reloaded(1.0), *gone], ONLY)
        yield Scrape(start + step * EVERY, [_reloaded(0.0)], AGAIN)
        yield Scrape(start + step * EVERY, list(_twin()), ONLY)
        yield Scrape(start + step * EVERY, [*_rules(), *_teams(), *_alerts(start)], ("", ""))


def _reloaded(successful: float) -> Sample:
    """Two processes of one host."""
    return Sample("inferwatch_config_last_reload_successful", (("node", APART),), successful)


def _twin() -> Iterator[Sample]:
    target = (("node", TWIN), ("server", "half"))
    of = (*target, ("framework", "sglang"), ("model", recorded.QWEN), ("role", "unified"), ("engine", "0"))
    yield Sample("llm_up", target, 1.0)
    yield Sample("llm_metrics_available", target, 1.0)
    yield Sample("llm_server_info", of, 1.0)
    yield Sample("inferwatch_finding", (*target, ("reason", "too_old"), ("severity", "warning")), 1.0)


def _apart(seconds: int) -> Iterator[Sample]:
    for server, role in ROLES.items():
        target = (("node", APART), ("server", server))
        of = (*target, ("framework", "vllm"), ("model", "hand"), ("role", role), ("engine", "0"))
        gpu = (("node", APART), ("uuid", f"GPU-{server}"), ("gpu", "0"))
        yield Sample("llm_up", target, 1.0)
        yield Sample("llm_server_info", of, 1.0)
        yield Sample("llm_requests_running", of, 4.0)
        yield Sample("llm_prompt_tokens_total", of, PROMPT * seconds)
        yield Sample("llm_generation_tokens_total", of, GENERATED[server] * seconds)
        for reason, ended in ENDED[server].items():
            yield Sample("llm_requests_finished_total", (*of, ("reason", reason)), ended * seconds)
        yield Sample("gpu_server_info", (*gpu, ("server", server)), 1.0)
        yield Sample("gpu_power_watts", gpu, WATTS)


def _page(step: int) -> Iterator[Sample]:
    yield Sample("up", (), 1.0)
    yield Sample("inferwatch_build_info", (("node", NODE), ("version", "0.1.0"), ("grid", "1")), 1.0)
    for server in KV:
        yield Sample("llm_up", _target(server), 1.0)
        yield Sample("llm_metrics_available", _target(server), 1.0)
        yield from _engine(server, step)
    for server in FIRST_TOKENS:
        yield from _latency(server, step * EVERY)


def _target(server: str) -> tuple[tuple[str, str], ...]:
    return (("node", NODE), ("server", server))


def _of(server: str, **more: str) -> tuple[tuple[str, str], ...]:
    who = {"framework": "vllm", "model": "hand", "role": "unified", "engine": "0", **more}
    return (*_target(server), *who.items())


def _engine(server: str, step: int) -> Iterator[Sample]:
    """`blank` restarts in the middle, in a new version."""
    is_new = server == "blank" and step >= RESTART_STEP
    used, capacity = KV[server]
    yield Sample("llm_server_info", _of(server, version="1.1" if is_new else "1.0"), 1.0)
    yield Sample("llm_server_state", _of(server, state="sleeping" if server == "blank" else "awake"), 1.0)
    yield Sample("llm_process_start_time_seconds", _of(server), 2000.0 if is_new else 1000.0)
    yield Sample("llm_kv_cache_utilization_ratio", _of(server), used)
    if capacity is not None:
        yield Sample("llm_kv_cache_capacity_tokens", _of(server), capacity)
    yield Sample("llm_requests_running", _of(server), RUNNING[server])
    for name, rates in PER_SECOND.items():
        if server in rates:
            yield Sample(name, _of(server), rates[server] * step * EVERY)


def _latency(server: str, seconds: int) -> Iterator[Sample]:
    phase, below = schema.TTFT, FIRST_TOKENS[server]
    known = 0.0
    for bound in phase.grid:
        known = below.get(bound, known)
        total = FINISHED[server] if bound > LARGEST else known
        yield Sample(f"{phase.metric}_bucket", _of(server, le=format_bound(bound)), total * seconds)
    yield Sample(f"{phase.metric}_bucket", _of(server, le="+Inf"), FINISHED[server] * seconds)
    yield Sample(f"{phase.metric}_count", _of(server), FINISHED[server] * seconds)
    yield Sample("llm_latency_overflow_total", _of(server, phase="ttft"), OVERFLOW[server] * seconds)
    yield Sample("llm_latency_native_max_seconds", _of(server, phase="ttft"), LARGEST)


def _rules() -> Iterator[Sample]:
    """What the rules of the default objectives record."""
    for group in slo_groups(read(DEFAULT)):
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield _recorded(rule)


def _recorded(rule: Recording) -> Sample:
    kind = rule.record.removeprefix("inferwatch:slo_").split(":")[0]
    if kind == "objective":
        value = rule.expr.removeprefix("vector(").removesuffix(")")
        return Sample(rule.record, tuple(rule.labels.items()), float(value))
    of = (*rule.labels.items(), ("model", "hand"), ("role", "unified"))
    return Sample(rule.record, of, COUNTED.get(kind, 1.0))


def _teams() -> Iterator[Sample]:
    yield Sample("inferwatch:slo_objective:ratio", (("slo", "of-teams"),), 0.9)
    for team, counted in TEAMS.items():
        for kind, value in zip(("total", "bad"), counted, strict=True):
            yield Sample(f"inferwatch:slo_{kind}:slice", (("slo", "of-teams"), ("team", team)), value)


def _alerts(start: int) -> Iterator[Sample]:
    for name, labels in (
        ("SloBurnPage", {"severity": "page", "slo": "first-token", "model": "hand", "role": "unified"}),
        ("ServerDown", {"severity": "page", "node": "node-a", "server": "down"}),
        ("GpuIdle", {"severity": "ticket", "node": "node-a", "uuid": "GPU-2"}),
        ("Watchdog", {"severity": "none"}),
    ):
        of = (("alertname", name), *labels.items())
        yield Sample("ALERTS", (*of, ("alertstate", "firing")), 1.0)
        yield Sample("ALERTS_FOR_STATE", of, float(start))
