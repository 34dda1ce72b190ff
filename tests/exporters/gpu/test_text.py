"""What one sidecar writes of its GPUs, another process reads again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from exporters import exposition, schema
from exporters.exposition import read_samples
from exporters.findings import finding
from exporters.gpu.account import GpuAccount
from exporters.gpu.errors import FAILURES
from exporters.gpu.gathered import Gathered, GpuReading, observation_of
from exporters.gpu.text import gathered

AT = 1_800_000_000.0

READINGS = [
    (
        GpuReading(
            "GPU-a", "0", up=True, values={("gpu_power_watts", ""): 642.25, ("gpu_clock_hertz", "sm"): 1.755e9},
            info={"name": 'H100 "x"', "driver": "570"}, xids={79: 0, 31: 2},
            findings=(finding("gpu_row_remap_pending"), finding("gpu_xid_application")),
        ),
        {"vllm": "process", "other": "config"},
    ),
    (GpuReading("MIG-b", "0:1", up=True, parent="GPU-a", info={"mig_profile": "1g.10gb"}), {}),
    (GpuReading("GPU-c", "1", up=False, info={"name": "H100"}, findings=(finding("gpu_lost"),)), {}),
]  # fmt: skip
WRITTEN = Gathered(
    at=AT,
    available=True,
    gpus=tuple(observation_of("n1", AT, reading, servers) for reading, servers in READINGS),
    findings=(finding("gpu_not_here"),),
    duration=0.25,
)


def page(account: GpuAccount, of: Gathered) -> str:
    return exposition.page([account.chunks(of)])


def read_again(text: str) -> dict[str, Gathered]:
    return gathered(read_samples(text), AT)


def test_what_is_written_is_read_again() -> None:
    read = read_again(page(GpuAccount("n1"), WRITTEN) + 'llm_up{node="n1",server="a"} 1\n')
    assert read == {"n1": WRITTEN}


def test_a_gpu_tells_its_facts_servers_and_readings() -> None:
    first, instance, lost = WRITTEN.gpus
    assert first.info == {"name": 'H100 "x"', "driver": "570"}
    assert first.servers == ("vllm", "other")
    assert first.value("gpu_power_watts") == 642.25
    assert first.value("gpu_clock_hertz", domain="sm") == 1.755e9
    assert first.value("gpu_clock_hertz", domain="memory") is None
    assert (instance.parent, instance.info["mig_profile"]) == ("GPU-a", "1g.10gb")
    assert (lost.up, lost.value("gpu_up"), lost.value("gpu_power_watts")) == (False, 0, None)


def test_sidecars_of_several_nodes_may_stand_on_one_page() -> None:
    other = replace(WRITTEN, available=False, gpus=(), findings=(finding("gpu_none"),))
    read = read_again(page(GpuAccount("n1"), WRITTEN) + page(GpuAccount("n2"), other))
    assert {node: (g.available, [f.reason for f in g.findings]) for node, g in read.items()} == {
        "n1": (True, ["gpu_not_here"]), "n2": (False, ["gpu_none"]),
    }  # fmt: skip


def test_a_finding_of_a_newer_sidecar_is_kept_with_its_severity() -> None:
    line = 'inferwatch_gpu_finding{node="n1",reason="gpu_on_fire",severity="error"} 1\n'
    (found,) = read_again(line)["n1"].findings
    assert (found.reason, found.severity) == ("gpu_on_fire", "error")


def test_a_page_without_gpus_has_none() -> None:
    assert read_again('llm_up{node="n1",server="a"} 1\n') == {}


def test_errors_and_drops_are_counters_that_start_at_0() -> None:
    account = GpuAccount("n1", of_page=True)
    account.take(WRITTEN)
    text = page(account, WRITTEN)
    assert f'inferwatch_gpu_read_errors_total{{node="n1",reason="{FAILURES[0]}"}} 0.0' in text
    assert 'inferwatch_gpu_dropped_samples_total{node="n1",reason="blank"} 0.0' in text
    account.take(replace(WRITTEN, failed=Counter(unknown=2), dropped=Counter(blank=3)))
    account.take(replace(WRITTEN, failed=Counter(unknown=1)))
    text = page(account, WRITTEN)
    assert 'inferwatch_gpu_read_errors_total{node="n1",reason="unknown"} 3.0' in text
    assert 'inferwatch_gpu_dropped_samples_total{node="n1",reason="blank"} 3.0' in text


def test_a_host_without_gpus_and_without_a_page_has_no_such_counters() -> None:
    account = GpuAccount("n1")
    none = Gathered(AT, available=False, findings=(finding("gpu_none"),))
    account.take(none)
    assert {s.name for s in exposition.read_samples(page(account, none))} == {
        "inferwatch_gpu_available", "inferwatch_gpu_finding", "inferwatch_gpu_read_duration_seconds",
    }  # fmt: skip


def test_everything_that_is_written_is_in_the_schema_with_its_labels() -> None:
    account = GpuAccount("n1", of_page=True)
    account.take(WRITTEN)
    for sample in exposition.read_samples(page(account, WRITTEN)):
        metric = schema.METRICS[sample.name]
        assert set(sample.labels) <= {*schema.IDENTITY[metric.scope], *metric.labels}
        for label, allowed in metric.values.items():
            assert sample.labels[label] in allowed
