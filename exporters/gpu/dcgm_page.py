"""dcgm-exporter's page as readings of GPUs. What DCGM has no value for, or cannot be, is left out and counted."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporters.exposition import Sample, read_samples, regular
from exporters.gpu import dcgm_names as names
from exporters.gpu.dcgm_names import NAMES, Name
from exporters.gpu.gathered import GpuReading, pci_address
from exporters.gpu.health import findings_of
from exporters.gpu.ways import Key
from exporters.observation import FieldStatus

_MOST_INSTANCES = 64
MOST_PLACES = 256
"""GPUs and instances of one page."""
_NO_GPU = ("nvlink", "nvswitch", "cpu", "cpucore")
"""Labels of series that are not of a GPU as a whole."""
_POD = ("pod", "podname")

# DCGM's values for "nothing there": blank, not found, not supported, not permitted, in a row from each of these.
_BLANKS = (float(0x7FFFFFF0), 2.0**47)
_BLANK_64 = 2.0**63
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU, or an instance of it."""

    uuid: str
    instance: str = ""

    @property
    def own_uuid(self) -> str:
        """The page does not tell an instance's uuid; this is NVIDIA's older form of it."""
        return f"MIG-{self.uuid}/{self.instance}" if self.instance else self.uuid


@dataclass(slots=True)
class _Gpu:
    values: dict[str, float] = field(default_factory=dict)
    """By name on the page."""
    labels: dict[str, str] = field(default_factory=dict)
    xid_counts: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """`last_xid` and `xid_counts` by uuid, as the page says them."""

    gpus: tuple[GpuReading, ...]
    dropped: Counter[str]
    last_xid: Mapping[str, int]
    xid_counts: Mapping[str, Mapping[int, float]]


def read(text: str) -> Page:
    """Raises InvalidExposition where the text is none."""
    lines, bad = regular(text)
    dropped = Counter[str](syntax=len(bad)) if bad else Counter[str]()
    gpus = _gpus(read_samples(lines), dropped)
    split = {place.uuid for place in gpus if place.instance}
    whole = {place.uuid: gpu for place, gpu in gpus.items() if not place.instance}
    return Page(
        gpus=tuple(_reading(place, gpu, place.uuid in split) for place, gpu in gpus.items()),
        dropped=dropped,
        last_xid={uuid: int(v) for uuid, gpu in whole.items() if (v := _first(gpu, names.XID)) is not None},
        xid_counts={uuid: gpu.xid_counts for uuid, gpu in whole.items() if gpu.xid_counts},
    )


def _gpus(samples: Iterable[Sample], dropped: Counter[str]) -> dict[Place, _Gpu]:
    gpus: defaultdict[Place, _Gpu] = defaultdict(_Gpu)
    folded = [(s, {k.lower().replace("_", ""): v for k, v in s.labels.items()}) for s in samples]
    # A GPU that pods share has a series for each beside its own.
    for sample, labels in sorted(folded, key=lambda f: any(name in f[1] for name in _POD)):
        uuid = labels.get("uuid", "")
        if not uuid or any(name in labels for name in _NO_GPU):
            continue
        place = Place(uuid, labels.get("gpuiid", ""))
        if (place.instance and not _is_instance(place.instance)) or (place not in gpus and len(gpus) >= MOST_PLACES):
            dropped["invalid_value"] += 1
        else:
            _take(gpus, place, sample, labels, dropped)
    return dict(gpus)


def _is_instance(text: str) -> bool:
    return text.isdecimal() and int(text) < _MOST_INSTANCES


def _take(
    gpus: defaultdict[Place, _Gpu], place: Place, sample: Sample, labels: Mapping[str, str], dropped: Counter[str]
) -> None:
    gpu, whole = gpus[place], gpus[Place(place.uuid)]
    gpu.labels = {**labels, **gpu.labels}
    whole.labels = {**{k: v for k, v in labels.items() if not k.startswith("gpui")}, **whole.labels}
    known = _BY_NAME.get(sample.name)
    if known is None:
        return
    if reason := _why_not(sample.value, known):
        dropped[reason] += 1
    elif known is names.XID_COUNT:
        whole.xid_counts.setdefault(int(labels.get("xid", "0") or 0), sample.value)
    else:
        target = gpu if known.metric in names.OF_INSTANCES else whole
        target.values.setdefault(sample.name, sample.value)


def _why_not(value: float, known: Name) -> str:
    if math.isnan(value):
        return "nan"
    if _is_blank(value):
        return "blank"
    if value < 0 and known.metric != "gpu_temperature_celsius":
        return "negative"
    if known.largest is not None and value > known.largest * (1 + _ROUNDING):
        return "ratio_out_of_range"
    return ""


def _is_blank(value: float) -> bool:
    return value >= _BLANK_64 or any(blank <= value < blank + 4 for blank in _BLANKS)


def _reading(place: Place, gpu: _Gpu, split: bool) -> GpuReading:
    found = [(name, _first(gpu, name)) for name in NAMES if _is_had(name.metric, place, split)]
    values: defaultdict[Key, float] = defaultdict(float)
    for name, value in found:
        if value is not None:
            values[name.metric, name.label] += value * name.scale
    total = _memory_total(gpu)
    if total is not None and _is_had("gpu_memory_total_bytes", place, split):
        values.setdefault(("gpu_memory_total_bytes", ""), total)
    index = gpu.labels.get("gpu", "")
    return GpuReading(
        uuid=place.own_uuid,
        gpu=f"{index}:{place.instance}" if place.instance else index,
        up=True,
        values=dict(values),
        info=_info(gpu.labels),
        parent=place.uuid if place.instance else "",
        findings=tuple(findings_of(values)),
        fields=tuple(_status(name, gpu, values) for name, _ in found),
    )


def _is_had(metric: str, place: Place, split: bool) -> bool:
    if place.instance:
        return metric in names.OF_INSTANCES
    return not (split and metric in names.NOT_OF_SPLIT)


def _first(gpu: _Gpu, name: Name) -> float | None:
    return next((gpu.values[n] for n in name.names if n in gpu.values), None)


def _memory_total(gpu: _Gpu) -> float | None:
    """Older pages have no reserved part: it is within what is used."""
    used, free = _first(gpu, _FB_USED), _first(gpu, names.FB_FREE)
    if used is None or free is None:
        return None
    return (used + free + (_first(gpu, names.FB_RESERVED) or 0.0)) * names.FB_FREE.scale


def _info(labels: Mapping[str, str]) -> dict[str, str]:
    def first(*keys: str) -> str:
        return next((labels[key] for key in keys if labels.get(key)), "")

    return {
        "name": first("modelname"),
        "driver": first("dcgmfidriverversion", "dcgmfisystemdriverversion"),
        "serial": first("dcgmfidevserial", "dcgmfidevboardserial"),
        "pci_bus_id": pci_address(first("pcibusid")),
        "mig_profile": first("gpuiprofile"),
    }


def _status(name: Name, gpu: _Gpu, values: Mapping[Key, float]) -> FieldStatus:
    metric = f"{name.metric}{{{name.label}}}" if name.label else name.metric
    source = next((n for n in name.names if n in gpu.values), "")
    if source or (name.metric, name.label) in values:
        return FieldStatus(metric, source or "DCGM_FI_DEV_FB_USED + _FREE + _RESERVED", "exact")
    wanted = " or ".join(n for n in name.names if n.startswith("DCGM_"))
    return FieldStatus(metric, "", "unavailable", f"not on the page: add {wanted} to dcgm-exporter's counters")


_FB_USED = next(name for name in NAMES if name.metric == "gpu_memory_used_bytes")
_BY_NAME = {
    n: name for name in (*NAMES, names.FB_FREE, names.FB_RESERVED, names.XID, names.XID_COUNT) for n in name.names
}
