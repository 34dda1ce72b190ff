from __future__ import annotations

from alerts.conditions.condition import Limit
from alerts.conditions.servers import SATURATED
from exporters.flags import Purpose
from monitor.advise.batch_limit import WAIT, WAIT_SHARE, Full, full, reached, waited, waits
from monitor.advise.kv_cache_short import short
from monitor.advise.model import Change, Confidence, Evidence, Finding
from monitor.advise.overloaded import refusing
from monitor.advise.rule import HELD, Rule, confidence, each_server, signs_of_servers
from monitor.advise.world import KV, KV_HIGHEST, LIMIT, PROMPTED, RUNNING, WAITING, Server, World

NAME = "prefill_bound_queue"
KV_LOW = Limit("KV cache in use below", 0.7, "ratio", "so that it is not memory that requests wait for")


def _starts(server: Server) -> list[int]:
    aside = {*short(server), *refusing(server)}
    return [
        start
        for start in sorted(server.of(WAITING))
        if start not in aside
        and waits(server, start)
        and (kv := server.live(KV, start)) is not None
        and kv < KV_LOW.value
        and (server.at(KV_HIGHEST, start) or 0.0) <= SATURATED.value
        and full(server, [start]) is Full.NO
        and not reached(server, start)
    ]


def _judge(world: World, server: Server) -> Finding | str | None:
    starts = _starts(server)
    seconds = server.length(starts)
    if seconds < HELD.value:
        return None
    sure, why = _confidence(server)
    return Finding(
        name=NAME,
        target=server.target,
        text=f"Requests wait at {server.target.name} while memory and batch have room: prompts come faster than they "
        "are computed.",
        evidence=tuple(_evidence(world, server, starts)),
        confidence=sure,
        why=why,
        seconds=seconds,
        change=_change(server),
        instead="Longer steps make the gaps between tokens longer. Prefix caching, prefill on servers of its own, or "
        "one more replica take the same load off.",
    )


def _confidence(server: Server) -> tuple[Confidence, str]:
    if server.has(LIMIT):
        why = "the batch is below the limit that the server tells, and the cache far from full"
        return confidence(server, [KV, WAITING], Confidence.HIGH, why)
    why = "the server does not tell its largest batch; the running requests go up and down, so it is hardly that"
    return confidence(server, [KV, WAITING], Confidence.MEDIUM, why)


def _evidence(world: World, server: Server, starts: list[int]) -> list[Evidence]:
    numbers = (
        ("requests waiting, mean", WAITING, server.mean(WAITING, starts), "requests"),
        ("requests running, mean", RUNNING, server.mean(RUNNING, starts), "requests"),
        ("KV-cache use, mean", KV, server.mean(KV, starts), "ratio"),
    )
    found = [world.evidence(server, what, a, value, unit, starts) for what, a, value, unit in numbers if value]
    prompted, seconds = server.total(PROMPTED, starts), server.length(starts)
    if prompted:
        found.append(world.evidence(server, "prompt tokens", PROMPTED, prompted / seconds, "tokens/s", starts))
    return found


def _change(server: Server) -> Change | None:
    flags = server.flags(Purpose.PREFILL)
    return Change(flags, "raise") if flags else None


RULE = Rule(
    name=NAME,
    title="Queue for the computation of prompts",
    meaning="Requests wait although KV cache and batch have room: it is the computation of prompts that is short.",
    limits=(WAIT, WAIT_SHARE, KV_LOW, HELD),
    needs=(KV, RUNNING, WAITING),
    judge=each_server(NAME, (KV, RUNNING, WAITING), _judge),
    signs=signs_of_servers(waited),
)
