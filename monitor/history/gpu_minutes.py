"""Observations of one GPU become minute rows, by the rules of `minutes`, and differ in this:

- A GPU that is lost has a row all the same: `samples` and `covered_seconds` count the readings that said so.
- Its counters count since the driver was loaded, so that one that is first read later is only a base line. XIDs are
  counted by the sidecar, from the first event on: where others of the GPU are counted, a new one counts in full.
- A counter goes on where it was read last, under whichever number the GPU has now; after `LOOKBACK_SECONDS` without it
  the next reading of it is a base line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporters.delta import Deltas, Increase
from exporters.gpu.observation import GpuObservation
from exporters.observation import Labels, Series, labels
from monitor.history.columns import GPU_COLUMNS, GaugeColumns
from monitor.history.minutes import LOOKBACK_SECONDS, Base, Key, Minute, State, Step, changes, key_of, open_window
from monitor.readings import counters, own_labels

_GAUGES = {name for name, columns in GPU_COLUMNS.items() if isinstance(columns[0], GaugeColumns)}
_XIDS = "gpu_xid_errors_total"
_EVENTS = ("state", "driver")


def identity_of(gpu: GpuObservation) -> Labels:
    return labels({"node": gpu.node, "uuid": gpu.uuid, "gpu": gpu.gpu})


def advance(state: State, gpu: GpuObservation, max_step: float, *, counted: bool = True) -> Step:
    """As `minutes.advance`; without `counted` the counters are not looked at."""
    of = identity_of(gpu)
    opened = open_window(state, gpu.at, frozenset([of]), max_step)
    if opened is None:
        return Step()
    finished, window = opened
    row = window.row(of)
    row.add_reading(gpu.at if gpu.up else None, _gauges(gpu))
    row.info = dict(gpu.info) or row.info
    if counted and _counters(gpu):
        increase, state.base = increase_since(state.base, gpu)
        add_increase(row, increase)
    return Step(finished, changes(state, of, gpu.at, facts_of(gpu), _EVENTS))


def _gauges(gpu: GpuObservation) -> dict[Key, float]:
    told = {key_of(series): value for series, value in gpu.values.items() if series.metric in _GAUGES}
    return told | {("gpu_up", ""): float(gpu.up)}


def facts_of(gpu: GpuObservation) -> dict[str, str]:
    driver = gpu.info.get("driver")
    return {"state": "up" if gpu.up else "down"} | ({"driver": driver} if driver else {})


def _counters(gpu: GpuObservation) -> dict[Series, float]:
    """By their own labels alone: the number of a GPU may change when the driver is loaded again."""
    return {Series(s.metric, own_labels(s)): v for s, v in counters(gpu.values).items() if s.metric in GPU_COLUMNS}


def increase_since(base: Base | None, gpu: GpuObservation) -> tuple[Increase, Base]:
    """What was added since `base`, and the base for the next step."""
    now = _counters(gpu)
    last_read = {} if base is None else {series: base.absent.get(series, base.at) for series in base.values}
    known = {s: at for s, at in last_read.items() if gpu.at - at <= LOOKBACK_SECONDS}
    deltas = Deltas()
    if base is not None and known:
        deltas.advance(base.at, {series: base.values[series] for series in known}, {})
    step = deltas.advance(gpu.at, now, {})
    counts_xids = _has_xids(known)
    added = {s: v for s, v in step.values.items() if s in known or (s.metric == _XIDS and counts_xids)}
    absent = {s: at for s, at in known.items() if s not in now and not (s.metric == _XIDS and _has_xids(now))}
    kept = {} if base is None else {series: base.values[series] for series in absent}
    return replace(step, values=added), Base(gpu.at, None, kept | now, {}, absent)


def _has_xids(series: Iterable[Series]) -> bool:
    return any(each.metric == _XIDS for each in series)


def add_increase(row: Minute, increase: Increase) -> None:
    for series, value in increase.values.items():
        row.add_counter(series, value)
    if increase.values:
        row.increase_seconds += increase.seconds or 0.0
