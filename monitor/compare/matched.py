"""Only what is alike: rows whose mean lengths lie in a range that is common to all that are compared. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.compare.model import LEAST_MINUTES
from monitor.compare.rows import MINUTE, Flags, Number, Rows, known
from monitor.history.packed import Floats, Ints

_INNER = (0.05, 0.95)
"""Of each group's rows: a few unlike the others do not widen its range."""
_ROOM = 1.05
"""Lengths that differ by less are the same to a server."""
_BESIDE = 10 * MINUTE
"""Seconds before and after: prompts of one minute are finished in another, and few requests are of any length. Lengths
of single minutes would sort them by chance."""


def alike(rows: Rows, group: Ints) -> Flags:
    """Of rows in one band: those whose prompts and outputs are in the common range of all groups. A group that has too
    few minutes to be told decides nothing, and one alone is like itself."""
    found = np.ones(len(rows), bool)
    told = np.flatnonzero(np.bincount(group, rows.number(Number.MINUTES)) >= LEAST_MINUTES).tolist()
    for column in (Number.PROMPT, Number.GENERATION) if len(told) > 1 else ():
        means = _means(rows, column)
        low, high = _common([means[group == number] for number in told])
        found &= (means >= low) & (means <= high)
    return found


def _means(rows: Rows, column: Number) -> Floats:
    """Tokens by finished request at each server about that time; NaN where none finished."""
    time = rows.start - rows.start.min(initial=0)
    at = rows.server * (int(time.max(initial=0)) + 2 * _BESIDE) + time
    first, last = np.searchsorted(at, at - _BESIDE), np.searchsorted(at, at + _BESIDE, "right")
    tokens, finished = (_up_to(values) for values in known(rows.number(column), rows.number(Number.FINISHED)))
    many = finished[last] - finished[first]
    found: Floats = np.divide(tokens[last] - tokens[first], many, out=np.full(len(rows), np.nan), where=many > 0)
    return found


def _up_to(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _common(groups: Sequence[Floats]) -> tuple[float, float]:
    """Infinite and upside down where a group has no lengths at all."""
    ranges = [_range(means) for means in groups]
    return max(low for low, _ in ranges), min(high for _, high in ranges)


def _range(means: Floats) -> tuple[float, float]:
    told = means[~np.isnan(means)]
    if not len(told):
        return np.inf, -np.inf
    low, high = np.quantile(told, _INNER)
    return float(low) / _ROOM, float(high) * _ROOM
