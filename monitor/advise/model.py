"""What advice says.

Advice
├── Finding         one thing that should be changed at one Target
│   ├── Evidence    a number, over which window it is, and the question to the history that tells it
│   ├── Confidence  and why it is not higher
│   └── Change      the flag of that framework and release
└── Missing         what could not be judged, of which targets, and what is needed for it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from urllib.parse import urlencode

from exporters.flags import Flag


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def weaker(self) -> Confidence:
        return Confidence.MEDIUM if self is Confidence.HIGH else Confidence.LOW


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A server, a GPU, or all servers of a model; what does not apply or is not known is ""."""

    node: str = ""
    server: str = ""
    framework: str = ""
    model: str = ""
    version: str = ""
    gpu: str = ""

    @property
    def name(self) -> str:
        if self.server:
            return f"{self.node}/{self.server}"
        if self.gpu:
            return f"GPU {self.gpu} of {self.node}"
        return self.node or self.model or "the fleet"

    @property
    def release(self) -> str:
        return f"{self.framework} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the history, but for its window and of whom: `q` is of a histogram."""

    metric: str
    aggregation: str
    q: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """`what` was `value` in `unit` (a unit of the schema, or what is counted) from `since` to `until`, unix seconds.

    `where` and `group_by` are those of the question that shows it, step by step. `steps` are the lengths of those that
    it rests on, in seconds.
    """

    what: str
    value: float
    unit: str
    asked: Asked
    since: int
    until: int
    step: int
    where: Mapping[str, str]
    group_by: Sequence[str] = ()
    steps: Sequence[int] = ()

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Of the history's page and of its API alike."""
        asked = self.asked
        return [
            ("metric", asked.metric),
            *([("q", f"{asked.q:g}")] if asked.q is not None else [("aggregation", asked.aggregation)]),
            ("since", str(self.since)),
            ("until", str(self.until)),
            ("step", str(self.step)),
            *(("where", f"{name}={value}") for name, value in self.where.items()),
            *(("group_by", name) for name in self.group_by),
        ]

    @property
    def query(self) -> str:
        return urlencode(self.parameters)


@dataclass(frozen=True, slots=True)
class Change:
    """What to do with one setting: `what` is raise or lower, or switch on or off. `flags` are those that it may be, of
    which the release at hand has one. `current` is said in words, "" where it is not known.
    """

    flags: tuple[Flag, ...]
    what: Literal["raise", "lower", "switch on", "switch off"]
    current: str = ""
    to: str = ""

    @property
    def text(self) -> str:
        known = " or ".join(self._named(flag) for flag in self.flags)
        to = f" to {self.to}" if self.to else ""
        defaults = sorted({flag.default for flag in self.flags if flag.default})
        default = "" if self.current or not defaults else f"the default is {' or '.join(defaults)}"
        aside = f"it is {self.current}" if self.current else default
        return known + to + (f" ({aside})" if aside else "")

    def _named(self, flag: Flag) -> str:
        name = ", ".join(f"`{part}`" for part in flag.name.split(", "))
        told = f"{name} ({flag.releases})" if len(self.flags) > 1 and flag.releases else name
        return f"{self._verb(flag)} {told}"

    def _verb(self, flag: Flag) -> str:
        if self.what in ("raise", "lower"):
            return self.what
        return "start with" if (self.what == "switch on") != flag.off else "start without"


@dataclass(frozen=True, slots=True)
class Finding:
    """`why` is the reason of the confidence; `seconds` is how long it held within the window."""

    name: str
    target: Target
    text: str
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    why: str
    seconds: float
    change: Change | None = None
    instead: str = ""
    """What to do where no flag of the server helps, or besides."""


@dataclass(frozen=True, slots=True)
class Missing:
    """`name` is the finding's that could not be judged."""

    name: str
    needs: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """From `since` to `until`, unix seconds; findings in the order in which to look at them."""

    since: int
    until: int
    findings: tuple[Finding, ...]
    missing: tuple[Missing, ...]
