"""What numbers on an axis are counted in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from monitor.page import quantities


class Kind(Enum):
    SECONDS = "seconds"
    BYTES = "bytes"
    RATIO = "ratio"
    NUMBER = "number"


_SCALES: dict[Kind, tuple[tuple[float, float, str], ...]] = {
    Kind.SECONDS: (
        (172_800, 86_400, "d"), (7_200, 3_600, "h"), (600, 60, "min"), (0.9995, 1, "s"), (0.9995e-3, 1e-3, "ms"),
        (0, 1e-6, "µs"),
    ),
    Kind.BYTES: ((2.0**40, 2.0**40, "TiB"), (2.0**30, 2.0**30, "GiB"), (2.0**20, 2.0**20, "MiB"), (0, 1, "B")),
    Kind.RATIO: ((0, 0.01, "%"),),
    Kind.NUMBER: ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e5, 1e3, "k"), (0, 1, "")),
}  # fmt: skip
"""(from, divisor, prefix or unit), by the largest number that is drawn."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What is written at an axis is the number by `divisor`, in `title`."""

    divisor: float
    title: str


@dataclass(frozen=True, slots=True)
class Unit:
    kind: Kind
    noun: str = ""
    """What is counted where it is no unit of measure, such as "tokens/s"; or "/s" behind bytes."""

    def scale(self, largest: float) -> Scale:
        divisor, name = _step(self.kind, largest)
        return Scale(divisor, f"{name}{self.noun}" if self.noun.startswith("/") else f"{name} {self.noun}".strip())

    def said(self, value: float) -> str:
        """With its unit, as the page says it."""
        words = _WORDS[self.kind](value)
        return f"{words}{self.noun}" if self.noun.startswith("/") else f"{words} {self.noun}".rstrip()

    def bound(self, value: float) -> str:
        """A bound of buckets: as it is, not rounded."""
        return quantities.bound(value) if self.kind is Kind.SECONDS else self.said(value)


def _step(kind: Kind, largest: float) -> tuple[float, str]:
    size = abs(largest) or 1.0
    return next((divisor, name) for least, divisor, name in _SCALES[kind] if size >= least)


def _bytes(value: float) -> str:
    divisor, name = _step(Kind.BYTES, value)
    return f"{quantities.count(value / divisor)} {name}"


_WORDS: dict[Kind, Callable[[float], str]] = {
    Kind.SECONDS: quantities.duration,
    Kind.BYTES: _bytes,
    Kind.RATIO: quantities.percent,
    Kind.NUMBER: quantities.count,
}

SECONDS = Unit(Kind.SECONDS)
BYTES = Unit(Kind.BYTES)
RATIO = Unit(Kind.RATIO)


def counted(noun: str) -> Unit:
    return Unit(Kind.NUMBER, noun)
