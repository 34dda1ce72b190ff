"""Rows and answers against the recorded pages, read by another program, and against what the clients saw."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from exporters import exposition
from exporters.account import Account
from exporters.collected import Outcome, chunks_of, observation_of
from exporters.exposition import read_samples
from exporters.normalise import Identity, Normaliser
from exporters.observation import Observation
from exporters.schema import E2E, TTFT
from exporters.tables import FRONTENDS
from monitor.history.ask import History
from monitor.history.recording import Recording
from monitor.history.store import Store
from monitor.sources.rebuild import observations
from tests.exporters import recorded
from tests.exporters.recorded import VLLM, truth
from tests.monitor.history.stored import engine_rows, everything, rows

RUN = VLLM / "0.32.0"
IDENTITY = Identity("n1", "tiny", {"team": "search"})
INTERVAL = 15.0
SEEN = truth(RUN / "A-truth.json")
MOMENTS = {
    RUN / c["file"].removeprefix("vllm0.32.0-"): c["wall"] for c in SEEN["captures"] if c["file"].endswith("prom")
}
LOAD = {page: at for page, at in MOMENTS.items() if page.name <= "A-2-after.prom"}
COUNTERS = {
    "prompt_tokens": ("vllm:prompt_tokens_total", None),
    "generation_tokens": ("vllm:generation_tokens_total", None),
    "prefix_cache_query_tokens": ("vllm:prefix_cache_queries_total", None),
    "prefix_cache_hit_tokens": ("vllm:prefix_cache_hits_total", None),
    "preemptions": ("vllm:num_preemptions_total", None),
    "requests_finished_stop": ("vllm:request_success_total", "stop"),
    "requests_finished_length": ("vllm:request_success_total", "length"),
    "requests_finished_abort": ("vllm:request_success_total", "abort"),
}


independent = lru_cache(maxsize=64)(recorded.independent)


def told(pages: dict[Path, float], *, by_text: bool = False) -> list[Observation]:
    """What the sidecar of this process says, or what is rebuilt from the text of one elsewhere."""
    normaliser, account = (
        Normaliser(FRONTENDS["vllm"], IDENTITY),
        Account({"node": "n1", "server": "tiny", "team": "search"}),
    )
    found = []
    for page, at in pages.items():
        outcome = Outcome(at, up=True, reading=normaliser.normalise(page.read_text()))
        observation = observation_of(outcome, IDENTITY, 0.1)
        text = exposition.page([chunks_of(outcome, observation, account)])
        found += observations(read_samples(text), at) if by_text else [observation]
    return found


def record(database: Engine, seen: list[Observation]) -> Path:
    recording = Recording(Store(database), INTERVAL)
    for each in seen:
        recording.record([each], each.at)
    recording.flush()
    return Path(database.url.database or "")


def on_page(page: Path, name: str, reason: str | None = None) -> float:
    samples = independent(page)[name].items()
    return sum(v for labels, v in samples if reason is None or ("finished_reason", reason) in labels)


def by_window(pages: dict[Path, float]) -> dict[int, list[Path]]:
    """Pages by the start of the minute they were taken in; none lies on a boundary."""
    windows: defaultdict[int, list[Path]] = defaultdict(list)
    for page, at in pages.items():
        windows[int(at // 60) * 60].append(page)
    return windows


def test_minute_rows_are_what_another_program_reads_from_the_pages(database: Engine) -> None:
    stored = engine_rows(record(database, told(MOMENTS)))
    windows = by_window(MOMENTS)
    assert list(stored) == list(windows)
    assert len(windows) == 3
    before = next(iter(MOMENTS))
    for start, pages in windows.items():
        for column, (name, reason) in COUNTERS.items():
            expected = on_page(pages[-1], name, reason) - on_page(before, name, reason)
            assert stored[start][column] == expected, (start, column)
        running = [on_page(page, "vllm:num_requests_running") for page in pages]
        assert stored[start]["requests_running_avg"] == pytest.approx(sum(running) / len(running))
        assert stored[start]["requests_running_max"] == max(running)
        assert stored[start]["samples"] == len(pages)
        before = pages[-1]


def test_histograms_of_minute_rows_are_exact_at_the_native_bounds(database: Engine) -> None:
    stored = engine_rows(record(database, told(MOMENTS)))
    before = next(iter(MOMENTS))
    for start, pages in by_window(MOMENTS).items():
        [histogram] = stored[start]["ttft_histogram"]
        expected = _buckets(pages[-1]) - _buckets(before)
        assert list(histogram.counts) == list(expected), start
        before = pages[-1]


def _buckets(page: Path) -> Any:
    name = "vllm:time_to_first_token_seconds_bucket"
    by_bound: defaultdict[float, float] = defaultdict(float)
    for labels, value in independent(page)[name].items():
        by_bound[float(dict(labels)["le"])] += value
    return np.array([by_bound[bound] for bound in sorted(by_bound)])


def test_a_whole_run_adds_up_to_what_the_clients_saw(database: Engine, history: History) -> None:
    record(database, told(LOAD))
    requests = [r for r in SEEN["requests"] if r["i"] < 10_000]
    since, until = min(LOAD.values()), max(LOAD.values())

    def total(metric: str, **where: str) -> float:
        [answer] = history.ask(metric, None, since, until, 3600, (), where, "sum")
        return sum(p.value for p in answer.points)

    assert total("llm_prompt_tokens_total") == sum(r["prompt_tokens"] for r in requests) == 68_808
    assert total("llm_generation_tokens_total") == sum(r["completion_tokens"] for r in requests) == 27_022
    assert total("llm_prefix_cache_hit_tokens_total") == sum(r["cached_tokens"] for r in requests) == 29_056
    for reason in ("stop", "length"):
        seen = sum(1 for r in requests if r["finish_reason"] == reason)
        assert total("llm_requests_finished_total", reason=reason) == seen
    [answer] = history.ask("llm_prefix_cache_hit_ratio", None, since, until, 3600)
    assert answer.points[-1].value == pytest.approx(29_056 / 68_808)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("phase", "measure"), [(TTFT, "ttft"), (E2E, "e2e")])
def test_the_clients_own_percentiles_lie_between_the_bounds(
    database: Engine, history: History, q: float, phase: Any, measure: str
) -> None:
    record(database, told(LOAD))
    seen = [r[measure] for r in SEEN["requests"] if r["i"] < 10_000]
    [answer] = history.ask(phase.metric, q, min(LOAD.values()), max(LOAD.values()), 86_400, ["model"])
    [point] = answer.points
    assert point.lower is not None
    assert point.upper is not None
    assert point.lower <= np.quantile(seen, q) <= point.upper
    assert point.lower <= point.value <= point.upper


def test_a_sidecar_elsewhere_gives_the_same_rows(two: tuple[Engine, Engine]) -> None:
    near, far = (everything(record(d, told(MOMENTS, by_text=t))) for d, t in zip(two, (False, True), strict=True))
    assert far == near, "all native bounds of the release are on the grid"


def test_data_parallel_engines_keep_rows_of_their_own(database: Engine, history: History) -> None:
    pages = {p: 1_796_027_220.0 + 2 * (n + 1) for n, p in enumerate(sorted(RUN.glob("C-*-[01]-*.prom")))}
    stored = rows(record(database, told(pages)), "engine_minute")
    of_all = stored.pop(next(key for key in stored if '"engine"' not in key[0]))
    assert of_all["requests_rejected"] == {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}
    assert len(stored) == 2
    prompt = sum(r["prompt_tokens"] for r in stored.values())
    first, *_, last = pages
    assert prompt == on_page(last, "vllm:prompt_tokens_total") - on_page(first, "vllm:prompt_tokens_total")
    assert all(r["kv_cache_capacity_tokens_max"] == 1280 for r in stored.values())
    assert all(r["kv_cache_utilization_ratio_max"] <= 1 for r in stored.values())
