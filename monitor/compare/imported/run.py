"""What a load test measured, as a cell tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.compare.imported.document import Document, ForeignFile
from monitor.compare.model import Band, Measure, Workload, band_of

Measures = Mapping[Measure, float]
_NOT_KNOWN = Workload()


@dataclass(frozen=True, slots=True)
class Run:
    """`concurrency` are requests at once, on average. `at` is when it began, in unix seconds. Who imports it may know
    more than the file: what is "" here."""

    tool: str
    concurrency: float
    measures: Measures
    workload: Workload = _NOT_KNOWN
    model: str = ""
    at: float | None = None
    framework: str = ""
    version: str = ""
    gpu: str = ""

    @property
    def band(self) -> Band:
        """A run in which there was less than one request at once is in the lowest."""
        return band_of(self.concurrency) or Band(1)


def at_once(document: Document, requests: float, mean_seconds: float | None, told: float | None) -> float:
    """By Little's law, where the mean duration of requests is known; else as the test was told. Raises ForeignFile."""
    found = requests * mean_seconds if mean_seconds else told
    if not found:
        raise ForeignFile(f"{document.place}: neither durations of requests nor their number at once are in it")
    return found


def known(measures: Mapping[Measure, float | None]) -> Measures:
    return {measure: value for measure, value in measures.items() if value is not None}


def seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
