from __future__ import annotations

from alerts.conditions.condition import Limit
from alerts.conditions.servers import COLLAPSE, LOOKED_UP, WORTH
from exporters.flags import Purpose
from monitor.advise.kv_cache_short import short
from monitor.advise.model import Change, Confidence, Finding
from monitor.advise.prefix_caching_off import is_off
from monitor.advise.rule import HELD, Rule, confidence, each_server
from monitor.advise.world import HIT, KV_HIGHEST, QUERIED, Server, World

NAME = "prefix_hits_collapsed"
FULL = Limit(
    "the cache is too small for the prefixes where its use was above", 0.9, "ratio",
    "what is left for prefixes is taken by the next request",
)  # fmt: skip


def collapse(server: Server) -> tuple[list[int], list[int]] | None:
    """The steps before and after the moment from which on far less was found, to the end of the window."""
    starts = sorted(server.of(HIT).keys() & server.of(QUERIED).keys())
    found = [(starts[:n], starts[n:]) for n in range(1, len(starts))]
    fallen = [(ratio, parts) for parts in found if (ratio := _fall(server, *parts)) is not None]
    return max(fallen, key=lambda each: each[0])[1] if fallen else None


def _fall(server: Server, before: list[int], after: list[int]) -> float | None:
    """How much the ratio fell; None where that is not enough, or on too little."""
    if any((server.total(QUERIED, part) or 0.0) < LOOKED_UP.value for part in (before, after)):
        return None
    was, became = server.ratio(HIT, QUERIED, before) or 0.0, server.ratio(HIT, QUERIED, after) or 0.0
    return was - became if was > WORTH.value and became < COLLAPSE.value * was else None


def _judge(world: World, server: Server) -> Finding | str | None:
    if is_off(server):
        return None
    if (server.total(QUERIED) or 0.0) < LOOKED_UP.value:
        return f"{LOOKED_UP.shown} looked up in the prefix cache"
    parts = collapse(server)
    if parts is None or server.length(parts[1]) < HELD.value or set(short(server)) & set(parts[1]):
        return None
    before, after = parts
    is_full = (server.highest(KV_HIGHEST, after) or 0.0) > FULL.value
    sure, why = confidence(server, [QUERIED, HIT], Confidence.HIGH, "hits and look-ups are counted, before and after")
    cause = "its KV cache is nearly full, and prefixes are thrown out of it" if is_full else "its cache has room"
    numbers = (("hit ratio before", before), ("hit ratio since", after))
    found = [
        world.evidence(server, what, HIT, server.ratio(HIT, QUERIED, part) or 0.0, "ratio", part)
        for what, part in numbers
    ]
    used = server.highest(KV_HIGHEST, after)
    if used is not None:
        found.append(world.evidence(server, "highest KV-cache use since", KV_HIGHEST, used, "ratio", after))
    return Finding(
        name=NAME,
        target=server.target,
        text=f"The prefix cache of {server.target.name} finds far less than it did: {cause}.",
        evidence=tuple(found),
        confidence=sure,
        why=why,
        seconds=server.length(after),
        change=_change(server) if is_full else None,
        instead=""
        if is_full
        else "No flag changes while a server runs: look for a new prompt template that begins "
        "with what differs (a time, a name), and for a router that no longer sends what is alike to the same replica.",
    )


def _change(server: Server) -> Change | None:
    flags = server.flags(Purpose.KV_MEMORY)
    return Change(flags, "raise") if flags else None


RULE = Rule(
    name=NAME,
    title="Prefix-cache hits collapsed",
    meaning="Far fewer prompt tokens are found in the prefix cache than earlier in the window, and it is not the KV "
    "cache that ran out.",
    limits=(COLLAPSE, WORTH, LOOKED_UP, FULL, HELD),
    needs=(QUERIED, HIT),
    judge=each_server(NAME, (QUERIED, HIT), _judge),
)
