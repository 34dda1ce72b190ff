"""The one reader of records that can be read only once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from exporters import records
from exporters.records import Poller, Unread

Answer = list[object] | Exception | None


class Server:
    """Gives each answer once. Between two readings the poller waits until the test lets it go on."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.polled = 0
        self._waits = asyncio.Event()
        self._goes_on = asyncio.Event()

    async def read(self) -> object:
        self.polled += 1
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, _seconds: float) -> None:
        self._waits.set()
        await self._goes_on.wait()
        self._goes_on.clear()

    async def waits(self) -> None:
        await self._waits.wait()
        self._waits.clear()

    async def poll(self) -> None:
        self._goes_on.set()
        await self.waits()


@pytest.fixture
async def polling() -> AsyncIterator[Callable[..., Awaitable[tuple[Server, Poller]]]]:
    pollers: list[Poller] = []

    async def start(*answers: Answer) -> tuple[Server, Poller]:
        server = Server(*answers)
        pollers.append(Poller(server.read, 5.0, server.sleep))
        pollers[-1].start()
        await server.waits()
        return server, pollers[-1]

    yield start
    for poller in pollers:
        await poller.aclose()


Start = Callable[..., Awaitable[tuple[Server, Poller]]]


async def test_all_records_since_the_last_taking_are_one_new_list(polling: Start) -> None:
    server, poller = await polling([1, 2], [3], [], [4])
    await server.poll()
    first = poller.take()
    assert first == [1, 2, 3]
    assert poller.take() is first
    await server.poll()
    assert poller.take() == []
    await server.poll()
    assert poller.take() == [4]


async def test_a_reading_that_fails_takes_nothing_away(polling: Start) -> None:
    server, poller = await polling([1], Unread("timeout"), [2])
    first = poller.take()
    await server.poll()
    assert poller.take() is first
    assert poller.problem == "timeout"
    await server.poll()
    assert (poller.take(), poller.problem) == ([2], "")


async def test_a_document_that_is_no_longer_there_has_nothing(polling: Start) -> None:
    server, poller = await polling([1], None, [2])
    await server.poll()
    assert poller.take() is None
    await server.poll()
    assert poller.take() == [2]


async def test_a_defect_of_ours_ends_no_polling(polling: Start, caplog: pytest.LogCaptureFixture) -> None:
    server, poller = await polling(KeyError("x"), [1])
    assert poller.problem == "internal error"
    assert "reading records failed" in caplog.text
    await server.poll()
    assert poller.take() == [1]


async def test_while_nobody_takes_them_records_stay_with_the_server(
    polling: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_MAX_RECORDS", 2)
    server, poller = await polling([1, 2, 3], [4])
    await server.poll()
    assert server.polled == 1
    assert poller.take() == [1, 2, 3]
    await server.poll()
    assert poller.take() == [4]


async def test_whoever_waits_for_the_first_answer_goes_on_when_it_fails(polling: Start) -> None:
    _, poller = await polling(Unread("connection_refused"))
    await poller.answered()
    assert poller.take() is None
