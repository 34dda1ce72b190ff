from __future__ import annotations

from collections.abc import Iterator

from alerts.burn import HOUR
from alerts.conditions.condition import Limit
from monitor.advise.model import Confidence, Finding, Missing
from monitor.advise.rule import Judged, Rule
from monitor.advise.world import GPU_BUSY, GPU_MEMORY, GPU_USED, Gpu, World

NAME = "gpus_idle"
OBSERVED = Limit("observed, at least", 6 * HOUR, "seconds", "a night without requests is no waste")
BUSY = Limit("share of time with any kernel, below", 0.02, "ratio", "a GPU that serves anything is above that")
EVER = Limit("and in no step above", 0.1, "ratio", "a GPU that is needed for an hour is needed")
HELD_MEMORY = Limit("memory in use above", 0.1, "ratio", "somebody holds it: a driver alone takes far less")


def _judge(world: World) -> Judged:
    for gpu in world.gpus:
        yield from _of(world, gpu)


def _of(world: World, gpu: Gpu) -> Iterator[Finding | Missing]:
    observed = gpu.seconds(GPU_BUSY)
    busy, most = gpu.mean(GPU_BUSY), gpu.highest(GPU_BUSY)
    if busy is None or most is None or observed < OBSERVED.value:
        yield Missing(NAME, f"`{GPU_BUSY.metric}` over {OBSERVED.shown}", (gpu.target,))
    elif busy < BUSY.value and most <= EVER.value:
        yield _finding(world, gpu, busy)


def _finding(world: World, gpu: Gpu, busy: float) -> Finding:
    used, whole = gpu.highest(GPU_USED), gpu.highest(GPU_MEMORY)
    share = used / whole if used is not None and whole else None
    is_held = share is not None and share > HELD_MEMORY.value
    by = f" by {', '.join(gpu.servers)}" if gpu.servers else ""
    evidence = [world.evidence(gpu, "share of time with any kernel", GPU_BUSY, busy, "ratio", list(gpu.of(GPU_BUSY)))]
    if share is not None and used is not None:
        evidence.append(world.evidence(gpu, "memory in use, highest", GPU_USED, used, "bytes", list(gpu.of(GPU_USED))))
    return Finding(
        name=NAME,
        target=gpu.target,
        text=f"{gpu.target.name} did nothing" + (f", and its memory is held{by}." if is_held else "."),
        evidence=tuple(evidence),
        confidence=Confidence.HIGH if share is not None else Confidence.MEDIUM,
        why="the driver tells it" if share is not None else "how much of its memory is in use is not known",
        seconds=gpu.seconds(GPU_BUSY),
        instead="Stop what holds it, or send it requests; another model may use it."
        if is_held
        else "Put a server on it, or give it back.",
    )


RULE = Rule(
    name=NAME,
    title="Idle GPU",
    meaning="A GPU ran next to nothing throughout the window.",
    limits=(OBSERVED, BUSY, EVER, HELD_MEMORY),
    needs=(GPU_BUSY,),
    judge=_judge,
)
