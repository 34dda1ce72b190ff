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
HELD_MEMORY = Limit(
    "memory in use above",
    0.1,
    "ratio",
    "somebody holds it: a driver alone takes far less, and a GPU that is free is a spare",
)


def _judge(world: World) -> Judged:
    for gpu in world.gpus:
        yield from _of(world, gpu)


def _of(world: World, gpu: Gpu) -> Iterator[Finding | Missing]:
    busy, most, used = gpu.mean(GPU_BUSY), gpu.highest(GPU_BUSY), gpu.highest(GPU_USED)
    if busy is None or most is None or gpu.seconds(GPU_BUSY) < OBSERVED.value:
        yield Missing(NAME, f"`{GPU_BUSY.metric}` over {OBSERVED.shown}", (gpu.target,))
    elif busy >= BUSY.value or most > EVER.value:
        return
    elif used is None or not gpu.has(GPU_MEMORY):
        yield Missing(NAME, f"`{GPU_USED.metric}` and `{GPU_MEMORY.metric}`", (gpu.target,))
    elif used > HELD_MEMORY.value * (gpu.highest(GPU_MEMORY) or 0.0):
        yield _finding(world, gpu, busy, used)


def _finding(world: World, gpu: Gpu, busy: float, used: float) -> Finding:
    by = f" by {', '.join(gpu.servers)}" if gpu.servers else ""
    return Finding(
        name=NAME,
        target=gpu.target,
        text=f"{gpu.target.name} did nothing, and its memory is held{by}.",
        evidence=(
            world.evidence(gpu, "share of time with any kernel", GPU_BUSY, busy, "ratio", list(gpu.of(GPU_BUSY))),
            world.evidence(gpu, "memory in use, highest", GPU_USED, used, "bytes", list(gpu.of(GPU_USED))),
        ),
        confidence=Confidence.HIGH,
        why="the driver tells both",
        seconds=gpu.seconds(GPU_BUSY),
        instead="Stop what holds it, or send it requests; another model may use it.",
    )


RULE = Rule(
    name=NAME,
    title="Idle GPU",
    meaning="A GPU ran next to nothing throughout the window, and somebody holds its memory.",
    limits=(OBSERVED, BUSY, EVER, HELD_MEMORY),
    needs=(GPU_BUSY,),
    judge=_judge,
)
