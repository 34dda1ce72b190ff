"""The samples of a sidecar's exposition back into the GPU observations that it was written from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from exporters.exposition import Sample
from exporters.findings import GPU_KINDS, Finding, Severity, finding
from exporters.gpu.gathered import Gathered
from exporters.gpu.observation import GpuObservation
from exporters.observation import Series, labels

_AVAILABLE, _FINDING, _DURATION = (
    "inferwatch_gpu_available", "inferwatch_gpu_finding", "inferwatch_gpu_read_duration_seconds",
)  # fmt: skip


def gathered(samples: Iterable[Sample], at: float) -> dict[str, Gathered]:
    """By node, as of `at`; none where no GPUs are read."""
    of_nodes: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.name.startswith(("gpu_", "inferwatch_gpu_")) and (node := sample.labels.get("node")):
            of_nodes[node].append(sample)
    return {node: _gathered(node, samples, at) for node, samples in of_nodes.items()}


def _gathered(node: str, samples: list[Sample], at: float) -> Gathered:
    own = {s.name: s.value for s in samples if s.name in (_AVAILABLE, _DURATION)}
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for sample in samples:
        if sample.name == _FINDING:
            findings[sample.labels.get("uuid", "")].append(_finding(sample))
    return Gathered(
        at=at,
        available=own.get(_AVAILABLE) == 1,
        gpus=tuple(_gpus(node, samples, findings, at)),
        findings=tuple(findings[""]),
        duration=own.get(_DURATION, 0.0),
    )


def _gpus(
    node: str, samples: Iterable[Sample], findings: dict[str, list[Finding]], at: float
) -> Iterable[GpuObservation]:
    values: defaultdict[tuple[str, str], dict[Series, float]] = defaultdict(dict)
    parents: dict[str, str] = {}
    for sample in samples:
        uuid, gpu = sample.labels.get("uuid"), sample.labels.get("gpu", "")
        if uuid is None or not sample.name.startswith("gpu_"):
            continue
        values[uuid, gpu][Series(sample.name, labels(sample.labels))] = sample.value
        parents[uuid] = sample.labels.get("parent") or parents.get(uuid, "")
    for (uuid, gpu), series in values.items():
        up = any(s.metric == "gpu_up" and value == 1 for s, value in series.items())
        yield GpuObservation(node, uuid, gpu, at, up, series, parents[uuid], tuple(findings.get(uuid, ())))


def _finding(sample: Sample) -> Finding:
    reason = sample.labels.get("reason", "")
    if reason in GPU_KINDS:
        return finding(reason)
    severity = next((s for s in Severity if s.value == sample.labels.get("severity")), Severity.WARNING)
    return Finding(reason, severity, f"The sidecar reports {reason!r}.")
