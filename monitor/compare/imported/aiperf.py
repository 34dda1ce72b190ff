"""What AIPerf writes as profile_export_aiperf.json: one run, each metric with its unit and statistics.

Its times between tokens are means of a request, so they are not taken for those between tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from monitor.compare.imported.document import Document
from monitor.compare.imported.latencies import latencies
from monitor.compare.imported.run import Run, at_once, known
from monitor.compare.model import Measure, Workload

TOOL = "aiperf"
MARK = "request_throughput.avg"
_IN_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_LATENCIES = {"ttft": "time_to_first_token.{}", "e2e": "request_latency.{}"}


def runs(document: Document) -> Iterator[Run]:
    """Raises ForeignFile."""
    requests = document.needed("request_throughput.avg")
    prompt, output = (document.number(f"{kind}_sequence_length.avg") for kind in ("input", "output"))
    measures = {
        Measure.TOKENS: None if prompt is None or output is None else requests * (prompt + output),
        Measure.OUTPUT_TOKENS: document.number("output_token_throughput.avg"),
        Measure.REQUESTS: requests,
        **latencies(document, _LATENCIES, partial(_seconds, document)),
    }
    told = document.number("input_config.loadgen.concurrency")
    concurrency = at_once(document, requests, _seconds(document, "request_latency.avg"), told)
    model = document.text("input_config.endpoint.model_names.0")
    yield Run(TOOL, concurrency, known(measures), Workload(prompt, output), model, _began(document))


def _seconds(document: Document, path: str) -> float | None:
    value = document.number(path)
    if value is None:
        return None
    of_unit = f"{path.rpartition('.')[0]}.unit"
    unit = document.text(of_unit)
    if unit not in _IN_SECONDS:
        raise document.wrong(of_unit, ", ".join(_IN_SECONDS))
    return value * _IN_SECONDS[unit]


def _began(document: Document) -> float | None:
    """Without a zone it is the client's."""
    try:
        return datetime.fromisoformat(document.text("start_time")).astimezone().timestamp()
    except (ValueError, OverflowError):
        return None
