"""What guidellm writes as JSON: a benchmark for each rate or number of streams.

`request_latency` is in seconds and what ends in `_ms` in milliseconds. Its times between tokens are means of a request,
so they are not taken for those between tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from monitor.compare.imported.document import Document
from monitor.compare.imported.latencies import latencies
from monitor.compare.imported.run import Run, at_once, known, seconds
from monitor.compare.model import Measure, Workload

TOOL = "guidellm"
MARK = "benchmarks"
_MODEL = ("config.backend.model", "worker.backend_model", "args.model")
_FIRST_TOKEN, _WHOLE = "metrics.time_to_first_token_ms", "metrics.request_latency"
_LATENCIES = {"ttft": f"{_FIRST_TOKEN}.successful.percentiles.{{}}", "e2e": f"{_WHOLE}.successful.percentiles.{{}}"}


def runs(document: Document) -> Iterator[Run]:
    """Raises ForeignFile. A benchmark that completed nothing is no run."""
    for benchmark in document.items("benchmarks"):
        if benchmark.needed("metrics.request_totals.successful"):
            yield _run(benchmark, benchmark.text(*_MODEL) or document.text("args.model"))


def _run(of: Document, model: str) -> Run:
    requests = of.needed(_path("requests_per_second", "mean"))
    prompt, output = (_mean(of, f"{kind}_token_count") for kind in ("prompt", "output"))
    measures = {
        Measure.TOKENS: None if prompt is None or output is None else requests * (prompt + output),
        Measure.OUTPUT_TOKENS: None if output is None else requests * output,
        Measure.REQUESTS: requests,
        **latencies(of, _LATENCIES, partial(_seconds, of)),
    }
    concurrency = at_once(of, requests, _mean(of, "request_latency"), _mean(of, "request_concurrency"))
    return Run(TOOL, concurrency, known(measures), Workload(prompt, output), model, of.number("start_time"))


def _path(metric: str, what: str) -> str:
    return f"metrics.{metric}.successful.{what}"


def _mean(of: Document, metric: str) -> float | None:
    return of.number(_path(metric, "mean"))


def _seconds(of: Document, path: str) -> float | None:
    found = of.number(path)
    return seconds(found) if path.startswith(_FIRST_TOKEN) else found
