from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.excerpts import Piece
from monitor.pace import Pace, halves

FLEET = [(f"node-{n // 8:02}", f"server-{n % 8}") for n in range(100)]


def test_a_fleet_is_read_in_pieces_of_few_names() -> None:
    pieces = list(Pace().pieces(FLEET, 0, 3600))
    assert [len(piece.targets) for piece in pieces] == [32, 32, 32, 4]
    assert [target for piece in pieces for target in piece.targets] == FLEET
    long = [("n", "x" * 400 + str(n)) for n in range(5)]
    assert [len(piece.targets) for piece in Pace().pieces(long, 0, 60)] == [3, 2]
    assert [len(piece.targets) for piece in Pace().pieces([("n", "x" * 2000)], 0, 60)] == [1]


def test_what_was_too_much_is_read_in_shorter_times_then_of_fewer_and_grows_again() -> None:
    pace, seen = Pace(), []
    for _ in range(10):
        pace.was_too_much(Piece(tuple(FLEET[: pace.targets]), 0, pace.seconds))
        seen.append((pace.seconds, pace.targets))
    assert seen[:6] == [(1800, 32), (900, 32), (420, 32), (300, 32), (300, 16), (300, 8)]
    assert seen[-1] == (300, 1)
    for _ in range(20 * 5):
        pace.went_well()
    assert (pace.seconds, pace.targets) == (300, 32)
    for _ in range(20 * 4):
        pace.went_well()
    assert (pace.seconds, pace.targets) == (3600, 32)


@given(st.integers(1, 8), st.integers(1, 70), st.booleans())
def test_halves_hold_each_window_of_each_target_once_down_to_one(targets: int, minutes: int, by_time: bool) -> None:
    waiting, smallest = [Piece(tuple(FLEET[:targets]), 600, 600 + 60 * minutes)], []
    while waiting:
        piece = waiting.pop()
        parts = halves(piece, by_time_first=by_time)
        waiting += parts
        if not parts:
            smallest.append((*piece.targets, piece.since, piece.until))
    wanted = [(of, at, at + 60) for of in FLEET[:targets] for at in range(600, 600 + 60 * minutes, 60)]
    assert sorted(smallest) == wanted
