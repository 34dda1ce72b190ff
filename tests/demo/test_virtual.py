from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from demo.virtual import VirtualLoop

START = 1_796_000_000.0
T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        return runner.run(work())


def now() -> float:
    return asyncio.get_running_loop().time() - START


def test_a_day_passes_at_once_and_everybody_wakes_in_order() -> None:
    woken: list[tuple[float, str]] = []

    async def sleeper(name: str, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            woken.append((round(now(), 3), name))

    async def day() -> float:
        tasks = [asyncio.create_task(sleeper("a", 28_800)), asyncio.create_task(sleeper("b", 36_000))]
        await asyncio.sleep(86_399)
        for task in tasks:
            task.cancel()
        return now()

    assert run(day) == pytest.approx(86_399)
    assert woken == [(28_800, "a"), (36_000, "b"), (57_600, "a"), (72_000, "b")]


def test_what_takes_too_long_runs_into_its_timeout() -> None:
    async def work() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        return now()

    assert run(work) == pytest.approx(10, abs=1e-3)


def test_work_for_threads_is_done_before_time_passes() -> None:
    async def work() -> tuple[int, float]:
        ticking = asyncio.create_task(asyncio.sleep(1))
        thread, after = await asyncio.to_thread(threading.get_ident), now()
        await ticking
        return thread, after

    thread, after = run(work)
    assert thread == threading.get_ident()
    assert after == pytest.approx(0, abs=1e-3)


def test_an_error_in_such_work_is_the_callers() -> None:
    async def work() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        run(work)
