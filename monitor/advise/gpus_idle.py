from __future__ import annotations

from collections.abc import Iterator

from alerts.burn import HOUR, MINUTE
from alerts.conditions.condition import Limit
from monitor.advise.model import Confidence, Finding, Missing
from monitor.advise.rule import Judged, Rule, Signs
from monitor.advise.standing import REQUESTED, still
from monitor.advise.world import FINISHED, GPU_BUSY, GPU_BUSY_HIGHEST, GPU_MEMORY, GPU_USED, UP, Gpu, Server, World

NAME = "gpus_idle"
OBSERVED = Limit("observed, at least", 6 * HOUR, "seconds", "a night without requests is no waste")
BUSY = Limit("share of time with any kernel, below", 0.02, "ratio", "a GPU that serves anything is above that")
EVER = Limit("and in no step above", 0.1, "ratio", "a GPU that is needed for an hour is needed")
SERVED = Limit(
    "and no server on it with requests finished in a minute above", 2, "",
    "a synthetic request comes every minute; prompts of a few new tokens each keep no GPU busy, and need one",
)  # fmt: skip
HELD_MEMORY = Limit(
    "memory in use above",
    0.1,
    "ratio",
    "somebody holds it: a driver alone takes far less, and a GPU that is free is a spare",
)


def _signs(world: World, step: int, part: int) -> Signs:
    """Of those that would be told as idle: work of a few minutes does not show in an hour."""
    for gpu in world.gpus:
        if (gpu.mean(GPU_BUSY) or 0.0) < BUSY.value:
            yield {start: _worked(gpu, start, part) for start in gpu.steps_of(step)}


def _worked(gpu: Gpu, start: int, part: int) -> float:
    most, busy = gpu.at(GPU_BUSY_HIGHEST, start) or 0.0, (gpu.at(GPU_BUSY, start) or 0.0) * gpu.lengths[start]
    return most if most > EVER.value and busy > EVER.value * part else 0.0


def _judge(world: World) -> Judged:
    for gpu in world.gpus:
        yield from _of(world, gpu)


def _of(world: World, gpu: Gpu) -> Iterator[Finding | Missing]:
    aside = _troubled(world, gpu)
    starts = [start for start in gpu.of(GPU_BUSY) if start not in aside]
    busy, most, used = gpu.mean(GPU_BUSY, starts), gpu.highest(GPU_BUSY), gpu.highest(GPU_USED)
    if busy is None or most is None or gpu.seconds(GPU_BUSY, starts) < OBSERVED.value:
        idle = ", while no server on it is down, hangs or fails" if aside else ""
        yield Missing(NAME, f"`{GPU_BUSY.metric}` over {OBSERVED.shown}{idle}", (gpu.target,))
    elif busy >= BUSY.value or most > EVER.value or _serves(world, gpu):
        return
    elif used is None or not gpu.has(GPU_MEMORY):
        yield Missing(NAME, f"`{GPU_USED.metric}` and `{GPU_MEMORY.metric}`", (gpu.target,))
    elif used > HELD_MEMORY.value * (gpu.highest(GPU_MEMORY) or 0.0):
        yield _finding(world, gpu, busy, used, starts)


def _serves(world: World, gpu: Gpu) -> bool:
    finished = (point for server in _on_it(world, gpu) for point in server.of(FINISHED).values())
    return any(point.value > SERVED.value * point.seconds / MINUTE for point in finished)


def _on_it(world: World, gpu: Gpu) -> list[Server]:
    return [server for server in world.servers if server.node == gpu.node and server.name in gpu.servers]


def _troubled(world: World, gpu: Gpu) -> set[int]:
    """Steps in which a server on it was down, or computed nothing though there were requests: whether it hangs, or only
    its gauges do, nobody can tell, and its GPU is not free."""
    processes = (p for p in world.processes if p.node == gpu.node and p.name in gpu.servers)
    down = {start for process in processes for start, point in process.of(UP).items() if point.value == 0}
    return down | {start for server in _on_it(world, gpu) for start in (*still(server, REQUESTED), *server.still)}


def _finding(world: World, gpu: Gpu, busy: float, used: float, starts: list[int]) -> Finding:
    by = f" by {', '.join(gpu.servers)}" if gpu.servers else ""
    return Finding(
        name=NAME,
        target=gpu.target,
        text=f"{gpu.target.name} did nothing, and its memory is held{by}.",
        evidence=(
            world.evidence(gpu, "share of time with any kernel", GPU_BUSY, busy, "ratio", starts),
            world.evidence(gpu, "memory in use, highest", GPU_USED, used, "bytes", list(gpu.of(GPU_USED))),
        ),
        confidence=Confidence.HIGH,
        why="the driver tells both",
        seconds=gpu.seconds(GPU_BUSY, starts),
        instead="Stop what holds it, or send it requests; another model may use it.",
    )


RULE = Rule(
    name=NAME,
    title="Idle GPU",
    meaning="A GPU ran next to nothing throughout the window, and somebody holds its memory.",
    limits=(OBSERVED, BUSY, EVER, SERVED, HELD_MEMORY),
    needs=(GPU_BUSY,),
    judge=_judge,
    signs=_signs,
)
