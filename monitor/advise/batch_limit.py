"""Whether requests wait for a place in the batch: where the server tells its limit, and where it does not."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from alerts.conditions.condition import Limit
from alerts.conditions.servers import AT_LIMIT
from monitor.advise.world import LIMIT, QUEUED_HIGHEST, RUNNING, RUNNING_HIGHEST, SHORTEST, WAITING, Server

FLAT = Limit(
    "where the limit is not told: running, of the most that ever ran, at least", 0.97, "ratio",
    "a batch that is limited by anything else goes up and down",
)  # fmt: skip
LEAST_BATCH = Limit("and of at least", 8, "", "a batch of a few is as even by chance")
WAIT = Limit("requests waiting above", 4, "", "fewer are on their way into the batch")
WAIT_SHARE = Limit("and, of those that run, above", 0.25, "ratio", "then the wait is a good part of the whole duration")


class Full(Enum):
    YES = "yes"
    SEEMS = "it seems so"
    NO = "no"


def waits(server: Server, start: int) -> bool:
    """Whether there is a queue worth the name."""
    waiting, running = server.live(WAITING, start), server.live(RUNNING, start)
    return waiting is not None and running is not None and waiting > max(WAIT.value, WAIT_SHARE.value * running)


def full(server: Server, starts: Iterable[int]) -> Full:
    """Whether the batch was at its limit over these steps."""
    starts = list(starts)
    running, limit = server.mean(RUNNING, starts), server.highest(LIMIT, starts)
    if running is None:
        return Full.NO
    if limit is not None:
        return Full.YES if running >= AT_LIMIT.value * limit else Full.NO
    most = server.highest(RUNNING_HIGHEST) or 0.0
    return Full.SEEMS if most >= LEAST_BATCH.value and running >= FLAT.value * most else Full.NO


def reached(server: Server, start: int) -> bool:
    """Whether it may have been at its limit at some moment of a step: a long one may be full for a part. Where the
    limit is not told, only of steps so long that their mean says nothing of it."""
    most, limit = server.at(RUNNING_HIGHEST, start), server.at(LIMIT, start)
    if most is None or limit is not None:
        return most is not None and limit is not None and most >= AT_LIMIT.value * limit
    ever = server.highest(RUNNING_HIGHEST) or 0.0
    return server.lengths[start] > SHORTEST and ever >= LEAST_BATCH.value and most >= FLAT.value * ever


def waited(server: Server, start: int, part: int, least: float = WAIT.value) -> float:
    """How many requests waited at most, where more than `least` may have on average in a part of a step; else 0."""
    mean, most = server.live(WAITING, start), server.at(QUEUED_HIGHEST, start)
    if mean is None or most is None:
        return 0.0
    return most if most > least and mean * server.lengths[start] > least * part else 0.0
