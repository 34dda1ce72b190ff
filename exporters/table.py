"""The vocabulary in which a frontend's table says where each schema field comes from. Declarations only, no logic.

A *term* names one thing on the wire (`Series`, `Label`, `Json`, `Engines`, `Number`) or combines terms (`Calc`). A
`Source` is one way to obtain a field, a `Field` lists its sources in order: the first that fits is used, alone. Names
are wire names without the frontend's prefix; `prefix:name` and `prefix_name` are the same name. A prefix written with
`_` at its end has names with `_` of its own; elsewhere `_` means that something rewrote the name. A name that starts
with `@` stands outside the prefix (`@process_start_time_seconds`). Types come from the schema, never from the wire.

A *condition* (in `needs`, `lacks`, `marks`, `switched_off`) holds on a page and the documents beside it: `name`,
`name{label}`, `name{label=value}` stand on the page; `version>=1.2`, `version<1.2`, `dp>=2` by the fact of that name,
none of them where it is not known; `json:document`: a term of the table finds something in that JSON document.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from exporters.flags import Flags
from exporters.rhythm import Rhythm


class Fold(StrEnum):
    """What to do with a label whose values split one thing into several series."""

    ENGINE = "engine"
    """It numbers data-parallel replicas: it becomes the schema's `engine`."""
    FIRST = "first"
    """Every rank reports the same requests: the lowest one stands for all."""
    MAX = "max"
    """One series is live, the others are stale or zero: the largest."""
    SUM = "sum"
    """Disjoint parts: added up."""
    TOTAL = "total"
    """The series with the empty value already is the sum; without it the others are added."""


class Read(StrEnum):
    """How the text of a label becomes a value."""

    NUMBER = "number"
    NAMES = "names"
    """A comma-separated list: the number of distinct names."""
    TEXT = "text"


class Pick(StrEnum):
    """Which of several series of one name carries the label that counts."""

    ALL = "all"
    NEWEST = "newest"
    """The one with the largest value, the value being a time."""
    HOT = "hot"
    """The one whose value is 1: a state among states."""


class Over(StrEnum):
    """How the records of a JSON document become one value."""

    LAST = "last"
    FIRST = "first"
    SUM = "sum"
    """Records are increments that are read once: they accumulate over all reads."""
    PARTS = "parts"
    """Records are disjoint parts: those of one reading are added up."""
    HELD = "held"
    """The last; while a document has no record (an idle server writes none), the one before it. For totals, not for
    gauges."""
    RISE = "rise"
    """The server's own total, followed over its restarts: what it rises by is added up, like the records of a sum, and
    starts at zero like that. A counter of records is ours, so that no record yet means none counted."""


class Op(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


class Need(StrEnum):
    ALL = "all"
    ANY = "any"
    """Terms may be missing; at least one is there."""


@dataclass(frozen=True, slots=True)
class Prefer:
    """The first of these values that exists, all others being left out. A tuple of values stands for any of them.

    Where none of them exists and there is only one value, that one. A value that the configuration names for `role`
    stands before all others, which then do not count.
    """

    values: tuple[str | tuple[str, ...], ...]
    role: str

    def __init__(self, *values: str | tuple[str, ...], role: str = "") -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "role", role)

    def among(self, present: Collection[str], named: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """`named`: values that the configuration names, by role."""
        if name := (named or {}).get(self.role):
            return (name,) if name in present else ()
        for value in self.values:
            group = (value,) if isinstance(value, str) else value
            if found := tuple(v for v in group if v in present):
                return found
        return tuple(present) if len(present) == 1 else ()


@dataclass(frozen=True, slots=True)
class Keep:
    """Carry a wire label over as schema label `label`, its values translated.

    A counter starts at 0 for every value that `values` can yield. What is not listed becomes `other`, or stays as it
    is where `other` is empty.
    """

    label: str
    values: Mapping[str, str] = field(default_factory=dict)
    other: str = ""


Where = Mapping[str, str | tuple[str, ...] | Prefer]


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one wire name: a gauge or counter by its sample name, a histogram by its base name.

    `where` selects by label values; `keep` carries labels over; `add` sets labels; `scale` converts to base units;
    `invalid` lists values that mean "not known"; `fold` overrides the frontend's folds. Where all conditions of `zero`
    hold, a counter that is not on the page yet stands at 0.
    """

    name: str
    where: Where = field(default_factory=dict)
    keep: Mapping[str, Keep] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    scale: float = 1.0
    invalid: tuple[float, ...] = ()
    fold: Mapping[str, Fold] = field(default_factory=dict)
    zero: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """A value that sits in a label of series `name`. `values` translates text; what it does not list is not known."""

    name: str
    label: str
    read: Read = Read.NUMBER
    pick: Pick = Pick.ALL
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Json:
    """A value in JSON document `document`: dotted `path` inside each of its records; empty: the record itself.

    `records` is the dotted path of the array (empty: the document itself, an array or one object); `where` keeps the
    records with these values; `engine` is the path of the replica's number; `match` takes the first group of a
    pattern out of a text value; `values` translates text; `each_engine` says that one value holds for every replica;
    `add` sets labels; `idle` is the value while the document has no record, once it had one.
    """

    document: str
    path: str
    records: str = ""
    where: Mapping[str, object] = field(default_factory=dict)
    over: Over = Over.LAST
    engine: str = ""
    match: str = ""
    scale: float = 1.0
    values: Mapping[str, str] = field(default_factory=dict)
    each_engine: bool = False
    add: Mapping[str, str] = field(default_factory=dict)
    idle: float | None = None


@dataclass(frozen=True, slots=True)
class Engines:
    """How many data-parallel replicas the page shows."""


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Calc:
    """`terms` combined from left to right, per engine and model; a term without engine or model applies to all.

    A division by 0 is not known. `floor` is the least value that makes sense.
    """

    op: Op
    terms: tuple[Term, ...]
    need: Need
    floor: float | None

    def __init__(self, op: str, *terms: Term, need: Need = Need.ALL, floor: float | None = None) -> None:
        object.__setattr__(self, "op", Op(op))
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "need", need)
        object.__setattr__(self, "floor", floor)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The increase of one schema counter over that of another, in the last 5 minutes: stands alone in its source."""

    numerator: str
    denominator: str


Term = Series | Label | Json | Engines | Number | Calc | Ratio


class Quality(StrEnum):
    EXACT = "exact"
    DERIVED = "derived"
    APPROXIMATE = "approximate"
    LAST_BATCH = "last_batch"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Source:
    """Parts stand side by side: each contributes its own series; the first has to be there.

    `needs` and `lacks` are conditions: all of the former hold, none of the latter.
    """

    parts: tuple[Term, ...]
    quality: Quality
    needs: tuple[str, ...]
    lacks: tuple[str, ...]
    note: str

    def __init__(
        self,
        *parts: Term,
        quality: Quality = Quality.EXACT,
        needs: tuple[str, ...] = (),
        lacks: tuple[str, ...] = (),
        note: str = "",
    ) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "quality", quality)
        object.__setattr__(self, "needs", needs)
        object.__setattr__(self, "lacks", lacks)
        object.__setattr__(self, "note", note)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a field is missing, and what to do; the first whose conditions hold is told."""

    text: str
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One schema metric. `quantity` says in words what this frontend measures under it, where definitions differ."""

    metric: str
    sources: tuple[Source, ...]
    missing: tuple[Reason, ...]
    definition: str

    def __init__(
        self, metric: str, *sources: Source, missing: str | tuple[Reason, ...] = (), definition: str = ""
    ) -> None:
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "sources", sources)
        object.__setattr__(self, "missing", (Reason(missing),) if isinstance(missing, str) else missing)
        object.__setattr__(self, "definition", definition)


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    STATUS = "status"
    """Only the HTTP status counts."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to read from the server. `every` is its period in seconds, 0 meaning each collection."""

    name: str
    path: str
    form: Form = Form.TEXT
    every: float = 0.0
    destructive: bool = False
    """Reading takes the records away from whoever reads next: one poller, nobody else."""
    older: str = ""
    """The path in older releases, asked for where `path` is not found."""
    within: float = 0.0
    """Seconds that its answer may take, where these are more than the target's time-out."""


@dataclass(frozen=True, slots=True)
class Trap:
    """A way in which this frontend's numbers mislead, and what is done about it: shown on the reference page."""

    title: str
    handling: str


@dataclass(frozen=True, slots=True)
class Frontend:
    """One server frontend.

    `marks` are names by which its page is recognised (see `terms.marks`); `ignore` are patterns of known families that
    the schema has no place for; `switched_off` marks a page on which the engine's statistics are switched off.
    """

    name: str
    framework: str
    prefixes: tuple[str, ...]
    documents: tuple[Document, ...]
    folds: Mapping[str, Fold]
    model_label: str
    facts: Mapping[str, tuple[Term, ...]]
    fields: tuple[Field, ...]
    ignore: tuple[str, ...]
    flags: Flags = field(default_factory=dict)
    rhythm: Rhythm = field(default_factory=Rhythm)
    traps: tuple[Trap, ...] = ()
    marks: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    """Conditions that do not tell the frontend, but of which one is enough where the configuration names it."""
    switched_off: tuple[str, ...] = ()
    owner: tuple[Json, str] | None = None
    """The value that makes sure, where the page itself shows no engine metrics, that it is this frontend."""
    no_metrics: str = ""
    """Why a server that is certainly this frontend may have no metrics page at all, and what to do."""
    no_records: str = ""
    """What to do where documents that are read once answer and have no record in them."""
    unknown_models: tuple[str, ...] = ()
    """Values of the model label that stand for no model."""
    releases: str = ""

    def document(self, name: str) -> Document:
        return next(d for d in self.documents if d.name == name)

    def definition(self, metric: str) -> str:
        """What this frontend measures under the schema's name, in words."""
        known = next((entry for entry in self.fields if entry.metric == metric), None)
        if known is None or not known.sources:
            return "not measured"
        return known.definition or "as the schema says"
