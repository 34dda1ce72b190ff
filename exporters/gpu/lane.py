"""Blocking calls beside the event loop, one at a time: one that hangs holds up its own lane and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

_OVERDUE_SECONDS = 0.05
"""How long to wait for a call that did not come back in time before: nobody should wait for it twice."""

T = TypeVar("T")


class Lane(Generic[T]):
    def __init__(self, name: str) -> None:
        self._name = name
        self._running: Future[T] | None = None
        self._overdue = False

    @property
    def is_busy(self) -> bool:
        return self._running is not None and not self._running.done()

    async def run(self, job: Callable[[], T], deadline: float) -> T:
        """Joins the job that runs already. Raises TimeoutError at `deadline`, in the loop's time."""
        if self._running is None or not self.is_busy:
            self._running, self._overdue = _started(job, self._name), False
        waiting = asyncio.wrap_future(self._running)
        # Of a job that nobody waits for any more, the error is nobody's.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        now = asyncio.get_running_loop().time()
        patience = _OVERDUE_SECONDS if self._overdue else max(deadline - now, 0.0)
        await asyncio.wait([waiting], timeout=patience)
        if not waiting.done():
            self._overdue = True
            raise TimeoutError
        return waiting.result()

    async def settle(self, deadline: float) -> None:
        """Waits for the job that runs, until `deadline` at most."""
        if self._running is not None and self.is_busy:
            now = asyncio.get_running_loop().time()
            await asyncio.wait([asyncio.wrap_future(self._running)], timeout=max(deadline - now, 0.0))


def _started(job: Callable[[], T], name: str) -> Future[T]:
    """In a daemon thread: a call that never comes back must not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(job())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
