"""A server's documents beside its metrics: read in the background, in their own time, and never required."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from exporters import documents
from exporters.fetch import Body, Failure
from exporters.health import BELIEVED_SECONDS, health_of
from exporters.records import Poller, Unread
from exporters.table import Document, Form, Frontend

_log = logging.getLogger(__name__)

METRICS = "metrics"
"""The document of this name is the metrics page itself."""

_ABSENT = ("not_found", "unexpected_status")
_DENIED = (*_ABSENT, "unauthorized")

Read = Callable[[Document], Awaitable[Body | Failure]]


class SideDocuments:
    """`values` holds what the table reads of each document, as of its last reading; of status documents what they say
    of the server's health. `read_at` tells in unix seconds when each last answered, or was given up.

    A document that the server denies has no value. One that did not come keeps the last: the process is the same
    until `forget` says otherwise. One without a value is unread, unless the server said from the first that there is
    none: nothing is known to be new as long as it is not known what is in it.
    """

    def __init__(self, read: Read, clock: Callable[[], float], *, destructive: bool) -> None:
        """`destructive`: whether documents may be read whose reading takes something away."""
        self._read = read
        self._clock = clock
        self._destructive = destructive
        self._frontend: Frontend | None = None
        self._started: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pollers: dict[str, Poller] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.values: dict[str, object] = {}
        self.problems: dict[str, str] = {}
        self.read_at: dict[str, float] = {}
        self._once_read: set[str] = set()
        self._absent: set[str] = set()

    @property
    def unread(self) -> list[str]:
        """Paths, each with why. Of documents whose reading takes something away only where it may."""
        documents = self._frontend.documents if self._frontend else ()
        wanted = (d for d in documents if _has_content(d) and (self._destructive or not d.destructive))
        return [
            f"{d.path}: {self.problems.get(d.name, 'has not answered yet')}"
            for d in wanted
            if d.name not in self.values and d.name not in self._absent
        ]

    @property
    def reads_records(self) -> bool:
        """Whether documents are read whose reading takes something away."""
        return self._destructive

    def follow(self, frontend: Frontend) -> None:
        if frontend is not self._frontend:
            self.forget()
            self._close_pollers()
            self._frontend = frontend

    def forget(self) -> None:
        """Another process may answer next: nothing of this one stays, and all is due.

        Records read once are an exception: they happened, whoever answers next.
        """
        for task in self._running.values():
            task.cancel()
        self._running.clear()
        self._started.clear()
        self.values, self.problems, self.read_at = {}, {}, {}
        self._once_read.clear()
        self._absent.clear()

    def refresh(self) -> None:
        """Starts reading what is due. Returns at once."""
        if self._frontend is None:
            return
        for document in self._frontend.documents:
            if document.destructive:
                self._poll(self._frontend, document)
                continue
            if document.name == METRICS or document.name in self._running or not self._is_due(document):
                continue
            self._started[document.name] = self._clock()
            if document.every == 0:
                self.values.pop(document.name, None)
            task = asyncio.create_task(self._take(self._frontend, document))
            self._running[document.name] = task
            task.add_done_callback(partial(self._ended, document.name))

    async def settle(self, seconds: float, *, health: bool = True) -> None:
        """Waits at most so long for documents without a value that are being read; for `health` only if so wanted."""
        told = {d.name for d in self._frontend.documents if health or _has_content(d)} if self._frontend else set()
        awaited = {task for name, task in self._running.items() if name in told and name not in self.values}
        first = {asyncio.create_task(p.answered()) for p in self._pollers.values()}
        if (awaited or first) and seconds > 0:
            await asyncio.wait(awaited | first, timeout=seconds)
        for task in first:
            task.cancel()

    def take(self) -> dict[str, object]:
        """All values for one reading; records that are read once are in the first list that is handed out only."""
        for name, poller in self._pollers.items():
            self._put(name, poller.take(), poller.problem, is_absent=poller.is_denied)
        return {name: value for name, value in self.values.items() if not self._is_stale(name)}

    def _is_stale(self, name: str) -> bool:
        """Of health: what stands in other documents stays as it is, while the process is the same."""
        is_health = self._frontend is not None and not _has_content(self._frontend.document(name))
        return is_health and not 0 <= self._clock() - self.read_at[name] <= BELIEVED_SECONDS

    async def aclose(self) -> None:
        tasks = list(self._running.values())
        self.forget()
        self._close_pollers()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)

    def _poll(self, frontend: Frontend, document: Document) -> None:
        if not self._destructive:
            return
        if document.name not in self._pollers:
            self._pollers[document.name] = Poller(partial(self._records, frontend, document), document.every)
        self._pollers[document.name].start()

    async def _records(self, frontend: Frontend, document: Document) -> object:
        answer = await self._read(document)
        if isinstance(answer, Failure):
            if answer.reason in _DENIED:
                return None
            raise Unread(_said(answer))
        try:
            return documents.keep(frontend, document.name, documents.parse(answer.text))
        except (ValueError, RecursionError):
            raise Unread("no JSON") from None

    def _close_pollers(self) -> None:
        for poller in self._pollers.values():
            task = asyncio.create_task(poller.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._pollers = {}

    def _is_due(self, document: Document) -> bool:
        started = self._started.get(document.name)
        return started is None or not 0 <= self._clock() - started < document.every

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]
        if not task.cancelled() and (error := task.exception()):
            _log.error("reading document %s failed", name, exc_info=error)

    async def _take(self, frontend: Frontend, document: Document) -> None:
        answer = await self._read(document)
        if document.older and isinstance(answer, Failure) and answer.reason == "not_found":
            answer = await self._read(replace(document, path=document.older))
        self.read_at[document.name] = self._clock()
        if document.form is Form.STATUS:
            health = health_of(answer, has_answered=document.name in self._once_read)
            self._put(document.name, health, "" if answer.status else _said(answer))
        elif isinstance(answer, Failure):
            kept = None if answer.reason in _DENIED else self.values.get(document.name)
            self._put(document.name, kept, _said(answer), is_absent=answer.reason in _ABSENT)
        elif document.form is Form.TEXT:
            self._put(document.name, answer.text)
        else:
            try:
                self._put(document.name, documents.keep(frontend, document.name, documents.parse(answer.text)))
            except (ValueError, RecursionError):
                self._put(document.name, None, "no JSON")

    def _put(self, name: str, value: object, problem: str = "", *, is_absent: bool = False) -> None:
        if is_absent and name not in self._once_read:
            self._absent.add(name)
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
            self._once_read.add(name)
            self._absent.discard(name)
        self.problems.pop(name, None)
        if problem:
            self.problems[name] = problem


def _has_content(document: Document) -> bool:
    return document.name != METRICS and document.form is not Form.STATUS


def _said(answer: Body | Failure) -> str:
    return f"{answer.reason}: {answer.detail}".removesuffix(": ") if isinstance(answer, Failure) else ""
