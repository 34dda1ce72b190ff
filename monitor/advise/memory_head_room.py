from __future__ import annotations

from collections.abc import Sequence

from alerts.conditions.condition import Limit
from exporters.flags import Purpose
from monitor.advise.kv_cache_short import fullest
from monitor.advise.model import Change, Confidence, Finding
from monitor.advise.rule import HELD, Rule, Signs, confidence, each_server
from monitor.advise.world import GPU_MEMORY, GPU_USED, KV, KV_HIGHEST, Gpu, Server, World

NAME = "memory_head_room"
NEEDED = Limit("KV cache in use above", 0.8, "ratio", "with less, more memory would hold nothing")
FREE = Limit(
    "memory of its fullest GPU in use, below", 0.88, "ratio",
    "a tenth is left for activations and graphs; what is free beyond that is free for ever",
)  # fmt: skip


def _judge(world: World, server: Server) -> Finding | str | None:
    starts = sorted(start for start in server.of(KV) if (server.live(KV, start) or 0.0) > NEEDED.value)
    if server.length(starts) < HELD.value:
        return None
    memory = fullest(world, server)
    if memory is None:
        return f"`{GPU_USED.metric}` and `{GPU_MEMORY.metric}` of the GPUs that it runs on"
    share, gpu = memory
    return _finding(world, server, starts, gpu, share) if share < FREE.value else None


def _signs(world: World, step: int, _: int) -> Signs:
    for server in world.servers:
        memory = fullest(world, server)
        if memory is not None and memory[0] < FREE.value:
            known = {start: server.at(KV_HIGHEST, start) or 0.0 for start in server.steps_of(step)}
            yield {start: most for start, most in known.items() if most > NEEDED.value}


def _finding(world: World, server: Server, starts: Sequence[int], gpu: Gpu, share: float) -> Finding:
    free = (gpu.highest(GPU_MEMORY) or 0.0) - (gpu.highest(GPU_USED) or 0.0)
    sure, why = confidence(
        server, [KV], Confidence.MEDIUM, "what else takes memory at times is not seen between readings"
    )
    flags = server.flags(Purpose.KV_MEMORY)
    return Finding(
        name=NAME,
        target=server.target,
        text=f"The KV cache of {server.target.name} runs full while its GPUs have memory left.",
        evidence=(
            world.evidence(server, "KV-cache use, mean", KV, server.mean(KV, starts) or 0.0, "ratio", starts),
            world.evidence(gpu, "memory never used", GPU_USED, free, "bytes", list(gpu.of(GPU_USED))),
            world.evidence(gpu, "memory in use, highest", GPU_USED, share, "ratio", list(gpu.of(GPU_USED))),
        ),
        confidence=sure,
        why=why,
        seconds=server.length(starts),
        change=Change(flags, "raise") if flags else None,
        instead="By a few hundredths at a time: a server that takes too much does not start.",
    )


RULE = Rule(
    name=NAME,
    title="Memory head-room",
    meaning="The KV cache is well used, and the GPUs have memory that nothing uses.",
    limits=(NEEDED, FREE, HELD),
    needs=(KV, GPU_USED, GPU_MEMORY),
    judge=each_server(NAME, (KV,), _judge),
    signs=_signs,
)
