"""Work that is long for an event loop, piece by piece: one at a time, and what waits on the loop comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Made = TypeVar("_Made")


class Turns:
    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._new = asyncio.Lock()

    async def work(self, function: Callable[[], _Made]) -> _Made:
        async with self._all:
            await asyncio.sleep(0)
            return function()

    async def new(self, deadline: float, function: Callable[[], _Made]) -> _Made:
        """Takes its time: of such pieces one stands in the row, so that the others do not wait for all of them.

        Behind `deadline`, in the running loop's time, it leaves the loop to the others for as long as it took: an
        answer without it is on its way.
        """
        clock = asyncio.get_running_loop().time
        async with self._new:
            started = clock()
            made = await self.work(function)
            if clock() > deadline:
                await asyncio.sleep(clock() - started)
            return made
