"""What each fault does to the fleet when it begins, and how that is undone when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from demo import reply
from demo.capacity import at_full_batch, with_so_many
from demo.dcgm import Gpu
from demo.engine import Engine
from demo.faults import Fault
from demo.lengths import Lognormal
from demo.model import Request
from demo.observers import Silent
from demo.reply import Change
from demo.server import SimulatedServer
from demo.workload import Mix, Rate

if TYPE_CHECKING:
    from demo.fleet import Fleet, Service

Effect = Callable[["Fleet", Fault, float], None]
LONG = Mix("long", Lognormal(1200, 0.3, 400, 3000), Lognormal(1500, 0.4, 500, 3000))
_HELD = 1200 + 1500 / 2
"""Tokens that such a request holds in the mean."""
_RETRY_SECONDS = 1.0


class Pressure(Silent):
    """Keeps so many long requests under way at one engine, for as long as it is on."""

    def __init__(self, engine: Engine, at_once: int, fault: Fault, now: float) -> None:
        self.is_on = True
        self._engine = engine
        self._chance = Random(f"{fault.number} {fault.target}")
        self._numbers = range(-fault.number * 10**6, -(fault.number - 1) * 10**6)
        self._next = self._numbers.start
        engine.observe(self)
        for _ in range(at_once):
            self._ask(now)

    def finished(self, request: Request, now: float, /) -> None:
        if self.is_on and request.number in self._numbers:
            self._ask(now)

    def rejected(self, request: Request, now: float, /) -> None:
        self.finished(request, now + _RETRY_SECONDS)

    def _ask(self, at: float) -> None:
        self._engine.submit(LONG.request(self._next, at, self._chance))
        self._next += 1


def _nothing(_fleet: Fleet, _fault: Fault, _now: float) -> None: ...


def _restart(fleet: Fleet, fault: Fault, now: float) -> None:
    fleet.servers[fault.target].stop(now, now + fault.values["down"])


def _hang(fleet: Fleet, fault: Fault, now: float) -> None:
    fleet.servers[fault.target].hang(now, fault.ends)


def _wake(fleet: Fleet, fault: Fault, now: float) -> None:
    """Before its time only a restart helps, as it does in earnest."""
    server = fleet.servers[fault.target]
    if server.hangs_until > now:
        server.stop(now, now)


def _stop(fleet: Fleet, fault: Fault, now: float) -> None:
    fleet.servers[fault.target].stop(now)


def _start(fleet: Fleet, fault: Fault, now: float) -> None:
    fleet.servers[fault.target].start(now)


def _replies(change: Callable[[Fault], Change]) -> tuple[Effect, Effect]:
    def begin(fleet: Fleet, fault: Fault, _now: float) -> None:
        fleet.servers[fault.target].changes[fault.number] = change(fault)

    def end(fleet: Fleet, fault: Fault, _now: float) -> None:
        fleet.servers[fault.target].changes.pop(fault.number, None)

    return begin, end


def _rename(fleet: Fleet, fault: Fault, now: float, *, is_new: bool) -> None:
    """Names change with the process, as they do in an upgrade."""
    server = fleet.servers[fault.target]
    server.rename(is_new=is_new)
    server.stop(now, now + fault.values["down"])


def _freeze(fleet: Fleet, fault: Fault, _now: float, *, is_frozen: bool) -> None:
    fleet.servers[fault.target].freeze(is_frozen)


def _press(fleet: Fleet, fault: Fault, now: float) -> None:
    process = fleet.servers[fault.target].process
    engines = process.engines if process else ()
    at_once = [int(fault.values["pressure"] * engine.limits.kv_tokens / _HELD) for engine in engines]
    fleet.pressures[fault.number] = [Pressure(e, many, fault, now) for e, many in zip(engines, at_once, strict=True)]


def _release(fleet: Fleet, fault: Fault, _now: float) -> None:
    for pressure in fleet.pressures.pop(fault.number, ()):
        pressure.is_on = False


def _flood(fleet: Fleet, fault: Fault, _now: float) -> None:
    service = fleet.service_of(fault.target)
    if not _multiply(fleet, fault, service, 1 / len(service.servers)):
        capacity = at_full_batch(fleet.servers[fault.target].spec, service.mix)
        fleet.ask_more(fault, service, Rate(fault.values["load"] * capacity))


def _multiply(fleet: Fleet, fault: Fault, service: Service, share: float) -> bool:
    """So many times the usual requests, of which this share is the target's: whether that is what was wanted."""
    factor = fault.values.get("factor")
    if factor is not None and factor > 1:
        fleet.ask_more(fault, service, replace(service.rate, mean=service.rate.mean * (factor - 1) * share))
    return factor is not None


def _ask_less(fleet: Fleet, fault: Fault, _now: float) -> None:
    fleet.extra.pop(fault.number, None)


def _favour(fleet: Fleet, fault: Fault, _now: float) -> None:
    fleet.favoured[fault.target] = fault.values["share"]
    service = fleet.services[fault.target]
    if not _multiply(fleet, fault, service, 1) and fault.values["at_once"]:
        first = fleet.servers[service.servers[0]].spec
        fleet.ask_more(fault, service, Rate(with_so_many(first, service.mix, int(fault.values["at_once"]))))


def _even_out(fleet: Fleet, fault: Fault, now: float) -> None:
    fleet.favoured.pop(fault.target, None)
    _ask_less(fleet, fault, now)


def _fail(fleet: Fleet, fault: Fault, _now: float) -> None:
    fleet.servers[fault.target].fail(fault.values["share"])


def _succeed(fleet: Fleet, fault: Fault, _now: float) -> None:
    fleet.servers[fault.target].fail(0.0)


def _each(do: Callable[[SimulatedServer, float], None]) -> Effect:
    """Of the servers of a service."""

    def effect(fleet: Fleet, fault: Fault, now: float) -> None:
        service = fleet.services[fault.target]
        for name in filter(None, (*service.servers, service.decode)):
            do(fleet.servers[name], now)

    return effect


def _gpu(fleet: Fleet, fault: Fault) -> Gpu:
    node, _, number = fault.target.rpartition("/")
    return fleet.hosts[node].gpus[int(number)]


def _xid(fleet: Fleet, fault: Fault, now: float) -> None:
    _gpu(fleet, fault).report_xid(int(fault.values["code"]), now)


def _ecc(fleet: Fleet, fault: Fault, _now: float) -> None:
    _gpu(fleet, fault).ecc_uncorrected += int(fault.values["count"])


def _heat(fleet: Fleet, fault: Fault, _now: float, *, is_hot: bool) -> None:
    _gpu(fleet, fault).is_hot = is_hot
    for server in fleet.servers_on(fault.target):
        server.slow_down(fault.values["factor"] if is_hot else 1.0)


def _lose(fleet: Fleet, fault: Fault, now: float) -> None:
    _gpu(fleet, fault).is_lost = True
    for server in fleet.servers_on(fault.target):
        server.stop(now)


def _find(fleet: Fleet, fault: Fault, now: float) -> None:
    _gpu(fleet, fault).is_lost = False
    for server in fleet.servers_on(fault.target):
        server.start(now)


def _prefixes(fleet: Fleet, fault: Fault, _now: float, *, differ: bool) -> None:
    (fleet.prefixless.add if differ else fleet.prefixless.discard)(fault.target)


EFFECTS: Mapping[str, tuple[Effect, Effect]] = {
    "restart": (_restart, _nothing),
    "hang": (_hang, _wake),
    "silent": _replies(lambda _: reply.silent),
    "down": (_stop, _start),
    "slow_body": _replies(lambda fault: reply.slow(fault.values["body_seconds"])),
    "truncated_body": _replies(lambda fault: reply.truncated(fault.values["share"])),
    "renamed": (partial(_rename, is_new=True), partial(_rename, is_new=False)),
    "unauthorized": _replies(lambda _: reply.unauthorized),
    "empty": _replies(lambda _: reply.empty),
    "frozen_gauges": (partial(_freeze, is_frozen=True), partial(_freeze, is_frozen=False)),
    "kv_exhaustion": (_press, _release),
    "prefix_collapse": (partial(_prefixes, differ=True), partial(_prefixes, differ=False)),
    "overload": (_flood, _ask_less),
    "errors": (_fail, _succeed),
    "imbalance": (_favour, _even_out),
    "outage": (_each(SimulatedServer.stop), _each(SimulatedServer.start)),
    "xid": (_xid, _nothing),
    "ecc": (_ecc, _nothing),
    "thermal": (partial(_heat, is_hot=True), partial(_heat, is_hot=False)),
    "gpu_lost": (_lose, _find),
}
