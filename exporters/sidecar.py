"""Runs all targets: side by side, each at most once at a time, and answers in time whatever some of them do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from exporters import allow, exposition, schema
from exporters.address import is_bare, masked, normalised
from exporters.collected import Collected
from exporters.config import Config, Server, host_and_port, warn_of_unread
from exporters.fetch import Transport, product_version, transport
from exporters.file_sd import TargetFiles
from exporters.gpu.gathered import Gathered
from exporters.gpu.host import HostGpus
from exporters.gpu.mapping import ServerAddress
from exporters.gpu.observation import GpuObservation
from exporters.observation import labels
from exporters.shared import SharedPlans
from exporters.target import Target
from exporters.turns import Turns

_log = logging.getLogger(__name__)

_MAX_COLLECTING = 256
"""Targets collected at a time: each holds a socket or two, and processes may open 1024 files by default."""
_MAX_PROBED = 128
_MARGIN_SECONDS = 0.05
"""Between a target's own deadline and the moment when it counts as late."""


class NotAllowed(Exception):
    """/probe was asked for a target that the configuration does not allow."""


class Sidecar:
    """`reload` and `collect` follow the configuration and its target files; targets that stay keep their state."""

    def __init__(
        self, config: Config, *, clock: Callable[[], float] = time.time, transport: Transport = transport
    ) -> None:
        self.config = config
        self._clock = clock
        self._transport = transport
        self._gate = asyncio.Semaphore(_MAX_COLLECTING)
        self._turns = Turns()
        self._plans = SharedPlans()
        self._targets: dict[str, Target] = {}
        self._probed: OrderedDict[str, Target] = OrderedDict()
        self._files = TargetFiles(config.file_sd)
        self._clashes: list[str] = []
        self._repeated: list[str] = []
        self._told: dict[str, int] = {}
        self._reloaded = True
        self._reloaded_at = clock()
        self._closing: set[asyncio.Task[None]] = set()
        self._gpus = self._host_gpus()
        warn_of_unread(config)
        self._follow()

    def targets(self) -> list[Target]:
        """In the order of the configuration, those of target files behind."""
        if self._files.refresh():
            self._follow()
        return list(self._targets.values())

    @property
    def problems(self) -> list[str]:
        """What is wrong with target files now."""
        return [*self._files.problems, *self._clashes]

    async def collect(self, timeout: float | None = None) -> list[Collected]:
        """One result for each target within `timeout` seconds; a collection that is running already is joined."""
        targets = self.targets()
        if timeout is None:
            timeout = max((t.timeout for t in targets), default=self.config.scrape.timeout)
        if self._gpus is None:
            return await self._collect(targets, timeout)
        addresses = [ServerAddress.of(t.server.name, t.server.url) for t in targets]
        collected, _ = await asyncio.gather(self._collect(targets, timeout), self._gpus.collect(timeout, addresses))
        return collected

    def gpus(self) -> list[GpuObservation]:
        """The GPUs of this host, as of the last collection."""
        gathered = self.gpu_readings
        return [] if gathered is None else list(gathered.gpus)

    @property
    def gpu_readings(self) -> Gathered | None:
        """The GPUs and what is said of all of them. None where they are not read, or were not yet."""
        return None if self._gpus is None else self._gpus.last

    async def probe(self, url: str, timeout: float | None = None) -> Collected:
        """A server that is configured, or allowed by `probe.allow`. Raises NotAllowed, saying why."""
        target = self._known(url) or self._probe_target(url)
        return (await self._collect([target], target.timeout if timeout is None else timeout))[0]

    def page(self, collected: Iterable[Collected], *, own: bool = True) -> str:
        """The exposition; `own` adds what the sidecar says of itself and of its host."""
        return exposition.page([*(c.chunks for c in collected), *(self.own_chunks() if own else ())])

    def own_chunks(self) -> list[Mapping[str, str]]:
        """Sample lines by metric: of the GPUs, as of the last collection, and of itself."""
        return [{} if self._gpus is None else self._gpus.chunks(), self._own()]

    def reload(self, config: Config) -> None:
        self.config = config
        # The same object: a file that is broken just now keeps its last good targets.
        self._files.patterns = config.file_sd
        self._reloaded, self._reloaded_at = True, self._clock()
        self._close(self._probed.values())
        self._probed.clear()
        if self._gpus is None or not self._gpus.is_for(config.gpus, config.node):
            self._close([self._gpus] if self._gpus else [])
            self._gpus = self._host_gpus()
        self._follow()

    def reload_failed(self) -> None:
        """The configuration in force stays."""
        self._reloaded = False

    async def aclose(self) -> None:
        self._close([*self._targets.values(), *self._probed.values(), *([self._gpus] if self._gpus else [])])
        self._targets, self._probed, self._gpus = {}, OrderedDict(), None
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _collect(self, targets: list[Target], timeout: float) -> list[Collected]:
        deadline = asyncio.get_running_loop().time() + max(timeout - _MARGIN_SECONDS, timeout / 2)
        tasks = [t.collecting(deadline, self._gate) for t in targets]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        return [_result(target, task) for target, task in zip(targets, tasks, strict=True)]

    def _follow(self) -> None:
        """Targets as the configuration and its files name them now; those that did not change are kept."""
        self._files.refresh()
        servers = self._servers()
        before, self._targets = self._targets, {}
        for name, server in servers.items():
            known = before.get(name)
            self._targets[name] = known if known is not None and self._is_same(known, server) else self._target(server)
        self._close(t for name, t in before.items() if self._targets.get(name) is not t)
        self._tell()

    def _servers(self) -> dict[str, Server]:
        servers = {s.name: s for s in self.config.servers}
        pages = {s.page for s in self.config.servers}
        self._clashes, self._repeated = [], []
        for server in self._files.servers:
            if server.page in pages:
                self._repeated.append(f"file_sd: {server.url} is named more than once: the first counts")
            elif server.name in servers:
                other = servers[server.name].url
                self._clashes.append(f"file_sd: {server.url} is left out: {other} has its name, {server.name!r}")
            else:
                servers[server.name] = server
                pages.add(server.page)
        return servers

    def _tell(self) -> None:
        """Each message once, for as long as it holds."""
        before = self._told
        self._told = dict.fromkeys(self._repeated, logging.INFO) | dict.fromkeys(self.problems, logging.WARNING)
        for message, level in self._told.items():
            if message not in before:
                _log.log(level, "%s", message)

    def _is_same(self, target: Target, server: Server) -> bool:
        return target.is_for(server, self.config.node, self.config.scrape.timeout, self.config.model_aliases)

    def _target(self, server: Server, *, destructive: bool = True) -> Target:
        return Target(
            server,
            node=self.config.node,
            timeout=self.config.scrape.timeout,
            model_aliases=self.config.model_aliases,
            clock=self._clock,
            destructive=destructive,
            transport=self._transport,
            turns=self._turns,
            plans=self._plans,
        )

    def _known(self, url: str) -> Target | None:
        try:
            wanted = normalised(url).removesuffix("/metrics") if is_bare(url) else None
        except ValueError:
            wanted = None
        return next((t for t in self.targets() if url == t.server.name or t.server.url == wanted), None)

    def _probe_target(self, url: str) -> Target:
        try:
            server = Server.model_validate({"url": url, "name": host_and_port(url)})
        except ValueError:
            raise NotAllowed(f"{masked(url)!r}: allowed: http or https URL, such as http://localhost:8000") from None
        if not allow.permitted(self.config.probe.allow, url, host_and_port(url)):
            raise NotAllowed(
                f"{masked(url)!r} is neither a configured server nor allowed by `probe.allow` in the configuration"
            )
        if server.metrics_path == "/metrics":
            # Written out or not, it is the same target.
            server = server.model_copy(update={"metrics_path": None})
        key = server.url + (server.metrics_path or "")
        if key not in self._probed:
            self._probed[key] = self._target(server, destructive=False)
        self._probed.move_to_end(key)
        if len(self._probed) > _MAX_PROBED:
            self._close([self._probed.popitem(last=False)[1]])
        return self._probed[key]

    def _host_gpus(self) -> HostGpus | None:
        config = self.config
        if config.gpus.source == "off":
            return None
        return HostGpus(config.gpus, config.node, clock=self._clock, transport=self._transport)

    def _close(self, ended: Iterable[Target | HostGpus]) -> None:
        for each in ended:
            task = asyncio.create_task(each.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _own(self) -> dict[str, str]:
        node = labels({"node": self.config.node})
        build = labels({"node": self.config.node, "version": product_version(), "grid": str(schema.GRID_VERSION)})
        good = self._reloaded and not self._files.problems
        values = (
            ("inferwatch_build_info", build, 1.0),
            ("inferwatch_config_last_reload_successful", node, float(good)),
            ("inferwatch_config_last_reload_success_timestamp_seconds", node, self._reloaded_at),
        )
        return {metric: exposition.line(metric, own, value) for metric, own, value in values}


def _result(target: Target, task: asyncio.Task[Collected]) -> Collected:
    if not task.done() or task.cancelled():
        return target.late()
    return task.result()
