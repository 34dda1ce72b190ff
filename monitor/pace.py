"""How much is read at once: less after it was too much, more again when it goes well. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.excerpts import Piece
from monitor.history.minutes import WINDOW_SECONDS
from monitor.sources.prometheus.readings import Target

_MOST_SECONDS, _MOST_TARGETS, _MOST_CHARACTERS = 3600, 32, 1500
_SHORT_SECONDS = 300
"""What is read of the time around takes longer than this: fewer targets tell more then."""
_PATIENCE = 20


class Pace:
    def __init__(self) -> None:
        self.seconds = _MOST_SECONDS
        self.targets = _MOST_TARGETS
        self._well = 0

    def pieces(self, targets: Sequence[Target], since: int, until: int) -> Iterator[Piece]:
        """By node, so that few names say which."""
        batch: list[Target] = []
        for target in sorted(targets):
            if batch and (len(batch) >= self.targets or len(str([*batch, target])) > _MOST_CHARACTERS):
                yield Piece(tuple(batch), since, until)
                batch = []
            batch.append(target)
        if batch:
            yield Piece(tuple(batch), since, until)

    def went_well(self) -> None:
        self._well += 1
        if self._well >= _PATIENCE:
            self._well = 0
            if self.targets < _MOST_TARGETS:
                self.targets = min(2 * self.targets, _MOST_TARGETS)
            else:
                self.seconds = min(2 * self.seconds, _MOST_SECONDS)

    def was_too_much(self, piece: Piece) -> None:
        self._well = 0
        length = piece.until - piece.since
        if length > _SHORT_SECONDS:
            self.seconds = max(_minutes(length // 2), _SHORT_SECONDS)
        else:
            self.targets = max(len(piece.targets) // 2, 1)


def halves(piece: Piece, *, by_time_first: bool) -> list[Piece]:
    """None of what is one window of one target."""
    several, length = len(piece.targets) > 1, piece.until - piece.since
    if length > WINDOW_SECONDS and (not several or (by_time_first and length > _SHORT_SECONDS)):
        middle = piece.since + _minutes(length // 2)
        return [Piece(piece.targets, piece.since, middle), Piece(piece.targets, middle, piece.until)]
    if several:
        half = len(piece.targets) // 2
        parts = piece.targets[:half], piece.targets[half:]
        return [Piece(targets, piece.since, piece.until) for targets in parts]
    return []


def _minutes(seconds: int) -> int:
    return max(seconds // WINDOW_SECONDS, 1) * WINDOW_SECONDS
