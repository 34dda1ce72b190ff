"""GPUs as a dcgm-exporter tells them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from exporters import tls
from exporters.exposition import InvalidExposition
from exporters.fetch import Failure, Transport, fetch, transport
from exporters.findings import Finding, finding
from exporters.gpu import dcgm_page
from exporters.gpu.dcgm_page import Page
from exporters.gpu.gathered import Gathered, GpuReading, observation_of
from exporters.gpu.mapping import ServerAddress, configured
from exporters.gpu.observation import GpuObservation
from exporters.gpu.xids import XidCounts

_log = logging.getLogger(__name__)

_MOST_BYTES = 4 * 2**20


class DcgmSource:
    """`url` is that of the page. `clock` tells unix seconds."""

    def __init__(
        self,
        node: str,
        url: str,
        *,
        configured: Mapping[str, Sequence[int | str]] | None = None,
        clock: Callable[[], float] = time.time,
        transport: Transport = transport,
    ) -> None:
        self._node = node
        self._url = url
        self._wanted = configured or {}
        self._clock = clock
        self._client = transport(tls.context() if url.startswith("https:") else tls.unused())
        self._xids = DcgmXids()
        self._known: dict[str, GpuReading] = {}
        self._said = ""

    async def collect(self, deadline: float, _servers: Sequence[ServerAddress] = ()) -> Gathered:
        """In time. Which process runs on a GPU is not on the page: servers come from the configuration alone."""
        began = asyncio.get_running_loop().time()
        body = await fetch(self._client, self._url, deadline=deadline, max_bytes=_MOST_BYTES)
        gathered = self._failed(f"{body.reason}: {body.detail}") if isinstance(body, Failure) else self._read(body.text)
        return replace(gathered, duration=asyncio.get_running_loop().time() - began)

    def without(self, why: Finding) -> Gathered:
        """What the page said before does not count any more: the GPUs that are known are down."""
        at = self._clock()
        down = (_down(gpu, why) for gpu in self._known.values())
        return Gathered(at, False, tuple(self._observed(gpu, at, ()) for gpu in down), (why,))

    async def aclose(self) -> None:
        await self._client.aclose()

    def _read(self, text: str) -> Gathered:
        try:
            page = dcgm_page.read(text)
        except InvalidExposition as error:
            return self._failed(f"invalid_exposition: {error}")
        if not page.gpus:
            return self._failed("no GPU is on the page")
        at = self._clock()
        self._xids.take(page, at)
        self._say("")
        here = {gpu.uuid: gpu for gpu in page.gpus}
        lost = [_down(gpu, finding("gpu_lost")) for uuid, gpu in self._known.items() if uuid not in here]
        known = self._known | {gpu.uuid: gpu for gpu in page.gpus if not gpu.parent}
        self._known = dict(list(known.items())[: dcgm_page.MOST_PLACES])
        units = [*page.gpus, *lost]
        named, unknown = configured(units, self._wanted)
        found = [finding("gpu_not_here", "; ".join(unknown))] if unknown else []
        return Gathered(
            at=at,
            available=True,
            gpus=tuple(self._observed(unit, at, named.get(unit.uuid, ())) for unit in units),
            findings=tuple(found),
            dropped=page.dropped,
        )

    def _failed(self, detail: str) -> Gathered:
        self._say(f"unavailable, {self._url}: {detail}")
        return self.without(finding("gpu_page_unreadable", detail))

    def _observed(self, unit: GpuReading, at: float, servers: Iterable[str]) -> GpuObservation:
        if not unit.parent:
            findings = (*unit.findings, *self._xids.counts.findings(unit.uuid, at))
            unit = replace(unit, xids=self._xids.counts.of(unit.uuid), findings=findings)
        return observation_of(self._node, at, unit, dict.fromkeys(sorted(servers), "config"))

    def _say(self, text: str) -> None:
        """Once, until something else is to be said."""
        if text and text != self._said:
            _log.info("gpu: %s", text)
        self._said = text


def _down(gpu: GpuReading, why: Finding) -> GpuReading:
    return replace(gpu, up=False, values={}, findings=(why,), fields=())


class DcgmXids:
    """XIDs as the page tells them: the last one for ever, and, where it is asked for, how many there were lately.

    The last one is an event when it changes, and only then: it stays for ever, and a repetition does not show.
    """

    def __init__(self) -> None:
        self.counts = XidCounts()
        self._last: dict[str, int] = {}
        self._lately: dict[str, Mapping[int, float]] = {}

    def take(self, page: Page, at: float) -> None:
        for uuid in page.last_xid.keys() | page.xid_counts.keys():
            self.counts.watch(uuid)
            for xid, times in self._events(uuid, page).items():
                self.counts.add(uuid, xid, at, times)
        self._last.update(page.last_xid)
        self._lately.update(page.xid_counts)

    def _events(self, uuid: str, page: Page) -> dict[int, int]:
        """None at first sight: what happened before is not ours to date."""
        now, before = page.xid_counts.get(uuid), self._lately.get(uuid)
        if now is not None:
            return {} if before is None else {xid: n for xid in now if (n := int(now[xid] - before.get(xid, 0))) > 0}
        last = page.last_xid[uuid]
        return {last: 1} if last and self._last.get(uuid, last) != last else {}
