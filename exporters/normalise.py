"""Text of a server's metrics page in, schema out: pure, and compiled once per sequence of sample keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import le

from exporters import documents as docs
from exporters import exposition
from exporters.documents import Documents, JsonValue
from exporters.findings import Finding, finding, tell_of_a_part, tell_of_nothing
from exporters.health import unhealthy
from exporters.histogram import Histogram, projection
from exporters.nodes import NO_SAMPLE, Scrape
from exporters.observation import FieldStatus, Series, labels
from exporters.plan import HistogramSlot, Identity, Limits, Plan, ScalarSlot, Shown, StateSlot, Subject, compile_plan
from exporters.schema import Phase, Unit
from exporters.shared import SharedPlans
from exporters.table import Form, Frontend, Json, Quality
from exporters.terms import terms, walk

__all__ = ["Identity", "Limits", "Normaliser", "Reading", "TooManySamples"]

_MAX_PLANS = 4
"""API processes of one server may answer with their families in different orders."""
_RATIO_TOLERANCE = 1e-6
_RELATIVE_ROUNDING = 1e-9
_MAX_DROPPED_SHOWN = 50
_NOT_KNOWN = "not_known"
"""The server says itself that it does not know yet: nothing is wrong with it."""

Drop = Callable[[str, str], None]
"""Counts a sample that is not used: (reason, the sample)."""


class TooManySamples(ValueError):
    def __init__(self, samples: int, limit: int) -> None:
        super().__init__(f"{samples} samples, more than the limit of {limit}")


@dataclass
class Reading:
    """One scrape in the schema. Lists run parallel to the plan's slots; None is what was not there or not usable."""

    plan: Plan
    scalar_values: list[float | None]
    histogram_values: list[Histogram | None]
    infos: list[Series]
    dropped: Counter[str]
    dropped_samples: list[tuple[str, str]]
    """(sample, reason) of the first of them."""
    findings: tuple[Finding, ...]

    @cached_property
    def fields(self) -> tuple[FieldStatus, ...]:
        """Every field. What the plan has a source for is unavailable while none of its values is usable."""
        if None not in self.scalar_values and None not in self.histogram_values:
            return self.plan.fields
        found = {s.metric for s in (*self.values, *self.histograms)}
        planned = {s.series.metric for s in self.plan.scalars} | {h.series.metric for h in self.plan.histograms}
        return tuple(_unusable(f) if f.field in planned - found else f for f in self.plan.fields)

    @property
    def mapped(self) -> Mapping[str, str]:
        """Families as they stood on the page, to the schema fields they feed."""
        return self.plan.mapped

    @property
    def unmapped(self) -> tuple[str, ...]:
        return self.plan.unmapped

    @property
    def available(self) -> bool:
        return self.plan.available

    @property
    def is_complete(self) -> bool:
        """As that of its observation."""
        return self.available or tell_of_nothing(self.findings)

    @property
    def proves_absence(self) -> bool:
        return not tell_of_a_part(self.findings)

    @cached_property
    def values(self) -> dict[Series, float]:
        pairs = zip(self.plan.scalars, self.scalar_values, strict=True)
        return {slot.series: v for slot, v in pairs if v is not None} | dict.fromkeys(self.infos, 1.0)

    @cached_property
    def histograms(self) -> dict[Series, Histogram]:
        """With the server's own bounds."""
        pairs = zip(self.plan.histograms, self.histogram_values, strict=True)
        return {slot.series: h for slot, h in pairs if h is not None}

    @property
    def start_time(self) -> float | None:
        pairs = zip(self.plan.scalars, self.scalar_values, strict=True)
        return next((v for slot, v in pairs if slot.series.metric == "llm_process_start_time_seconds"), None)

    def chunks(self) -> dict[str, str]:
        """Sample lines of the schema's exposition by metric, histograms on the shared grid."""
        lines: dict[str, list[str]] = {}
        for slot, value in zip(self.plan.scalars, self.scalar_values, strict=True):
            if value is not None:
                lines.setdefault(slot.series.metric, []).append(f"{slot.line}{value!r}\n")
        for histogram_slot, histogram in zip(self.plan.histograms, self.histogram_values, strict=True):
            if histogram is not None:
                _histogram_lines(histogram_slot, histogram, lines)
        for info in self.infos:
            lines.setdefault(info.metric, []).append(exposition.prefix(info.metric, info.labels) + "1.0\n")
        return {metric: "".join(found) for metric, found in lines.items()}


def _unusable(field: FieldStatus) -> FieldStatus:
    return replace(field, quality=Quality.UNAVAILABLE.value, reason="the server shows no usable value at present")


def _histogram_lines(slot: HistogramSlot, histogram: Histogram, lines: dict[str, list[str]]) -> None:
    counts = projection(histogram.bounds, slot.phase.grid).apply(histogram.counts)
    counts.append(histogram.count)
    found = lines.setdefault(slot.series.metric, [])
    found.append("".join([f"{p}{c!r}\n" for p, c in zip(slot.bucket_lines, counts, strict=True)]))
    if histogram.sum is not None:
        found.append(f"{slot.sum_line}{histogram.sum!r}\n")
    found.append(f"{slot.count_line}{histogram.count!r}\n")
    values = (histogram.overflow, 1.0, histogram.bounds[-1])
    for (metric, line), value in zip(_native_lines(slot.series, slot.phase, histogram.bounds), values, strict=False):
        lines.setdefault(metric, []).append(f"{line}{value!r}\n")


def native_series(series: Series, phase: Phase, bounds: tuple[float, ...]) -> list[Series]:
    """The series beside a histogram that tell its overflow, its native bounds and (latencies) the largest of them."""
    in_phase = {**dict(series.labels), "phase": phase.name}
    kind = "latency" if phase.unit is Unit.SECONDS else "length"
    text = ",".join(exposition.format_bound(b) for b in bounds)
    found = [
        Series(f"llm_{kind}_overflow_total", labels(in_phase)),
        Series(f"llm_{kind}_native_bounds_info", labels({**in_phase, "bounds": text})),
    ]
    return [*found, Series("llm_latency_native_max_seconds", labels(in_phase))] if kind == "latency" else found


@lru_cache(maxsize=4096)
def _native_lines(series: Series, phase: Phase, bounds: tuple[float, ...]) -> list[tuple[str, str]]:
    return [(s.metric, exposition.prefix(s.metric, s.labels)) for s in native_series(series, phase, bounds)]


class Normaliser:
    """Follows one target: keeps its compiled plans, and the totals of documents whose records are read once."""

    def __init__(
        self,
        frontend: Frontend,
        identity: Identity,
        limits: Limits = Limits(),  # noqa: B008
        shared: SharedPlans | None = None,
    ) -> None:
        self.frontend = frontend
        self._subject = Subject(frontend, identity, limits)
        self._limits = limits
        self._shared = shared
        self._plans: list[Plan] = []
        # A term may stand in several fields, and its records are read once.
        self._json_terms = list({id(t): t for t in terms(frontend) if isinstance(t, Json)}.values())
        self._facts = {id(t) for alternatives in frontend.facts.values() for fact in alternatives for t in walk(fact)}
        self._memory = docs.Memory(identity.prefer)
        self._documents: Documents = {}
        self._json: dict[int, dict[str, JsonValue]] = {}
        self._json_shape: object = []

    def normalise(self, text: str, documents: Documents | None = None, unread: Collection[str] = ()) -> Reading:
        """`unread` tells, for people, which documents are not among `documents` and may hold something.

        Raises InvalidExposition where no line of a text is a sample, TooManySamples above the limit.
        """
        self._take(documents or {})
        text = text.removeprefix(exposition.BYTE_ORDER_MARK)
        keys, values = exposition.split(text)
        plan = self._known(keys)
        bad: list[str] = []
        if plan is None:
            if not exposition.is_regular(text):
                text, bad = exposition.regular(text)
                keys, values = exposition.split(text)
            plan = self._known(keys) or self._compile(text, keys)
        return self._read(plan, values, bad, unread)

    def _known(self, keys: list[str]) -> Plan | None:
        return next((p for p in self._plans if p.keys == keys and p.json_shape == self._json_shape), None)

    def _compile(self, text: str, keys: list[str]) -> Plan:
        samples = sum(1 for k in keys if k and not k.startswith("#"))
        if samples > self._limits.max_samples:
            raise TooManySamples(samples, self._limits.max_samples)
        make = self._shared.compile_plan if self._shared else compile_plan
        plan = make(self._subject, Shown(text, keys, self._json, self._json_shape))
        self._plans = [plan, *self._plans[: _MAX_PLANS - 1]]
        return plan

    def _take(self, documents: Documents) -> None:
        """Reads the JSON terms again where documents changed; sums of read-once records go on from where they were."""
        fresh = {n for n in documents.keys() | self._documents.keys() if documents.get(n) is not self._documents.get(n)}
        if not fresh:
            return
        for term in self._json_terms:
            if term.document not in fresh:
                continue
            self._json[id(term)] = self._memory.read(term, documents)
        self._documents = dict(documents)
        # Facts end up in labels, numbers do not: only what labels show makes another plan.
        self._json_shape = [(k, dict(v) if k in self._facts else set(v)) for k, v in self._json.items()]

    def _read(self, plan: Plan, texts: list[str], bad: list[str], unread: Collection[str]) -> Reading:
        dropped: Counter[str] = Counter()
        shown: list[tuple[str, str]] = []

        def drop(reason: str, sample: str) -> None:
            dropped[reason] += 1
            if len(shown) < _MAX_DROPPED_SHOWN:
                shown.append((sample[: self._limits.max_label_length], reason))

        def drop_index(reason: str, index: int) -> None:
            position = plan.positions[index] if index != NO_SAMPLE else None
            drop(reason, "" if position is None else f"{plan.keys[position]} {texts[position]}")

        for sample, reason in plan.dropped:
            drop(reason, sample)
        for line in bad:
            drop("syntax", line)
        scrape = Scrape(_numbers(plan, texts, drop), self._json, drop_index)
        scalars = [_checked(slot, slot.node(scrape), drop) for slot in plan.scalars]
        histograms = [_checked_histogram(slot, slot.node(scrape), drop) for slot in plan.histograms]
        infos = [*plan.infos, *(_state(s, scrape) for s in plan.states)]
        said = (self._documents.get(d.name) for d in self.frontend.documents if d.form is Form.STATUS)
        found = (*plan.findings, *unhealthy(said), *_unread(unread), *_dropped(dropped))
        return Reading(plan, scalars, histograms, infos, dropped, shown, found)


def _unread(documents: Collection[str]) -> list[Finding]:
    return [finding("documents_unread", ", ".join(documents))] if documents else []


def _dropped(dropped: Counter[str]) -> list[Finding]:
    detail = ", ".join(f"{n} × {reason}" for reason, n in sorted(dropped.items()) if reason != _NOT_KNOWN)
    return [finding("dropped_samples", detail)] if detail else []


def _numbers(plan: Plan, texts: list[str], drop: Drop) -> list[float]:
    wanted = [texts[p] for p in plan.positions]
    try:
        return list(map(float, wanted))
    except ValueError:
        numbers = [exposition.parse_value(t) for t in wanted]
    for position, number in zip(plan.positions, numbers, strict=True):
        if number is None:
            drop("syntax", f"{plan.keys[position]} {texts[position]}")
    return [math.nan if n is None else n for n in numbers]


def _checked(slot: ScalarSlot, value: float | None, drop: Drop) -> float | None:
    if value is None:
        return None
    if value - value != 0:
        reason = "invalid_value"
    elif value < 0:
        reason = "negative"
    elif slot.is_ratio and value > 1:
        if value <= 1 + _RATIO_TOLERANCE:
            return 1.0
        reason = "ratio_out_of_range"
    else:
        return value
    drop(reason, f"{slot.line}{value!r}")
    return None


def _checked_histogram(slot: HistogramSlot, histogram: Histogram | None, drop: Drop) -> Histogram | None:
    if histogram is None:
        return None
    counts = histogram.counts
    if histogram.sum is not None and not 0 <= histogram.sum < math.inf:
        drop(_why_unusable(histogram.sum), f"{slot.sum_line}{histogram.sum!r}")
        histogram = Histogram(histogram.bounds, counts)
    if all(map(le, counts, counts[1:])) and counts[0] >= 0 and counts[-1] < math.inf:
        return histogram
    mended = _mended(histogram)
    if mended is None:
        drop("nan" if any(map(math.isnan, counts)) else "bucket_decreasing", f"{slot.count_line}{counts!r}")
    return mended


def _why_unusable(value: float) -> str:
    return "nan" if math.isnan(value) else "invalid_value" if math.isinf(value) else "negative"


def _mended(histogram: Histogram) -> Histogram | None:
    """Counts that fall by no more than rounding, raised to the one before; None where it is more."""
    if not histogram.counts[0] >= 0:
        return None
    counts = [histogram.counts[0]]
    for before, count in pairwise(histogram.counts):
        if not count >= before - abs(before) * _RELATIVE_ROUNDING or math.isinf(count):
            return None
        counts.append(max(count, counts[-1]))
    return Histogram(histogram.bounds, tuple(counts), histogram.sum)


def _state(slot: StateSlot, scrape: Scrape) -> Series:
    state = slot.node(scrape) if slot.node else None
    return Series("llm_server_state", labels({**slot.labels, "state": state or "unknown"}))
