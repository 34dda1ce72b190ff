"""Which steps of a long window to look at in shorter ones: a long step has one mean, and hides what held for a part of
it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.burn import DAY, HOUR
from alerts.conditions.condition import Limit
from monitor.advise.findings import RULES
from monitor.advise.world import SHORTEST, World

MOST = Limit(
    "looked at in shorter steps, of the steps that may hide something at most", 12, "",
    "it takes as long as twelve hours that are read in steps of five minutes",
)  # fmt: skip
NEWEST = Limit("and the newest", 2, "", "what began in them is new")
FINER = {DAY: HOUR, HOUR: SHORTEST}
"""Seconds of a step, and of those that it is looked at in."""


def telling(world: World, step: int) -> list[int]:
    """Starts of steps of this length. Of each rule and server the most telling comes before the second of any other."""
    every = sorted({start for of in (*world.servers, *world.processes) for start in of.steps_of(step)})
    newest = every[-int(NEWEST.value) :]
    starts = (start for *_, start in sorted(_ranked(world, step)) if start not in newest)
    return sorted([*newest, *list(dict.fromkeys(starts))[: int(MOST.value)]])


def _ranked(world: World, step: int) -> Iterator[tuple[int, int, float, int]]:
    """In which order to take them: of equal rank causes come before what follows from them."""
    for order, signs in enumerate(rule.signs for rule in RULES if rule.signs is not None):
        for told in signs(world, step, FINER[step]):
            found = sorted((-sign, start) for start, sign in told.items() if sign > 0)
            yield from ((rank, order, *each) for rank, each in enumerate(found))
