from __future__ import annotations

import asyncio
import threading

import pytest

from exporters.gpu.lane import Lane

LONG = 120.0


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_job_runs_in_a_thread_of_its_own() -> None:
    lane: Lane[int] = Lane("a")
    assert await lane.run(threading.get_ident, in_seconds(LONG)) != threading.get_ident()


async def test_an_error_is_raised_where_the_result_is_awaited() -> None:
    lane: Lane[float] = Lane("a")
    with pytest.raises(ZeroDivisionError):
        await lane.run(lambda: 1 / 0, in_seconds(LONG))
    assert not lane.is_busy


async def test_who_asks_meanwhile_joins_the_job() -> None:
    lane: Lane[int] = Lane("a")
    go = threading.Event()
    runs: list[int] = []

    def job() -> int:
        go.wait()
        runs.append(1)
        return len(runs)

    first = asyncio.create_task(lane.run(job, in_seconds(LONG)))
    second = asyncio.create_task(lane.run(job, in_seconds(LONG)))
    await asyncio.sleep(0)
    go.set()
    assert await first == await second == 1


async def test_a_job_that_is_late_keeps_its_lane_until_it_ends() -> None:
    lane: Lane[int] = Lane("a")
    go = threading.Event()

    def late() -> int:
        go.wait()
        return 1

    with pytest.raises(TimeoutError):
        await lane.run(late, in_seconds(0.01))
    assert lane.is_busy
    # The deadline is far away, but nobody waits twice for what hangs: else this would wait for ever.
    with pytest.raises(TimeoutError):
        await lane.run(lambda: 2, in_seconds(3600))
    go.set()
    await lane.settle(in_seconds(LONG))
    assert await lane.run(lambda: 3, in_seconds(LONG)) == 3
