"""How fresh a server's numbers are: a part of its table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isinf

STICKS = "keeps its value when the server falls idle"
"""Said of a gauge whose last value says nothing of now."""
COUNTED_AT_FINISH = "added when a request finishes"
"""Said of a counter that stands still while requests run, of a server that otherwise counts live."""


class TokenTiming(StrEnum):
    LIVE = "live"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Refresh:
    """When the server sets the gauges of its page that feed `metrics`: between two refreshes they are old.

    `on` is the event, in words; `steps` are decode steps; `flag` sets these or `seconds`. `idle_seconds` is how long
    a value may stay once the server is idle, infinite where it stays until the next request. `needs` are conditions
    as in a source, and `releases` says in words which releases they tell.
    """

    metrics: tuple[str, ...]
    on: str = ""
    steps: int = 0
    seconds: float = 0.0
    flag: str = ""
    idle_seconds: float = 0.0
    needs: tuple[str, ...] = ()
    releases: str = ""

    @property
    def told(self) -> str:
        steps = f"every {self.steps} decode steps" if self.steps else ""
        seconds = f"every {self.seconds:g} s" if self.seconds else ""
        refreshed = f"refreshed {' or '.join(filter(None, (self.on, steps, seconds)))}"
        refreshed += f" ({self.flag})" if self.flag else ""
        return "; ".join(filter(None, (refreshed, self._idle()))) + (f" ({self.releases})" if self.releases else "")

    def _idle(self) -> str:
        if isinf(self.idle_seconds):
            return STICKS
        return f"once idle, within {self.idle_seconds:g} s" if self.idle_seconds else ""


@dataclass(frozen=True, slots=True)
class Rhythm:
    token_timing: TokenTiming = TokenTiming.LIVE
    live_since: str = ""
    """The first release with live counters of generated tokens; those before it count at finish."""
    gauges: tuple[Refresh, ...] = ()
    """The gauges that are set now and then; of those of one metric the first whose conditions hold."""
