"""What can go wrong in the simulated fleet: which faults there are, and what may be said of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from reprlib import Repr
from typing import Literal

Place = Literal["server", "service", "replicas", "gpu"]
"""A server by its name, all servers behind one address by the service's, which are replicas where there are several of
them, a GPU as NODE/NUMBER."""

LONGEST_SECONDS = 86_400.0


class _Shown(Repr):
    """What stands in an order, on one line of a message: an alias of YAML can mean gigabytes, and a number more digits
    than Python writes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _MOST_SHOWN
        self.maxlevel = 2

    def repr_int(self, number: int, level: int) -> str:
        bits = number.bit_length()
        return super().repr_int(number, level) if bits <= _MOST_BITS else f"a number of {bits} bits"


_MOST_SHOWN = 80
_MOST_BITS = 2000
_shown = _Shown().repr


class FaultError(ValueError):
    """An order that cannot be carried out: which part of it, what stands there, and what is allowed."""

    def __init__(self, part: str, found: object, allowed: str) -> None:
        super().__init__(f"{part}: {_shown(found)}: allowed: {allowed}")
        self.part, self.found, self.allowed = part, found, allowed


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    meaning: str
    default: float | None
    least: float
    most: float
    is_whole: bool = False

    @property
    def allowed(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.least:g} to {self.most:g}"

    def read(self, given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not self._takes(given):
            raise FaultError(self.name, given, self.allowed)
        return float(given)

    def _takes(self, number: float) -> bool:
        return self.least <= number <= self.most and not (self.is_whole and number % 1)


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    on: Place
    meaning: str
    parameters: tuple[Parameter, ...] = ()
    seconds: float = 900.0
    """How long it takes unless it is said: long enough for its alert."""


_DOWN = Parameter("down", "seconds until it answers again", 45, 0, 3600)
_TIMES = "times the usual"
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("restart", "server", "the process ends, and a new one starts", (_DOWN,), 1),
        Kind("hang", "server", "the engine stands still while the server answers"),
        Kind("silent", "server", "connections are accepted and never answered"),
        Kind("down", "server", "nothing listens; all requests are lost"),
        Kind("slow_body", "server", "pages come in parts",
             (Parameter("body_seconds", "until the last part is there", 5, 0.1, 120),)),
        Kind("truncated_body", "server", "the connection breaks within the page",
             (Parameter("share", "of the page that comes", 0.6, 0.0, 0.99),)),
        Kind("renamed", "server", "as after an upgrade: some metrics have other names", (_DOWN,), 1500),
        Kind("unauthorized", "server", "401 to everybody"),
        Kind("empty", "server", "an empty page"),
        Kind("frozen_gauges", "server", "gauges keep the values that they have; counters go on"),
        Kind("kv_exhaustion", "server", "long requests until the KV cache is full and running ones are preempted",
             (Parameter("pressure", "tokens wanted, as a multiple of the cache", 1.6, 1.0, 5.0),), 1800),
        Kind("prefix_collapse", "server", "every prompt begins differently: nothing is found in the prefix cache",
             seconds=1800),
        Kind("overload", "server", "more requests than it can work off; those beyond its queue are rejected",
             (Parameter("load", "further requests, as a multiple of what it can work off", 1.5, 0.1, 20),
              Parameter("factor", f"in place of load: {_TIMES} requests", None, 1.1, 200))),
        Kind("errors", "server", "requests fail", (Parameter("share", "of the requests", 1.0, 0.01, 1.0),), 1800),
        Kind("imbalance", "replicas", "the first server is sent most of the requests",
             (Parameter("share", "of the requests", 0.97, 0.5, 1.0),
              Parameter("at_once", "so many further requests run at the same time, if its batch is that large",
                        40, 0, 1000, is_whole=True),
              Parameter("factor", f"in place of at_once: {_TIMES} requests", None, 1, 200)), 1800),
        Kind("outage", "service", "all of its servers are down"),
        Kind("xid", "gpu", "the driver reports an error once",
             (Parameter("code", "the XID", 79, 1, 999, is_whole=True),), 1),
        Kind("ecc", "gpu", "uncorrected memory errors",
             (Parameter("count", "how many", 2, 1, 1000, is_whole=True),), 1),
        Kind("thermal", "gpu", "too hot: its clocks are held down",
             (Parameter("factor", f"{_TIMES} time that a step takes", 1.6, 1.0, 10.0),)),
        Kind("gpu_lost", "gpu", "the GPU fell off the bus; the server on it is down"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """`number` tells it from others; moments are unix seconds."""

    number: int
    kind: str
    target: str
    begins: float
    ends: float
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """A fault that is wanted: `after` so many seconds."""

    kind: str
    target: str
    seconds: float
    after: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


_SECONDS = Parameter("seconds", "how long", 0, 1, LONGEST_SECONDS)
_AFTER = Parameter("after", "from now", 0, 0, LONGEST_SECONDS)


def read_all(given: object, places: Mapping[Place, Sequence[str]]) -> list[Order]:
    """One order or a list of them, as they come in JSON; `places` are the targets that there are. Raises FaultError."""
    if not isinstance(given, list):
        return [read(given, places)]
    return [_read_one(place, each, places) for place, each in enumerate(given)]


def _read_one(place: int, given: object, places: Mapping[Place, Sequence[str]]) -> Order:
    try:
        return read(given, places)
    except FaultError as error:
        raise FaultError(f"[{place}].{error.part}", error.found, error.allowed) from None


def read(given: object, places: Mapping[Place, Sequence[str]]) -> Order:
    """Raises FaultError."""
    if not isinstance(given, dict):
        raise FaultError("order", given, "an object with `kind` and `target`")
    kind = KINDS[one_of("kind", given.get("kind"), list(KINDS))]
    target = one_of("target", given.get("target"), places[kind.on])
    known = {p.name: p for p in kind.parameters}
    for name in given:
        if name not in {"kind", "target", "seconds", "after", *known}:
            raise FaultError("part", name, ", ".join(["kind", "target", "seconds", "after", *known]))
    seconds = _SECONDS.read(given.get("seconds", kind.seconds))
    said = {p.name: given.get(p.name, p.default) for p in kind.parameters if p.name in given or p.default is not None}
    values = {name: known[name].read(value) for name, value in said.items()}
    return Order(kind.name, target, seconds, _AFTER.read(given.get("after", 0)), values)


def one_of(part: str, found: object, known: Sequence[str]) -> str:
    """Raises FaultError."""
    if isinstance(found, str) and found in known:
        return found
    near = get_close_matches(found, known, 1) if isinstance(found, str) and len(found) <= _MOST_SHOWN else []
    raise FaultError(part, found, ", ".join(known) + (f"; did you mean {near[0]}?" if near else ""))
