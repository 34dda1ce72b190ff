"""Records that can be read only once: fetched on a clock of their own, and kept until a collection takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

_MAX_RECORDS = 10_000
"""Kept while nobody collects; then they stay with the server, which drops its oldest."""

Read = Callable[[], Awaitable[object]]
"""The document's value: an array of records. None where the server has no such document now."""
Sleep = Callable[[float], Awaitable[None]]


class Unread(Exception):
    """The document did not come this time, for whatever reason; its text is for people."""


class Poller:
    """The one reader of a document whose reading takes its records away from everybody else."""

    def __init__(self, read: Read, every: float, sleep: Sleep = asyncio.sleep) -> None:
        self._read = read
        self._every = every
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Event()
        self._new: list[object] | None = None
        self._taken: list[object] | None = None
        self.problem = ""
        self.is_denied = False
        """The server has no such document."""

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def answered(self) -> None:
        """Returns after the first reading, also where it failed."""
        await self._first.wait()

    def take(self) -> list[object] | None:
        """All records since the last taking, as one new list; that list once more where no answer came since.

        None where there is no such document.
        """
        if self._new is not None:
            self._taken, self._new = self._new, None
        return self._taken

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            if self._new is None or len(self._new) < _MAX_RECORDS:
                await self._once()
            await self._sleep(self._every)

    async def _once(self) -> None:
        try:
            found = await self._read()
        except Unread as unread:
            self.problem = str(unread)
        except Exception:
            _log.exception("reading records failed")
            self.problem = "internal error"
        else:
            self._put(found)
        self._first.set()

    def _put(self, found: object) -> None:
        self.is_denied = not isinstance(found, list)
        if isinstance(found, list):
            self._new, self.problem = [*(self._new or []), *found], ""
        else:
            self._new = self._taken = None
            self.problem = "no array of records"
