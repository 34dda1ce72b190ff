"""Simulated servers on simulated hosts, the requests that they are sent, and what goes wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from demo import faults
from demo.dcgm import DcgmExporter, Load
from demo.draws import uniform
from demo.effects import EFFECTS, Pressure
from demo.faults import Fault, Place
from demo.model import Request
from demo.reply import Reply
from demo.schedule import Schedule
from demo.server import SimulatedServer, Spec
from demo.truth import Truth
from demo.workload import Mix, Rate, open_loop

_APART = 10**9
"""Between the numbers of two services' requests; 10**6 between those of two faults."""
_ROUTING = 7
_TRANSFER_SECONDS, _TRANSFER_TOKEN = 0.005, 2e-6
"""That the KV cache of a prompt is under way to a decode server, and more for each of its tokens."""
_FORGET_EVERY = 600.0
_FREE_MIB = 4


@dataclass(frozen=True, slots=True)
class Service:
    """One address in front of some servers, which take turns. Of a prefill server the one for decoding is named."""

    name: str
    servers: tuple[str, ...]
    mix: Mix
    rate: Rate
    decode: str = ""


@dataclass(slots=True, eq=False)
class Prefill(Request):
    """The part of a request that is done by a prefill server."""

    whole: Request | None = None

    @classmethod
    def of(cls, request: Request) -> Prefill:
        return cls(
            request.number, request.arrived, request.prompt_tokens, 1, request.prefix, request.prefix_tokens,
            request.adapter, whole=request,
        )  # fmt: skip


class Stream:
    """Requests in order of arrival, for one server, or for all of a service."""

    def __init__(self, requests: Iterator[Request], service: Service, server: str = "") -> None:
        self.service = service
        self.server = server
        self._requests = requests
        self._next = next(requests)

    def until(self, now: float) -> Iterator[Request]:
        while self._next.arrived <= now:
            yield self._next
            self._next = next(self._requests)


class Fleet:
    """`now` is the moment up to which everything has happened. `kept` is for how many seconds the truth is remembered,
    without: for ever."""

    def __init__(
        self,
        specs: Iterable[Spec],
        services: Iterable[Service],
        gpus: Mapping[str, int],
        *,
        seed: int,
        start: float,
        kept: float | None = None,
    ) -> None:
        """`gpus` by node. A decode server comes after its prefill server."""
        self.now = start
        self.known_since = start
        """What happened after that moment is in the truth."""
        self.truth = Truth()
        self.schedule = Schedule()
        self.servers = {
            spec.name: SimulatedServer(spec, self.truth, seed * 100 + n, start) for n, spec in enumerate(specs)
        }
        self.services = {service.name: service for service in services}
        self.hosts = {node: self._host(node, count, start) for node, count in gpus.items()}
        self.extra: dict[int, Stream] = {}
        """What faults ask for beside the usual, by their number."""
        self.pressures: dict[int, Sequence[Pressure]] = {}
        self.prefixless: set[str] = set()
        self.favoured: dict[str, float] = {}
        """The share of a service's requests that its first server is sent."""
        self._seed = seed
        self._kept = kept
        self._turns = dict.fromkeys(self.services, 0)
        self._loads: dict[str, tuple[float, Load]] = {}
        self._streams = [self._usual(n, service) for n, service in enumerate(self.services.values())]
        self._decoders = {s.servers[0]: self.servers[s.decode] for s in self.services.values() if s.decode}
        for name in self._decoders:
            self.servers[name].on_finish = partial(self._hand_over, self._decoders[name])

    # What is asked of it

    def advance(self, now: float) -> None:
        """Everything up to and including that moment; nothing for the past."""
        while (edge := self.schedule.next(now)) is not None:
            self._run(edge.at)
            begin, end = EFFECTS[edge.fault.kind]
            (begin if edge.what == "begins" else end)(self, edge.fault, self.now)
            self.schedule.passed(edge)
        self._run(now)

    def answer(self, server: str, path: str, now: float) -> Reply:
        self.advance(now)
        return self.servers[server].answer(path, self.now)

    def gpu_page(self, node: str, path: str, now: float) -> Reply:
        self.advance(now)
        return Reply(self.hosts[node].answer(path, self.now))

    def order(self, given: object, now: float, since: float | None = None) -> Sequence[Fault]:
        """Faults as JSON has them, one or a list; `since` is from when on `after` counts, if not from now on.

        Raises FaultError, naming which part is wrong.
        """
        self.advance(now)
        return self.schedule.add(faults.read_all(given, self.places()), self.now if since is None else since)

    def places(self) -> Mapping[Place, Sequence[str]]:
        gpus = [f"{node}/{gpu.number}" for node, host in self.hosts.items() for gpu in host.gpus]
        replicas = [service.name for service in self.services.values() if len(service.servers) > 1]
        return {"server": list(self.servers), "service": list(self.services), "replicas": replicas, "gpu": gpus}

    # What faults do to it

    def service_of(self, server: str) -> Service:
        return next(s for s in self.services.values() if server in s.servers or server == s.decode)

    def servers_on(self, gpu: str) -> list[SimulatedServer]:
        """Of a GPU, written as NODE/NUMBER."""
        node, _, number = gpu.rpartition("/")
        return [s for s in self.servers.values() if s.spec.node == node and int(number) in s.spec.gpus]

    def ask_more(self, fault: Fault, service: Service, rate: Rate) -> None:
        """Until it is taken out of `extra`."""
        first = (len(self.services) + 1) * _APART + fault.number * 10**6
        requests = open_loop(service.mix, rate, self.now, self._seed * 1000 + fault.number, first)
        self.extra[fault.number] = Stream(requests, service, "" if fault.target == service.name else fault.target)

    # How time passes

    def _run(self, until: float) -> None:
        if until <= self.now:
            return
        for stream in (*self._streams, *self.extra.values()):
            for request in stream.until(until):
                self._route(stream, request)
        for server in self.servers.values():
            server.advance(until)
        self.now = until
        if self._kept is not None and until - self._kept - self.known_since > _FORGET_EVERY:
            self.known_since = until - self._kept
            self.truth.forget(self.known_since)

    def _route(self, stream: Stream, request: Request) -> None:
        server = self.servers[stream.server or self._turn(stream.service, request)]
        if server.spec.name in self.prefixless:
            request.prefix = ""
        server.submit(Prefill.of(request) if server.spec.name in self._decoders else request)

    def _hand_over(self, decoder: SimulatedServer, request: Request, now: float) -> None:
        """What a prefill server has done goes on elsewhere."""
        if isinstance(request, Prefill) and request.whole is not None and request.reason == "length":
            travel = _TRANSFER_SECONDS + _TRANSFER_TOKEN * request.prompt_tokens
            decoder.submit(replace(request.whole, is_prefilled=True), now + travel)

    def _turn(self, service: Service, request: Request) -> str:
        servers = service.servers
        share = self.favoured.get(service.name)
        if share is not None:
            if uniform(self._seed, request.number, _ROUTING) < share or len(servers) == 1:
                return servers[0]
            servers = servers[1:]
        self._turns[service.name] += 1
        return servers[self._turns[service.name] % len(servers)]

    def _usual(self, number: int, service: Service) -> Stream:
        requests = open_loop(service.mix, service.rate, self.now, self._seed * 1000 + number, number * _APART)
        return Stream(requests, service)

    def _host(self, node: str, count: int, start: float) -> DcgmExporter:
        specs = [server.spec for server in self.servers.values() if server.spec.node == node]
        used = {number: spec.used_mib for spec in specs for number in spec.gpus}
        mib = [used.get(number, _FREE_MIB) for number in range(count)]
        return DcgmExporter(node, mib, lambda gpu, now: self._load(f"{node}/{gpu}", now), start)

    def _load(self, gpu: str, now: float) -> Load:
        """All GPUs of a server do the same; it is asked once for all of them."""
        for server in self.servers_on(gpu):
            name = server.spec.name
            if self._loads.get(name, (None,))[0] != now:
                self._loads[name] = now, server.load(now)
            return self._loads[name][1]
        return Load(0.0, 0.0)
