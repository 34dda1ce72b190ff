"""A table's terms compiled for one page.

Each node stands under the engine, model and labels it is for. What labels say is fixed at compile time; only numbers
are read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from exporters import nodes
from exporters.documents import JsonValue
from exporters.nodes import HistogramNode, Node, TextNode
from exporters.observation import Labels
from exporters.table import (
    Calc,
    Engines,
    Fold,
    Frontend,
    Json,
    Keep,
    Label,
    Need,
    Number,
    Pick,
    Prefer,
    Ratio,
    Read,
    Series,
    Source,
    Term,
)
from exporters.wire import Page, WireHistogram, WireSeries

N = TypeVar("N")
T = TypeVar("T")
W = TypeVar("W", WireSeries, WireHistogram)


@dataclass(frozen=True, slots=True)
class Key:
    """What a node stands for; None where the wire does not say (one value for all engines or models)."""

    engine: str | None = None
    model: str | None = None
    extra: Labels = ()

    def generalised(self) -> list[Key]:
        """Itself and all that covers it, what is nearest first."""
        engines, models, extras = {self.engine: 0, None: 0}, {self.model: 0, None: 0}, {self.extra: 0, (): 0}
        return [Key(engine, model, extra) for extra in extras for model in models for engine in engines]

    def meet(self, other: Key) -> Key | None:
        """What both stand for; None where they exclude each other."""
        both = Key(self.engine or other.engine, self.model or other.model, self.extra or other.extra)
        agree = (
            self.engine in (None, both.engine)
            and other.engine in (None, both.engine)
            and self.model in (None, both.model)
            and other.model in (None, both.model)
            and self.extra in ((), both.extra)
            and other.extra in ((), both.extra)
        )
        return both if agree else None


@dataclass(frozen=True, slots=True)
class _Entry(Generic[N]):
    key: Key
    folds: Mapping[str, str]
    """Values of the labels that folds speak of, and of those that the term names: it tells them apart."""
    rest: Labels
    node: N


@dataclass(slots=True)
class Compiler:
    """Turns the terms of `frontend` into nodes for `page`. `json` holds the present values of JSON terms by id."""

    frontend: Frontend
    page: Page
    json: Mapping[int, Mapping[str, JsonValue]]
    model_known: bool = False
    """Whether a counter without samples may start at 0: under which model is known."""
    prefer: Mapping[str, str] = field(default_factory=dict)
    """Values that the configuration names for roles of `Prefer`."""
    ambiguous: list[str] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    """Position on the page to index in `Scrape.values`, of every sample that a node reads."""

    def scalars(self, term: Term, *, additive: bool) -> dict[Key, Node]:
        """`additive`: a counter, whose series may be added over labels that the table does not know."""
        match term:
            case Series():
                return self._series(term, additive)
            case Label():
                return self._label(term, _label_number)
            case Json():
                return {key: nodes.json_number(id(term), engine) for key, engine in self._json_keys(term)}
            case Engines():
                return {Key(): nodes.constant(float(max(len(self.engines()), 1)))}
            case Number():
                return {Key(): nodes.constant(term.value)}
            case Calc():
                return self._calc(term, additive)
            case Ratio():
                return {}

    def texts(self, term: Term) -> dict[Key, TextNode]:
        """For facts: the term's value as text."""
        match term:
            case Label(read=Read.TEXT):
                return self._label(term, _label_text)
            case Json():
                return {key: nodes.json_text(id(term), engine) for key, engine in self._json_keys(term)}
            case _:
                return {key: nodes.as_text(node) for key, node in self.scalars(term, additive=False).items()}

    def histograms(self, term: Term) -> dict[Key, HistogramNode]:
        if not isinstance(term, Series):
            raise TypeError(f"{term}: a histogram comes from a Series")
        selected = self._select(term, self.page.histograms(term.name))
        entries = [self._entry(term, h.labels, nodes.histogram(self._use(h), term.scale)) for h in selected]
        return self._fold(term, entries, nodes.folded_histogram, additive=True)

    def fits(self, source: Source, *, histogram: bool) -> bool:
        if not self.page.holds(source.needs, source.lacks):
            return False
        return self._exists(source.parts[0], histogram=histogram)

    def engines(self) -> list[str]:
        """Engine numbers seen on the page or in documents, in order."""
        labels = [name for name, fold in self.frontend.folds.items() if fold is Fold.ENGINE]
        seen = {s.labels[label] for s in self._below_prefix() for label in labels if label in s.labels}
        seen |= {engine for values in self.json.values() for engine in values if engine}
        return sorted(seen, key=natural)

    def places(self) -> list[Key]:
        """Engines and models that the page and the documents tell apart."""
        page = {self._key(s.labels): 0 for s in self._below_prefix()}
        documents = {Key(engine): 0 for values in self.json.values() for engine in values if engine}
        return _most_specific([page, documents]) or [Key()]

    def models(self) -> list[str]:
        """Model names seen on the page, in order of first sight."""
        return [m for m in self.model_labels() if m not in self.frontend.unknown_models]

    def model_labels(self) -> list[str]:
        """Values of the model label, those included that stand for no model."""
        label = self.frontend.model_label
        return list(dict.fromkeys(s.labels[label] for s in self._below_prefix() if label in s.labels))

    def names(self, source: Source) -> list[str]:
        """Names as they stood on the page (or `document path`) that the source reads."""
        shown = (t for part in source.parts for t in _leaves(part))
        return [self._shown(t) for t in shown if self._exists(t, histogram=False) or self._exists(t, histogram=True)]

    def _below_prefix(self) -> Iterable[WireSeries]:
        return (s for name, series in self.page.series.items() if not name.startswith("@") for s in series)

    def _shown(self, term: Term) -> str:
        match term:
            case Json():
                return f"{term.document}: {'.'.join(filter(None, (term.records, term.path)))}"
            case Series() | Label():
                return self.page.wire_name(term.name)
            case _:
                return ""

    def _json_keys(self, term: Json) -> list[tuple[Key, str]]:
        found = self.json.get(id(term), {})
        extra = tuple(sorted(term.add.items()))
        if term.each_engine and "" in found:
            engines: list[str | None] = [*self.engines()] or [None]
            return [(Key(engine, extra=extra), "") for engine in engines]
        return [(Key(engine or None, extra=extra), engine) for engine in found]

    def _exists(self, term: Term, *, histogram: bool) -> bool:
        match term:
            case Series() if histogram:
                return bool(self._select(term, self.page.histograms(term.name)))
            case Series():
                return bool(self._select(term, self.page.find(term.name))) or self._is_announced(term)
            case Label():
                return bool(self._label(term, _label_text if term.read is Read.TEXT else _label_number))
            case Json():
                return bool(self.json.get(id(term)))
            case Calc():
                need = any if term.need is Need.ANY else all
                return need(self._exists(t, histogram=False) for t in term.terms)
            case _:
                return True

    def _index(self, slot: int) -> int:
        return self.used.setdefault(slot, len(self.used))

    def _use(self, wire: WireHistogram) -> WireHistogram:
        total = None if wire.sum_slot is None else self._index(wire.sum_slot)
        return replace(wire, slots=tuple(self._index(s) for s in wire.slots), sum_slot=total)

    def _series(self, term: Series, additive: bool) -> dict[Key, Node]:
        selected = self._select(term, self.page.find(term.name))
        entries = [
            self._entry(term, s.labels, nodes.number(self._index(s.slot), term.scale, term.invalid)) for s in selected
        ]
        found = self._fold(term, entries, nodes.folded, additive=additive)
        if additive and (selected or (self.model_known and self._is_announced(term))):
            engines = {key.engine for key in found}
            missing = () if None in engines or not term.zero else (Key(e) for e in self.engines() if e not in engines)
            for key in _born(term, [*found, *missing]):
                found.setdefault(key, nodes.constant(0.0))
        return found

    def _is_announced(self, term: Series) -> bool:
        return self.page.declares(term.name) or (bool(term.zero) and self.page.holds(term.zero, ()))

    def _label(
        self, term: Label, read: Callable[[Label, WireSeries], T | None]
    ) -> dict[Key, Callable[[nodes.Scrape], T | None]]:
        groups: dict[Key, list[tuple[int, T]]] = {}
        for s in self.page.find(term.name):
            value = read(term, s)
            if value is not None:
                groups.setdefault(self._key(s.labels), []).append((self._index(s.slot), value))
        clear = {k: c for k, c in groups.items() if term.pick is not Pick.ALL or len({v for _, v in c}) == 1}
        if len(clear) < len(groups):
            self._drop_ambiguous(term)
        return {key: nodes.picked(term.pick, candidates) for key, candidates in clear.items()}

    def _calc(self, term: Calc, additive: bool) -> dict[Key, Node]:
        columns = [self.scalars(t, additive=additive) for t in term.terms]
        found: dict[Key, Node] = {}
        for key in _most_specific(columns):
            each = [_lookup(column, key) for column in columns]
            if all(each) if term.need is Need.ALL else any(each):
                found[key] = nodes.calculation(term.op, each, term.need, term.floor)
        return found

    def _select(self, term: Series, candidates: list[W]) -> list[W]:
        for label, wanted in term.where.items():
            if isinstance(wanted, Prefer):
                present = {c.labels.get(label, "") for c in candidates}
                chosen = wanted.among(present, self.prefer)
            else:
                chosen = (wanted,) if isinstance(wanted, str) else wanted
            candidates = [c for c in candidates if c.labels.get(label, "") in chosen]
        return candidates

    def _key(self, labels: Mapping[str, str], folds: Mapping[str, Fold] | None = None, extra: Labels = ()) -> Key:
        by_label = self.frontend.folds if folds is None else folds
        engine = next((labels[x] for x, fold in by_label.items() if fold is Fold.ENGINE and x in labels), None)
        model = labels.get(self.frontend.model_label)
        return Key(engine, None if model in self.frontend.unknown_models else model, extra)

    def _entry(self, term: Series, labels: Mapping[str, str], node: N) -> _Entry[N]:
        folds = self._folds(term)
        extra = {**term.add, **{keep.label: _kept(keep, labels.get(wire, "")) for wire, keep in term.keep.items()}}
        known = {self.frontend.model_label, *term.keep, *folds, *term.where}
        folded = (x for x, fold in folds.items() if fold is not Fold.ENGINE)
        return _Entry(
            self._key(labels, folds, tuple(sorted(extra.items()))),
            {x: labels.get(x, "") for x in (*folded, *term.keep, *term.where)},
            tuple(sorted((k, v) for k, v in labels.items() if k not in known)),
            node,
        )

    def _folds(self, term: Series) -> dict[str, Fold]:
        return {**self.frontend.folds, **term.fold}

    def _fold(
        self, term: Series, entries: list[_Entry[N]], combine: Callable[[Fold, list[N]], N], *, additive: bool
    ) -> dict[Key, N]:
        for label, fold in self._folds(term).items():
            if fold is not Fold.ENGINE and any(e.folds.get(label) for e in entries):
                entries = _fold_label(entries, label, fold, combine)
        groups: dict[Key, list[_Entry[N]]] = {}
        for e in entries:
            groups.setdefault(e.key, []).append(e)
        found: dict[Key, N] = {}
        for key, group in groups.items():
            if len(group) == 1:
                found[key] = group[0].node
            elif additive or len({e.rest for e in group}) == 1:
                found[key] = combine(Fold.SUM, [e.node for e in group])
            else:
                self._drop_ambiguous(term)
        return found

    def _drop_ambiguous(self, term: Term) -> None:
        if (name := self._shown(term)) not in self.ambiguous:
            self.ambiguous.append(name)


def _born(term: Series, found: Iterable[Key]) -> Iterable[Key]:
    """The keys that a counter has from the start: every value that the table declares for its labels."""
    places = {replace(key, extra=()) for key in found} or {Key()}
    sets: list[dict[str, str]] = [dict(term.add)]
    for keep in term.keep.values():
        values = dict.fromkeys(keep.values.values())
        sets = [{**s, keep.label: v} for s in sets for v in values]
    return [replace(p, extra=tuple(sorted(s.items()))) for p in places for s in sets]


def _kept(keep: Keep, value: str) -> str:
    return keep.values.get(value, keep.other or value)


def _fold_label(
    entries: list[_Entry[N]], label: str, fold: Fold, combine: Callable[[Fold, list[N]], N]
) -> list[_Entry[N]]:
    groups: dict[tuple[Key, tuple[tuple[str, str], ...], Labels], list[_Entry[N]]] = {}
    for e in entries:
        others = tuple(sorted((k, v) for k, v in e.folds.items() if k != label))
        groups.setdefault((e.key, others, e.rest), []).append(e)
    folded = []
    for (key, others, rest), unsorted in groups.items():
        group = sorted(unsorted, key=lambda e: natural(e.folds.get(label, "")))
        takes_first = fold is Fold.FIRST or (fold is Fold.TOTAL and not group[0].folds.get(label))
        node = group[0].node if takes_first or len(group) == 1 else combine(fold, [e.node for e in group])
        folded.append(_Entry(key, dict(others), rest, node))
    return folded


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts "2" before "10"."""
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"[0-9]{1,18}|[^0-9]+", text))


def _leaves(term: Term) -> Iterable[Term]:
    if isinstance(term, Calc):
        return [leaf for t in term.terms for leaf in _leaves(t)]
    return [] if isinstance(term, Engines | Number | Ratio) else [term]


def _label_number(term: Label, series: WireSeries) -> float | None:
    text = series.labels.get(term.label)
    if term.read is Read.NAMES:
        return float(len({name for n in (text or "").split(",") if (name := n.strip())}))
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _label_text(term: Label, series: WireSeries) -> str | None:
    text = series.labels.get(term.label, "")
    text = term.values.get(text, "") if term.values else text
    return None if text in ("", "None") else text


_MAX_MEETINGS = 10_000
"""A hostile page could tell apart so much in one series, and so much else in another, that no plan would be done."""


def _most_specific(columns: Sequence[Mapping[Key, object]]) -> list[Key]:
    """What the columns together tell apart: by engine if one does, by model if another does."""
    keys: dict[Key, None] = {}
    for column in columns:
        apart, others = [k for k in keys if k not in column], [c for c in column if c not in keys]
        few = len(apart) * len(others) <= _MAX_MEETINGS
        met = [both for k in apart for c in others if (both := k.meet(c))] if few else []
        keys |= dict.fromkeys([*column, *met])
    general = {g for k in keys for g in k.generalised()[1:]}
    return [k for k in keys if k not in general]


def _lookup(column: Mapping[Key, Node], key: Key) -> Node | None:
    return next((column[k] for k in key.generalised() if k in column), None)
