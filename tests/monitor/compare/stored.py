"""Minutes in a database, as a monitor would have written them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from monitor.history.minutes import Event, Mean, Minute, Window
from monitor.history.store import Store

START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
MINUTE = 60
KIND = "NVIDIA H100 80GB HBM3"
TTFT = (0.1, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Engine:
    server: str = "s1"
    framework: str = "vllm"
    model: str = "llama"
    number: str = "0"
    role: str = "unified"
    version: str = "0.32.0"
    running: float = 16.0
    waiting: float | None = None
    prompt: float = 30_000.0
    generation: float = 15_000.0
    ttft: Sequence[float] = (10, 40, 9, 1, 0)
    covered: float = 60.0
    more: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def frontend(self) -> str:
        return {"tensorrt_llm": "trtllm_serve"}.get(self.framework, self.framework)

    @property
    def labels(self) -> Labels:
        told = {"framework": self.framework, "model": self.model, "role": self.role}
        known = {"engine": self.number, "source": self.source}
        given = {name: value for name, value in known.items() if value}
        return labels({"node": "n1", "server": self.server, **told, **given})

    def minute(self, start: int) -> Minute:
        row = Minute(4, start + 1, start + MINUTE, self.covered, 60.0)
        row.gauges[("llm_requests_running", "")] = Mean(self.running * 4, 4, self.running)
        if self.waiting is not None:
            row.gauges[("llm_requests_waiting", "")] = Mean(self.waiting * 4, 4, self.waiting)
        row.counters = {
            ("llm_prompt_tokens_total", ""): self.prompt,
            ("llm_generation_tokens_total", ""): self.generation,
            ("llm_requests_finished_total", "length"): 60.0,
            ("llm_requests_finished_total", "abort"): 0.0,
            ("llm_prefix_cache_query_tokens_total", ""): self.prompt,
            ("llm_prefix_cache_hit_tokens_total", ""): self.prompt / 10,
        }
        row.histograms = {"ttft": [Histogram(TTFT, tuple(accumulate(self.ttft)), 10.0)]}
        row.info = {"frontend": self.frontend, "version": self.version, "gpu": KIND, **self.more}
        return row


def target(server: str) -> Labels:
    return labels({"node": "n1", "server": server})


def _target_minute(start: int, gpus: str) -> Minute:
    row = Minute(4, start + 1, start + MINUTE, 60.0)
    row.gauges[("llm_up", "")] = Mean(4, 4, 1)
    row.info = {"gpu": KIND, "gpus": gpus} if gpus else {"gpu": KIND}
    return row


def gpu(uuid: str) -> Labels:
    return labels({"node": "n1", "uuid": uuid, "gpu": uuid[-1]})


def _gpu_minute(start: int, joules: float) -> Minute:
    row = Minute(4, start + 1, start + MINUTE, 60.0, 60.0)
    row.counters = {("gpu_energy_joules_total", ""): joules}
    row.info = {"name": KIND}
    return row


def window(number: int, *engines: Engine, gpus: Mapping[str, str] | None = None) -> Window:
    """Of one server; `gpus` are the texts of its GPUs by server."""
    start = START + number * MINUTE
    made = Window(start, {engine.labels: engine.minute(start) for engine in engines})
    for server in {engine.server for engine in engines}:
        made.rows[target(server)] = _target_minute(start, (gpus or {}).get(server, ""))
    return made


def gpu_window(number: int, uuid: str, joules: float = 24_000.0) -> Window:
    start = START + number * MINUTE
    return Window(start, {gpu(uuid): _gpu_minute(start, joules)})


def write(store: Store, windows: Iterable[Window], events: Sequence[Event] = ()) -> None:
    store.write_windows(list(windows), events, None)
