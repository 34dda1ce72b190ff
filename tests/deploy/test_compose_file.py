from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from inferwatch.discover import PORTS
from tests.deploy.compose import FILE, HOST_NETWORK, Service, document, filled, in_order, services, variables
from tests.end_to_end.processes import ROOT

SCHEMA = json.loads((Path(__file__).parent / "schema" / "compose-spec.json").read_text(encoding="utf-8"))
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
ALL = services()
LASTING = [service for service in ALL.values() if service.name != "secrets"]
IDS = [service.name for service in LASTING]
EVERY = pytest.mark.parametrize("service", LASTING, ids=IDS)


@pytest.mark.parametrize("path", [FILE, *sorted((ROOT / "deploy").rglob("docker-compose*.yml"))], ids=str)
def test_it_is_what_the_compose_specification_describes(path: Path) -> None:
    errors = [error.message for error in Draft7Validator(SCHEMA).iter_errors(filled(document(path), {}))]
    assert not errors


def test_what_is_laid_over_it_is_too() -> None:
    """A setting that is taken back is no list any more; the rest must hold."""
    content = document(HOST_NETWORK)
    assert content["services"]["sidecar"].pop("ports") is None
    assert not list(Draft7Validator(SCHEMA).iter_errors(content))
    assert content["services"].keys() <= ALL.keys()


def test_every_variable_is_described_with_its_default_and_no_other_is() -> None:
    told = dict(re.findall(r"^(\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert told == variables()


def test_every_variable_has_a_comment_above_it() -> None:
    for paragraph in EXAMPLE.strip().split("\n\n"):
        first, *rest = paragraph.split("\n")
        assert first.startswith("# ")
        assert "\n".join(rest) or "default" in first


def test_nothing_must_be_set_before_the_first_start() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(re.findall(r"\$\{", text)) == len(re.findall(r"\$\{\w+:-", text))
    assert "env_file" not in text
    assert not any(service.content.get("secrets") for service in ALL.values())


def test_files_that_are_mounted_are_there() -> None:
    missing = {v.source for s in ALL.values() for v in s.volumes if not v.is_named and not (ROOT / v.source).exists()}
    assert not missing


def test_every_volume_is_used_and_every_used_one_is_there() -> None:
    used = {v.source for s in ALL.values() for v in s.volumes if v.is_named}
    assert used == document()["volumes"].keys()


@EVERY
def test_it_has_a_health_check_limits_and_few_rights(service: Service) -> None:
    content = service.content
    assert service.check
    assert service.limits.keys() == {"cpus", "memory", "pids"}
    assert (content["read_only"], content["cap_drop"]) == (True, ["ALL"])
    assert content["security_opt"] == ["no-new-privileges:true"]
    assert content["restart"] == "unless-stopped"
    assert "privileged" not in content
    assert "cap_add" not in content


@EVERY
def test_it_does_not_run_as_root(service: Service) -> None:
    ours = "build" in service.content
    assert ours or re.fullmatch(r"[1-9]\d*:\d+", service.content["user"])


@EVERY
def test_its_ports_are_published_on_loopback_only(service: Service) -> None:
    assert {address for address, _, _ in service.published} <= {"127.0.0.1"}


@EVERY
def test_its_image_is_pinned_to_a_release(service: Service) -> None:
    assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", service.content["image"])


@EVERY
def test_what_it_reads_only_is_mounted_read_only(service: Service) -> None:
    writable = {v.source for v in service.volumes if not v.read_only}
    assert writable <= {f"{service.name}-data"}


def test_each_sees_its_own_secrets_only() -> None:
    for service in LASTING:
        seen = {v.source for v in service.volumes if v.source.startswith("secrets-")}
        assert seen <= {f"secrets-{service.name}"}


def test_ports_of_the_host_are_distinct_and_no_server_is_looked_for_there() -> None:
    ports = [int(port) for service in LASTING for _, port, _ in service.published]
    assert len(ports) == len(set(ports)) == 5
    assert not set(ports) & set(PORTS)


def test_they_start_in_an_order_in_which_nobody_waits_in_vain() -> None:
    names = [service.name for service in in_order(ALL)]
    assert names.index("secrets") < names.index("postgres") < names.index("monitor") < names.index("grafana")
    assert names.index("sidecar") < names.index("prometheus") < names.index("monitor")
    conditions = {(name, how) for service in LASTING for name, how in service.waits_for.items()}
    assert {how for name, how in conditions if name == "secrets"} == {"service_completed_successfully"}
    assert {how for name, how in conditions if name != "secrets"} == {"service_healthy"}


def test_profiles_add_what_not_everybody_has() -> None:
    assert {service.name: service.profiles for service in LASTING if service.profiles} == {
        "gpus": ["gpu"],
        "demo": ["demo"],
    }


def test_the_images_carry_the_release() -> None:
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    ours = {s.content["image"] for s in LASTING if "build" in s.content}
    assert ours == {f"inferwatch-sidecar:{release}", f"inferwatch-monitor:{release}"}
    assert set(re.findall(r"ARG VERSION=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))) == {release}


def test_the_image_to_build_on_is_one_and_the_same() -> None:
    (told,) = re.findall(r"^ARG BASE_IMAGE=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert variables()["BASE_IMAGE"] == told


def test_prometheus_asks_where_the_others_listen() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    inferwatch, monitor, *_ = config["scrape_configs"]
    (address,) = inferwatch["static_configs"][0]["targets"]
    name, port = address.split(":")
    listening = [ALL[each].content["command"] for each in (name, *inferwatch["dns_sd_configs"][0]["names"])]
    assert all(f"0.0.0.0:{port}" in command for command in listening)
    assert inferwatch["dns_sd_configs"][0]["port"] == int(port)
    assert monitor["static_configs"][0]["targets"] == ["monitor:9840"]
    assert "0.0.0.0:9840" in ALL["monitor"].content["command"]
