"""What changed at a server and its GPUs: marks in its charts, and the newest as a list."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from monitor.gpus import GpuRow
from monitor.history.database import HistoryError
from monitor.history.life import Wanted
from monitor.history.minutes import WINDOW_SECONDS
from monitor.page import quantities
from monitor.page.sparkline import x_of
from monitor.page.trends import SPAN_SECONDS, STEP_SECONDS, Asks
from monitor.remarks import in_words

log = logging.getLogger(__name__)

LISTED = 10
_MOST = 500
_TOLD_OF_A_MARK = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """One for all changes of a minute, at `x` of a chart's width."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Changes:
    marks: tuple[Mark, ...] = ()
    newest: tuple[Change, ...] = ()


def changes(history: Asks, node: str, server: str, gpus: Sequence[GpuRow], now: float) -> Changes:
    """`gpus` are those that the server runs on. A history that cannot be read costs the marks, not the page."""
    numbers = {gpu.uuid: gpu.gpu for gpu in gpus}
    until = math.floor(now / STEP_SECONDS) * STEP_SECONDS
    since = until - SPAN_SECONDS
    try:
        own = history.events(Wanted(_MOST, node, server))
        of_node = history.events(Wanted(_MOST, node, kinds=("state", "driver"), since=since)) if numbers else []
    except HistoryError as cause:
        log.warning("could not read what changed at %s: %s", server, cause)
        return Changes()
    told = [Change(event.at, in_words(event)) for event in own]
    told += [
        Change(event.at, f"GPU {numbers[uuid]} {in_words(event)}")
        for event in of_node
        if (uuid := dict(event.target).get("uuid", "")) in numbers
    ]
    told.sort(key=lambda change: change.at, reverse=True)
    return Changes(tuple(_marks(told, since, until)), tuple(told[:LISTED]))


def _marks(told: Iterable[Change], since: float, until: float) -> Iterable[Mark]:
    """What came since the last full minute stands at the right edge."""
    recent = sorted((change for change in told if change.at > since), key=lambda change: change.at)
    for _, same in groupby(recent, key=lambda change: change.at // WINDOW_SECONDS):
        minute = list(same)
        text = "; ".join(change.text for change in minute[:_TOLD_OF_A_MARK])
        more = f"; and {len(minute) - _TOLD_OF_A_MARK} more" if len(minute) > _TOLD_OF_A_MARK else ""
        yield Mark(x_of(min(minute[0].at, until), since, until), f"{quantities.clock(minute[0].at)}: {text}{more}")
