"""A table's terms compiled for one page: functions of a scrape's numbers.

Each node stands under the engine, model and labels it is for. What labels say is fixed at compile time; only numbers
are read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from exporters.documents import JsonValue
from exporters.histogram import Histogram, add_up
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
    Op,
    Pick,
    Prefer,
    Ratio,
    Read,
    Series,
    Source,
    Term,
)
from exporters.wire import Page, WireHistogram, WireSeries


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape's numbers: `values` by index, JSON values by term id; `drop(reason, index)` counts the unused."""

    values: Sequence[float]
    json: Mapping[int, Mapping[str, JsonValue]]
    drop: Callable[[str, int], None]


NO_SAMPLE = -1

N = TypeVar("N")
W = TypeVar("W", WireSeries, WireHistogram)

Node = Callable[[Scrape], float | None]
TextNode = Callable[[Scrape], str | None]
HistogramNode = Callable[[Scrape], Histogram | None]


@dataclass(frozen=True, slots=True)
class Key:
    """What a node stands for; None where the wire does not say (one value for all engines or models)."""

    engine: str | None = None
    model: str | None = None
    extra: Labels = ()


@dataclass(frozen=True, slots=True)
class _Entry(Generic[N]):
    key: Key
    folds: Mapping[str, str]
    rest: Labels
    node: N


@dataclass(slots=True)
class Compiler:
    """Turns the terms of `frontend` into nodes for `page`. `json` holds the present values of JSON terms by id."""

    frontend: Frontend
    page: Page
    json: Mapping[int, Mapping[str, JsonValue]]
    ambiguous: list[str] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    """Position on the page to index in `Scrape.values`, of every sample that a node reads."""

    def scalars(self, term: Term, *, additive: bool) -> dict[Key, Node]:
        """`additive`: a counter, whose series may be added over labels that the table does not know."""
        match term:
            case Series():
                return self._series(term, additive)
            case Label():
                return self._label(term)
            case Json():
                return {key: _json_number(id(term), engine) for key, engine in self._json_keys(term)}
            case Engines():
                return {Key(): _constant(float(max(len(self.engines()), 1)))}
            case Number():
                return {Key(): _constant(term.value)}
            case Calc():
                return self._calc(term, additive)
            case Ratio():
                return {}

    def texts(self, term: Term) -> dict[Key, TextNode]:
        """For facts: the term's value as text."""
        match term:
            case Label(read=Read.TEXT):
                return self._text_label(term)
            case Json():
                return {key: _json_text(id(term), engine) for key, engine in self._json_keys(term)}
            case _:
                return {key: _as_text(node) for key, node in self.scalars(term, additive=False).items()}

    def histograms(self, term: Term) -> dict[Key, HistogramNode]:
        if not isinstance(term, Series):
            raise TypeError(f"{term}: a histogram comes from a Series")
        selected = self._select(term, self.page.histograms(term.name))
        entries = [self._entry(term, h.labels, _histogram(self._use(h), term)) for h in selected]
        return self._fold(term, entries, _histogram_combine, additive=True)

    def fits(self, source: Source, *, histogram: bool) -> bool:
        if not self.page.holds(source.needs, source.lacks):
            return False
        return self._exists(source.parts[0], histogram=histogram)

    def engines(self) -> list[str]:
        """Engine numbers seen on the page or in documents, in order."""
        labels = [name for name, fold in self.frontend.folds.items() if fold is Fold.ENGINE]
        seen = {
            s.labels[label]
            for name, series in self.page.series.items()
            if not name.startswith("@")
            for s in series
            for label in labels
            if label in s.labels
        }
        seen |= {engine for values in self.json.values() for engine in values if engine}
        return sorted(seen, key=natural)

    def models(self) -> list[str]:
        """Model names seen on the page, in order of first sight."""
        label = self.frontend.model_label
        names = (s.labels.get(label, "") for n, all_ in self.page.series.items() if n[0] != "@" for s in all_)
        return [m for m in dict.fromkeys(names) if m and m not in self.frontend.unknown_models]

    def names(self, source: Source) -> list[str]:
        """Names as they stood on the page (or `document path`) that the source reads."""
        return [self._shown(t) for part in source.parts for t in _leaves(part) if self._exists(t, histogram=False)]

    def _shown(self, term: Term) -> str:
        match term:
            case Json():
                return f"{term.document}: {'.'.join(filter(None, (term.records, term.path)))}"
            case Series() | Label():
                shown = self.page.wire_names.get(term.name)
                if shown is None:
                    candidates = (term.name + s for s in ("_bucket", "_total"))
                    shown = next((self.page.wire_names[c] for c in candidates if c in self.page.wire_names), term.name)
                return shown.removesuffix("_bucket")
            case _:
                return ""

    def _json_keys(self, term: Json) -> list[tuple[Key, str]]:
        found = self.json.get(id(term), {})
        if term.each_engine and "" in found:
            engines: list[str | None] = [*self.engines()] or [None]
            return [(Key(engine), "") for engine in engines]
        return [(Key(engine or None), engine) for engine in found]

    def _exists(self, term: Term, *, histogram: bool) -> bool:
        match term:
            case Series() if histogram:
                return bool(self._select(term, self.page.histograms(term.name)))
            case Series():
                return bool(self._select(term, self.page.find(term.name))) or self._declared(term.name)
            case Label():
                return bool(self._label(term)) if term.read is not Read.TEXT else bool(self._text_label(term))
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

    def _declared(self, name: str) -> bool:
        return name in self.page.declared and name not in self.page.series

    def _series(self, term: Series, additive: bool) -> dict[Key, Node]:
        selected = self._select(term, self.page.find(term.name))
        entries = [
            self._entry(term, s.labels, _number(self._index(s.slot), term.scale, term.invalid)) for s in selected
        ]
        found = self._fold(term, entries, _scalar_combine, additive=additive)
        if additive and (selected or self._declared(term.name)):
            for key in self._born(term, found):
                found.setdefault(key, _constant(0.0))
        return found

    def _born(self, term: Series, found: Mapping[Key, Node]) -> Iterable[Key]:
        """The keys that a counter has from the start: every value that the table declares for its labels."""
        places = {replace(key, extra=()) for key in found} or {Key()}
        sets: list[dict[str, str]] = [dict(term.add)]
        for keep in term.keep.values():
            values = dict.fromkeys(keep.values.values())
            sets = [{**s, keep.label: v} for s in sets for v in values]
        return [replace(p, extra=tuple(sorted(s.items()))) for p in places for s in sets]

    def _label(self, term: Label) -> dict[Key, Node]:
        rows = [(s, number) for s in self.page.find(term.name) if (number := _label_number(term, s)) is not None]
        entries = [self._entry(None, s.labels, (self._index(s.slot), number), extra_known=True) for s, number in rows]
        groups: dict[Key, list[tuple[int, float]]] = {}
        for e in entries:
            groups.setdefault(e.key, []).append(e.node)
        pick = _newest if term.pick is Pick.NEWEST else _first_constant
        return {key: pick(candidates) for key, candidates in groups.items()}

    def _text_label(self, term: Label) -> dict[Key, TextNode]:
        groups: dict[Key, list[tuple[int, str]]] = {}
        for s in self.page.find(term.name):
            text = s.labels.get(term.label, "")
            text = term.values.get(text, "") if term.values else text
            if text and text != "None":
                key = self._entry(None, s.labels, None, extra_known=True).key
                groups.setdefault(key, []).append((self._index(s.slot), text))
        pick = _hot if term.pick is Pick.HOT else _first_text
        return {key: pick(candidates) for key, candidates in groups.items()}

    def _calc(self, term: Calc, additive: bool) -> dict[Key, Node]:
        columns = [self.scalars(t, additive=additive) for t in term.terms]
        found: dict[Key, Node] = {}
        for key in _most_specific([k for column in columns for k in column]):
            nodes = [_lookup(column, key) for column in columns]
            if all(nodes) if term.need is Need.ALL else any(nodes):
                found[key] = _calculation(term.op, nodes, term.need, term.floor)
        return found

    def _select(self, term: Series, candidates: list[W]) -> list[W]:
        for label, wanted in term.where.items():
            if isinstance(wanted, Prefer):
                present = {c.labels.get(label, "") for c in candidates}
                chosen: tuple[str, ...] = tuple(v for v in wanted.values if v in present)[:1]
            else:
                chosen = (wanted,) if isinstance(wanted, str) else wanted
            candidates = [c for c in candidates if c.labels.get(label, "") in chosen]
        return candidates

    def _entry(
        self, term: Series | None, labels: Mapping[str, str], node: N, *, extra_known: bool = False
    ) -> _Entry[N]:
        folds = self._folds(term)
        keeps: Mapping[str, Keep] = term.keep if term else {}
        engine = next((labels[x] for x, fold in folds.items() if fold is Fold.ENGINE and x in labels), None)
        model = labels.get(self.frontend.model_label) or None
        model = None if model in self.frontend.unknown_models else model
        extra = dict(term.add) if term else {}
        for wire, keep in keeps.items():
            value = labels.get(wire, "")
            extra[keep.label] = keep.values.get(value, keep.other or value)
        folded = {x: labels.get(x, "") for x, fold in folds.items() if fold is not Fold.ENGINE}
        selected = term.where if term else ()
        known = {self.frontend.model_label, *keeps, *folds, *selected}
        rest = () if extra_known else tuple(sorted((k, v) for k, v in labels.items() if k not in known))
        return _Entry(Key(engine, model, tuple(sorted(extra.items()))), folded, rest, node)

    def _folds(self, term: Series | None) -> dict[str, Fold]:
        return {**self.frontend.folds, **(term.fold if term else {})}

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
                self.ambiguous.append(self._shown(term))
        return found


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
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", text))


def _leaves(term: Term) -> Iterable[Term]:
    if isinstance(term, Calc):
        return [leaf for t in term.terms for leaf in _leaves(t)]
    return [] if isinstance(term, Engines | Number | Ratio) else [term]


def _number(index: int, scale: float, invalid: tuple[float, ...]) -> Node:
    def read(scrape: Scrape) -> float | None:
        value = scrape.values[index]
        if value != value:  # noqa: PLR0124
            scrape.drop("nan", index)
            return None
        if value in invalid:
            scrape.drop("invalid_value", index)
            return None
        return value * scale

    return read


def _constant(value: float) -> Node:
    return lambda _: value


def _json_number(term: int, engine: str) -> Node:
    def read(scrape: Scrape) -> float | None:
        value = scrape.json.get(term, {}).get(engine)
        try:
            return None if value is None else float(value)
        except ValueError:
            return None

    return read


def _json_text(term: int, engine: str) -> TextNode:
    def read(scrape: Scrape) -> str | None:
        value = scrape.json.get(term, {}).get(engine)
        return None if value is None else number_text(value)

    return read


def _as_text(node: Node) -> TextNode:
    def read(scrape: Scrape) -> str | None:
        value = node(scrape)
        return None if value is None else number_text(value)

    return read


def number_text(value: JsonValue) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _label_number(term: Label, series: WireSeries) -> float | None:
    text = series.labels.get(term.label)
    if term.read is Read.NAMES:
        return float(len({name for n in (text or "").split(",") if (name := n.strip())}))
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _first_constant(candidates: list[tuple[int, float]]) -> Node:
    return _constant(candidates[0][1])


def _newest(candidates: list[tuple[int, float]]) -> Node:
    return lambda scrape: max(candidates, key=lambda c: scrape.values[c[0]])[1]


def _first_text(candidates: list[tuple[int, str]]) -> TextNode:
    return lambda _: candidates[0][1]


def _hot(candidates: list[tuple[int, str]]) -> TextNode:
    return lambda scrape: next((text for index, text in candidates if scrape.values[index] == 1), None)


def _scalar_combine(fold: Fold, nodes: list[Node]) -> Node:
    best = max if fold is Fold.MAX else sum

    def read(scrape: Scrape) -> float | None:
        known = [v for node in nodes if (v := node(scrape)) is not None]
        return best(known) if known else None

    return read


def _histogram(wire: WireHistogram, term: Series) -> HistogramNode:
    bounds = tuple(b * term.scale for b in wire.bounds)

    def read(scrape: Scrape) -> Histogram | None:
        values = scrape.values
        total = None if wire.sum_slot is None else values[wire.sum_slot] * term.scale
        return Histogram(bounds, tuple([values[i] for i in wire.slots]), total)

    return read


def _histogram_combine(_fold: Fold, nodes: list[HistogramNode]) -> HistogramNode:
    """Parts of one histogram share their bounds; parts that do not are left out of the sum, the largest set wins."""

    def read(scrape: Scrape) -> Histogram | None:
        parts = add_up([h for node in nodes if (h := node(scrape)) is not None])
        if len(parts) > 1:
            scrape.drop("ambiguous", NO_SAMPLE)
        return max(parts, key=lambda h: h.count) if parts else None

    return read


def _most_specific(keys: Iterable[Key]) -> list[Key]:
    unique = list(dict.fromkeys(keys))
    return [k for k in unique if not any(o != k and _covers(k, o) for o in unique)]


def _covers(general: Key, special: Key) -> bool:
    return (
        general.engine in (None, special.engine)
        and general.model in (None, special.model)
        and general.extra in ((), special.extra)
    )


def _lookup(column: Mapping[Key, Node], key: Key) -> Node | None:
    return column.get(key) or next((node for k, node in column.items() if _covers(k, key)), None)


def _calculation(op: Op, nodes: Sequence[Node | None], need: Need, floor: float | None) -> Node:
    def read(scrape: Scrape) -> float | None:
        values = [None if node is None else node(scrape) for node in nodes]
        known = [v for v in values if v is not None]
        incomplete = need is Need.ALL and len(known) < len(values)
        if not known or incomplete or (op in _ORDERED and values[0] is None):
            return None
        result = known[0]
        for value in known[1:]:
            if op is Op.DIVIDE and value == 0:
                return None
            result = _APPLY[op](result, value)
        return result if floor is None else max(result, floor)

    return read


_ORDERED = (Op.SUBTRACT, Op.DIVIDE)
_APPLY: dict[Op, Callable[[float, float], float]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.DIVIDE: lambda a, b: a / b,
}
