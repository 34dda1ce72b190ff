"""One metrics page, indexed: which names, labels and histograms it shows and which discriminators hold on it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporters import exposition

_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created", "_info")
_CONDITION = re.compile(r"(?P<name>[^{}<>=]+)(?:\{(?P<label>[^=}]+)(?:=(?P<value>[^}]*))?\})?")
_JSON_CONDITION = "json:"
_FACT = re.compile(r"(?P<fact>[a-z_]+)(?P<op>>=|<)(?P<least>[\d.]+)")


@dataclass(frozen=True, slots=True)
class WireSeries:
    """One sample line: its labels (empty values left out, as Prometheus treats them) and the position of its value."""

    labels: Mapping[str, str]
    slot: int


@dataclass(frozen=True, slots=True)
class WireHistogram:
    """`bounds` and `slots` ascend; the last slot is that of +Inf (or of the count where +Inf is missing)."""

    labels: Mapping[str, str]
    bounds: tuple[float, ...]
    slots: tuple[int, ...]
    sum_slot: int | None


@dataclass(slots=True)
class Page:
    """Keyed by name without prefix; names outside the prefix stand under `@name`."""

    unprefixed: bool = False
    """The frontend has names without prefix: `@name` and `name` are the same."""
    series: dict[str, list[WireSeries]] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    wire_names: dict[str, str] = field(default_factory=dict)
    """Name without prefix to the name as it stood on the page."""
    dropped: list[tuple[str, str]] = field(default_factory=list)
    rewritten: bool = False
    """Names came with `_` in place of `:`."""
    facts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Versions and numbers that are known of the server."""
    documents: frozenset[str] = frozenset()
    """JSON documents in which the table finds anything."""
    _histograms: dict[str, list[WireHistogram]] = field(default_factory=dict)

    def find(self, name: str) -> list[WireSeries]:
        return self.series.get(self.stored(name), [])

    def exists(self, name: str) -> bool:
        stored = self.stored(name)
        return any(n in self.series or n in self.declared for n in (stored, *(stored + s for s in _SUFFIXES)))

    def declares(self, name: str) -> bool:
        """Whether a TYPE line announces `name` while no sample of it is there. OpenMetrics leaves `_total` out."""
        stored = self.stored(name)
        base = stored.removesuffix("_total")
        announced = stored in self.declared or self.declared.get(base) == "counter"
        return announced and stored not in self.series

    def wire_name(self, name: str) -> str:
        """As it stood on the page, a histogram's without what its samples add; as given where it was not there."""
        stored = self.stored(name)
        for suffix in ("", "_bucket", "_sum", "_count"):
            if found := self.wire_names.get(stored + suffix):
                return found.removesuffix(suffix)
        return self.wire_names.get(f"{stored}_total", stored)

    def stored(self, name: str) -> str:
        """A table's name as the page is keyed."""
        return name.removeprefix("@") if self.unprefixed else name

    def holds(self, needs: Iterable[str], lacks: Iterable[str]) -> bool:
        return all(self._is(c) for c in needs) and not any(self._is(c) for c in lacks)

    def _is(self, condition: str) -> bool:
        if match := _FACT.fullmatch(condition):
            known = self.facts.get(match["fact"])
            if known is None:
                return False
            at_least = known >= parse_version(match["least"])
            return at_least if match["op"] == ">=" else not at_least
        if condition.startswith(_JSON_CONDITION):
            return condition.removeprefix(_JSON_CONDITION) in self.documents
        match = _CONDITION.fullmatch(condition)
        if match is None:
            allowed = "name, name{label}, name{label=value}, version>=1.2, version<1.2, dp>=2, json:document"
            raise ValueError(f"{condition!r}: allowed: {allowed}")
        name, label, value = match["name"], match["label"], match["value"]
        if label is None:
            return self.exists(name)
        candidates = [*self.find(name), *(s for suffix in _SUFFIXES for s in self.find(name + suffix))]
        return any(label in s.labels and value in (None, s.labels[label]) for s in candidates)

    def histograms(self, base: str) -> list[WireHistogram]:
        """Histograms of one base name, one per label set without `le`."""
        if base not in self._histograms:
            self._histograms[base] = self._complete(base)
        return self._histograms[base]

    def _complete(self, base: str) -> list[WireHistogram]:
        rest = {suffix: {_identity(s.labels): s for s in self.find(base + suffix)} for suffix in ("_sum", "_count")}
        buckets: dict[tuple[tuple[str, str], ...], dict[float, WireSeries]] = {}
        for s in self.find(f"{base}_bucket"):
            bound = exposition.parse_value(s.labels.get("le", ""))
            if bound is not None and not math.isnan(bound):
                without = {k: v for k, v in s.labels.items() if k != "le"}
                buckets.setdefault(_identity(without), {}).setdefault(bound, s)
        found = []
        for key, by_bound in buckets.items():
            last = by_bound.pop(math.inf, rest["_count"].get(key))
            if last is None or not by_bound:
                self.dropped.append((f"{self.wire_name(base)}_bucket", "bucket_incomplete"))
            else:
                found.append(_histogram(dict(key), by_bound, last, rest["_sum"].get(key)))
        return found


def _histogram(
    labels: dict[str, str], by_bound: dict[float, WireSeries], last: WireSeries, total: WireSeries | None
) -> WireHistogram:
    bounds = tuple(sorted(by_bound))
    slots = (*(by_bound[b].slot for b in bounds), last.slot)
    return WireHistogram(labels, bounds, slots, total.slot if total else None)


def _identity(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version without zeros at its end: 0.6.3.post1 reads (0, 6, 3), 0.28.0 as 0.28 does."""
    match = re.match(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)", text)
    parts = [int(part) for part in match[1].split(".")] if match else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def index(lines: list[str], keys: list[str], prefixes: tuple[str, ...]) -> Page:
    """`keys` as `exposition.split` yields them for a regular page, `lines` the page's lines."""
    page = Page(unprefixed="" in prefixes)
    for name, kind in exposition.declared_names(lines).items():
        local = local_name(name, prefixes)
        page.declared[local] = kind
        page.wire_names.setdefault(local, name)
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for slot, key in enumerate(keys):
        parsed = None if key.startswith("#") else exposition.parse_key(key)
        if parsed is None:
            continue
        name, all_labels = parsed
        labels = {k: v for k, v in all_labels.items() if v}
        local = local_name(name, prefixes)
        identity = (local, _identity(labels))
        if identity in seen:
            page.dropped.append((lines[slot], "duplicate"))
            continue
        seen.add(identity)
        page.rewritten |= any(p and p[-1] != "_" and name.startswith(f"{p}_") for p in prefixes)
        page.wire_names.setdefault(local, name)
        page.series.setdefault(local, []).append(WireSeries(labels, slot))
    return page


def local_name(name: str, prefixes: tuple[str, ...]) -> str:
    for p in prefixes:
        if not p:
            return name
        end = len(p.removesuffix("_"))
        if name.startswith(p[:end]) and name[end : end + 1] in (":", "_") and name[end + 1 :]:
            return name[end + 1 :]
    return f"@{name}"


def families(page: Page) -> list[str]:
    """Local names of the families on the page: declared ones, and bases of samples that no TYPE line declares."""
    found = dict.fromkeys(page.declared)
    for name in page.series:
        base = next((name.removesuffix(s) for s in ("_bucket", "_sum", "_count") if name.endswith(s)), name)
        if name not in found and base not in found:
            is_histogram = f"{base}_bucket" in page.series or f"{base}_sum" in page.series
            found[base if is_histogram else name] = None
    return list(found)


def stem(name: str) -> str:
    """A family's name without what its type adds to it."""
    while (short := next((name.removesuffix(s) for s in _SUFFIXES if name.endswith(s)), name)) != name:
        name = short
    return name
