"""GPM, the activity counters of Hopper and newer GPUs: means over the time between two samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from exporters.gpu.errors import IN_USE, NO_DATA, NOT_SUPPORTED, Verdict, code_of

SHORTEST_SECONDS = 0.1
"""Between two samples that say something. Whoever asks sooner gets the means of the last span."""

_FATAL = (Verdict.LOST, Verdict.OVER)


class Gpm:
    """`take` fills a sample; `span` is the time behind the present values, 0 where they are those of before."""

    def __init__(self, nvml: Any, take: Callable[[Any], None], numbers: Iterable[int]) -> None:
        self._nvml = nvml
        self._take = take
        self._numbers = tuple(numbers)
        self._samples: list[Any] = []
        self._taken_at: float | None = None
        self._metrics: Any = None
        self._error = NO_DATA
        self.off = 0
        """The error for which it is not used any more, if there was one."""
        self.span = 0.0

    def read(self, now: float) -> None:
        """Once per reading of the GPU; `now` is any clock's seconds. Raises only errors of the whole GPU."""
        self.span = 0.0
        if self.off:
            return
        if self._taken_at is not None and 0 <= now - self._taken_at < SHORTEST_SECONDS:
            return
        try:
            self._sample(now)
        except self._nvml.NVMLError as error:
            self._failed(error)

    def value(self, number: int) -> float:
        """Raises NVML's errors."""
        error = self.off or self._error
        if error:
            raise self._nvml.NVMLError(NOT_SUPPORTED if error == IN_USE else error)
        metric = self._metrics.metrics[self._numbers.index(number)]
        if metric.nvmlReturn:
            raise self._nvml.NVMLError(metric.nvmlReturn)
        return float(metric.value)

    def stop(self, error: int) -> None:
        self.off = self.off or error
        self.close()

    def close(self) -> None:
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples, self._taken_at, self._error = [], None, NO_DATA

    def _sample(self, now: float) -> None:
        while len(self._samples) < 2:
            self._samples.append(self._nvml.nvmlGpmSampleAlloc())
        before, after = self._samples
        self._take(after)
        if self._taken_at is not None and now > self._taken_at:
            self._between(before, after)
            self._error, self.span = 0, now - self._taken_at
        self._samples, self._taken_at = [after, before], now

    def _between(self, before: Any, after: Any) -> None:
        if self._metrics is None:
            self._metrics = self._nvml.c_nvmlGpmMetricsGet_t()
        asked = self._metrics
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(self._numbers)
        asked.sample1, asked.sample2 = before, after
        for place, number in enumerate(self._numbers):
            asked.metrics[place].metricId = number
        self._nvml.nvmlGpmMetricsGet(asked)

    def _failed(self, error: Any) -> None:
        verdict = code_of(error.value).verdict
        if verdict in _FATAL:
            raise error
        if verdict in (Verdict.NEVER, Verdict.DENIED) or error.value == IN_USE:
            self.stop(error.value)
        else:
            self._taken_at, self._error = None, error.value


def is_supported(nvml: Any, handle: Any) -> bool:
    """Raises NVML's errors."""
    return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
