"""Twenty minutes of servers of every frontend: each goes evenly from one recorded page to another, as a real sidecar
tells them, and so do GPUs, rules and processes made up by hand beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from exporters import schema
from tests.end_to_end.processes import free_port, until
from tests.end_to_end.real_prometheus import sidecar_of
from tests.end_to_end.recorded import Pages, serving
from tests.end_to_end.samples import Sample, Scrape, parsed, read_whole
from tests.end_to_end.web import get

MINUTES, EVERY = 20, 30
STEPS = MINUTES * 60 // EVERY
CAPTURES = Path(__file__).parents[1] / "captures"
PAGES: Mapping[str, tuple[str, str, str]] = {
    "vllm": ("vllm/0.32.0", "A-0-fresh", "A-1-mid12"),
    "vllm-new": ("vllm/0.33.0", "0-fresh", "1-mid62s"),
    "sglang": ("sglang/0.5.23", "tp1-0_fresh", "tp1-2_load"),
    "sglang-lora": ("sglang/0.5.23", "spec_lora_hicache-0_fresh", "spec_lora_hicache-1_load"),
    "lmdeploy": ("lmdeploy/0.18.0", "fresh", "mid-2"),
    "trtllm": ("trtllm_serve/main2026", "page-fresh", "page-load2"),
    "triton": ("triton/24.11", "firstresponse-fresh", "firstresponse-load3"),
    "nim": ("nim/1.x", "made_by_hand", "made_by_hand"),
}
"""By server the folder of its frontend and release, and where it begins and ends."""
RENAMED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "vllm-older": (
        "vllm",
        {
            "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
            "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
            "vllm:request_queue_time_seconds": "vllm:time_in_queue_requests",
        },
    ),
    "vllm-unheard-of": ("vllm", {"vllm:kv_cache_usage_perc": "vllm:kv_cache_share"}),
    "sglang-respelled": ("sglang", {"sglang:": "sglang_"}),
}
"""Servers that do the same as another, under names of another release: older ones, unheard-of ones, `_` for `:`."""
ONE_PAGE = {"nim"}
"""Of these there is one page, so that they begin with nothing."""
GPU_OF = {"GPU-0": "vllm", "GPU-1": "sglang"}
NODE = "node-a"
QWEN = "Qwen/Qwen2.5-7B-Instruct"
"""The model of the recorded SGLang."""
_METRICS_PATHS = {"trtllm": "/prometheus/metrics", "nim": "/v1/metrics"}
_HISTOGRAM = ("_bucket", "_sum", "_count")


def scrapes(folder: Path, start: int) -> list[Scrape]:
    told = zip(read_by_a_sidecar(folder), (0, MINUTES * 60), strict=True)
    before, after = ([*of_servers(page), *beside(seconds)] for page, seconds in told)
    first = {(s.name, s.labels): s.value for s in before}
    return [Scrape(start + i * EVERY, [_at(s, first, i / STEPS) for s in after]) for i in range(STEPS + 1)]


def of_servers(page: Iterable[Sample]) -> Iterator[Sample]:
    """Without what the sidecar says of itself, but for who it is: that is made up beside."""
    made_up = {m.name for m in schema.METRICS.values() if m.scope is schema.Scope.SELF} - {"inferwatch_build_info"}
    return (sample for sample in page if sample.name not in made_up)


def _at(sample: Sample, first: Mapping[tuple[str, tuple[tuple[str, str], ...]], float], share: float) -> Sample:
    """A counter on its way; of anything else what it is at the end."""
    if not is_counter(sample.name):
        return sample
    if sample.of("server") in ONE_PAGE:
        return sample._replace(value=sample.value * share)
    then = first.get((sample.name, sample.labels), 0.0)
    return sample._replace(value=then + (sample.value - then) * share)


def is_counter(name: str) -> bool:
    metric = schema.METRICS.get(name)
    return metric.type is schema.Type.COUNTER if metric else name.endswith(_HISTOGRAM)


def read_by_a_sidecar(folder: Path) -> tuple[list[Sample], list[Sample]]:
    """At the beginning and at the end. A server more is down."""
    with ExitStack() as stack:
        served = {name: Pages(_documents(name)) for name in (*PAGES, *RENAMED)}
        ports = {name: stack.enter_context(serving(pages)) for name, pages in served.items()}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in {**ports, "down": free_port()}.items()}
        url = stack.enter_context(sidecar_of([{"name": name, "url": url} for name, url in urls.items()], folder))
        told = []
        for place in (1, 2):
            for name, pages in served.items():
                pages.bodies[_METRICS_PATHS.get(name, "/metrics")] = _page(name, place)
            told.append(until(lambda: read_whole(parsed(get(f"{url}/metrics").text), len(served))))
    return told[0], told[1]


def _page(name: str, place: int) -> bytes:
    of, names = RENAMED.get(name, (name, {}))
    parts = PAGES[of]
    text = (CAPTURES / parts[0] / f"{parts[place]}.prom").read_text(encoding="utf-8")
    for before, after in names.items():
        text = text.replace(before, after)
    return text.encode()


def _documents(name: str) -> dict[str, bytes]:
    """What else the server answers."""
    folder = CAPTURES / PAGES[RENAMED.get(name, (name,))[0]][0]
    found = {"/health": b"", "/v1/health/live": b""}
    for file in (folder / "endpoints.json", folder / "A-endpoints.json"):
        answers = json.loads(file.read_text()) if file.exists() else {}
        found |= {path: a["body"].encode() for path, a in answers.items() if a.get("status") == 200}
    if name == "trtllm":
        found["/metrics"] = (folder / "statistics-load2.json").read_bytes()
    return found


def beside(seconds: int) -> Iterator[Sample]:
    """GPUs, inferwatch's own processes, and synthetic requests, as they are so many seconds after the beginning."""
    for number in range(4):
        yield from _gpu(number, seconds)
    for metric in schema.METRICS.values():
        if metric.scope is schema.Scope.SELF and metric.name not in ("inferwatch_build_info", "inferwatch_gpu_finding"):
            yield from _of(metric, (("node", NODE),), seconds)
    lost = (("node", NODE), ("uuid", "GPU-3"), ("reason", "gpu_lost"), ("severity", "error"))
    yield Sample("inferwatch_gpu_finding", lost, 1.0)
    probed = (("node", NODE), ("server", "vllm"))
    for metric in schema.of_prefix("llm_probe_"):
        yield from _of(metric, probed, seconds)


def _gpu(number: int, seconds: int) -> Iterator[Sample]:
    """Two with a server, one without, and one that is lost."""
    uuid = f"GPU-{number}"
    of = (("node", NODE), ("uuid", uuid), ("gpu", str(number)))
    yield Sample("gpu_up", of, float(number != 3))
    if number == 3:
        return
    yield Sample("gpu_info", (*of, ("name", "NVIDIA H100 80GB HBM3"), ("driver", "570.1")), 1.0)
    if uuid in GPU_OF:
        yield Sample("gpu_server_info", (*of, ("server", GPU_OF[uuid]), ("source", "config")), 1.0)
    for metric in schema.METRICS.values():
        if metric.scope is schema.Scope.GPU and metric.name not in ("gpu_up", "gpu_info", "gpu_server_info"):
            yield from _of(metric, of, seconds)


VALUES = {
    "gpu_memory_used_bytes": 60e9,
    "gpu_memory_total_bytes": 80e9,
    "gpu_energy_joules_total": 500.0,
    "gpu_power_watts": 490.0,
    "gpu_power_limit_watts": 700.0,
    "gpu_temperature_celsius": 61.0,
    "gpu_clock_hertz": 1.755e9,
    "gpu_pcie_bytes_total": 2e9,
    "gpu_nvlink_bytes_total": 30e9,
    "gpu_throttled_seconds_total": 0.02,
    "inferwatch_config_last_reload_success_timestamp_seconds": 1.796e9,
    "inferwatch_history_lag_seconds": 70.0,
    "inferwatch_history_size_bytes": 250e6,
    "inferwatch_gpu_read_duration_seconds": 0.012,
}
"""Of counters what they rise by in a second; of all others it is one in five minutes."""
_SELDOM = 1 / 300


def _of(metric: schema.Metric, labels: tuple[tuple[str, str], ...], seconds: int) -> Iterator[Sample]:
    rises = metric.type is schema.Type.COUNTER
    value = VALUES.get(metric.name, _SELDOM if rises else 0.5 if metric.is_ratio else 1.0)
    more = [(label, metric.values.get(label, ("1",))) for label in metric.labels]
    for each in _combined(more):
        yield Sample(metric.name, (*labels, *each), value * seconds if rises else value)


def _combined(labels: list[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[tuple[str, str], ...]]:
    if not labels:
        yield ()
        return
    (name, values), *rest = labels
    for value in values:
        for more in _combined(rest):
            yield ((name, value), *more)
