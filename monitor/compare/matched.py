"""Only what is alike: rows whose mean lengths lie in a range that is common to all that are compared. Pure."""

from __future__ import annotations

import numpy as np

from monitor.compare.rows import Flags, Number, Rows
from monitor.history.packed import Floats, Ints

_INNER = (0.05, 0.95)
"""Of each group's rows: a few unlike the others do not widen its range."""
_ROOM = 1.05
"""Lengths that differ by less are the same to a server."""


def alike(rows: Rows, group: Ints) -> Flags:
    """Of rows in one band: those whose prompts and outputs are in the common range of all groups."""
    found = np.ones(len(rows), bool)
    for column in (Number.PROMPT, Number.GENERATION):
        means = _means(rows, column)
        low, high = _common(means, group)
        found &= (means >= low) & (means <= high)
    return found


def _means(rows: Rows, column: Number) -> Floats:
    """Tokens by finished request; NaN where none finished."""
    finished = rows.number(Number.FINISHED)
    found: Floats = np.divide(rows.number(column), finished, out=np.full(len(rows), np.nan), where=finished > 0)
    return found


def _common(means: Floats, group: Ints) -> tuple[float, float]:
    """Infinite and upside down where a group has no lengths at all."""
    ranges = [_range(means[group == number]) for number in np.unique(group).tolist()]
    return max(low for low, _ in ranges), min(high for _, high in ranges)


def _range(means: Floats) -> tuple[float, float]:
    known = means[~np.isnan(means)]
    if not len(known):
        return np.inf, -np.inf
    low, high = np.quantile(known, _INNER)
    return float(low) / _ROOM, float(high) * _ROOM
