"""What every finding has in common: its limits, what it needs, and how it is judged server by server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from alerts.burn import MINUTE
from alerts.conditions.condition import Limit
from monitor.advise.model import Asked, Confidence, Finding, Missing
from monitor.advise.world import RUNNING, Server, World

OBSERVED = Limit("observed, at least", 30 * MINUTE, "seconds", "less is a moment, and says nothing of what lasts")
HELD = Limit("held, at least", 15 * MINUTE, "seconds", "what passes by itself is for alerts, not for a change of flags")

Judged = Iterable[Finding | Missing]
Signs = Iterator[Mapping[int, float]]
"""Of one server, group or GPU each: steps by their start, and how much speaks for it that a part of them hides a cause.
A step that is not there, or has 0, hides none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`needs` are the metrics without which it cannot be judged, for the docs and for what is missing.

    `signs` are told of steps of so many seconds: where maxima and counters allow that it holds in a part of that many,
    though their means need not show it.
    """

    name: str
    title: str
    meaning: str
    limits: tuple[Limit, ...]
    needs: tuple[Asked, ...]
    judge: Callable[[World], Judged]
    signs: Callable[[World, int, int], Signs] | None = None


def each_server(
    name: str, needs: Sequence[Asked], judge: Callable[[World, Server], Finding | str | None]
) -> Callable[[World], Judged]:
    """`judge` tells a finding, or what it would need, or that all is well. It is asked of servers that were observed
    for long enough and have what is needed."""

    def judged(world: World) -> Iterator[Finding | Missing]:
        for server in world.servers:
            told = lacks(server, needs) or judge(world, server)
            if told:
                yield Missing(name, told, (server.target,)) if isinstance(told, str) else told

    return judged


def signs_of_servers(sign: Callable[[Server, int, int], float]) -> Callable[[World, int, int], Signs]:
    """`sign` is told the start of a step and how long its parts are."""

    def signs(world: World, step: int, part: int) -> Signs:
        for server in world.servers:
            yield {start: sign(server, start, part) for start in server.steps_of(step)}

    return signs


def lacks(server: Server, needs: Sequence[Asked]) -> str:
    """What is missing, "" where nothing is."""
    observed = max((server.seconds(asked) for asked in (RUNNING, *needs) if server.has(asked)), default=0.0)
    if observed < OBSERVED.value:
        return f"{OBSERVED.shown} of observation; there are {observed // MINUTE:.0f} min"
    for asked in needs:
        if not server.has(asked):
            why = server.worth_of(asked).missing
            return f"`{asked.metric}`: {why}" if why else f"`{asked.metric}`, which the server did not show"
    return ""


def confidence(server: Server, rests_on: Sequence[Asked], best: Confidence, why: str) -> tuple[Confidence, str]:
    """Weaker where a number is not exact, and says which."""
    doubts = {asked.metric: worth.note for asked in rests_on if not (worth := server.worth_of(asked)).is_exact}
    told = (
        f"{metric} is approximate ({note})" if note else f"{metric} is approximate" for metric, note in doubts.items()
    )
    return best.weaker if doubts else best, "; ".join([why, *told])
