"""Numbers that a server can mean. Others are missing: one absurd minute must not decide over a month of sums."""

from __future__ import annotations

import numpy as np

from monitor.history.packed import Floats

MOST = 1e15
"""More than any counter rises by within a minute; of sums up to it no request gets lost for want of digits."""


def plausible(values: Floats) -> Floats:
    found: Floats = np.where(np.abs(values) <= MOST, values, np.nan)
    return found


def counted(values: Floats) -> Floats:
    """Of a counter, which never falls."""
    found: Floats = np.where((values >= 0) & (values <= MOST), values, np.nan)
    return found
