"""GPUs of this host through NVML. Readings run beside the event loop, each GPU by itself: one that hangs, fails or is
lost never holds up the others, nor anybody who waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporters.findings import Finding, finding
from exporters.gpu import session
from exporters.gpu.away import Away, away
from exporters.gpu.device import Device, DeviceReading, Facts
from exporters.gpu.errors import DriverGone, GpuLost
from exporters.gpu.gathered import Gathered, GpuReading, observation_of
from exporters.gpu.lane import Lane
from exporters.gpu.mapping import ServerAddress
from exporters.gpu.servers import Servers
from exporters.gpu.xids import XidCounts

_log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
"""Between two starts of NVML, where it did not start or a GPU is lost; twice as long after each that did not help."""
MOST_RETRY_SECONDS = 600.0

_CLOSE_SECONDS = 1.0

_Part = tuple[tuple[GpuReading, ...], Counter[str]]


class NvmlSource:
    """`required`: whether a host without a driver is worth more than a remark. `clock` tells unix seconds."""

    def __init__(
        self,
        node: str,
        *,
        required: bool = False,
        configured: Mapping[str, Sequence[int | str]] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        proc: Path = Path("/proc"),
    ) -> None:
        self._node = node
        self._required = required
        self._clock = clock
        self._monotonic = monotonic
        self._counts = XidCounts()
        self._session: session.Session | None = None
        self._gone: DriverGone | None = None
        self._due = monotonic()
        self._retry = RETRY_SECONDS
        self._starting: Lane[None] = Lane("gpu-start")
        self._lanes: dict[str, Lane[DeviceReading]] = {}
        self._known: dict[str, Facts] = {}
        self._lost: set[str] = set()
        self._servers = Servers(configured or {}, monotonic, proc)
        self._said = ""

    async def collect(self, deadline: float, servers: Sequence[ServerAddress]) -> Gathered:
        """In time, whatever the driver does. Never two at a time."""
        began = self._monotonic()
        try:
            await self._follow(deadline)
        except TimeoutError:
            return self.without(finding("gpu_timeout", "NVML is still starting"))
        if self._session is None or self._gone is not None:
            return self.without(self._why_not())
        devices, gone = self._session.devices, self._away(self._session)
        parts = await asyncio.gather(*(self._read(device, deadline) for device in devices.values()))
        if self._gone is not None:
            self._say()
            return self.without(self._why_not())
        units = [unit for part, _ in parts for unit in part]
        units += [self._down(self._known[uuid], why) for uuid, why in gone.known.items()]
        on, unknown = await self._servers.on(units, servers, deadline)
        at = self._clock()
        return Gathered(
            at=at,
            available=True,
            gpus=tuple(observation_of(self._node, at, self._with_xids(unit, at), on[unit.uuid]) for unit in units),
            findings=(*gone.unknown, *unknown, *([] if units else [finding("gpu_none")])),
            failed=sum((failed for _, failed in parts), Counter[str]()),
            duration=self._monotonic() - began,
        )

    def without(self, why: Finding) -> Gathered:
        """Nothing can be asked: the GPUs that are known are down."""
        at = self._clock()
        down = (self._with_xids(self._down(facts, why), at) for facts in self._known.values())
        return Gathered(at, False, tuple(observation_of(self._node, at, unit, {}) for unit in down), (why,))

    async def aclose(self) -> None:
        """A call that hangs is left behind."""
        deadline = asyncio.get_running_loop().time() + _CLOSE_SECONDS
        lanes: list[Lane[Any]] = [self._starting, *self._lanes.values()]
        await asyncio.gather(*(lane.settle(deadline) for lane in lanes))
        if self._session is None:
            return
        current, self._session = self._session, None

        def close() -> None:
            current.close()

        try:
            if self._is_reading():
                raise TimeoutError
            await self._starting.run(close, deadline + _CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("gpu: a call of the driver hangs and is left behind")

    async def _follow(self, deadline: float) -> None:
        """Starts NVML where it does not run, and again where a GPU is lost or the driver was gone."""
        if not self._starting.is_busy:
            if self._is_whole():
                self._retry = RETRY_SECONDS
                return
            if self._monotonic() < self._due or self._is_reading():
                return
            self._due = self._monotonic() + self._retry
            self._retry = min(2 * self._retry, MOST_RETRY_SECONDS)
        await self._starting.run(self._start, deadline)
        self._say()

    def _is_whole(self) -> bool:
        if self._session is None or self._gone is not None or self._lost:
            return False
        return not self._away(self._session).may_come_back

    def _away(self, current: session.Session) -> Away:
        here = [device.facts for device in current.devices.values()]
        return away(self._known.values(), here, current.unopened)

    def _is_reading(self) -> bool:
        """NVML must not be shut down under a call."""
        return self._starting.is_busy or any(lane.is_busy for lane in self._lanes.values())

    def _start(self) -> None:
        if self._session is not None and not self._session.close():
            return
        well = self._session.devices.keys() - self._lost if self._session is not None else set()
        self._session, self._gone = None, None
        try:
            self._session = session.start(self._counts, clock=self._clock, monotonic=self._monotonic)
        except DriverGone as gone:
            self._gone = gone
            return
        except Exception as error:
            _log.exception("gpu: NVML could not be started")
            self._gone = DriverGone("internal_error", type(error).__name__)
            return
        for uuid in self._known.keys() & self._session.devices.keys() - well:
            _log.info("gpu: %s is back", uuid)
        self._lost = set()
        named = {u.uuid: Facts(u.uuid, str(u.index), {}) for u in self._session.unopened if u.uuid}
        # A new one: it may be gone through at this moment by somebody who did not wait.
        self._known = named | self._known | {uuid: device.facts for uuid, device in self._session.devices.items()}

    async def _read(self, device: Device, deadline: float) -> _Part:
        facts = device.facts
        if facts.uuid in self._lost:
            return (self._down(facts, finding("gpu_lost")),), Counter()
        lane = self._lanes.setdefault(facts.uuid, Lane(f"gpu-{facts.index}"))
        try:
            read = await lane.run(device.read, deadline)
        except TimeoutError:
            return (self._down(facts, finding("gpu_timeout", "a call of the driver hangs")),), Counter(["hangs"])
        except GpuLost:
            _log.warning("gpu: %s (GPU %s) is lost", facts.uuid, facts.index)
            self._lost.add(facts.uuid)
            return (self._down(facts, finding("gpu_lost")),), Counter(["gpu_is_lost"])
        except DriverGone as gone:
            self._gone = gone
            return (), Counter()
        except Exception as error:
            _log.exception("gpu: %s could not be read", facts.uuid)
            return (self._down(facts, finding("internal_error", type(error).__name__)),), Counter(["other"])
        return read.units, read.failed

    def _down(self, facts: Facts, why: Finding) -> GpuReading:
        return GpuReading(facts.uuid, facts.index, up=False, info=facts.info, findings=(why,))

    def _with_xids(self, unit: GpuReading, at: float) -> GpuReading:
        """Ours, so they are told of a GPU that is lost too: its last XID says why."""
        if unit.parent:
            return unit
        findings = (*unit.findings, *self._counts.findings(unit.uuid, at))
        return replace(unit, xids=self._counts.of(unit.uuid), findings=findings)

    def _why_not(self) -> Finding:
        if self._gone is None:
            return finding("gpu_timeout", "NVML could not be started again: a call of the driver hangs")
        absent = self._gone.reason == "gpu_no_library"
        return finding("gpu_none" if absent and not self._required else self._gone.reason, self._gone.detail)

    def _say(self) -> None:
        """Once, until something else is to be said."""
        if self._session is None or self._gone is not None:
            why = self._why_not()
            text = f"unavailable, {why.detail or why.message}"
        else:
            text = ", ".join(f"GPU {f.index} is {f.info.get('name', '?')} {f.uuid}" for f in self._known.values())
        if text and text != self._said:
            self._said = text
            _log.info("gpu: %s", text)
