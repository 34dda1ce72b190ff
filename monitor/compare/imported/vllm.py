"""What `vllm bench serve --save-result` writes: one object for each run, appended ones after each other.

Latencies are in milliseconds. Those of whole requests (`e2el`) are there only if they were asked for; without them a
request's mean duration is that to its first token and a time per output token for each further one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.compare.imported.document import Document
from monitor.compare.imported.latencies import QS, latencies
from monitor.compare.imported.run import Run, at_once, known, seconds
from monitor.compare.model import Measure, Workload

TOOL = "vllm bench serve"
MARK = "total_token_throughput"
_LATENCIES = {"ttft": "{}_ttft_ms", "itl": "{}_itl_ms", "e2e": "{}_e2el_ms"}


def runs(document: Document) -> Iterator[Run]:
    """Raises ForeignFile."""
    completed, requests = document.needed("completed"), document.needed("request_throughput")
    if completed < 1:
        raise document.wrong("completed", "1 or more: a run of which any request was completed")
    prompt, output = (document.needed(f"total_{kind}_tokens") / completed for kind in ("input", "output"))
    measures = {
        Measure.TOKENS: document.needed("total_token_throughput"),
        Measure.OUTPUT_TOKENS: document.needed("output_throughput"),
        Measure.REQUESTS: requests,
        **latencies(document, _LATENCIES, lambda path: seconds(document.number(path)), {**QS, 0.5: "median"}),
    }
    concurrency = at_once(document, requests, _duration(document, output), document.number("max_concurrency"))
    yield Run(TOOL, concurrency, known(measures), Workload(prompt, output), document.text("model_id"), _began(document))


def _duration(document: Document, output: float) -> float | None:
    """Mean of a request, in seconds."""
    whole = seconds(document.number("mean_e2el_ms"))
    first, each = (seconds(document.number(f"mean_{phase}_ms")) for phase in ("ttft", "tpot"))
    if whole or first is None or each is None:
        return whole
    return first + each * max(0.0, output - 1)


def _began(document: Document) -> float | None:
    """The file has the time of the client's zone when the run ended."""
    try:
        return datetime.strptime(document.text("date"), "%Y%m%d-%H%M%S").astimezone().timestamp()
    except (ValueError, OverflowError):
        return None
