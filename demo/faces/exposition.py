"""Pages of metrics as text, from values that live between two scrapes.

What never changes of a line (name, labels, bound) is made once, and only what has changed since the last scrape is
written again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import inf, isnan
from typing import Generic, Literal, Protocol, TypeVar

from demo.model import Answer

Kind = Literal["counter", "gauge", "histogram", "summary"]
Part = Literal["bucket", "count", "sum"]


def python_number(value: float) -> str:
    """As prometheus_client writes it: Python's digits, but with an exponent from a million on."""
    value = float(value)
    if -inf < value < 1e6:
        return repr(value)
    if isnan(value):
        return "NaN"
    if abs(value) == inf:
        return "+Inf" if value > 0 else "-Inf"
    whole, dot, rest = repr(value).partition(".")
    if not dot or len(whole) == 1:
        return repr(value)  # Python's own exponent, from 1e16 on
    return f"{whole[0]}.{whole[1:]}{rest}".rstrip("0").rstrip(".") + f"e+{len(whole) - 1:02}"


def plain_number(value: float) -> str:
    """As servers in C++ write it: whole numbers without a fraction."""
    return str(int(value)) if value == value // 1 and abs(value) < 1e15 else python_number(value)


@dataclass(frozen=True, slots=True)
class Style:
    """How a program lays out its page. `samples` is the order of a histogram's samples."""

    number: Callable[[float], str] = python_number
    sorts_labels: bool = True
    samples: tuple[Part, ...] = ("bucket", "count", "sum")
    shows_childless: bool = True


ONE_PROCESS = Style()
"""prometheus_client in one process. It also shows when counters and histograms were created, unless switched off."""
SEVERAL_PROCESSES = Style(samples=("sum", "bucket", "count"), shows_childless=False)
"""prometheus_client where several processes write and each scrape merges them."""
CPP = Style(number=plain_number, sorts_labels=False, samples=("count", "sum", "bucket"))


class Child(Protocol):
    def text(self) -> str: ...


C = TypeVar("C", bound=Child)
Labels = Mapping[str, str]


class Value:
    """Of a counter or a gauge."""

    __slots__ = ("_line", "_number", "_shown", "_text", "value")

    def __init__(self, name: str, labels: Labels, style: Style) -> None:
        self.value = 0.0
        self._line = name + _labels(labels, style) + " "
        self._number = style.number
        self._shown: float | None = None
        self._text = ""

    def add(self, amount: float = 1.0) -> None:
        self.value += amount

    def set(self, value: float) -> None:
        self.value = value

    def text(self) -> str:
        if self.value != self._shown:
            self._shown = self.value
            self._text = f"{self._line}{self._number(self.value)}\n"
        return self._text


class Histogram:
    """`bounds` are the finite upper ones; without them it is a summary of count and sum."""

    __slots__ = ("_bounds", "_buckets", "_counts", "_lines", "_number", "_text", "count", "sum")

    def __init__(self, name: str, labels: Labels, style: Style, bounds: Sequence[float] | None) -> None:
        self.count = 0
        self.sum = 0.0
        self._number = style.number
        self._bounds = tuple(bounds or ())
        self._counts = [0] * (len(self._bounds) + 1)
        parts = [part for part in style.samples if bounds is not None or part != "bucket"]
        self._lines = {part: f"{name}_{part}{_labels(labels, style)} " for part in parts}
        tops = [{**labels, "le": style.number(bound)} for bound in (*self._bounds, inf)]
        self._buckets = [f"{name}_bucket{_labels(top, style)} " for top in tops]
        self._text = ""

    def observe(self, value: float, count: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += count
        self.count += count
        self.sum += value * count
        self._text = ""

    def text(self) -> str:
        if not self._text:
            self._text = "".join(map(self._part, self._lines))
        return self._text

    def _part(self, part: Part) -> str:
        number = self._number
        if part == "bucket":
            counts = accumulate(self._counts)
            return "".join([f"{line}{number(n)}\n" for line, n in zip(self._buckets, counts, strict=True)])
        return f"{self._lines[part]}{number(self.count if part == 'count' else self.sum)}\n"


class Family(Generic[C]):
    """Its children by their labels, in the order in which they were born."""

    def __init__(self, page: Page, name: str, kind: Kind, make: Callable[[str, Labels, Style], C]) -> None:
        self._page = page
        self._name = name
        self._make = make
        self._kind = kind
        self._children: dict[tuple[tuple[str, str], ...], C] = {}
        self._created: Family[Value] | None = None
        self._head = f"# HELP {name} {name}\n# TYPE {name} {kind}\n"
        self._last: str | None = None

    def labelled(self, **labels: str) -> C:
        """The child with these labels, which is born with its first mention."""
        key = tuple(sorted(labels.items()))
        if key not in self._children:
            self._children[key] = self._make(self._name, labels, self._page.style)
            self._tell_birth(labels)
        return self._children[key]

    def remove(self, **labels: str) -> None:
        self._children.pop(tuple(sorted(labels.items())), None)

    def text(self) -> str:
        if self._last is None or self._kind != "gauge" or not self._page.is_frozen:
            self._last = self._own_text()
        return self._last + self._created.text() if self._created else self._last

    def _own_text(self) -> str:
        if not self._children and not self._page.style.shows_childless:
            return ""
        return "".join([self._head, *[child.text() for child in self._children.values()]])

    def _tell_birth(self, labels: Labels) -> None:
        if self._kind == "gauge" or self._page.created is None:
            return
        if self._created is None:
            base = self._name.removesuffix("_total") if self._kind == "counter" else self._name
            self._created = Family(self._page, f"{base}_created", "gauge", Value)
        self._created.labelled(**labels).set(self._page.created)


class _Written(Protocol):
    def text(self) -> str: ...


class Page:
    """Families in the order in which they are added.

    `created` is shown as the time of birth of all counters, histograms and summaries born from now on, unless it is
    None. `renamed` are other names than the release's own. While `is_frozen`, gauges stay as they were last shown.
    """

    def __init__(self, style: Style, *, created: float | None = None, renamed: Mapping[str, str] | None = None) -> None:
        self.style = style
        self.created = created
        self.is_frozen = False
        self._renamed = dict(renamed or {})
        self._families: list[_Written] = []

    def add(self, name: str, kind: Kind, make: Callable[[str, Labels, Style], C]) -> Family[C]:
        """A family whose children `make` makes."""
        family = Family(self, self._renamed.get(name, name), kind, make)
        self._families.append(family)
        return family

    def gauge(self, name: str) -> Family[Value]:
        return self.add(name, "gauge", Value)

    def counter(self, name: str) -> Family[Value]:
        return self.add(name, "counter", Value)

    def histogram(self, name: str, bounds: Sequence[float]) -> Family[Histogram]:
        return self.add(name, "histogram", partial(Histogram, bounds=bounds))

    def summary(self, name: str) -> Family[Histogram]:
        """Of count and sum alone."""
        return self.add(name, "summary", partial(Histogram, bounds=None))

    def text(self) -> str:
        return "".join([family.text() for family in self._families])

    def answer(self, content_type: str) -> Answer:
        return Answer(200, content_type, self.text().encode())


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def _labels(labels: Labels, style: Style) -> str:
    pairs = sorted(labels.items()) if style.sorts_labels else labels.items()
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs) + "}" if labels else ""
