"""Every configuration in the docs of deploying, read by the program that it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters.config import SECTIONS, Config
from exporters.loader import load
from monitor.config import MonitorConfig
from tests.deploy.compose import services
from tests.end_to_end.processes import ROOT
from tests.servers.server import ran
from tests.services import require

PAGES = ("compose", "existing-stack", "fleet")
OF_PROMETHEUS = {"scrape_configs", "rule_files"}


def text(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return [block for page in PAGES for block in re.findall(rf"```{language}\n(.*?)```", text(page), re.DOTALL)]


def parsed() -> list[Any]:
    return [yaml.safe_load(block) for block in blocks("yaml")]


@pytest.mark.parametrize("block", [b for b in parsed() if b.keys() <= OF_PROMETHEUS], ids=lambda b: str(b)[:60])
def test_prometheus_takes_what_is_for_its_configuration(block: dict[str, Any], tmp_path: Path) -> None:
    for name in block.get("rule_files", ()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / "alerts" / "generated" / Path(name).name).read_text(encoding="utf-8"))
    for job in block.get("scrape_configs", ()):
        job.pop("kubernetes_sd_configs", None)  # Debian's Prometheus is built without
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(block))
    ran([require("promtool"), "check", "config", str(file)])


def test_target_files_are_of_the_form_that_prometheus_reads(tmp_path: Path) -> None:
    (block,) = blocks("json")
    (tmp_path / "targets.json").write_text(block)
    config = {"scrape_configs": [{"job_name": "inferwatch", "file_sd_configs": [{"files": ["targets.json"]}]}]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    ran([require("promtool"), "check", "config", str(tmp_path / "prometheus.yml")])
    assert json.loads(block)[0]["targets"]


@pytest.mark.parametrize("block", [b for b in parsed() if b.keys() <= SECTIONS], ids=lambda b: str(b)[:60])
def test_inferwatch_takes_what_is_for_its_configuration(block: dict[str, Any], tmp_path: Path) -> None:
    for section in block.values():
        for key in ("password_file", "bearer_token_file"):
            if key in section:
                section[key] = key
                (tmp_path / key).write_text("secret")
    file = tmp_path / "inferwatch.yml"
    file.write_text(yaml.safe_dump(block))
    load(file, Config)
    load(file, MonitorConfig)


def test_every_block_is_for_somebody() -> None:
    known = [b for b in parsed() if b.keys() <= OF_PROMETHEUS or b.keys() <= SECTIONS]
    others = [b.get("kind", "containers") for b in parsed() if b not in known]
    assert others == ["ServiceMonitor", "ScrapeConfig", "ScrapeConfig", "containers"]


def test_objects_of_the_operator_point_at_what_there_is() -> None:
    objects = [b for b in parsed() if "kind" in b]
    manifest = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/sidecar.yaml").read_text(encoding="utf-8")))
    service = next(o for o in manifest if o["kind"] == "Service")
    monitor = objects[0]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    for each in objects:
        kind = "v1" if each["kind"] == "ServiceMonitor" else "v1alpha1"
        assert each["apiVersion"] == f"monitoring.coreos.com/{kind}"
        assert each["metadata"]["namespace"] == service["metadata"]["namespace"]
    keys = {key for each in objects[1:] for key in each["spec"]}
    assert keys == {"scrapeInterval", "honorLabels", "staticConfigs", "httpSDConfigs"}


def test_ports_that_are_told_are_those_of_the_compose_file() -> None:
    told = {int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)/", text("compose"))}
    assert told == {int(port) for service in services().values() for _, port, _ in service.published}


def test_files_and_variables_that_are_named_are_there() -> None:
    for page in PAGES:
        paths = re.findall(r"`((?:deploy|alerts|dashboards)/[\w./-]+)`", text(page))
        assert not [path for path in paths if not (ROOT / path).exists()]
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", text("compose"))) | {"SLOS", "RULES"}
    assert all(re.search(rf"^{name}=", example, re.MULTILINE) for name in named)
