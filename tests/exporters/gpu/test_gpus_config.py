from __future__ import annotations

from pathlib import Path

import pytest

from exporters.config import Config, Gpus, load


def gpus(folder: Path, text: str) -> Gpus:
    path = folder / "inferwatch.yml"
    path.write_text(f"gpus: {text}\n")
    return load(path, Config).gpus


def test_gpus_are_looked_for_by_default() -> None:
    assert load(None, Config).gpus == Gpus(source="auto", dcgm=None, servers={})


@pytest.mark.parametrize("off", ["off", "'off'", "false", "no"])
def test_off_is_off_though_yaml_takes_it_for_false(tmp_path: Path, off: str) -> None:
    assert gpus(tmp_path, f"{{source: {off}}}").source == "off"


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("http://localhost:9400", "http://localhost:9400/metrics"),
        ("http://localhost:9400/", "http://localhost:9400/metrics"),
        ("http://localhost:9400/metrics", "http://localhost:9400/metrics"),
        ("https://gateway/dcgm", "https://gateway/dcgm"),
    ],
)
def test_a_base_url_stands_for_its_metrics_page(tmp_path: Path, url: str, page: str) -> None:
    assert gpus(tmp_path, f"{{dcgm: '{url}'}}").dcgm == page


def test_servers_are_named_with_numbers_and_uuids(tmp_path: Path) -> None:
    read = gpus(tmp_path, "{source: nvml, servers: {'a:8000': [0, 1], chat: [MIG-5d3f, GPU-aa]}}")
    assert dict(read.servers) == {"a:8000": (0, 1), "chat": ("MIG-5d3f", "GPU-aa")}
