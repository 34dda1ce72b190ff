from __future__ import annotations

from alerts.burn import MINUTE
from alerts.conditions.condition import Limit
from exporters.flags import Purpose
from monitor.advise.batch_limit import FLAT, WAIT, WAIT_SHARE, Full, full, waited, waits
from monitor.advise.kv_cache_short import short
from monitor.advise.model import Change, Confidence, Evidence, Finding
from monitor.advise.rule import HELD, Rule, confidence, each_server, signs_of_servers
from monitor.advise.world import FINISHED, KV, LIMIT, REJECTED, RUNNING, WAITING, Server, World

NAME = "overloaded"
REFUSED = Limit("refused, of all requests, above", 0.01, "ratio", "a client that is refused once in a hundred notices")
REFUSALS = Limit("requests refused in a minute, at least", 1, "", "fewer are a burst")
ROOM = Limit("KV cache in use below", 0.8, "ratio", "so that a larger batch finds room in it")


def refusing(server: Server) -> list[int]:
    found = []
    for start, point in server.of(REJECTED).items():
        finished = server.at(FINISHED, start) or 0.0
        share = point.value / (finished + point.value) if point.value else 0.0
        if start in server.still:
            continue
        if share > REFUSED.value and point.value >= REFUSALS.value * point.seconds / MINUTE:
            found.append(start)
    return found


def waiting_for_a_place(server: Server) -> list[int]:
    return [start for start in server.of(WAITING) if waits(server, start) and full(server, [start]) is not Full.NO]


def _sign(server: Server, start: int, part: int) -> float:
    refused = server.at(REJECTED, start) or 0.0
    return refused if refused >= REFUSALS.value * part / MINUTE else waited(server, start, part)


def _judge(world: World, server: Server) -> Finding | str | None:
    out_of_memory = set(short(server))
    starts = sorted({*refusing(server), *waiting_for_a_place(server)} - out_of_memory)
    seconds = server.length(starts)
    if seconds < HELD.value:
        return None
    sure, why = _confidence(server, starts)
    refuses = ", and refuses the rest" if set(starts) & set(refusing(server)) else ""
    return Finding(
        name=NAME,
        target=server.target,
        text=f"More requests arrive at {server.target.name} than it works off{refuses}.",
        evidence=tuple(_evidence(world, server, starts)),
        confidence=sure,
        why=why,
        seconds=seconds,
        change=_change(server, starts),
        instead="One more replica; or send it less.",
    )


def _confidence(server: Server, starts: list[int]) -> tuple[Confidence, str]:
    if set(starts) & set(refusing(server)):
        return confidence(server, [REJECTED], Confidence.HIGH, "the server counts what it refuses")
    if full(server, starts) is Full.YES:
        return confidence(server, [WAITING], Confidence.HIGH, "the batch is at the limit that the server tells")
    why = "the server does not tell its largest batch: it is taken for full as it stays at the most that ever ran"
    return confidence(server, [WAITING], Confidence.MEDIUM, why)


def _evidence(world: World, server: Server, starts: list[int]) -> list[Evidence]:
    numbers = (
        ("requests refused", REJECTED, server.total(REJECTED, starts) or None),
        ("requests waiting, mean", WAITING, server.mean(WAITING, starts)),
        ("requests running, mean", RUNNING, server.mean(RUNNING, starts)),
        ("largest batch allowed", LIMIT, server.highest(LIMIT, starts)),
    )
    found = [world.evidence(server, what, a, value, "requests", starts) for what, a, value in numbers if value]
    used = server.mean(KV, starts)
    return found + ([world.evidence(server, "KV-cache use, mean", KV, used, "ratio", starts)] if used else [])


def _change(server: Server, starts: list[int]) -> Change | None:
    """A larger batch, where there is memory for it and it is the batch that is full."""
    flags, used = server.flags(Purpose.BATCH), server.mean(KV, starts)
    if not flags or used is None or used >= ROOM.value or full(server, starts) is Full.NO:
        return None
    limit = server.highest(LIMIT, starts)
    return Change(flags, "raise", "" if limit is None else f"{limit:.0f}")


RULE = Rule(
    name=NAME,
    title="More arrives than is served",
    meaning="The batch is full while requests wait, or requests are refused; the KV cache is not what is short.",
    limits=(WAIT, WAIT_SHARE, FLAT, REFUSED, REFUSALS, ROOM, HELD),
    needs=(RUNNING, WAITING),
    judge=each_server(NAME, (RUNNING, WAITING), _judge),
    signs=signs_of_servers(_sign),
)
