"""The configuration of the compose stack, read by the programs that it is for."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from alerts.alertmanager import inhibitions
from exporters.config import Config
from exporters.loader import load
from inferwatch.watched import Watched
from monitor.config import MonitorConfig
from tests.deploy.compose import services
from tests.end_to_end.processes import ROOT
from tests.servers.server import ran
from tests.services import require

COMPOSE = ROOT / "deploy" / "compose"
FOLDERS = ("postgres", "monitor", "alertmanager", "grafana")


def text(name: str) -> str:
    return (COMPOSE / name).read_text(encoding="utf-8")


def test_prometheus_takes_its_configuration_with_the_rules(tmp_path: Path) -> None:
    shutil.copy(COMPOSE / "prometheus.yml", tmp_path)
    shutil.copytree(ROOT / "alerts" / "generated", tmp_path / "rules")
    ran([require("promtool"), "check", "config", str(tmp_path / "prometheus.yml")])


def test_alertmanager_takes_its_configuration() -> None:
    ran([require("amtool"), "check-config", str(COMPOSE / "alertmanager.yml")])


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        (["alertname=Watchdog"], "inferwatch,dead-man-switch"),
        (["alertname=ServerDown", "severity=page"], "inferwatch,people"),
    ],
)
def test_the_monitor_hears_of_every_alert_beside_people(labels: list[str], receivers: str) -> None:
    command = [require("amtool"), "config", "routes", "test", f"--config.file={COMPOSE / 'alertmanager.yml'}"]
    done = subprocess.run([*command, f"--verify.receivers={receivers}", *labels], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_alerts_hold_back_others_as_in_the_example() -> None:
    assert yaml.safe_load(text("alertmanager.yml"))["inhibit_rules"] == inhibitions()


def test_the_sidecar_looks_for_servers_and_leaves_gpus_to_another() -> None:
    config = load(COMPOSE / "sidecar" / "inferwatch.yml", Config)
    assert Watched(None, config).is_looking
    assert config.gpus.source == "off"
    gpus = load(COMPOSE / "gpus" / "inferwatch.yml", Config)
    assert gpus.gpus.source == "nvml"


def test_the_monitor_takes_its_configuration(tmp_path: Path) -> None:
    config = text("monitor/inferwatch.yml").replace("/run/secrets/", "").replace("/etc/slos.yml", "slos.yml")
    for name in ("postgres_password", "webhook_token"):
        (tmp_path / name).write_text("secret")
    shutil.copy(ROOT / "alerts" / "slo" / "default.yml", tmp_path / "slos.yml")
    (tmp_path / "inferwatch.yml").write_text(config)
    loaded = load(tmp_path / "inferwatch.yml", MonitorConfig)
    assert loaded.prometheus is not None
    assert loaded.alertmanager.bearer_token_file == tmp_path / "webhook_token"


def test_grafana_finds_what_it_is_provisioned_with() -> None:
    generated = ROOT / "dashboards" / "generated"
    grafana, postgres = services()["grafana"], text("postgres/10-roles.sh")
    targets = {volume.source: volume.target for volume in grafana.volumes}
    sources = yaml.safe_load((generated / "provisioning/datasources/inferwatch.yml").read_text(encoding="utf-8"))
    by_type = {source["type"]: source for source in sources["datasources"]}
    assert by_type["prometheus"]["url"] == "http://prometheus:9090"
    database = by_type["grafana-postgresql-datasource"]
    assert (database["url"], database["jsonData"]["database"]) == ("postgres:5432", "inferwatch")
    assert f"CREATE ROLE {database['user']} LOGIN" in postgres
    assert database["secureJsonData"]["password"] == "$__file{/run/secrets/postgres_password}"
    assert targets["secrets-grafana"] == "/run/secrets"
    (provider,) = yaml.safe_load((generated / "provisioning/dashboards/inferwatch.yml").read_text())["providers"]
    folder = targets["./dashboards/generated/dashboards"]
    assert provider["options"]["path"] == folder
    home = grafana.content["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (generated / "dashboards" / home.removeprefix(f"{folder}/")).is_file()


def made(folder: Path) -> dict[str, str]:
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    ran(["sh", str(COMPOSE / "make-secrets"), str(folder)])
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_secrets_are_random_and_the_same_for_those_who_share_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    found = made(one)
    assert found["postgres/inferwatch_password"] == found["monitor/postgres_password"]
    assert found["postgres/grafana_password"] == found["grafana/postgres_password"]
    assert found["monitor/webhook_token"] == found["alertmanager/webhook_token"]
    assert len(set(found.values())) == 5
    assert not set(found.values()) & set(made(two).values())


def test_secrets_stay_what_they_are_and_one_that_is_missing_is_made_again(tmp_path: Path) -> None:
    before = made(tmp_path)
    (tmp_path / "monitor" / "postgres_password").unlink()
    assert made(tmp_path) == before
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_file()} == {0o444}
