"""One simulated inference server: its engines, the face that it shows, and what is wrong with its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from demo.dcgm import Load
from demo.engine import Engine
from demo.faces.exposition import Page
from demo.faces.lmdeploy import Lmdeploy
from demo.faces.sglang import Sglang
from demo.faces.triton import Triton
from demo.faces.trtllm_serve import TrtllmServe
from demo.faces.vllm import Vllm
from demo.model import NOT_FOUND, Answer, EngineState, Face, Identity, Limits, Request, Steps
from demo.observers import Silent
from demo.pace import PACES, Curve, Pace
from demo.reply import REFUSED, Change, Reply
from demo.truth import Truth, Witness

_NO_ITERATIONS = Answer(200, "application/json", b"[]")


class PagedFace(Face, Protocol):
    @property
    def page(self) -> Page: ...


class _Makes(Protocol):
    def __call__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> PagedFace: ...


FACES: Mapping[str, _Makes] = {
    "vllm": Vllm,
    "sglang": Sglang,
    "lmdeploy": Lmdeploy,
    "trtllm_serve": TrtllmServe,
    "triton": Triton,
}
"""By frontend."""
FRAMEWORK_OF = {"trtllm_serve": "tensorrt_llm", "triton": "tensorrt_llm"}
"""Of frontends that are not named as their framework is."""
METRICS_OF = {"trtllm_serve": "/prometheus/metrics"}
"""Where their metrics page is, if not at the usual place."""


@dataclass(frozen=True, slots=True)
class Spec:
    """How a server is started. `gpus` are numbers on its node; `slowness` is how many times longer than the calibrated
    model a step of its own takes."""

    name: str
    node: str
    frontend: str
    release: str
    model: str
    gpus: tuple[int, ...]
    limits: Limits = field(default_factory=Limits)
    engines: int = 1
    tensor_parallel: int = 1
    slowness: float = 1.0
    role: Literal["unified", "prefill", "decode"] = "unified"
    adapters: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What an upgrade changes of its families' names."""
    tells_iterations: bool = True
    """Whether trtllm-serve runs with its iteration statistics, which are off by default."""
    tells_metrics: bool = True
    """Whether its metrics page is switched on. vLLM's is there without: its own families are not on it."""
    used_mib: int = 73_200
    """Of the memory of each of its GPUs, taken at its start."""

    @property
    def framework(self) -> str:
        return FRAMEWORK_OF.get(self.frontend, self.frontend)

    def engine(self, number: int) -> str:
        """By which the truth knows it."""
        return f"{self.name}/{number}"


class Work(Silent):
    """How busy an engine was since it was asked before."""

    def __init__(self, largest: int, start: float) -> None:
        self._largest = largest
        self._since = start
        self._busy = self._batches = 0.0

    def stepped(self, steps: Steps, _now: float, /) -> None:
        seconds = steps.count * steps.seconds
        self._busy += seconds
        self._batches += seconds * min(1.0, steps.running / self._largest)

    def load(self, now: float) -> Load:
        """Steps that end within a time may have begun before it."""
        seconds, self._since = now - self._since, now
        busy, batches, self._busy, self._batches = self._busy, self._batches, 0.0, 0.0
        return Load(min(1.0, busy / seconds), batches / busy) if seconds > 0 and busy else Load(0.0, 0.0)


@dataclass(slots=True)
class Process:
    engines: Sequence[Engine]
    face: PagedFace
    work: Sequence[Work]


class SimulatedServer:
    """`answer` and `load` are as of the moment up to which it was advanced."""

    def __init__(self, spec: Spec, truth: Truth, seed: int, start: float) -> None:
        self.spec = spec
        self.changes: dict[int, Change] = {}
        """What faults make of its replies, by the fault's number."""
        self.process: Process | None = None
        self.hangs_until = start
        self.on_finish: Callable[[Request, float], None] | None = None
        """Is told of each request that ends, as a prefill server tells its decode server."""
        self._truth = truth
        self._seed = seed
        self._starts = 0
        self._up_at: float | None = None
        self._slowdown = 1.0
        self._error_share = 0.0
        self._turn = 0
        self._renamed = False
        self._begin(start)

    @property
    def witnesses(self) -> list[Witness]:
        return [self._truth.observer(self.spec.engine(n)) for n in range(self.spec.engines)]

    def advance(self, now: float) -> None:
        if self.process is None and self._up_at is not None and self._up_at <= now:
            self._begin(self._up_at)
        for engine in self.process.engines if self.process else ():
            engine.advance(now)

    def submit(self, request: Request, at: float | None = None) -> None:
        """Each engine in turn; where nothing listens, it is lost."""
        moment, process = request.arrived if at is None else at, self.process
        if process is None:
            if self._up_at is None or self._up_at > moment:
                request.is_lost = True
                return
            process = self._begin(self._up_at)
        self._turn = (self._turn + 1) % self.spec.engines
        process.engines[self._turn].submit(request, at)

    def answer(self, path: str, now: float) -> Reply:
        if self.process is None:
            return REFUSED
        answer = self._answer(self.process.face, path, now)
        reply = Reply(answer, wait=answer.seconds)
        for change in self.changes.values():
            reply = change(reply)
        return reply

    def _answer(self, face: Face, path: str, now: float) -> Answer:
        """What is switched off is not there."""
        if path == "/metrics" and not self.spec.tells_iterations:
            return _NO_ITERATIONS
        answer = face.answer(path, now)
        if self.spec.tells_metrics or not path.startswith(METRICS_OF.get(self.spec.frontend, "/metrics")):
            return answer
        if self.spec.frontend != "vllm":
            return NOT_FOUND
        lines = answer.body.splitlines(keepends=True)
        return replace(answer, body=b"".join(line for line in lines if b"vllm:" not in line))

    def load(self, now: float) -> Load:
        """Of its GPUs: the mean of its engines."""
        loads = [work.load(now) for work in self.process.work] if self.process else []
        if not loads:
            return Load(0.0, 0.0)
        return Load(*(sum(part) / len(loads) for part in zip(*loads, strict=True)))

    # What happens to it

    def stop(self, now: float, until: float | None = None) -> None:
        """Everything in it is lost. It starts again at `until`; without, when it is told to."""
        for engine, witness in zip(self.process.engines if self.process else (), self.witnesses, strict=False):
            witness.lost(engine.crash(), now)
            witness.ended(now)
        self.process, self._up_at, self.hangs_until = None, until, now

    def start(self, now: float) -> None:
        """At once, if it is down."""
        if self.process is None:
            self._begin(now)

    def rename(self, *, is_new: bool) -> None:
        """From its next start on."""
        self._renamed = is_new

    def hang(self, now: float, until: float) -> None:
        self.hangs_until = until
        for engine, witness in zip(self.process.engines if self.process else (), self.witnesses, strict=False):
            engine.hang(until)
            witness.stood_still(now, until)

    def freeze(self, is_frozen: bool) -> None:
        """Its gauges, until it is started anew."""
        if self.process is not None:
            self.process.face.page.is_frozen = is_frozen

    def fail(self, share: float) -> None:
        """Of its requests, from now on."""
        self._error_share = share
        for engine in self.process.engines if self.process else ():
            engine.error_share = share

    def slow_down(self, factor: float) -> None:
        self._slowdown = factor
        for engine in self.process.engines if self.process else ():
            engine.slow_down(factor)

    def _begin(self, now: float) -> Process:
        spec, self._up_at = self.spec, None
        pace = scaled(PACES[spec.framework], spec.slowness)
        engines = [
            Engine(spec.limits, pace, [witness], seed=self._seed * 1000 + self._starts * 16 + n, start=now)
            for n, witness in enumerate(self.witnesses)
        ]
        face = FACES[spec.frontend](self._identity(now), engines, renamed=spec.renamed if self._renamed else None)
        work = [Work(spec.limits.running, now) for _ in engines]
        for n, engine in enumerate(engines):
            engine.observe(face.observer(n))
            engine.observe(work[n])
            engine.observe(_Passing(self))
            engine.slow_down(self._slowdown)
            engine.error_share = self._error_share
        self._starts += 1
        self.process = Process(engines, face, work)
        return self.process

    def _identity(self, now: float) -> Identity:
        spec = self.spec
        return Identity(
            spec.model, spec.release, now, spec.role, spec.tensor_parallel, 1000 + self._starts, spec.adapters
        )


class _Passing(Silent):
    def __init__(self, server: SimulatedServer) -> None:
        self._server = server

    def finished(self, request: Request, now: float, /) -> None:
        if self._server.on_finish is not None:
            self._server.on_finish(request, now)


def scaled(pace: Pace, slowness: float) -> Pace:
    """Of a larger model on the same GPUs."""
    if slowness == 1.0:
        return pace
    longer = Curve(tuple((x, y * slowness) for x, y in pace.decode.points))
    return replace(
        pace,
        decode=longer,
        kv_token=pace.kv_token * slowness,
        prefill=pace.prefill * slowness,
        prefill_step=pace.prefill_step * slowness,
    )
