"""What clients ask for, and when. The same seed asks the same, whatever the servers do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from demo.lengths import Fixed, Lengths, Lognormal
from demo.model import Request
from demo.observers import Silent

_DAY = 86_400.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Prefixes:
    """`count` beginnings of prompts that come again, the n-th as often as 1/n; each is `tokens` long."""

    name: str
    tokens: int
    count: int = 1

    def draw(self, chance: Random) -> str:
        if self.count == 1:
            return self.name
        n = chance.choices(range(self.count), [1 / (n + 1) for n in range(self.count)])[0]
        return f"{self.name}-{n}"


@dataclass(frozen=True, slots=True)
class Mix:
    """`prompt` is what follows the prefix. Shares are of all requests: `stops` ends before its limit of tokens."""

    name: str
    prompt: Lengths
    output: Lengths
    prefixes: Prefixes | None = None
    adapters: tuple[str, ...] = ()
    stops: float = 0.9
    leaves: float = 0.0

    def request(self, number: int, arrived: float, chance: Random) -> Request:
        prefix = self.prefixes
        shared = prefix.tokens if prefix else 0
        output = self.output.draw(chance)
        return Request(
            number=number,
            arrived=arrived,
            prompt_tokens=shared + self.prompt.draw(chance),
            output_tokens=output,
            prefix=prefix.draw(chance) if prefix else "",
            prefix_tokens=shared,
            adapter=chance.choice(self.adapters) if self.adapters else "",
            ends_by="stop" if chance.random() < self.stops else "length",
            leaves_after=chance.randrange(output) if chance.random() < self.leaves else None,
        )


CHAT = Mix("chat", Lognormal(180, 0.9, 8, 3000), Lognormal(220, 0.7, 4, 1500), Prefixes("system", 480), leaves=0.01)
RAG = Mix("rag", Lognormal(90, 0.6, 8, 600), Lognormal(160, 0.6, 8, 800), Prefixes("document", 2400, 40), leaves=0.005)
CODE = Mix("code", Lognormal(700, 0.8, 30, 5000), Lognormal(90, 1.0, 2, 1200), Prefixes("file", 640, 25), leaves=0.05)
BATCH = Mix("batch", Lognormal(900, 0.5, 100, 4000), Lognormal(400, 0.5, 50, 2000))
LORA = replace(CHAT, name="lora", adapters=("legal", "medical", "sales", "support"))
MIXES = {mix.name: mix for mix in (CHAT, RAG, CODE, BATCH, LORA)}


def benchmark(shared_tokens: int = 0) -> Mix:
    """512 tokens in, of which some may be shared by all, and 256 tokens out."""
    prefixes = Prefixes("benchmark", shared_tokens) if shared_tokens else None
    return Mix("benchmark", Fixed(512 - shared_tokens), Fixed(256), prefixes, stops=0.0)


@dataclass(frozen=True, slots=True)
class Burst:
    start: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second: `mean` over a day, by the share `swing` more at `peak_hour` (UTC) and less in the night."""

    mean: float
    swing: float = 0.0
    peak_hour: float = 14.0
    bursts: tuple[Burst, ...] = ()

    def at(self, now: float) -> float:
        rate = self.mean * (1 + self.swing * math.cos(2 * math.pi * (now / _DAY - self.peak_hour / 24)))
        for burst in self.bursts:
            if burst.start <= now < burst.start + burst.seconds:
                rate *= burst.factor
        return rate

    @property
    def most(self) -> float:
        return self.mean * (1 + self.swing) * math.prod(max(1.0, burst.factor) for burst in self.bursts)


def arrivals(rate: Rate, start: float, seed: int) -> Iterator[float]:
    """Of a Poisson process, without end: of candidates at the highest rate as many are kept as the rate wants."""
    chance, now, most = Random(f"arrivals {seed}"), start, rate.most
    while True:
        now += chance.expovariate(most)
        if chance.random() * most < rate.at(now):
            yield now


def open_loop(mix: Mix, rate: Rate, start: float, seed: int, first: int = 0) -> Iterator[Request]:
    """Requests in order of arrival, without end, numbered from `first` on."""
    chance = Random(f"{mix.name} {seed}")
    for number, arrived in enumerate(arrivals(rate, start, seed), first):
        yield mix.request(number, arrived, chance)


class ClosedLoop(Silent):
    """Keeps so many requests under way at one engine: it observes that, and asks anew when one of its own ends."""

    def __init__(self, mix: Mix, at_once: int, submit: Callable[[Request], None], seed: int, first: int = 0) -> None:
        self._mix = mix
        self._at_once = at_once
        self._submit = submit
        self._chance = Random(f"{mix.name} {seed}")
        self._next = first
        self._under_way: set[int] = set()

    def start(self, now: float, over: float = 0.0) -> None:
        """`over` so many seconds: those that begin together end together, and would go on in waves for minutes."""
        for n in range(self._at_once):
            self._ask(now + over * n / self._at_once)

    def finished(self, request: Request, now: float, /) -> None:
        self._answer(request, now)

    def rejected(self, request: Request, now: float, /) -> None:
        self._answer(request, now + _RETRY_SECONDS)

    def _answer(self, request: Request, at: float) -> None:
        if request.number in self._under_way:
            self._under_way.remove(request.number)
            self._ask(at)

    def _ask(self, at: float) -> None:
        self._under_way.add(self._next)
        self._submit(self._mix.request(self._next, at, self._chance))
        self._next += 1
