"""What was so at which time, told by its changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.history.minutes import Event
from monitor.history.packed import Ints


@dataclass(frozen=True, slots=True)
class Timeline:
    """`values` is one longer than `moments`, in order of time: each holds up to the moment with its number."""

    moments: tuple[float, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, changes: Sequence[Event], now: str) -> Timeline:
        """`now` is what is so where nothing changed."""
        in_order = sorted(changes, key=lambda event: event.at)
        if not in_order:
            return cls((), (now,))
        values = (in_order[0].before or "", *(event.after or "" for event in in_order))
        return cls(tuple(event.at for event in in_order), values)

    def at(self, moments: Ints) -> Ints:
        """The numbers of the values that hold then."""
        found: Ints = np.searchsorted(np.array(self.moments), moments, "right")
        return found
