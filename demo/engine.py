"""One data-parallel replica as a queue: continuous batching over paged KV blocks, in virtual time.

Nothing is done token by token: between two events all steps of the batch are alike, and are told together. How an
engine is advanced, in one stride or in many, changes nothing of what happens.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from demo.draws import uniform
from demo.gaps import Gaps
from demo.kv import Kv
from demo.model import Limits, Observer, Reason, Request, Steps
from demo.pace import Pace
from demo.plan import Job, Plan

_WATERMARK = 0.01
"""Of the KV cache stays free when a request is admitted beside others, so that these can grow."""
_DELAY, _ERROR = 1, 2


class Engine:
    """See `EngineState` for what a gauge sees of it."""

    def __init__(
        self, limits: Limits, pace: Pace, observers: Iterable[Observer] = (), *, seed: int = 0, start: float = 0.0
    ) -> None:
        self.limits = limits
        self.pace = pace
        self.now = start
        self.error_share = 0.0
        """Of requests that fail as soon as they are scheduled."""
        self._observers = list(observers)
        self._seed = seed
        self._kv = Kv(limits.kv_tokens, limits.block_tokens)
        self._slowdown = 1.0
        self._frozen_until = start
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self._delayed: dict[Job, None] = {}
        self._queue: deque[Job] = deque()
        self._running: dict[Job, None] = {}
        self._prefilling: dict[Job, None] = {}
        self._plan: Plan | None = None
        self._finishes: list[tuple[int, int, Job]] = []
        self._decoding = 0
        self._gaps = Gaps(self._observers, start)

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    # What is seen of it

    @property
    def running(self) -> Sequence[Request]:
        for job in self._running:
            job.request.generated_tokens = self._generated(job)
        return [job.request for job in self._running]

    @property
    def waiting(self) -> Sequence[Request]:
        return [job.request for job in (*self._queue, *self._delayed)]

    @property
    def kv_tokens(self) -> int:
        return self._kv.held * self._kv.block_tokens

    @property
    def cached_kv_tokens(self) -> int:
        return self._kv.cached * self._kv.block_tokens

    @property
    def still_until(self) -> float:
        return self._frozen_until

    # What it is asked

    def submit(self, request: Request, at: float | None = None) -> None:
        """It arrives at its own time, or `at` another if it comes from elsewhere; raises ValueError for the past."""
        moment = request.arrived if at is None else at
        if moment < self.now:
            raise ValueError(f"request {request.number} comes at {moment}, but the engine is at {self.now} already")
        leaves = request.leaves_after
        target = request.output_tokens if leaves is None else min(leaves, request.output_tokens)
        prefix = f"{request.prefix}\0{request.adapter}" if request.prefix else ""
        self._at(moment, partial(self._arrive, Job(request, target, prefix)))

    def advance(self, until: float) -> None:
        """All that happens up to and including that time."""
        while True:
            plan = self._plan
            end = plan.end if plan else math.inf
            event = self._events[0][0] if self._events else math.inf
            moment = min(end, event)
            if moment > until:
                break
            self._run_steps(moment)
            self.now = max(self.now, moment)
            if plan and end <= event:
                self._end_plan(plan, moment)
            else:
                heapq.heappop(self._events)[2](moment)
        self._run_steps(until)
        self.now = max(self.now, until)

    def hang(self, until: float) -> None:
        """The whole process stands still from now on: the step under way ends so much later, and none begins."""
        since = max(self.now, self._frozen_until)
        if until <= since:
            return
        if self._plan and self._plan.done < self._plan.count:
            self._plan.halt(until - since)
        self._frozen_until = until
        self._at(until, self._wake)

    def slow_down(self, factor: float) -> None:
        """All steps that begin from now on take so many times their normal length."""
        self._slowdown = factor
        self._cut_plan()

    def resize(self, kv_tokens: int) -> None:
        self.limits = replace(self.limits, kv_tokens=kv_tokens)
        self._kv.resize(kv_tokens)
        self._cut_plan()

    def crash(self) -> list[Request]:
        """What was waiting or running is lost, and no observer hears of it. The engine is of no more use."""
        lost = [*self.running, *self.waiting]
        for request in lost:
            request.is_lost = True
        self._plan = None
        for forgotten in (self._events, self._queue, self._running, self._delayed, self._prefilling):
            forgotten.clear()
        return lost

    # Arrival

    def _at(self, moment: float, handle: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, handle))

    def _arrive(self, job: Job, now: float) -> None:
        request = job.request
        for observer in self._observers:
            observer.arrived(request, now)
        if self._is_refused(request):
            request.is_rejected = True
            for observer in self._observers:
                observer.rejected(request, now)
            return
        self._delayed[job] = None
        self._at(now + self._delay(request, job.prefix), partial(self._consider, job))

    def _is_refused(self, request: Request) -> bool:
        limits, whole = self.limits, request.prompt_tokens + request.output_tokens
        is_full = limits.waiting is not None and len(self._queue) + len(self._delayed) >= limits.waiting
        is_foreign = bool(request.adapter) and not limits.adapters
        return is_full or is_foreign or whole > limits.context_tokens or self._kv.blocks(whole) > self._kv.capacity

    def _delay(self, request: Request, prefix: str) -> float:
        """Shorter delays are likelier than longer ones: their density falls in a straight line, to 0 at the longest."""
        if request.is_prefilled:
            return 0.0
        present = len(self._running) + len(self._queue) + len(self._delayed) + 1
        share = 1 - math.sqrt(1 - uniform(self._seed, request.number, _DELAY))
        computed = request.prompt_tokens - self._found(request, prefix) * self._kv.block_tokens
        return self._slowdown * self.pace.wait(present, computed) * share

    def _consider(self, job: Job, now: float) -> None:
        del self._delayed[job]
        self._queue.append(job)
        if self._plan is None:
            self._at(now, self._wake)  # after all that come at the same moment
        elif len(self._queue) == 1 or self.limits.adapters:
            self._plan.cut(now)

    def _wake(self, now: float) -> None:
        if self._plan is None:
            self._go_on(now)

    # Steps

    def _run_steps(self, now: float) -> None:
        """Tells the steps that have ended by then."""
        plan = self._plan
        if plan is None or (steps := plan.ended(now) - plan.done) <= 0:
            return
        plan.done += steps
        if plan.decoding:
            self._kv.grow(steps, plan.decoding)
            self._gaps.step(plan, steps)
        told = Steps(steps, plan.seconds, plan.batch, plan.prompt_tokens, plan.generated_tokens(steps))
        for observer in self._observers:
            observer.stepped(told, plan.after(plan.done))

    def _end_plan(self, plan: Plan, now: float) -> None:
        self._plan = None
        for job, tokens in plan.chunks if plan.done else ():
            job.uncomputed -= tokens
            if not job.uncomputed:
                self._begin_decoding(job, now)
        self._finish_due(now)
        self._go_on(now)

    def _finish_due(self, now: float) -> None:
        while self._steps_to_finish() <= 0:
            self._finish(self._finishes[0][2], now)

    def _go_on(self, now: float) -> None:
        """Between two steps."""
        while now >= self._frozen_until and self._plan is None:
            self._admit(now)
            self._finish_due(now)
            self._make_room(now)
            self._plan = self._next_plan(now)
            if not self._queue:
                break

    def _next_plan(self, now: float) -> Plan | None:
        chunks = self._chunks()
        decoding = self._decoding if self.pace.is_mixed or not chunks else 0
        if not decoding and not chunks:
            return None
        count = 1 if chunks else self._kv.steps(self._steps_to_finish(), decoding)
        kv_tokens = self.kv_tokens + decoding * (count - 1) / 2
        prompt_tokens = sum(tokens for _, tokens in chunks)
        seconds = self._slowdown * self.pace.step(decoding, kv_tokens, prompt_tokens)
        return Plan(now, seconds, count, len(self._running), decoding, chunks, prompt_tokens)

    def _chunks(self) -> list[tuple[Job, int]]:
        left, chunks = self.limits.prefill_tokens_per_step, []
        for job in self._prefilling:
            if not left:
                break
            chunks.append((job, min(left, job.uncomputed)))
            left -= chunks[-1][1]
        return chunks

    def _steps_to_finish(self) -> int:
        """Of the first that will; who was preempted since then does not count."""
        while self._finishes and self._finishes[0][2].order != self._finishes[0][1]:
            heapq.heappop(self._finishes)
        return self._finishes[0][0] - self._kv.grown if self._finishes else 1

    def _cut_plan(self) -> None:
        if self._plan:
            self._plan.cut(self.now)

    # Admission

    def _admit(self, now: float) -> None:
        while (place := self._next_place()) is not None:
            job = self._queue[place]
            del self._queue[place]
            if self._has_room(job):
                self._schedule(job, now)
            elif self._running:
                self._queue.insert(place, job)
                break
            else:
                self._end(job, "error", now)

    def _next_place(self) -> int | None:
        """In the queue; who waits for an adapter's turn is passed over."""
        if not self._queue or len(self._running) >= self.limits.running:
            return None
        if not self.limits.adapters:
            return 0
        loaded = {job.request.adapter for job in self._running} - {""}
        for place, job in enumerate(self._queue):
            if len(loaded) < self.limits.adapters or job.request.adapter in {"", *loaded}:
                return place
        return None

    def _has_room(self, job: Job) -> bool:
        found = self._found(job.request, job.prefix)
        spare = _WATERMARK * self._kv.capacity if self._running else 0
        needed = self._blocks(job, 1) - found + spare
        return needed + (self._kv.idle(job.prefix) if found else 0) <= self._kv.available

    def _schedule(self, job: Job, now: float) -> None:
        request = job.request
        self._number += 1
        job.order = self._number
        self._running[job] = self._prefilling[job] = None
        job.shared_blocks = self._found(request, job.prefix)
        if job.shared_blocks:
            self._kv.use(job.prefix)
        self._kv.take(self._blocks(job, 1) - job.shared_blocks)
        cached = job.shared_blocks * self._kv.block_tokens
        job.uncomputed = request.prompt_tokens + job.generated - cached
        if not request.preemptions:
            self._tell_scheduled(request, cached, now)
        if not job.target:
            self._finish(job, now)
        elif uniform(self._seed, request.number, _ERROR) < self.error_share:
            self._finish(job, now, "error")
        elif request.is_prefilled and not job.generated:
            self._begin_decoding(job, now)

    def _tell_scheduled(self, request: Request, cached: int, now: float) -> None:
        if not request.is_prefilled:
            request.scheduled, request.cached_tokens = now, cached
        for observer in self._observers:
            observer.scheduled(request, now)

    def _begin_decoding(self, job: Job, now: float) -> None:
        request = job.request
        del self._prefilling[job]
        self._gaps.begin(job, now)
        job.generated += 1
        job.joined = self._kv.grown
        self._share_prefix(job)
        self._kv.join(request.prompt_tokens + job.generated)
        self._decoding += 1
        heapq.heappush(self._finishes, (job.joined + job.target - job.generated, job.order, job))
        if request.first_token is None:
            request.first_token = now
            for observer in self._observers:
                observer.first_token(request, now)

    def _share_prefix(self, job: Job) -> None:
        """What it computed of its prefix is found by others from now on. If another was quicker, that one's is kept."""
        request = job.request
        blocks = min(request.prefix_tokens, request.prompt_tokens) // self._kv.block_tokens
        if job.shared_blocks or not blocks or not job.prefix or not self.limits.prefix_caching:
            return
        job.shared_blocks = self._found(request, job.prefix)
        if job.shared_blocks:
            self._kv.give(job.shared_blocks)
            self._kv.use(job.prefix)
        elif not self._kv.found(job.prefix):
            job.shared_blocks = blocks
            self._kv.share(job.prefix, blocks)

    # Leaving

    def _make_room(self, now: float) -> None:
        """For one step of all: the youngest go back to the queue, and are computed again later."""
        while self._decoding and self._kv.due > self._kv.available:
            job = next(reversed(self._running))
            job.request.preemptions += 1
            self._release(job)
            self._queue.appendleft(job)
            for observer in self._observers:
                observer.preempted(job.request, now)

    def _release(self, job: Job) -> None:
        blocks = self._blocks(job, 0 if job.joined is not None else 1) - job.shared_blocks
        self._kv.give(blocks)
        if job.shared_blocks:
            self._kv.leave(job.prefix)
        if job.joined is not None:
            self._stop_decoding(job)
        self._prefilling.pop(job, None)
        del self._running[job]
        job.order = job.shared_blocks = 0

    def _stop_decoding(self, job: Job) -> None:
        self._gaps.stop(job)
        job.generated = job.request.generated_tokens = self._generated(job)
        self._kv.part(job.request.prompt_tokens + job.generated)
        self._decoding -= 1
        job.joined = None

    def _finish(self, job: Job, now: float, reason: Reason | None = None) -> None:
        self._release(job)
        self._end(job, reason or ("abort" if job.target < job.request.output_tokens else job.request.ends_by), now)

    def _end(self, job: Job, reason: Reason, now: float) -> None:
        job.request.reason, job.request.finished = reason, now
        for observer in self._observers:
            observer.finished(job.request, now)

    def _found(self, request: Request, prefix: str) -> int:
        """Blocks of its prefix in the cache; the last token of a prompt is always computed."""
        if not prefix or not self.limits.prefix_caching:
            return 0
        most = min(request.prefix_tokens, request.prompt_tokens - 1) // self._kv.block_tokens
        return min(self._kv.found(prefix), most)

    def _generated(self, job: Job) -> int:
        return job.generated + (self._kv.grown - job.joined if job.joined is not None else 0)

    def _blocks(self, job: Job, more: int) -> int:
        return self._kv.blocks(job.request.prompt_tokens + self._generated(job) + more)
