"""What the servers of one model are asked for, as far as their history tells. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from monitor.advise.prefix_caching_off import hit_ratio
from monitor.advise.world import (
    ADAPTERS,
    GENERATION_P50,
    HIT,
    PROMPT_P50,
    QUERIED,
    RUNNING,
    WAITING,
    Server,
    World,
)

_NOT_QUANTISED = {"", "none", "None", "null"}
"""As servers say it."""


@dataclass(frozen=True, slots=True)
class Traits:
    """None is not known. `at_once` is the median of requests under way at one server, those that wait included as in
    bands of the comparison, while it ran any. Lengths are medians in tokens."""

    model: str
    frameworks: tuple[str, ...]
    servers: int
    at_once: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    hit_ratio: float | None
    adapters: float | None
    quantisation: str = ""


def traits(world: World) -> list[Traits]:
    """Of each model, in order of names."""
    models = sorted({server.model for server in world.servers})
    return [_of(model, [server for server in world.servers if server.model == model]) for model in models]


def _of(model: str, servers: Sequence[Server]) -> Traits:
    under_way = [
        (many, server.lengths[start])
        for server in servers
        for start in server.of(RUNNING)
        if (many := _under_way(server, start))
    ]
    return Traits(
        model=model,
        frameworks=tuple(sorted({server.framework for server in servers})),
        servers=len(servers),
        at_once=_middle(under_way),
        prompt_tokens=_middle((p.value, p.seconds) for s in servers for p in s.of(PROMPT_P50).values()),
        generation_tokens=_middle((p.value, p.seconds) for s in servers for p in s.of(GENERATION_P50).values()),
        hit_ratio=_hit_ratio(servers),
        adapters=max((most for s in servers if (most := s.highest(ADAPTERS)) is not None), default=None),
        quantisation=", ".join(sorted({s.facts.get("quantization", "") for s in servers} - _NOT_QUANTISED)),
    )


def _under_way(server: Server, start: int) -> float | None:
    running = server.live(RUNNING, start)
    return None if running is None or running < 1 else running + (server.live(WAITING, start) or 0.0)


def _middle(values: Iterable[tuple[float, int]]) -> float | None:
    """The median, each value for its seconds: steps may be of several lengths."""
    known = sorted(values)
    ends = list(accumulate(seconds for _, seconds in known))
    if not known:
        return None
    half = ends[-1] / 2
    return (known[bisect_left(ends, half)][0] + known[bisect_right(ends, half)][0]) / 2


def _hit_ratio(servers: Iterable[Server]) -> float | None:
    """Of all that have looked up enough, together."""
    known = [server for server in servers if hit_ratio(server) is not None]
    hits = sum(server.total(HIT) or 0.0 for server in known)
    looked_up = sum(server.total(QUERIED) or 0.0 for server in known)
    return hits / looked_up if looked_up else None
