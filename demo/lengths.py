"""How many tokens a prompt or an answer has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Lengths(Protocol):
    def draw(self, chance: Random, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    tokens: int

    def draw(self, _chance: Random, /) -> int:
        return self.tokens


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Of the logarithm, `spread` is the standard deviation. What falls outside of the bounds is drawn again."""

    median: float
    spread: float
    least: int
    most: int

    def __post_init__(self) -> None:
        if not self.least <= self.median <= self.most:
            raise ValueError(f"the median {self.median} must lie between {self.least} and {self.most} tokens")

    def draw(self, chance: Random) -> int:
        while True:
            tokens = round(chance.lognormvariate(math.log(self.median), self.spread))
            if self.least <= tokens <= self.most:
                return tokens
