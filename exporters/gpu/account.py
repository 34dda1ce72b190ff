"""GPUs on our own metrics page: their series, and what reading them comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from exporters import exposition
from exporters.gpu.errors import FAILURES
from exporters.gpu.gathered import Gathered
from exporters.observation import Series, labels
from exporters.schema import GPU_DROP_REASONS

_MOST_SERIES = 20_000


class GpuAccount:
    """Counters start at 0 for every reason there is: one that is born at 1 shows no increase. A host that never had a
    GPU has none of them."""

    def __init__(self, node: str, *, of_page: bool = False) -> None:
        """`of_page`: whether GPUs are read from a page, of which samples may be dropped."""
        self._node = node
        self._of_page = of_page
        self._has_gpus = False
        self._failed = Counter[str](dict.fromkeys((*FAILURES, "gpu_is_lost", "hangs"), 0))
        self._dropped = Counter[str](dict.fromkeys(GPU_DROP_REASONS, 0))
        self._prefix = lru_cache(maxsize=_MOST_SERIES)(exposition.prefix)

    def take(self, gathered: Gathered) -> None:
        """Once for each."""
        self._has_gpus = self._has_gpus or bool(gathered.gpus)
        self._failed.update(gathered.failed)
        self._dropped.update(gathered.dropped)

    def chunks(self, gathered: Gathered) -> dict[str, str]:
        """Sample lines by metric."""
        chunks: dict[str, str] = {}
        for series, value in self._samples(gathered):
            chunks[series.metric] = chunks.get(series.metric, "") + self._line(series, value)
        return chunks

    def _samples(self, gathered: Gathered) -> Iterable[tuple[Series, float]]:
        for gpu in gathered.gpus:
            yield from gpu.values.items()
        yield self._own("inferwatch_gpu_available"), float(gathered.available)
        yield self._own("inferwatch_gpu_read_duration_seconds"), gathered.duration
        for reason, count in self._failed.items() if self._has_gpus else ():
            yield self._own("inferwatch_gpu_read_errors_total", reason=reason), float(count)
        for reason, count in self._dropped.items() if self._of_page else ():
            yield self._own("inferwatch_gpu_dropped_samples_total", reason=reason), float(count)
        of_gpus = ((gpu.uuid, f) for gpu in gathered.gpus for f in gpu.findings)
        found = [*(("", f) for f in gathered.findings), *of_gpus]
        for uuid, reason, severity in dict.fromkeys((uuid, f.reason, f.severity.value) for uuid, f in found):
            yield self._own("inferwatch_gpu_finding", uuid=uuid, reason=reason, severity=severity), 1.0

    def _own(self, metric: str, **more: str) -> Series:
        return Series(metric, labels({"node": self._node, **more}))

    def _line(self, series: Series, value: float) -> str:
        return f"{self._prefix(series.metric, series.labels)}{exposition.format_value(value)}\n"
