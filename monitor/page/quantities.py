"""How numbers read on the page. A missing number has no text here: the caller says why it is missing."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

_PREFIXES = ((0.9995e12, 1e12, "T"), (0.9995e9, 1e9, "G"), (0.9995e6, 1e6, "M"), (9999.5, 1e3, "k"))
"""(from, divisor, prefix), such that 999,600 reads as 1.00 M and not as 1,000 k."""
_SECOND_UNITS = ((0.9995, "s", 1.0), (0.9995e-3, "ms", 1e-3), (0.0, "µs", 1e-6))


def count(value: float) -> str:
    """Whole numbers in full below ten thousand, then three digits and a prefix: 9,999 and 12.3 k."""
    for least, divisor, prefix in _PREFIXES:
        if abs(value) >= least:
            return f"{_three_digits(value / divisor)} {prefix}"
    whole = not math.isfinite(value) or value == round(value) or abs(value) >= 99.95
    return _rounded(value, 0) if whole else _three_digits(value)


def _three_digits(value: float) -> str:
    size = abs(value)
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return _rounded(value, decimals)


def _rounded(value: float, decimals: int) -> str:
    """A half goes up, as people round: of the number as it is written, whose binary form may lie below."""
    if not math.isfinite(value) or abs(value) >= 1e12:
        return f"{value:,.{decimals}f}"
    written = Decimal(f"{value:.12g}")
    return f"{written.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"


def rate(per_second: float) -> str:
    """A rate without its unit: whole above ten, one decimal below; a trickle never reads as 0."""
    if 0 < per_second < 0.05:
        return "< 0.1"
    return _rounded(per_second, 1) if 0 < per_second < 9.95 else count(math.floor(per_second + 0.5))


def percent(ratio: float) -> str:
    """Neither 0 % nor 100 % unless it is exactly that."""
    value = ratio * 100
    if 0 < value < 0.05:
        return "< 0.1 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    return f"{_rounded(value, 1 if 0 < value < 9.95 or 99 < value < 100 else 0)} %"


def duration(seconds: float) -> str:
    """About two digits below 100 s; minutes, hours and days above."""
    if seconds >= 99.5:
        return _long(seconds)
    unit, scale = _unit(seconds)
    return f"{_two_digits(seconds / scale)} {unit}"


def _long(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _unit(seconds: float) -> tuple[str, float]:
    if not seconds:
        return "s", 1.0
    return next((unit, scale) for least, unit, scale in _SECOND_UNITS if seconds >= least)


def _two_digits(value: float) -> str:
    return _rounded(value, _decimals(value))


def _decimals(value: float) -> int:
    return 1 if 0 < value < 9.95 else 0


def bound(seconds: float) -> str:
    """A bucket's bound as it is, not rounded: 2.5 s, 75 ms, 7680 s."""
    unit, scale = _unit(seconds)
    return f"{_exact(seconds / scale, 0)} {unit}"


def _exact(value: float, decimals: int) -> str:
    rounded = f"{value:.{decimals}f}"
    return rounded if math.isclose(float(rounded), value, rel_tol=1e-6, abs_tol=1e-12) else f"{value:.6g}"


def quantile(estimate: float, lower: float, upper: float | None) -> tuple[str, str]:
    """Seconds as an estimate and the bounds of what is known: `1.2 s` and `(1.0–2.5)`.

    In the overflow and in the first bucket there is no estimate worth the name: `at least 60 s`, `at most 1 ms`.
    """
    if upper is None or math.isinf(upper):
        return f"at least {bound(lower)}", ""
    if lower <= 0:
        return f"at most {bound(upper)}", ""
    unit, scale = _unit(estimate)
    value = estimate / scale
    decimals = _decimals(value)
    low, high = (_exact(edge / scale, decimals) for edge in (lower, upper))
    return f"{_two_digits(value)} {unit}", f"({low}–{high})"


def moment(at: float) -> str:
    """Unix seconds as a date and time with its zone."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def iso(at: float) -> str:
    """Unix seconds as HTML's `datetime` attribute wants them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(seconds: float) -> str:
    if seconds < 2:
        return "now"
    return f"{_coarse(seconds)} ago"


def _coarse(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
