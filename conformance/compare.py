"""What a release declares against what a table reads: names the table does not know, names and fields that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from conformance.declarations import Declared, Family
from conformance.scopes import UNKNOWN
from conformance.values import Kind
from exporters import schema
from exporters.normalise import Identity, Normaliser
from exporters.table import Calc, Frontend, Label, Need, Ratio, Series, Source, Term
from exporters.terms import walk
from exporters.wire import parse_version, stem
from inferwatch.reference.terms import describe, wire_name

_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
_FACT = re.compile(r"(?P<fact>[a-z_]+)(?P<op>>=|<)(?P<least>[\d.]+)")


@dataclass(frozen=True, slots=True)
class Use:
    """What the table makes of the wire: a schema field or a fact, from the first of its sources that fits."""

    name: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """`instead` is the source that this release has for the use; empty: none, the use is lost."""

    name: str
    use: str
    instead: str


@dataclass(frozen=True, slots=True)
class Retyped:
    name: str
    use: str
    expected: str
    family: Family


@dataclass(frozen=True, slots=True)
class Comparison:
    declared: Declared
    unknown: tuple[Family, ...]
    gone: tuple[Gone, ...]
    retyped: tuple[Retyped, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """Uses without a source in this release."""
        return tuple(dict.fromkeys(gone.use for gone in self.gone if not gone.instead))

    @property
    def good(self) -> bool:
        return not self.unknown and not self.lost


def compare(frontend: Frontend, declared: Declared, release: str) -> Comparison:
    found = _Found(frontend, declared, release)
    uses = _uses(frontend)
    return Comparison(
        declared,
        tuple(_unknown(frontend, declared.families)),
        tuple(dict.fromkeys(gone for use in uses for gone in found.gone(use))),
        tuple(dict.fromkeys(retyped for use in uses for retyped in found.retyped(use))),
    )


def _uses(frontend: Frontend) -> list[Use]:
    facts = [Use(f"fact {name}", tuple(map(Source, terms))) for name, terms in frontend.facts.items()]
    return [*(Use(field.metric, field.sources) for field in frontend.fields), *facts]


def _unknown(frontend: Frontend, families: Iterable[Family]) -> Iterator[Family]:
    """As the product itself judges a page on which all of them stand."""
    kinds = {family.name: _on_the_page(family.kind) for family in families}
    page = "".join(f"# TYPE {name} {kind}\n" for name, kind in kinds.items())
    unmapped = set(Normaliser(frontend, Identity("", "")).normalise(page).unmapped)
    return (family for family in families if family.name in unmapped)


def _on_the_page(kind: Kind | None) -> str:
    return "gauge" if kind is Kind.INFO else kind or "untyped"


class _Found:
    """The declared families as the table names them."""

    def __init__(self, frontend: Frontend, declared: Declared, release: str) -> None:
        self._frontend = frontend
        self._declared = declared
        self._version = parse_version(release)
        self._by_series = {name: family for family in declared.families for name in _series(family)}
        self._histograms = {family.name: family for family in declared.families if family.kind is Kind.HISTOGRAM}
        self._by_stem = {stem(family.name): family for family in reversed(declared.families)}

    def gone(self, use: Use) -> Iterator[Gone]:
        instead = next((s for s in use.sources if self._holds(s, use)), None)
        told = self._told(instead, use) if instead else ""
        for name in dict.fromkeys(name for source in use.sources for name in _names(source)):
            if not self._has(name, use):
                yield Gone(self._wire(name), use.name, told)

    def retyped(self, use: Use) -> Iterator[Retyped]:
        for source in use.sources:
            for name in _names(source):
                expected = _expected(name, use if _is_direct(name, source) else None)
                family = self._family(name, use)
                if expected and family and family.kind and family.kind not in expected:
                    yield Retyped(self._wire(name), use.name, expected[0], family)

    def _told(self, source: Source, use: Use) -> str:
        names = dict.fromkeys(self._wire(name) for name in _names(source) if self._has(name, use))
        return ", ".join(names or [describe(self._frontend, part) for part in source.parts])

    def _family(self, name: str, use: Use) -> Family | None:
        wire = self._wire(name)
        by_series = self._histograms if _is_histogram(use, name) else self._by_series
        return by_series.get(wire) or self._by_stem.get(stem(wire))

    def _has(self, name: str, use: Use) -> bool:
        wire = self._wire(name)
        return wire in (self._histograms if _is_histogram(use, name) else self._by_series) or self._may_be(wire)

    def _may_be(self, wire: str) -> bool:
        """Whether a name that the source shows in part may be it."""
        return any(fnmatchcase(stem(wire), start) or fnmatchcase(wire, start) for start in self._partly)

    @cached_property
    def _partly(self) -> list[str]:
        bare = {wire_name(self._frontend, UNKNOWN), UNKNOWN}
        return [u.name for u in self._declared.unresolved if u.name not in bare]

    def _wire(self, name: str) -> str:
        return wire_name(self._frontend, name)

    def _holds(self, source: Source, use: Use) -> bool:
        needed = all(self._fits(condition) for condition in source.needs)
        return needed and self._readable(source.parts[0], use)

    def _readable(self, term: Term, use: Use) -> bool:
        match term:
            case Series(name=name) | Label(name=name):
                return name.startswith("@") or self._has(name, use)
            case Calc(terms=terms, need=need):
                return (any if need is Need.ANY else all)(self._readable(t, use) for t in terms)
            case Ratio(numerator=numerator, denominator=denominator):
                counters = [use for use in _uses(self._frontend) if use.name in (numerator, denominator)]
                return all(any(self._holds(source, counter) for source in counter.sources) for counter in counters)
        return True  # a document, a number: not among what a package declares

    def _fits(self, condition: str) -> bool:
        """Whether it can hold in this release; labels and documents are not looked at."""
        if match := _FACT.fullmatch(condition):
            newer = self._version >= parse_version(match["least"])
            return match["fact"] != "version" or newer == (match["op"] == ">=")
        name = condition.partition("{")[0]
        outside = condition.startswith("json:") or name.startswith("@")
        return outside or stem(self._wire(name)) in self._by_stem or self._may_be(self._wire(name))


def _series(family: Family) -> tuple[str, ...]:
    """Names of its samples."""
    if family.kind in (Kind.HISTOGRAM, Kind.SUMMARY):
        return tuple(family.name + suffix for suffix in _OF_A_HISTOGRAM)
    return (family.name,) if family.kind else ()


def _names(source: Source) -> list[str]:
    """What the package itself has to declare: names outside the prefix are the client library's."""
    found = [t.name for part in source.parts for t in walk(part) if isinstance(t, Series | Label)]
    return [name for name in found if not name.startswith("@")]


def _is_direct(name: str, source: Source) -> bool:
    return any(isinstance(part, Series) and part.name == name for part in source.parts)


def _is_histogram(use: Use, name: str) -> bool:
    return use.name in schema.PHASE_OF_METRIC and not name.endswith(_OF_A_HISTOGRAM)


def _expected(name: str, use: Use | None) -> tuple[Kind, ...]:
    """By the schema where the series is the field itself, else by the name's ending; the first is the one told."""
    if name.endswith(_OF_A_HISTOGRAM):
        return (Kind.HISTOGRAM, Kind.SUMMARY)
    if use is None or use.name not in schema.METRICS:
        return (Kind.COUNTER,) if name.endswith("_total") else ()
    kind = Kind(schema.METRICS[use.name].type)
    return (kind, Kind.INFO) if kind is Kind.GAUGE else (kind,)
