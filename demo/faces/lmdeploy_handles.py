"""LMDeploy's queue before its engine."""

from __future__ import annotations

from collections import OrderedDict

from demo.model import Request


class Handles:
    """The API process has as many as the engine runs requests. Who waits for one is unseen by the engine.

    They are given in the order in which the engine schedules.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: dict[Request, float] = {}
        self._queue: OrderedDict[Request, None] = OrderedDict()
        self.busy_since: float | None = None
        """Since when somebody has had one all the time."""

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def ask(self, request: Request, now: float) -> None:
        if not self._held:
            self.busy_since = now
        if len(self._held) < self._count:
            self._held[request] = now
        else:
            self._queue[request] = None

    def use(self, request: Request) -> None:
        """Who is scheduled while it waits here has overtaken somebody who waits in the engine: they change places."""
        overtaken = next((r for r in reversed(self._held) if r.scheduled is None), None)
        if request in self._queue and overtaken is not None:
            del self._queue[request]
            self._held[request] = self._held.pop(overtaken)
            self._queue[overtaken] = None
            self._queue.move_to_end(overtaken, last=False)

    def give_back(self, request: Request, now: float) -> None:
        self._queue.pop(request, None)
        if self._held.pop(request, None) is not None and self._queue:
            following, _ = self._queue.popitem(last=False)
            self._held[following] = now
        if not self._held:
            self.busy_since = None

    def since(self, request: Request) -> float:
        """When it got its own."""
        return self._held.get(request, request.arrived)
