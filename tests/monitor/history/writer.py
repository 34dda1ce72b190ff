"""A process that records a server's life as fast as it can: `python writer.py DATABASE_URL FIRST_INDEX LAST_INDEX`.

It prints each index once the reading is handed over, before it may be written.
"""

from __future__ import annotations

import sys

from exporters.histogram import Histogram
from exporters.observation import Observation
from exporters.schema import TTFT
from monitor.history.database import open_database
from monitor.history.lease import SCRAPED, Lease
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.observations import observation, series

START = 1_796_032_800.0
INTERVAL = 15.0
TOKENS, RUNNING, LATENCY = series("llm_generation_tokens_total"), series("llm_requests_running"), series(TTFT.metric)


def reading(index: int) -> Observation:
    """Counters grow by their index; every engine of the second server does the same."""
    tokens = index * (index + 1) / 2
    counts = Histogram((0.1, 1.0), (float(index), 3.0 * index, 4.0 * index), 0.5 * index)
    return observation(
        START + INTERVAL * index, {TOKENS: tokens, RUNNING: 1.0}, {LATENCY: counts}, start_time=START - 500
    )


def main() -> None:
    url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    engine = open_database(url)
    recording = Recording(Store(engine, Lease(engine, SCRAPED)), INTERVAL)
    for index in range(first, last + 1):
        print(index, flush=True)  # noqa: T201
        seen = reading(index)
        recording.record([seen], seen.at)
    recording.flush()


if __name__ == "__main__":
    main()
