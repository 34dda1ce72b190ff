"""All GPUs, with what the history knows of them."""

from __future__ import annotations

import logging

from monitor.api.models import GpusOut
from monitor.gpus import GpuFleet, GpuRow
from monitor.history.ask import History
from monitor.history.database import HistoryError
from monitor.history.life import Seen

log = logging.getLogger(__name__)


def all_gpus(fleet: GpuFleet, history: History, now: float) -> GpusOut:
    """A history that cannot be read costs what it knows, not the readings."""
    rows = fleet.rows(now)
    try:
        known = history.seen_gpus() if rows else {}
    except HistoryError as cause:
        log.warning("could not say since when GPUs are known: %s", cause)
        known = {}
    return GpusOut(hosts=fleet.hosts(now), gpus=[_with(row, known.get((row.node, row.uuid), Seen())) for row in rows])


def _with(row: GpuRow, seen: Seen) -> GpuRow:
    last = row.last_seen if row.last_seen is not None else seen.last
    return row.model_copy(update={"first_seen": seen.first, "last_seen": last})
