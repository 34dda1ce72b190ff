"""A table compiled once for one sequence of sample keys: which schema series it yields, from which slots.

Also the account of it: where each schema field comes from, what of the page was mapped, and what was not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate

from exporters import exposition, nodes, schema
from exporters.compiler import Compiler, Key
from exporters.documents import JsonValue
from exporters.findings import Finding, finding
from exporters.nodes import HistogramNode, Node, Scrape, TextNode
from exporters.observation import FieldStatus, Labels, Series, labels
from exporters.router import servers_behind
from exporters.schema import PHASE_OF_METRIC, Type
from exporters.table import Field, Fold, Frontend, Json, Label, Quality, Ratio, Source, Term
from exporters.table import Series as SeriesTerm
from exporters.terms import marks, terms, walk
from exporters.wire import Page, families, index, parse_version, stem
from exporters.worth import worth

_MAX_UNMAPPED_TOLD = 10


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the target is. `labels` are the user's own; `model_aliases` maps the wire's model names."""

    node: str
    server: str
    labels: Mapping[str, str] = field(default_factory=dict)
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    role: str = ""
    model: str = ""
    """The name of the server's model, in place of the wire's."""
    prefer: Mapping[str, str] = field(default_factory=dict)
    """Wire names of the models that play a role, see `table.Prefer`."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_samples: int = 50_000
    max_models: int = 20
    max_engines: int = 256
    max_label_length: int = 1024


Chosen = tuple[Field, Source | None]
"""A field and the source that feeds it, if any fits."""


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    series: Series
    node: Node
    line: str
    """The sample line up to its value."""
    is_ratio: bool
    is_counter: bool


@dataclass(frozen=True, slots=True)
class HistogramSlot:
    series: Series
    node: HistogramNode
    phase: schema.Phase
    bucket_lines: tuple[str, ...]
    sum_line: str
    count_line: str


@dataclass(frozen=True, slots=True)
class StateSlot:
    node: TextNode | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """`positions` are the lines whose numbers the nodes read, by index."""

    keys: list[str]
    json_shape: object
    positions: tuple[int, ...]
    scalars: tuple[ScalarSlot, ...]
    histograms: tuple[HistogramSlot, ...]
    states: tuple[StateSlot, ...]
    infos: tuple[Series, ...]
    fields: tuple[FieldStatus, ...]
    mapped: Mapping[str, str]
    unmapped: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    available: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose pages a plan reads, and how."""

    frontend: Frontend
    identity: Identity
    limits: Limits


@dataclass(frozen=True, slots=True)
class Shown:
    """What the server shows: a regular page, `keys` as `exposition.split` yields them for it, and its documents."""

    text: str
    keys: list[str]
    json: Mapping[int, Mapping[str, JsonValue]]
    json_shape: object


def compile_plan(subject: Subject, shown: Shown) -> Plan:
    page = index(shown.text.split("\n"), shown.keys, subject.frontend.prefixes)
    return _Planner(subject, page, shown.json).plan(shown.keys, shown.json_shape)


class _Planner:
    def __init__(self, subject: Subject, page: Page, json: Mapping[int, Mapping[str, JsonValue]]) -> None:
        self._frontend = frontend = subject.frontend
        self._identity = subject.identity
        self._limits = limits = subject.limits
        self._page = page
        self._compiler = Compiler(frontend, page, json, prefer=subject.identity.prefer)
        self._facts = {name: self._fact(alternatives) for name, alternatives in frontend.facts.items()}
        self._role = self._fact_text("role") or "unified"
        page.facts = {name: numbers for name in self._facts if (numbers := parse_version(self._fact_text(name)))}
        page.documents = frozenset(t.document for t in terms(frontend) if isinstance(t, Json) and json.get(id(t)))
        self._engines = self._compiler.engines()
        self._models = self._compiler.models()
        self._others = frozenset(self._models[limits.max_models :])
        self._other_engines = frozenset(self._engines[limits.max_engines :])
        self._compiler.model_known = bool(self._wire_model(None))
        shown = [mark for mark in (*marks(frontend), *frontend.accepts) if page.holds((mark,), ())]
        self._behind = servers_behind(frontend, page)
        self._available = bool(shown) and not self._behind
        self._from_documents = any(mark.startswith("json:") for mark in shown)

    def plan(self, keys: list[str], json_shape: object) -> Plan:
        chosen = [(entry, self._choose(entry)) for entry in self._frontend.fields]
        scalars: list[ScalarSlot] = []
        histograms: list[HistogramSlot] = []
        for entry, source in chosen:
            if source is not None and entry.metric in PHASE_OF_METRIC:
                histograms += self._histogram_slots(entry.metric, source)
            elif source is not None:
                scalars += self._scalar_slots(entry.metric, source)
        yielded = {s.series.metric for s in scalars} | {h.series.metric for h in histograms}
        fields = tuple(self._status(entry, source, entry.metric in yielded) for entry, source in chosen)
        unmapped = self._unmapped()
        return Plan(
            keys,
            json_shape,
            tuple(self._compiler.used),
            tuple(scalars),
            tuple(histograms),
            self._states(),
            self._infos(),
            fields,
            self._mapped(chosen),
            unmapped,
            (*self._page.dropped, *((name, "ambiguous") for name in self._compiler.ambiguous)),
            tuple(self._findings(chosen, unmapped)),
            self._available,
        )

    def _mapped(self, chosen: list[Chosen]) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for entry, source in chosen:
            for name in self._compiler.names(source) if source is not None else ():
                if entry.metric not in found.setdefault(name, []):
                    found[name].append(entry.metric)
        return {name: ", ".join(metrics) for name, metrics in found.items()}

    def _choose(self, entry: Field) -> Source | None:
        if not self._available:
            return None
        return next((s for s in entry.sources if self._fits(entry, s)), None)

    def _fits(self, entry: Field, source: Source) -> bool:
        first = source.parts[0]
        if isinstance(first, Ratio):
            parts = [f for f in self._frontend.fields if f.metric in (first.numerator, first.denominator)]
            held = self._page.holds(source.needs, source.lacks)
            return held and len(parts) == 2 and all(self._choose(part) for part in parts)
        return self._compiler.fits(source, histogram=entry.metric in PHASE_OF_METRIC)

    def _scalar_slots(self, metric: str, source: Source) -> list[ScalarSlot]:
        declared = schema.METRICS[metric]
        is_counter = declared.type is Type.COUNTER
        found: dict[Series, list[Node]] = {}
        for part in source.parts:
            for key, node in self._compiler.scalars(part, additive=is_counter).items():
                found.setdefault(Series(metric, self._labels(key)), []).append(node)
        how = max if declared.is_ratio else sum
        return [
            ScalarSlot(
                series,
                parts[0] if len(parts) == 1 else nodes.combined(how, parts),
                exposition.prefix(metric, series.labels),
                declared.is_ratio,
                is_counter,
            )
            for series, parts in found.items()
        ]

    def _histogram_slots(self, metric: str, source: Source) -> list[HistogramSlot]:
        found: dict[Series, list[HistogramNode]] = {}
        for part in source.parts:
            for key, node in self._compiler.histograms(part).items():
                found.setdefault(Series(metric, self._labels(key)), []).append(node)
        return [
            histogram_slot(series, parts[0] if len(parts) == 1 else nodes.folded_histogram(Fold.SUM, parts))
            for series, parts in found.items()
        ]

    def _labels(self, key: Key) -> Labels:
        extra = {name: text[: self._limits.max_label_length] for name, text in key.extra}
        return labels({**extra, **self._identity_labels(key.engine, key.model)})

    def _identity_labels(self, engine: str | None, model: str | None) -> dict[str, str]:
        known = self._identity
        return {
            **known.labels,
            "node": known.node,
            "server": known.server,
            "framework": self._frontend.framework,
            "model": self._model(model),
            "role": known.role or self._role,
            "engine": self._engine(engine),
        }

    def _engine(self, engine: str | None) -> str:
        """A value for all of several engines together carries no engine."""
        if engine in self._other_engines:
            return "other"
        if engine is not None:
            return engine[: self._limits.max_label_length]
        return "" if len(self._engines) > 1 else next(iter(self._engines), "0")

    def _model(self, model: str | None) -> str:
        wire = self._wire_model(model)
        if wire in self._others:
            return "other"
        if self._identity.model and wire == self._wire_model(None):
            return self._identity.model[: self._limits.max_label_length]
        return self._identity.model_aliases.get(wire, wire)[: self._limits.max_label_length]

    def _wire_model(self, model: str | None) -> str:
        named = self._identity.prefer.get("entry", "")
        return model or next(iter(self._models), "") or named or self._fact_text("model")

    def _fact(self, alternatives: tuple[Term, ...]) -> dict[Key, TextNode]:
        for term in alternatives:
            if found := self._compiler.texts(term):
                return found
        return {}

    def _fact_node(self, name: str, engine: str | None, model: str | None) -> TextNode | None:
        found = self._facts.get(name, {})
        place = Key(engine, model)
        fitting = (found[key] for key in place.generalised() if key in found)
        return next(fitting, next(iter(found.values()), None) if place == Key() else None)

    def _fact_text(self, name: str, engine: str | None = None, model: str | None = None) -> str:
        """A fact that stands in labels or side documents; "" where it is not known."""
        node = self._fact_node(name, engine, model)
        return (node(self._still) if node else None) or ""

    @property
    def _still(self) -> Scrape:
        """Facts of labels and documents need no numbers of the page."""
        return Scrape([0.0] * len(self._compiler.used), self._compiler.json, lambda _reason, _index: None)

    def _infos(self) -> tuple[Series, ...]:
        return tuple(dict.fromkeys(self._info(place.engine, place.model) for place in self._places()))

    def _places(self) -> list[Key]:
        """Engines and models that are told apart, and one for the others."""
        found: dict[tuple[bool, str | None, str | None], Key] = {}
        for place in self._compiler.places():
            is_other = place.engine in self._other_engines
            found.setdefault((is_other, None if is_other else place.engine, place.model), place)
        return list(found.values())

    def _info(self, engine: str | None, model: str | None) -> Series:
        is_other = model in self._others
        facts = {n: self._fact_text(n, engine, None if is_other else model) for n in schema.SERVER_INFO_LABELS}
        wire_model = "" if is_other else self._wire_model(model)
        known = facts | {"frontend": self._frontend.name, "wire_model": wire_model}
        limit = self._limits.max_label_length
        cut = {name: text[:limit] for name, text in known.items()}
        return Series("llm_server_info", labels({**cut, **self._identity_labels(engine, model)}))

    def _states(self) -> tuple[StateSlot, ...]:
        slots: dict[Labels, StateSlot] = {}
        for place in self._places():
            identity = self._identity_labels(place.engine, place.model)
            node = self._fact_node("state", place.engine, place.model)
            slots.setdefault(labels(identity), StateSlot(node, identity))
        return tuple(slots.values())

    def _status(self, entry: Field, source: Source | None, yielded: bool) -> FieldStatus:
        if source is not None and isinstance(source.parts[0], Ratio):
            return self._ratio_status(entry, source, source.parts[0])
        if source is not None and yielded:
            names = ", ".join(dict.fromkeys(filter(None, self._compiler.names(source))))
            return FieldStatus(entry.metric, names, *worth(self._frontend, self._page, entry.metric, source))
        return FieldStatus(entry.metric, "", Quality.UNAVAILABLE.value, self._why_missing(entry, source))

    def _ratio_status(self, entry: Field, source: Source, ratio: Ratio) -> FieldStatus:
        """A ratio is no better than its two counters."""
        counters = [f for f in self._frontend.fields if f.metric in (ratio.numerator, ratio.denominator)]
        feeding = [source, *(s for counter in counters if (s := self._choose(counter)))]
        worst = max(feeding, key=lambda s: list(Quality).index(s.quality))
        told = f"{ratio.numerator} / {ratio.denominator} over 5 minutes"
        return FieldStatus(entry.metric, told, worst.quality.value, source.note or worst.note)

    def _why_missing(self, entry: Field, source: Source | None) -> str:
        if not self._available:
            return "no engine metrics could be read"
        if source is not None or any(self._declared(s) for s in entry.sources):
            return "appears with the first request"
        fitting = (r.text for r in entry.missing if self._page.holds(r.needs, r.lacks))
        return next(fitting, "not exposed by this server")

    def _declared(self, source: Source) -> bool:
        if not self._page.holds(source.needs, source.lacks):
            return False
        return any(isinstance(p, SeriesTerm) and self._page.declares(p.name) for p in source.parts)

    def _unmapped(self) -> tuple[str, ...]:
        known = {t.name for t in terms(self._frontend) if isinstance(t, SeriesTerm | Label)}
        known |= {mark.partition("{")[0] for mark in marks(self._frontend)}
        known = {stem(self._page.stored(name)) for name in known}
        ignored = re.compile("|".join(map(translate, map(self._page.stored, self._frontend.ignore))) or r"\b\B")
        return tuple(
            self._page.wire_name(name)
            for name in families(self._page)
            if stem(name) not in known and not (ignored.match(name) or ignored.match(stem(name)))
        )

    def _findings(self, chosen: list[Chosen], unmapped: tuple[str, ...]) -> Iterable[Finding]:
        if not self._available:
            yield self._unavailable()
        elif self._is_fresh(chosen):
            yield finding("no_requests_yet")
        if unmapped and self._available:
            more = f" and {len(unmapped) - _MAX_UNMAPPED_TOLD} more" if len(unmapped) > _MAX_UNMAPPED_TOLD else ""
            yield finding("unmapped_families", ", ".join(unmapped[:_MAX_UNMAPPED_TOLD]) + more)
        if self._page.rewritten:
            yield finding("prefix_rewritten")
        if self._others:
            yield finding("several_models", f"{len(self._models)} models")
        if self._other_engines:
            yield finding("many_engines", f"{len(self._engines)} engines")

    def _is_fresh(self, chosen: list[Chosen]) -> bool:
        """Whether nothing is counted yet, and no series of any model is there, not even in documents."""
        says_models = bool(self._frontend.model_label) and not self._from_documents
        return says_models and not self._compiler.model_labels() and not any(map(self._counts, chosen))

    def _counts(self, chosen: Chosen) -> bool:
        entry, source = chosen
        if source is None or schema.METRICS[entry.metric].type is Type.GAUGE:
            return False
        named = (t.name for part in source.parts for t in walk(part) if isinstance(t, SeriesTerm))
        return any(self._page.find(name) or self._page.find(f"{name}_bucket") for name in named)

    def _unavailable(self) -> Finding:
        if self._behind:
            return finding("router", f"{self._frontend.name} metrics of {self._behind}")
        if not self._page.series and not self._page.declared:
            return finding("empty_body")
        if self._page.holds(self._frontend.switched_off, ()) and self._frontend.switched_off:
            return finding("stats_disabled")
        return finding("no_engine_metrics")


def histogram_slot(series: Series, node: HistogramNode) -> HistogramSlot:
    phase = PHASE_OF_METRIC[series.metric]
    with_le = [(*series.labels, ("le", exposition.format_bound(b))) for b in (*phase.grid, float("inf"))]
    return HistogramSlot(
        series,
        node,
        phase,
        tuple(exposition.prefix(f"{series.metric}_bucket", x) for x in with_le),
        exposition.prefix(f"{series.metric}_sum", series.labels),
        exposition.prefix(f"{series.metric}_count", series.labels),
    )
