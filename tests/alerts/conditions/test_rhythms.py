"""Which recorded servers are judged by their live counters, as the sidecar tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.conditions.rows import Key, Minute, MinuteRows, Reading, SeriesRows, key
from alerts.conditions.servers import STICKS_WHEN_IDLE
from alerts.conditions.stuck import JUDGED_LIVE
from exporters.observation import Labels, labels
from exporters.schema import METRICS
from tests.exporters.recorded import CAPTURES, normalise, page_id

PAGES = [page for page in sorted(CAPTURES.glob("*/*/*.prom")) if normalise(page).available]
FINISH_BEFORE = (0, 5, 7)
"""SGLang's releases before it count tokens when a request finishes."""


def told(page: Path) -> MinuteRows:
    """What one reading tells of the server as a whole and of its engines."""
    reading = normalise(page)
    at = {"node": "host", "server": "file"}
    found: dict[Labels, dict[Key, Reading]] = {}
    for series, value in reading.values.items():
        own = METRICS[series.metric].labels
        of = labels({k: v for k, v in series.labels if k not in own})
        here = key(series.metric, **{k: v for k, v in series.labels if k in own})
        found.setdefault(of, {})[here] = Reading(value, value)
    for field in (f for f in reading.fields if f.quality != "exact"):
        info = key("llm_field_info", field=field.field, source=field.source, quality=field.quality, reason=field.reason)
        found.setdefault(labels(at), {})[info] = Reading(1, 1)
    return MinuteRows(SeriesRows(of, [Minute(0, gauges=gauges)]) for of, gauges in found.items())


def release(page: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in page.parent.name.lstrip("v").split("-")[0].split(".")[:3] if part.isdigit())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_server_is_judged_live_by_its_table_and_release(page: Path) -> None:
    live = {
        "vllm": True, "lmdeploy": release(page) != (0, 9, 2), "sglang": release(page) >= FINISH_BEFORE,
    }.get(page.parent.parent.name, False)  # fmt: skip
    assert bool(JUDGED_LIVE.at(told(page), 60)) == live


def test_gauges_that_stick_are_those_of_triton_trtllm_serve_and_one_lmdeploy() -> None:
    sticky = {page.parent.parent.name for page in PAGES if STICKS_WHEN_IDLE.at(told(page), 60)}
    assert sticky == {"triton", "trtllm_serve", "lmdeploy"}
