"""XIDs as the driver tells them: waited for in a thread of its own, since they are told once."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from exporters.gpu.attempts import raise_for
from exporters.gpu.device import Device
from exporters.gpu.errors import Verdict, code_of
from exporters.gpu.xids import XidCounts, known

_log = logging.getLogger(__name__)

_WAIT_MILLISECONDS = 500
_JOIN_SECONDS = 2.0
_AFTER_AN_ERROR_SECONDS = 1.0
_TIMEOUT = 10


class Events:
    """From `start` to `stop`; what happened before is not told by the driver."""

    def __init__(self, nvml: Any, counts: XidCounts, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._counts = counts
        self._clock = clock
        self._set: Any = None
        self._uuids: dict[int, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-events", daemon=True)

    def start(self, devices: Iterable[Device]) -> None:
        """Watches those that have such events. Raises DriverGone."""
        try:
            self._set = self._nvml.nvmlEventSetCreate()
            for device in devices:
                self._register(device)
        except self._nvml.NVMLError as error:
            raise_for(error)
            _log.warning("gpu: no XID events: %s", code_of(error.value).meaning)
        if self._uuids:
            self._thread.start()

    def stop(self) -> bool:
        """False where the thread did not end: then NVML must be left as it is."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            return False
        if self._set is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._set)
            self._set = None
        return True

    def _register(self, device: Device) -> None:
        xid = self._nvml.nvmlEventTypeXidCriticalError
        try:
            if not self._nvml.nvmlDeviceGetSupportedEventTypes(device.handle) & xid:
                return
            self._nvml.nvmlDeviceRegisterEvents(device.handle, xid, self._set)
        except self._nvml.NVMLError as error:
            if code_of(error.value).verdict is Verdict.OVER:
                raise
            _log.warning("gpu: %s: no XID events: %s", device.facts.uuid, code_of(error.value).meaning)
            return
        self._uuids[_address(device.handle)] = device.facts.uuid
        self._counts.watch(device.facts.uuid)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._take(self._nvml.nvmlEventSetWait_v2(self._set, _WAIT_MILLISECONDS))
            except self._nvml.NVMLError as error:
                # A GPU that is lost fails each call at once.
                if error.value != _TIMEOUT:
                    self._stopping.wait(_AFTER_AN_ERROR_SECONDS)

    def _take(self, event: Any) -> None:
        if event.eventType != self._nvml.nvmlEventTypeXidCriticalError:
            return
        uuid, xid = self._uuid(event.device), int(event.eventData)
        _log.warning("gpu: %s: XID %s: %s", uuid, xid, known(xid).meaning)
        self._counts.add(uuid, xid, self._clock())

    def _uuid(self, handle: Any) -> str:
        """By its handle first: a GPU that falls off the bus does not tell its uuid any more."""
        found = self._uuids.get(_address(handle))
        return found if found is not None else str(self._nvml.nvmlDeviceGetUUID(handle))


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
