"""One GPU at one moment, in the schema: the hand-over between sidecar, sources and history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporters.findings import Finding
from exporters.observation import FieldStatus, Series


@dataclass(frozen=True, slots=True)
class GpuObservation:
    """A GPU or MIG instance. One that is lost, or does not answer, has `up` False and no readings: never cached ones.

    `values` holds all of its series, `gpu_up` and the `…_info` series included.
    """

    node: str
    uuid: str
    gpu: str
    """Its number on the node; `0:1` is an instance of GPU 0."""
    at: float
    """Unix seconds."""
    up: bool
    values: Mapping[Series, float] = field(default_factory=dict)
    parent: str = ""
    """uuid of the GPU that an instance is part of."""
    findings: tuple[Finding, ...] = ()
    fields: tuple[FieldStatus, ...] = ()
    """Where each reading comes from, and why it is missing if it is. Not known of another process's GPUs."""

    def value(self, metric: str, **labels: str) -> float | None:
        """Of the first series of the metric with these labels."""
        return next(
            (v for s, v in self.values.items() if s.metric == metric and labels.items() <= dict(s.labels).items()), None
        )

    @property
    def info(self) -> Mapping[str, str]:
        """Labels of `gpu_info`: name, driver, cuda, pci_bus_id, serial, mig_profile, as far as they are known."""
        found = next((dict(s.labels) for s in self.values if s.metric == "gpu_info"), {})
        return {name: value for name, value in found.items() if name not in ("node", "uuid", "gpu")}

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers that run on it."""
        return tuple(s.label("server") for s in self.values if s.metric == "gpu_server_info")
