"""Which ways of reading work on one GPU, and why the others do not: found out once, and not asked again."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from exporters.findings import Finding, finding
from exporters.gpu.errors import IN_USE, Code, DriverGone, GpuLost, Verdict, code_of
from exporters.gpu.fields import Member
from exporters.gpu.ways import Context, FieldSum, Key, Reading, Way
from exporters.observation import FieldStatus
from exporters.schema import METRICS

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    way: int = 0
    denied: bool = False
    works: bool = False
    """Whether the way brought a value once: others are then not prepared for."""
    code: Code | None = None
    """Of the last try that brought nothing."""


@dataclass(frozen=True, slots=True)
class Got:
    values: dict[Key, float]
    failed: Counter[str] = field(default_factory=Counter)
    """Names of codes, as often as they came."""


class Attempts:
    def __init__(self, readings: Sequence[Reading], name: str) -> None:
        """`name` is what the GPU is called in the log."""
        self._name = name
        self._states = [(reading, _State()) for reading in readings]

    def fields(self) -> list[Member]:
        """Those that the ways in use need now, or may need next."""
        ways = [way for reading, state in self._states for way in _prepared(reading, state)]
        return [member for way in ways if isinstance(way, FieldSum) for member in way.members]

    def read(self, context: Context) -> Got:
        """Raises GpuLost and DriverGone."""
        got = Got({})
        for reading, state in self._states:
            while (way := _way(reading, state)) and not self._took(reading, state, way, context, got):
                state.way, state.works = state.way + 1, False
        return got

    def _took(self, reading: Reading, state: _State, way: Way, context: Context, got: Got) -> bool:
        """False where this way never works here."""
        try:
            values = {(v.metric, v.label): float(v.value) for v in way.read(context)}
        except context.nvml.NVMLError as error:
            return self._coped(reading, state, error, context, got)
        got.values.update(values)
        state.code, state.works = None, True
        return True

    def _coped(self, reading: Reading, state: _State, error: Any, context: Context, got: Got) -> bool:
        code = state.code = code_of(error.value)
        if code.verdict in (Verdict.LOST, Verdict.OVER):
            raise_for(error)
        if error.value == IN_USE:
            # Seen to come from GPM, and then to stay until GPM is left alone.
            context.gpm.stop(IN_USE)
        if code.verdict is Verdict.FAILED:
            got.failed[code.name] += 1
        if code.verdict is Verdict.DENIED:
            state.denied = True
            _log.warning("gpu: %s: no permission to read %s", self._name, reading.name)
        return code.verdict is not Verdict.NEVER

    def findings(self) -> list[Finding]:
        """One for each reason, naming the readings."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for reading, state in self._states:
            if state.code is not None and (reason := _reason(state.code, reading.metric in METRICS)):
                names[reason].append(reading.name)
        return [finding(reason, ", ".join(of)) for reason, of in names.items()]

    def statuses(self) -> tuple[FieldStatus, ...]:
        """Of the readings that are metrics: by which way, or why not."""
        return tuple(_status(r, s) for r, s in self._states if r.metric in METRICS)


def raise_for(error: Any) -> None:
    """GpuLost or DriverGone, where NVML's error means it."""
    verdict = code_of(error.value).verdict
    if verdict is Verdict.LOST:
        raise GpuLost from error
    if verdict is Verdict.OVER:
        raise DriverGone.by(error.value) from error


def _way(reading: Reading, state: _State) -> Way | None:
    return None if state.denied or state.way >= len(reading.ways) else reading.ways[state.way]


def _prepared(reading: Reading, state: _State) -> Sequence[Way]:
    if state.denied:
        return ()
    return reading.ways[state.way :][: 1 if state.works else None]


def _reason(code: Code, is_metric: bool) -> str:
    if code.verdict is Verdict.NEVER and not is_metric:
        return ""
    return code.finding or ("gpu_read_failed" if code.verdict is Verdict.FAILED else "")


def _status(reading: Reading, state: _State) -> FieldStatus:
    way = _way(reading, state)
    if state.code is None and way is not None:
        return FieldStatus(reading.name, way.source, way.quality)
    source = way.source if way is not None else reading.ways[-1].source
    return FieldStatus(reading.name, source, "unavailable", state.code.meaning if state.code else "")
