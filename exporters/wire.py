"""One metrics page, indexed: which names, labels and histograms it shows and which discriminators hold on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporters import exposition

_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created", "_info")
_CONDITION = re.compile(r"(?P<name>[^{<>=]+)(?:\{(?P<label>[^=}]+)(?:=(?P<value>[^}]*))?\})?")
_VERSION = re.compile(r"version(?P<op>>=|<)(?P<version>[\d.]+)")


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
    """`series` is keyed by name without prefix; names outside the prefix stand under `@name` as well."""

    series: dict[str, list[WireSeries]] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    wire_names: dict[str, str] = field(default_factory=dict)
    """Name without prefix to the name as it stood on the page."""
    dropped: list[tuple[str, str]] = field(default_factory=list)
    rewritten: bool = False
    """Names came with `_` in place of `:`."""
    version: tuple[int, ...] | None = None

    def find(self, name: str) -> list[WireSeries]:
        return self.series.get(name, [])

    def exists(self, name: str) -> bool:
        return any(n in self.series or n in self.declared for n in (name, *(name + s for s in _SUFFIXES)))

    def holds(self, needs: Iterable[str], lacks: Iterable[str]) -> bool:
        return all(self._is(c) for c in needs) and not any(self._is(c) for c in lacks)

    def _is(self, condition: str) -> bool:
        if match := _VERSION.fullmatch(condition):
            if self.version is None:
                return False
            at_least = self.version >= parse_version(match["version"])
            return at_least if match["op"] == ">=" else not at_least
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise ValueError(f"{condition!r}: allowed: name, name{{label}}, name{{label=value}}, version>=1.2")
        name, label, value = match["name"], match["label"], match["value"]
        if label is None:
            return self.exists(name)
        candidates = [*self.find(name), *(s for suffix in _SUFFIXES for s in self.find(name + suffix))]
        return any(label in s.labels and value in (None, s.labels[label]) for s in candidates)

    def histograms(self, base: str) -> list[WireHistogram]:
        """Histograms of one base name, one per label set without `le`."""
        rest = {suffix: {_identity(s.labels): s for s in self.find(base + suffix)} for suffix in ("_sum", "_count")}
        buckets: dict[tuple[tuple[str, str], ...], dict[float, WireSeries]] = {}
        for s in self.find(f"{base}_bucket"):
            bound = exposition.parse_value(s.labels.get("le", ""))
            if bound is not None:
                without = {k: v for k, v in s.labels.items() if k != "le"}
                buckets.setdefault(_identity(without), {}).setdefault(bound, s)
        return [
            h
            for key, by_bound in buckets.items()
            if (h := _histogram(dict(key), by_bound, rest["_sum"].get(key), rest["_count"].get(key)))
        ]


def _histogram(
    labels: dict[str, str], by_bound: dict[float, WireSeries], total: WireSeries | None, count: WireSeries | None
) -> WireHistogram | None:
    last = by_bound.pop(float("inf"), count)
    if last is None or not by_bound:
        return None
    bounds = tuple(sorted(by_bound))
    slots = (*(by_bound[b].slot for b in bounds), last.slot)
    return WireHistogram(labels, bounds, slots, total.slot if total else None)


def _identity(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: 0.6.3.post1 reads (0, 6, 3)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def index(lines: list[str], keys: list[str], prefixes: tuple[str, ...]) -> Page:
    """`keys` as `exposition.split` yields them for a regular page, `lines` the page's lines."""
    page = Page()
    for name, kind in exposition.declared_names(lines).items():
        local = _local(name, prefixes)
        page.declared[local] = kind
        page.wire_names.setdefault(local, name)
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for slot, key in enumerate(keys):
        parsed = None if key.startswith("#") else exposition.parse_key(key)
        if parsed is None:
            continue
        name, all_labels = parsed
        labels = {k: v for k, v in all_labels.items() if v}
        local = _local(name, prefixes)
        identity = (local, _identity(labels))
        if identity in seen:
            page.dropped.append((lines[slot], "duplicate"))
            continue
        seen.add(identity)
        page.rewritten |= any(p and name.startswith(f"{p}_") for p in prefixes)
        page.wire_names.setdefault(local, name)
        page.series.setdefault(local, []).append(WireSeries(labels, slot))
    return page


def _local(name: str, prefixes: tuple[str, ...]) -> str:
    for p in prefixes:
        if not p:
            return name
        if name.startswith(p) and name[len(p) : len(p) + 1] in (":", "_"):
            return name[len(p) + 1 :]
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
