"""The GPUs as they are now: the latest reading of every host, and one row of figures for each GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from pydantic import BaseModel

from alerts.conditions.hit import REMEMBERED_SECONDS
from exporters.gpu.gathered import Gathered
from exporters.gpu.observation import GpuObservation
from exporters.observation import Series
from monitor.readings import of_metric
from monitor.remarks import FieldOut, FindingOut

_DIGITS = re.compile("[0-9]{1,9}")
_FACTS = ("name", "driver", "mig_profile")


class GpuRow(BaseModel, frozen=True):
    """One GPU or MIG instance now. None is "not known", never zero.

    One that does not answer has no figures; name, driver and profile stay as last seen.
    """

    node: str
    uuid: str
    gpu: str
    """Its number on the node; `0:1` is an instance of GPU 0."""
    parent: str | None = None
    """uuid of the GPU that an instance is part of."""
    name: str | None = None
    driver: str | None = None
    mig_profile: str | None = None
    up: bool
    observed_at: float
    """Unix seconds of the last reading."""
    first_seen: float | None = None
    """Unix seconds: since when the history knows it; the API tells it."""
    last_seen: float | None = None
    """Unix seconds of its last answer."""
    servers: list[str] = []
    """Names of the servers of this node that run on it."""
    last_servers: list[str] = []
    """Those that were seen on it last, within a day before it was lost: then it shows no process."""
    utilization: float | None = None
    """Share of time in which any kernel ran: not idle, never how full."""
    sm_active: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    throttled: dict[str, float] | None = None
    """Share of the time since the reading before, by reason; those that did not throttle are left out."""
    ecc_corrected: float | None = None
    ecc_uncorrected: float | None = None
    """Since the driver was loaded."""
    xids: dict[str, float] | None = None
    """Events by number since the sidecar was started; those that never came are left out."""
    findings: list[FindingOut] = []
    fields: list[FieldOut] = []


class GpuHost(BaseModel, frozen=True):
    """What is said of a host's GPUs as a whole; where none can be read, the findings say why."""

    node: str
    available: bool
    observed_at: float
    findings: list[FindingOut] = []


@dataclass(slots=True)
class _Gpu:
    """What is remembered of one GPU."""

    latest: GpuObservation
    last_seen: float | None = None
    facts: dict[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    """The last that were seen on it."""
    served: float = 0.0
    """When they were."""
    throttled: dict[str, float] | None = None
    counted: tuple[float, dict[Series, float]] = (0.0, {})
    """When throttled seconds were read last, and how many."""

    def take(self, observation: GpuObservation) -> None:
        self.latest, self.throttled = observation, None
        if observation.servers:
            self.servers, self.served = observation.servers, observation.at
        elif observation.up and observation.at - self.served > REMEMBERED_SECONDS:
            self.servers = ()
        self.facts.update({name: text for name, text in observation.info.items() if name in _FACTS})
        if observation.up:
            self.last_seen = observation.at
            self.throttled = self._throttled(observation)

    def _throttled(self, observation: GpuObservation) -> dict[str, float] | None:
        (at, before), now = self.counted, dict(of_metric(observation.values, "gpu_throttled_seconds_total"))
        self.counted = observation.at, now
        known = now.keys() & before.keys()
        if not known:
            return None
        seconds = observation.at - at
        added = {s.label("reason"): now[s] - before[s] for s in sorted(known, key=lambda s: s.labels)}
        return {reason: min(more / seconds, 1.0) for reason, more in added.items() if more > 0}

    def row(self, silent: float | None) -> GpuRow:
        """`silent`: seconds since the last reading, where they are too many."""
        gpu, answers = self.latest, self.latest.up and silent is None
        row = GpuRow(
            node=gpu.node,
            uuid=gpu.uuid,
            gpu=gpu.gpu,
            parent=gpu.parent or None,
            up=answers,
            observed_at=gpu.at,
            last_seen=self.last_seen,
            servers=sorted(set(gpu.servers)),
            last_servers=sorted(set(self.servers)),
            findings=[*([] if silent is None else [_silent(silent)]), *map(FindingOut.of, gpu.findings)],
            fields=[FieldOut.of(f) for f in gpu.fields],
        )
        figures = {**_figures(gpu), "throttled": self.throttled} if answers else {}
        xids = _happened(gpu.values) if silent is None else None
        return row.model_copy(update={**self.facts, **figures, "xids": xids})


class GpuFleet:
    """Safe to ask from one thread while another updates it.

    GPUs of a host that was not read for `stale_after` seconds are not known to be up; after `forget_after` seconds
    they are left out.
    """

    def __init__(self, stale_after: float, forget_after: float) -> None:
        self._stale_after, self._forget_after = stale_after, forget_after
        self._hosts: dict[str, Gathered] = {}
        self._gpus: dict[tuple[str, str], _Gpu] = {}
        self._lock = Lock()

    def update(self, node: str, gathered: Gathered | None) -> None:
        """None where the host's GPUs are not read: nothing is known of them then.

        One that is not newer than the one known is ignored; a GPU that it does not tell of is not there any more.
        """
        with self._lock:
            known = self._hosts.get(node)
            if known is not None and gathered is not None and gathered.at <= known.at:
                return
            self._take(node, gathered)

    def rows(self, now: float) -> list[GpuRow]:
        """Sorted by node and number, instances behind their GPU; `now` is in unix seconds."""
        with self._lock:
            self._forget(now)
            gpus = sorted(self._gpus.items(), key=lambda item: (item[0][0], _number(item[1].latest.gpu), item[0][1]))
            return [gpu.row(self._silent(gpu.latest.at, now)) for _, gpu in gpus]

    def last_servers(self, node: str, uuid: str) -> set[str]:
        """Those that were seen last on a GPU or on its instances; none where the GPU is not known."""
        with self._lock:
            gpus = [gpu for (of, _), gpu in self._gpus.items() if of == node]
        return {name for gpu in gpus if uuid and uuid in (gpu.latest.uuid, gpu.latest.parent) for name in gpu.servers}

    def hosts(self, now: float) -> list[GpuHost]:
        """Those whose GPUs are read, or should be."""
        with self._lock:
            self._forget(now)
            return [
                GpuHost(
                    node=node,
                    available=told.available,
                    observed_at=told.at,
                    findings=[FindingOut.of(f) for f in told.findings],
                )
                for node, told in sorted(self._hosts.items())
            ]

    def _take(self, node: str, gathered: Gathered | None) -> None:
        if gathered is None:
            self._hosts.pop(node, None)
        else:
            self._hosts[node] = gathered
        seen = {} if gathered is None else {(node, gpu.uuid): gpu for gpu in gathered.gpus}
        self._gpus = {key: gpu for key, gpu in self._gpus.items() if key[0] != node or key in seen}
        for key, observation in seen.items():
            self._gpus.setdefault(key, _Gpu(observation)).take(observation)

    def _forget(self, now: float) -> None:
        for node in [n for n, told in self._hosts.items() if now - told.at > self._forget_after]:
            self._take(node, None)

    def _silent(self, at: float, now: float) -> float | None:
        return now - at if now - at > self._stale_after else None


def _figures(gpu: GpuObservation) -> dict[str, object]:
    return {
        "utilization": gpu.value("gpu_utilization_ratio"),
        "sm_active": gpu.value("gpu_sm_active_ratio"),
        "memory_used_bytes": gpu.value("gpu_memory_used_bytes"),
        "memory_total_bytes": gpu.value("gpu_memory_total_bytes"),
        "power_watts": gpu.value("gpu_power_watts"),
        "power_limit_watts": gpu.value("gpu_power_limit_watts"),
        "temperature_celsius": gpu.value("gpu_temperature_celsius", sensor="core"),
        "memory_temperature_celsius": gpu.value("gpu_temperature_celsius", sensor="memory"),
        "ecc_corrected": gpu.value("gpu_ecc_errors_total", kind="corrected"),
        "ecc_uncorrected": gpu.value("gpu_ecc_errors_total", kind="uncorrected"),
    }


def _happened(values: Mapping[Series, float]) -> dict[str, float] | None:
    """They are the sidecar's own counts, so they are known of a GPU that is lost too."""
    counts = {s.label("xid"): v for s, v in of_metric(values, "gpu_xid_errors_total")}
    return {xid: count for xid, count in counts.items() if count > 0} if counts else None


def _number(gpu: str) -> tuple[tuple[int, str], ...]:
    """10 comes after 9; what is no number comes last."""
    return tuple((int(part), "") if _DIGITS.fullmatch(part) else (2**31, part) for part in gpu.split(":"))


def _silent(seconds: float) -> FindingOut:
    return FindingOut(
        reason="no_observation",
        severity="error",
        message="Nothing was heard of this GPU lately.",
        remedy="Check the sidecar on its host.",
        detail=f"last reading {seconds:.0f} s ago",
    )
