from __future__ import annotations

from alerts.conditions.condition import Limit
from alerts.conditions.servers import PREEMPTED as SHARE
from alerts.conditions.servers import PREEMPTION_WINDOW, PREEMPTIONS_COUNTED, QUEUED, SATURATED
from exporters.flags import Purpose
from monitor.advise.batch_limit import Full, full, waited
from monitor.advise.model import Change, Confidence, Evidence, Finding
from monitor.advise.rule import HELD, Rule, confidence, each_server, signs_of_servers
from monitor.advise.world import (
    FINISHED,
    GPU_MEMORY,
    GPU_USED,
    KV,
    KV_HIGHEST,
    PREEMPTED,
    RUNNING,
    WAITING,
    Gpu,
    Server,
    World,
)

NAME = "kv_cache_short"
NO_ROOM = Limit(
    "fewer requests at once instead, where memory of its fullest GPU is in use from", 0.95, "ratio",
    "what is left is needed while the server works",
)  # fmt: skip


def preempting(server: Server) -> list[int]:
    """Steps with more preemptions than are worth it."""
    found = []
    for start, point in server.of(PREEMPTED).items():
        finished = server.at(FINISHED, start)
        least = PREEMPTIONS_COUNTED.value * point.seconds / PREEMPTION_WINDOW.value
        if start in server.still:
            continue
        if point.value >= least and (finished is None or point.value > SHARE.value * finished):
            found.append(start)
    return sorted(found)


def saturated(server: Server) -> list[int]:
    """Steps with a full cache and a queue, though not for a place in the batch."""
    kv = sorted(start for start in server.of(KV) if (server.live(KV, start) or 0.0) > SATURATED.value)
    queued = [start for start in kv if (server.live(WAITING, start) or 0.0) > QUEUED.value]
    return [start for start in queued if full(server, [start]) is not Full.YES]


def sign(server: Server, start: int, part: int) -> float:
    preempted, full = server.at(PREEMPTED, start) or 0.0, server.at(KV_HIGHEST, start) or 0.0
    if preempted >= PREEMPTIONS_COUNTED.value * part / PREEMPTION_WINDOW.value:
        return preempted
    return waited(server, start, part, QUEUED.value) if full > SATURATED.value else 0.0


def short(server: Server) -> list[int]:
    return preempting(server) or saturated(server)


def _judge(world: World, server: Server) -> Finding | str | None:
    if not server.has(PREEMPTED) and not server.has(KV):
        return f"`{PREEMPTED.metric}` or `{KV.metric}`"
    starts = short(server)
    seconds = server.length(starts)
    if seconds < HELD.value:
        return None
    sure, why = _confidence(server, starts)
    told = "throws requests out of its batch and computes them again" if preempting(server) else "has a full KV cache"
    return Finding(
        name=NAME,
        target=server.target,
        text=f"{server.target.name} {told}: its KV cache is too small for the load.",
        evidence=tuple(_evidence(world, server, starts)),
        confidence=sure,
        why=why,
        seconds=seconds,
        change=_change(server, fullest(world, server)),
        instead="A shorter context, an 8-bit KV cache, or one more replica take the same load off.",
    )


def _confidence(server: Server, starts: list[int]) -> tuple[Confidence, str]:
    if not preempting(server):
        best, why = Confidence.MEDIUM, "told by a full cache and a queue; the server does not count preemptions"
        return confidence(server, [KV, WAITING], best if not server.has(PREEMPTED) else best.weaker, why)
    if server.has(KV) and (server.highest(KV_HIGHEST, starts) or 0.0) < SATURATED.value:
        return Confidence.LOW, "preemptions are counted, and yet the cache was not full"
    return confidence(server, [PREEMPTED], Confidence.HIGH, "preemptions are counted, and the cache was full")


def _evidence(world: World, server: Server, starts: list[int]) -> list[Evidence]:
    found = []
    preempted, per = server.total(PREEMPTED, starts), server.ratio(PREEMPTED, FINISHED, starts)
    if preempting(server) and preempted is not None:
        found.append(world.evidence(server, "preemptions", PREEMPTED, preempted, "preemptions", starts))
    if preempting(server) and per is not None:
        found.append(world.evidence(server, "preemptions per finished request", PREEMPTED, per, "", starts))
    for what, asked, unit in (
        ("highest KV-cache use", KV_HIGHEST, "ratio"), ("requests waiting, mean", WAITING, "requests"),
        ("requests running, mean", RUNNING, "requests"),
    ):  # fmt: skip
        value = server.highest(asked, starts) if asked is KV_HIGHEST else server.mean(asked, starts)
        if value is not None:
            found.append(world.evidence(server, what, asked, value, unit, starts))
    if memory := fullest(world, server):
        share, gpu = memory
        what = "memory of its fullest GPU in use, highest"
        found.append(world.evidence(gpu, what, GPU_USED, share, "ratio", list(gpu.of(GPU_USED))))
    return found


def fullest(world: World, server: Server) -> tuple[float, Gpu] | None:
    """The share of its memory that the server's fullest GPU had in use at most; None where that is not known of all."""
    gpus = world.gpus_of(server)
    if not gpus or any(not gpu.has(asked) for gpu in gpus for asked in (GPU_USED, GPU_MEMORY)):
        return None
    shares = ((gpu.highest(GPU_USED) or 0.0) / (gpu.highest(GPU_MEMORY) or 1.0) for gpu in gpus)
    return max(zip(shares, gpus, strict=True), key=lambda each: each[0])


def _change(server: Server, memory: tuple[float, Gpu] | None) -> Change | None:
    has_room = memory is None or memory[0] < NO_ROOM.value
    flags = server.flags(Purpose.KV_MEMORY if has_room else Purpose.BATCH)
    return Change(flags, "raise" if has_room else "lower") if flags else None


RULE = Rule(
    name=NAME,
    title="KV cache too small",
    meaning="Requests are preempted, or wait, because the KV cache is full.",
    limits=(PREEMPTION_WINDOW, SHARE, PREEMPTIONS_COUNTED, SATURATED, QUEUED, NO_ROOM, HELD),
    needs=(RUNNING, WAITING),
    judge=each_server(NAME, (RUNNING, WAITING), _judge),
    signs=signs_of_servers(sign),
)
