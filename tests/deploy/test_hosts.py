"""The sidecar on each host: as a systemd unit, by compose, and in Kubernetes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters.config import Config
from exporters.loader import load
from tests.deploy.compose import Service, document, filled, services, variables
from tests.end_to_end.processes import DEADLINE, ROOT
from tests.end_to_end.recorded import Pages, serving

UNIT = ROOT / "deploy" / "systemd" / "inferwatch-sidecar.service"
HOST = ROOT / "deploy" / "host"
MANIFEST = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "sidecar.yaml").read_text(encoding="utf-8")))
WORST_EXPOSURE = 20
"""Tenths, as systemd-analyze takes them."""


def analysed(command: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not here")
    unit = folder / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/inferwatch/.venv/bin/inferwatch", sys.executable))
    return subprocess.run([program, command, *options, str(unit)], capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    done = analysed("verify", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_exposes_little(tmp_path: Path) -> None:
    done = analysed("security", tmp_path, "--offline=yes", f"--threshold={WORST_EXPOSURE}", "--no-pager")
    assert done.returncode == 0, done.stdout


def test_the_unit_ends_in_ten_seconds_and_starts_a_command_that_there_is() -> None:
    told = dict(re.findall(r"^(\w+)=(.+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE))
    assert told["TimeoutStopSec"] == "10"
    program, command, *options = told["ExecStart"].split()
    assert (program, command) == ("/opt/inferwatch/.venv/bin/inferwatch", "exporter")
    assert {option for option in options if option.startswith("--")} == {"--config", "--listen", "--look-on"}


def test_the_compose_service_of_a_host_shares_its_network_and_has_few_rights() -> None:
    (service,) = services(path=HOST / "docker-compose.yml").values()
    content = service.content
    assert (content["network_mode"], content["read_only"], content["cap_drop"]) == ("host", True, ["ALL"])
    assert "ports" not in content
    assert service.limits.keys() == {"cpus", "memory", "pids"}
    assert variables(HOST / "docker-compose.yml")["BASE_IMAGE"] == variables()["BASE_IMAGE"]
    assert document(HOST / "docker-compose.gpu.yml")["services"].keys() == {service.name}


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "[::]"])
def test_the_health_check_of_a_host_asks_where_the_sidecar_listens(host: str) -> None:
    content = services(path=HOST / "docker-compose.yml")["sidecar"].content
    assert content["environment"]["LISTEN"] == content["command"][content["command"].index("--listen") + 1]
    with serving(Pages({"/healthz": b"ok"})) as port:
        assert checked(content, f"{host}:{port}") == 0
    assert checked(content, f"{host}:{port}") == 1


def checked(content: Mapping[str, Any], listen: str) -> int:
    """With more time than Docker gives it: who answers here may stand still."""
    kind, program, option, code = content["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    assert "timeout=3)" in code
    patient = code.replace("timeout=3)", f"timeout={DEADLINE})")
    done = subprocess.run([sys.executable, option, patient], env={"LISTEN": listen}, capture_output=True, check=False)
    return done.returncode


def test_configurations_of_hosts_are_accepted(tmp_path: Path) -> None:
    load(HOST / "config" / "inferwatch.yml", Config)
    file = tmp_path / "inferwatch.yml"
    file.write_text(of("ConfigMap")["data"]["inferwatch.yml"])
    load(file, Config)


def of(kind: str) -> dict[str, Any]:
    (found,) = [each for each in MANIFEST if each["kind"] == kind]
    return dict(found)


def test_every_object_is_in_the_namespace_that_is_made() -> None:
    assert [each["kind"] for each in MANIFEST] == [
        "Namespace", "ServiceAccount", "ConfigMap", "DaemonSet", "Service",
    ]  # fmt: skip
    name = of("Namespace")["metadata"]["name"]
    assert {each["metadata"]["namespace"] for each in MANIFEST[1:]} == {name}


def test_the_daemon_set_selects_its_pods_and_so_does_the_service() -> None:
    spec = of("DaemonSet")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert of("Service")["spec"]["selector"].items() <= labels.items()
    (container,) = spec["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert of("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert f"0.0.0.0:{port['containerPort']}" in container["args"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}


def test_pods_mount_what_there_is_and_have_few_rights() -> None:
    pod = of("DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    assert volumes["config"]["configMap"]["name"] == of("ConfigMap")["metadata"]["name"]
    assert pod["serviceAccountName"] == of("ServiceAccount")["metadata"]["name"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_the_images_of_hosts_are_those_of_this_release() -> None:
    (container,) = of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    service: Service = services(path=HOST / "docker-compose.yml")["sidecar"]
    assert container["image"] == service.content["image"] == services()["sidecar"].content["image"]
    assert filled(document(), {})["services"]["sidecar"]["build"]["target"] == service.content["build"]["target"]
