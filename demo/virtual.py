"""Hours in seconds: an event loop whose time passes as soon as nobody has anything to do."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class _Skipping(selectors.DefaultSelector):
    """Does not wait for the next timer: the time is then what it would be."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            # A timer is due once its moment is over, so a turn of the loop takes the shortest time that there is.
            self.now = math.nextafter(self.now + timeout, math.inf)
        return ready


class _AtOnce(ThreadPoolExecutor):
    """In the caller's own thread: while others work, time would pass for the loop."""

    def submit(self, fn: Callable[_Given, _Made], /, *args: _Given.args, **more: _Given.kwargs) -> Future[_Made]:
        done: Future[_Made] = Future()
        try:
            done.set_result(fn(*args, **more))
        except Exception as error:
            done.set_exception(error)
        return done


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is in unix seconds and begins with `start`. What waits for other processes must not run in it."""

    def __init__(self, start: float) -> None:
        self._skipping = _Skipping(start)
        super().__init__(self._skipping)
        self.set_default_executor(_AtOnce())

    def time(self) -> float:
        return self._skipping.now
