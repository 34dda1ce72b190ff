"""The KV cache of one engine: blocks of running requests, and prefixes that are kept as long as there is room."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class Prefix:
    blocks: int
    users: int = 0


class Kv:
    """Counts blocks. Sequences that decode grow by one token each in every step: `grown` tells how many steps so far.

    Sequences are counted by the step, modulo the tokens of a block, at which they need their next block, so that the
    growth of all in any number of steps is known without looking at each.
    """

    def __init__(self, tokens: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.capacity = tokens // block_tokens
        self.own = 0
        self.grown = 0
        self._due = [0] * block_tokens
        self._prefixes: dict[str, Prefix] = {}
        self._idle: OrderedDict[str, Prefix] = OrderedDict()
        self._shared = 0
        self._cached = 0

    @property
    def held(self) -> int:
        """Blocks of running requests; shared ones count once."""
        return self.own + self._shared

    @property
    def cached(self) -> int:
        return self._cached

    @property
    def available(self) -> int:
        """Below zero if the capacity was lowered."""
        return self.capacity - self.held

    def resize(self, tokens: int) -> None:
        self.capacity = tokens // self.block_tokens
        self._make_room()

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def take(self, blocks: int) -> None:
        self.own += blocks
        self._make_room()

    def give(self, blocks: int) -> None:
        self.own -= blocks

    # Prefixes

    def found(self, key: str) -> int:
        """Blocks of this prefix that are here."""
        prefix = self._prefixes.get(key)
        return prefix.blocks if prefix else 0

    def idle(self, key: str) -> int:
        """Blocks of this prefix that nobody uses."""
        prefix = self._idle.get(key)
        return prefix.blocks if prefix else 0

    def use(self, key: str) -> None:
        prefix = self._prefixes[key]
        if not prefix.users:
            del self._idle[key]
            self._cached -= prefix.blocks
            self._shared += prefix.blocks
        prefix.users += 1

    def share(self, key: str, blocks: int) -> None:
        """Blocks that a request computed as its own are found by others from now on."""
        self._prefixes[key] = Prefix(blocks, 1)
        self.own -= blocks
        self._shared += blocks

    def leave(self, key: str) -> None:
        prefix = self._prefixes[key]
        prefix.users -= 1
        if not prefix.users:
            self._idle[key] = prefix
            self._shared -= prefix.blocks
            self._cached += prefix.blocks

    def _evict(self) -> None:
        key, prefix = self._idle.popitem(last=False)
        del self._prefixes[key]
        self._cached -= prefix.blocks

    def _make_room(self) -> None:
        while self._idle and self.held + self._cached > self.capacity:
            self._evict()

    # Growth

    def join(self, tokens: int) -> None:
        self._due[(self.grown - tokens) % self.block_tokens] += 1

    def part(self, tokens: int) -> None:
        self._due[(self.grown - tokens) % self.block_tokens] -= 1

    @property
    def due(self) -> int:
        """Blocks that the next step of all sequences needs."""
        return self._due[self.grown % self.block_tokens]

    def growth(self, steps: int, sequences: int) -> int:
        """Blocks that all sequences together need for so many steps more."""
        cycles, rest = divmod(steps, self.block_tokens)
        first = self.grown % self.block_tokens
        last = first + rest
        return cycles * sequences + sum(self._due[first:last]) + sum(self._due[: max(0, last - self.block_tokens)])

    def steps(self, most: int, sequences: int) -> int:
        """So many of `most` steps have room."""
        if self.growth(most, sequences) <= self.available:
            return most
        cycles, left = divmod(self.available, sequences)
        done = cycles * self.block_tokens
        while (due := self._due[(self.grown + done) % self.block_tokens]) <= left:
            left -= due
            done += 1
        return done

    def grow(self, steps: int, sequences: int) -> None:
        self.own += self.growth(steps, sequences)
        self.grown += steps
        self._make_room()
