"""A monitor over minutes of four simulated frameworks at 16, 64 and 128 requests at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import numpy as np
from fastapi import FastAPI

from demo.fidelity import LIMITS
from exporters.histogram import Histogram
from exporters.observation import labels
from monitor.app import create_app
from monitor.compare.asked import Prices
from monitor.compare.imported.run import Run
from monitor.compare.model import Measure, Workload
from monitor.compare.rows import MINUTE, Number
from monitor.compare.runs import Runs
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.minutes import Mean, Minute, Window
from monitor.history.store import Store
from tests.end_to_end.browser import serving
from tests.monitor.compare.simulated import BOUNDS, GPU, SLOWER, START, Life, live

AT_ONCE = (16, 64, 128)
MINUTES = 20
"""At each of these."""
UNTIL = START + len(AT_ONCE) * MINUTES * MINUTE
MODEL = "qwen2.5-7b"
_FRONTENDS = {"tensorrt_llm": "trtllm_serve"}


@contextmanager
def comparing(folder: Path, slower: float = SLOWER) -> Iterator[str]:
    """Yields the URL."""
    with serving(app(folder, slower)) as port:
        yield f"http://127.0.0.1:{port}"


def app(folder: Path, slower: float = SLOWER) -> FastAPI:
    database = open_database(sqlite_url(folder / "history.sqlite"))
    upgrade(database)
    for number, framework in enumerate(LIMITS):
        Store(database).write_windows(list(_windows(framework, f"gpu-{number}:8000", slower)), [], None)
    Runs(database).add("rate-25.json", b"", [_load_test(slower)])
    prices = Prices(of_any=2.9, currency="EUR")
    return create_app(Fleet(), History(database), node="n1", prices=prices, clock=lambda: float(UNTIL))


def _load_test(slower: float) -> Run:
    measures = {Measure.TOKENS: 19_800.0 / slower, Measure.TTFT_P99: 1.1 * slower}
    return Run("guidellm", 60.0, measures, Workload(512, 256), MODEL, framework="vllm", gpu=GPU)


def _windows(framework: str, server: str, slower: float) -> Iterator[Window]:
    lives = [live(framework, at_once, 0, MINUTES, slower) for at_once in AT_ONCE]
    target = labels({"node": "n1", "server": server, "source": "simulated"})
    own = {"framework": framework, "model": MODEL, "role": "unified", "engine": "0"}
    engine = labels({**dict(target), **own})
    for n, (life, minute) in enumerate((life, minute) for life in lives for minute in range(MINUTES)):
        start = START + n * MINUTE
        yield Window(start, {engine: _engine(life, minute, start), target: _target(server, start)})


def _target(server: str, start: int) -> Minute:
    row = Minute(4, start + 1, start + MINUTE, 60.0)
    row.gauges[("llm_up", "")] = Mean(4, 4, 1)
    row.info = {"gpu": GPU, "gpus": f"{server} {GPU}"}
    return row


def _engine(life: Life, minute: int, start: int) -> Minute:
    numbers = life.numbers[minute]
    row = Minute(4, start + 1, start + MINUTE, 60.0, 60.0)
    row.gauges[("llm_requests_running", "")] = Mean(4 * numbers[Number.RUNNING], 4, numbers[Number.RUNNING])
    row.counters = {
        ("llm_prompt_tokens_total", ""): numbers[Number.PROMPT],
        ("llm_generation_tokens_total", ""): numbers[Number.GENERATION],
        ("llm_requests_finished_total", "length"): numbers[Number.FINISHED],
        ("llm_requests_finished_total", "abort"): 0.0,
    }
    told = zip(("ttft", "e2e"), BOUNDS[life.framework], (life.ttft[minute], life.e2e[minute]), strict=True)
    row.histograms = {phase: [_histogram(bounds, values)] for phase, bounds, values in told}
    row.info = {"frontend": _FRONTENDS.get(life.framework, life.framework), "version": "1.0", "gpu": GPU}
    return row


def _histogram(bounds: tuple[float, ...], values: Sequence[float]) -> Histogram:
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    return Histogram(bounds, tuple(map(float, accumulate(counts.tolist()))), float(np.sum(values)))
