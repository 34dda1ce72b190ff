"""What an alert says, with places in braces: as a template of Prometheus, and filled in as Prometheus does it.

Places are the alert's labels, `{value}`, and `{explained}`: what the value of a label means, in words. `{label?}` is a
label that not every alert has, with a space before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from exporters.exposition import format_value

Unit = Literal["number", "ratio", "seconds"]

_PLACE = re.compile(r"\{(\w+)(\??)\}")
_VALUE, _EXPLAINED = "value", "explained"
_TEMPLATES: Mapping[Unit, str] = {
    "number": '{{ printf "%.0f" $value }}',
    "ratio": "{{ $value | humanizePercentage }}",
    "seconds": "{{ $value | humanizeDuration }}",
}


@dataclass(frozen=True, slots=True)
class Explained:
    label: str
    words: tuple[tuple[str, str], ...]
    """The label's values, and what each means."""

    @property
    def template(self) -> str:
        cases = (f'if eq $labels.{self.label} "{value}" }}}}{words}' for value, words in self.words)
        return f"{{{{ {'{{ else '.join(cases)}{{{{ end }}}}"


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    unit: Unit = "number"
    explained: Explained | None = None

    @property
    def labels(self) -> frozenset[str]:
        """Those that it names."""
        own = {self.explained.label} if self.explained else set()
        return frozenset({*(label for label, _ in _PLACE.findall(self.text)), *own} - {_VALUE, _EXPLAINED})

    @property
    def template(self) -> str:
        return _PLACE.sub(self._template, self.text)

    def filled(self, labels: Mapping[str, str], value: float) -> str:
        return _PLACE.sub(lambda place: self._filled(place, labels, value), self.text)

    def _template(self, place: re.Match[str]) -> str:
        if place[1] == _EXPLAINED and self.explained:
            return self.explained.template
        if place[2]:
            return f"{{{{ with $labels.{place[1]} }}}} {{{{ . }}}}{{{{ end }}}}"
        return _TEMPLATES[self.unit] if place[1] == _VALUE else f"{{{{ $labels.{place[1]} }}}}"

    def _filled(self, place: re.Match[str], labels: Mapping[str, str], value: float) -> str:
        if place[1] == _EXPLAINED and self.explained:
            return dict(self.explained.words).get(labels.get(self.explained.label, ""), "")
        if place[1] == _VALUE:
            return self._shown(value)
        found = labels.get(place[1], "")
        return f" {found}" if place[2] and found else found

    def _shown(self, value: float) -> str:
        if self.unit == "ratio":
            return f"{value * 100:.4g}%"
        return _duration(value) if self.unit == "seconds" else f"{value:.0f}"


def _duration(seconds: float) -> str:
    """From a millisecond on."""
    if not math.isfinite(seconds):
        return format_value(seconds)
    if seconds < 60:
        return f"{seconds:.4g}s" if seconds >= 1 else f"{seconds * 1000:.4g}ms"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (rest, "s"))
    first = next(place for place, (many, _) in enumerate(parts) if many)
    return " ".join(f"{many}{unit}" for many, unit in parts[first:])
