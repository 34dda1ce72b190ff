from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alerts.conditions.condition import Limit
from alerts.slo.spec import Slo
from exporters.flags import Purpose
from monitor.advise.kv_cache_short import short
from monitor.advise.model import Asked, Change, Confidence, Evidence, Finding, Missing
from monitor.advise.rule import HELD, Judged, Rule, Signs, confidence, lacks
from monitor.advise.world import LIMIT, RUNNING, Server, World, quantile_of

NAME = "batch_too_large"
PHASES = ("itl", "tpot")
LARGER = Limit(
    "batch where the goal is missed, times that where it is met, at least", 1.25, "",
    "less is no difference in size that would explain it",
)  # fmt: skip
LEAST = Limit("and of at least", 8, "", "below that it is not the batch that makes tokens slow")
_NEEDS = "a latency objective in the configuration (`slos`) for `itl` or `tpot`: then it is known what is too slow"


@dataclass(frozen=True, slots=True)
class _Split:
    """Steps that certainly missed the goal, and those that certainly met it."""

    missed: list[int]
    met: list[int]


def _judge(world: World) -> Judged:
    for server in world.servers:
        goals = [slo for slo in world.slos if _is_about_tokens(slo) and server.is_selected(slo)]
        told = [_of(world, server, slo) for slo in goals] or [lacks(server, (RUNNING,)) or _NEEDS]
        for each in told:
            if each:
                yield Missing(NAME, each, (server.target,)) if isinstance(each, str) else each


def _signs(world: World, step: int, _: int) -> Signs:
    """Where the goal is not certainly met."""
    for server in world.servers:
        for slo in world.slos:
            asked, latency = quantile_of(slo), slo.indicator.latency
            if asked and latency and _is_about_tokens(slo) and server.is_selected(slo):
                known = [(start, point) for start in server.steps_of(step) if (point := server.of(asked).get(start))]
                yield {start: p.value for start, p in known if p.upper is None or p.upper > latency.below}


def _is_about_tokens(slo: Slo) -> bool:
    return slo.indicator.latency is not None and slo.indicator.latency.phase in PHASES


def _of(world: World, server: Server, slo: Slo) -> Finding | str | None:
    asked, latency = quantile_of(slo), slo.indicator.latency
    if asked is None or latency is None:
        return None
    if told := lacks(server, (RUNNING, asked)):
        return told
    split = _split(server, asked, latency.below)
    if server.length(split.missed) < HELD.value:
        return None
    if server.length(split.met) < HELD.value:
        return f"{HELD.shown} within the objective {slo.name}: which batch would meet it was not seen"
    return _finding(world, server, slo, split)


def _split(server: Server, asked: Asked, below: float) -> _Split:
    """By what is certain of the quantile. What a full cache does is not the batch's fault."""
    points, aside = server.of(asked), set(short(server))
    known = {start: point for start, point in points.items() if start not in aside and server.live(RUNNING, start)}
    missed = [start for start, point in known.items() if (point.lower or 0.0) >= below]
    met = [start for start, point in known.items() if point.upper is not None and point.upper <= below]
    return _Split(missed, met)


def _finding(world: World, server: Server, slo: Slo, split: _Split) -> Finding | None:
    running = {start: server.at(RUNNING, start) or 0.0 for start in (*split.missed, *split.met)}
    least_missed, most_met = _edges(split, running)
    if least_missed < LEAST.value or least_missed < LARGER.value * most_met:
        return None
    best, why = Confidence.HIGH, "the goal was missed with large batches only, and met with smaller ones"
    asked = quantile_of(slo)
    sure, why = confidence(server, [RUNNING, *([asked] if asked else [])], best, why)
    limit = server.highest(LIMIT)
    flags = server.flags(Purpose.BATCH)
    to = f"about {most_met:.0f}"
    return Finding(
        name=NAME,
        target=server.target,
        text=f"Batches at {server.target.name} are too large for the objective {slo.name}: tokens come too slowly.",
        evidence=tuple(_evidence(world, server, slo, split)),
        confidence=sure,
        why=why,
        seconds=server.length(split.missed),
        change=Change(flags, "lower", "" if limit is None else f"{limit:.0f}", to) if flags else None,
        instead="What no longer fits into the batch waits: more replicas, or a longer time to the first token.",
    )


def _edges(split: _Split, running: Mapping[int, float]) -> tuple[float, float]:
    """The smallest batches that missed the goal and the largest that met it, a tenth of each left out as chance."""
    missed, met = (sorted(running[start] for start in starts) for starts in (split.missed, split.met))
    return missed[len(missed) // 10], met[-1 - len(met) // 10]


def _evidence(world: World, server: Server, slo: Slo, split: _Split) -> list[Evidence]:
    asked, found = quantile_of(slo), []
    for what, starts in (("missed", split.missed), ("met", split.met)):
        mean = server.mean(RUNNING, starts) or 0.0
        found.append(
            world.evidence(server, f"running where the goal was {what}, mean", RUNNING, mean, "requests", starts)
        )
        if asked is not None:
            told = f"P{float(slo.objective) * 100:g} where it was {what}, mean"
            found.append(world.evidence(server, told, asked, server.mean(asked, starts) or 0.0, "seconds", starts))
    return found


RULE = Rule(
    name=NAME,
    title="Batch limit too large for the latency goal",
    meaning="The objective for the time between tokens is missed with large batches and met with smaller ones.",
    limits=(LARGER, LEAST, HELD),
    needs=(RUNNING,),
    judge=_judge,
    signs=_signs,
)
