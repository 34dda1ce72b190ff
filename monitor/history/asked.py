"""Which series the history is worked out from, as they are named in a Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from exporters.schema import METRICS, Type
from monitor.history.columns import ENGINE_COLUMNS, GPU_COLUMNS, TARGET_COLUMNS

_UP = "llm_up"
PRESENCE = (_UP, "llm_metrics_available", "inferwatch_finding", "llm_server_info", "llm_server_state")
"""Whether a target was read, and its facts."""
_BESIDE = ("llm_process_start_time_seconds", "llm_latency_native_bounds_info", "llm_length_native_bounds_info")
_OVERFLOW = ("llm_latency_overflow_total", "llm_length_overflow_total")


def _of_type(*types: Type) -> Iterator[str]:
    return (name for name in (*TARGET_COLUMNS, *ENGINE_COLUMNS) if METRICS[name].type in types)


def _parts(*parts: str) -> Iterator[str]:
    return (f"{name}_{part}" for name in _of_type(Type.HISTOGRAM) for part in parts)


GAUGES = (*PRESENCE, *_BESIDE, *(name for name in _of_type(Type.GAUGE) if name not in PRESENCE))
COUNTERS = (_UP, *_OVERFLOW, *_of_type(Type.COUNTER), *_parts("bucket", "sum", "count"))
"""With what says that there was a reading at all."""
FALLING = (*_OVERFLOW, *_of_type(Type.COUNTER), *_parts("bucket"))
"""What falls at a restart; a histogram's count is its last bucket."""

GPU_PRESENCE = ("inferwatch_gpu_available", "gpu_up", "gpu_info", "gpu_server_info")
"""Whether GPUs were read, and what they and those on them are."""
GPU_ALL = (*GPU_PRESENCE, *(name for name in GPU_COLUMNS if name not in GPU_PRESENCE))
EVERY_SCRAPE = (*PRESENCE[:1], *GPU_PRESENCE[:1])
