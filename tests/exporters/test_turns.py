"""Long work leaves the event loop to what is due in between."""

from __future__ import annotations

import asyncio

from exporters.turns import Turns

FAR = 1e12


async def test_what_is_due_comes_in_between_two_pieces_of_work() -> None:
    turns, told = Turns(), list[str]()

    async def other() -> None:
        while told.count("work") < 3:
            told.append("other")
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(turns.work(lambda: told.append("work")))
        group.create_task(other())
    pieces = "".join(t[0] for t in told).split("w")
    assert len(pieces) == 4
    assert all(pieces[:3])


async def test_what_is_known_waits_for_one_new_piece_at_most() -> None:
    turns, told = Turns(), list[str]()
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(turns.new(FAR, lambda: told.append("new")))
        group.create_task(turns.work(lambda: told.append("known")))
    assert told[:2] == ["new", "known"]
    assert told.count("new") == 5


async def test_a_piece_that_fails_takes_no_other_with_it() -> None:
    turns = Turns()
    failed, good = await asyncio.gather(
        turns.new(FAR, lambda: 1 // 0), turns.new(FAR, lambda: 1), return_exceptions=True
    )
    assert isinstance(failed, ZeroDivisionError)
    assert good == 1
