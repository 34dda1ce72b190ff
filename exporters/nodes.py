"""What a compiled table consists of: functions of one scrape's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from exporters.documents import JsonValue
from exporters.histogram import Histogram, add_up
from exporters.table import Fold, Need, Op, Pick
from exporters.wire import WireHistogram


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape's numbers: `values` by index, JSON values by term id; `drop(reason, index)` counts the unused."""

    values: Sequence[float]
    json: Mapping[int, Mapping[str, JsonValue]]
    drop: Callable[[str, int], None]


NO_SAMPLE = -1

T = TypeVar("T")

Node = Callable[[Scrape], float | None]
TextNode = Callable[[Scrape], str | None]
HistogramNode = Callable[[Scrape], Histogram | None]


def number(index: int, scale: float, invalid: tuple[float, ...]) -> Node:
    def read(scrape: Scrape) -> float | None:
        value = scrape.values[index]
        if value != value:  # noqa: PLR0124
            scrape.drop("nan", index)
            return None
        if value in invalid:
            scrape.drop("not_known", index)
            return None
        return value * scale

    return read


def constant(value: float) -> Node:
    return lambda _: value


def json_number(term: int, engine: str) -> Node:
    def read(scrape: Scrape) -> float | None:
        value = scrape.json.get(term, {}).get(engine)
        try:
            return None if value is None else float(value)
        except ValueError:
            return None

    return read


def json_text(term: int, engine: str) -> TextNode:
    def read(scrape: Scrape) -> str | None:
        value = scrape.json.get(term, {}).get(engine)
        return None if value is None else number_text(value)

    return read


def as_text(node: Node) -> TextNode:
    def read(scrape: Scrape) -> str | None:
        value = node(scrape)
        return None if value is None else number_text(value)

    return read


def number_text(value: JsonValue) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def picked(pick: Pick, candidates: Sequence[tuple[int, T]]) -> Callable[[Scrape], T | None]:
    """One of the values that labels carry, each beside the index of its series' number."""
    match pick:
        case Pick.ALL:
            return lambda _: candidates[0][1]
        case Pick.HOT:
            return lambda scrape: next((value for index, value in candidates if scrape.values[index] == 1), None)
        case Pick.NEWEST:
            return lambda scrape: max(candidates, key=lambda c: scrape.values[c[0]])[1]


def combined(how: Callable[[list[float]], float], nodes: Sequence[Node]) -> Node:
    """Those that are known, as one; None where none is."""

    def read(scrape: Scrape) -> float | None:
        known = [v for node in nodes if (v := node(scrape)) is not None]
        return how(known) if known else None

    return read


def folded(fold: Fold, nodes: Sequence[Node]) -> Node:
    return combined(max if fold is Fold.MAX else sum, nodes)


def histogram(wire: WireHistogram, scale: float) -> HistogramNode:
    bounds = wire.bounds if scale == 1 else tuple(_scaled(b, scale) for b in wire.bounds)

    def read(scrape: Scrape) -> Histogram | None:
        values = scrape.values
        total = None if wire.sum_slot is None else values[wire.sum_slot] * scale
        return Histogram(bounds, tuple([values[i] for i in wire.slots]), total)

    return read


def _scaled(bound: float, scale: float) -> float:
    """Without the last bits that a product leaves: 9 ms are 0.009 s and not 0.009000000000000001, off the grid."""
    return float(f"{bound * scale:.12g}")


def folded_histogram(fold: Fold, nodes: Sequence[HistogramNode]) -> HistogramNode:
    """Parts of one histogram share their bounds; parts that do not are left out of the sum, the largest set wins."""

    def read(scrape: Scrape) -> Histogram | None:
        parts = [h for node in nodes if (h := node(scrape)) is not None]
        sums = parts if fold is Fold.MAX else add_up(parts)
        if len(sums) > 1 and fold is not Fold.MAX:
            scrape.drop("ambiguous", NO_SAMPLE)
        return max(sums, key=lambda h: h.count) if sums else None

    return read


def calculation(op: Op, nodes: Sequence[Node | None], need: Need, floor: float | None) -> Node:
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
