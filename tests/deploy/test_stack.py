"""The compose file's services in real containers: a server of the host is found, and its end is in the history.

Grafana alone is left out: Debian has no package of it to stand in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.compose import in_order, services
from tests.deploy.conftest import Built
from tests.deploy.stack import Stack, running
from tests.end_to_end.processes import ROOT, until
from tests.end_to_end.recorded import VLLM, serving, vllm
from tests.end_to_end.web import get

SERVER = "host.docker.internal:8000"
LEFT_OUT = ("grafana",)
TIMES = 20
"""How many times faster than by default Prometheus scrapes and judges: a server counts as down after half a minute."""
PATIENCE = 300.0
"""Seconds."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"((?:\[|offset\s+|for: |interval: |_firing_for: ))(\d+)([smhd])\b")


def hurried(text: str) -> str:
    return _DURATION.sub(lambda m: f"{m[1]}{1000 * int(m[2]) * _UNITS[m[3]] // TIMES}ms", text)


@dataclass(frozen=True)
class World:
    stack: Stack
    server: ExitStack
    """Ends the inference server when it is closed."""

    def get(self, url: str, **query: str) -> Any:
        with self.stack.stage.network():
            return get(url, **query).json()

    def asks_as_grafana(self, question: str) -> str:
        """By the role and the password that Grafana has."""
        password = '"$(cat /run/secrets/grafana_password)"'
        command = f'PGPASSWORD={password} psql -h 127.0.0.1 -U grafana -d inferwatch -XAtc "{question}"'
        done = self.stack.inside("postgres", "sh", "-c", command, check=False)
        return str(done.stdout + done.stderr).strip()


def changed(folder: Path) -> dict[str, Path]:
    """What the compose file mounts, but faster."""
    rules, monitor = folder / "rules", folder / "monitor"
    rules.mkdir()
    monitor.mkdir()
    for path in (ROOT / "alerts" / "generated").glob("*-rules.yml"):
        text = path.read_text(encoding="utf-8")
        (rules / path.name).write_text(hurried(text) if "conditions" in path.name else text)
    config = (ROOT / "deploy" / "compose" / "prometheus.yml").read_text(encoding="utf-8")
    (folder / "prometheus.yml").write_text(hurried(config).replace("scrape_timeout: 10s", "scrape_timeout: 500ms"))
    settings = (ROOT / "deploy" / "compose" / "monitor" / "inferwatch.yml").read_text(encoding="utf-8")
    (monitor / "inferwatch.yml").write_text(settings.replace('9090"}', '9090", delay: 1s}'))
    return {
        "./alerts/generated": rules,
        "./deploy/compose/prometheus.yml": folder / "prometheus.yml",
        "./deploy/compose/monitor": monitor,
    }


@pytest.fixture(scope="module")
def world(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    sidecar, monitor, postgres = built.ours("sidecar"), built.ours("monitor"), built.standin("postgres")
    images = {
        "secrets": postgres, "postgres": postgres, "sidecar": sidecar, "monitor": monitor,
        "prometheus": built.standin("prometheus"), "alertmanager": built.standin("alertmanager"),
    }  # fmt: skip
    stack = Stack(built.stage, services(), images, changed(tmp_path_factory.mktemp("stack")))
    with ExitStack() as server:
        with built.stage.network():
            server.enter_context(serving(vllm(VLLM, "1-mid10"), 8000))
        with running(stack, in_order(stack.services, LEFT_OUT)):
            yield World(stack, server)


def test_the_first_start_finds_a_server_of_the_host_and_the_monitor_shows_it(world: World) -> None:
    """Run A, 1-mid10: 12 running, 3 waiting."""

    def row() -> dict[str, Any] | None:
        rows = {row["server"]: row for row in world.get("http://127.0.0.1:9840/api/v1/servers")}
        found: dict[str, Any] = rows[SERVER]
        return found if found["available"] and found["version"] else None

    found = until(row)
    assert [found[k] for k in ("up", "framework", "version", "running", "waiting")] == [True, "vllm", "0.32.0", 12, 3]
    assert "looking for inference servers on host.docker.internal" in world.stack.log("sidecar")


def test_prometheus_reaches_everything_that_it_scrapes(world: World) -> None:
    def states() -> dict[str, str] | None:
        targets = world.get("http://127.0.0.1:9090/api/v1/targets")["data"]["activeTargets"]
        found = {target["labels"]["job"]: target["health"] for target in targets}
        return found if set(found.values()) == {"up"} else None

    assert until(states).keys() == {"inferwatch", "inferwatch-monitor", "prometheus", "alertmanager"}


@pytest.mark.parametrize("name", ["sidecar", "monitor", "postgres", "prometheus", "alertmanager"])
def test_nobody_can_write_outside_of_what_is_mounted(world: World, name: str) -> None:
    """Not even root."""
    for path in ("/file", "/etc/file", "/usr/file"):
        done = world.stack.inside(name, "touch", path, user="0", check=False)
        assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("name", ["sidecar", "monitor", "postgres", "prometheus", "alertmanager"])
def test_it_has_no_rights_that_root_has(world: World, name: str) -> None:
    status = str(world.stack.inside(name, "cat", "/proc/1/status").stdout)
    told = dict(re.findall(r"^(Uid|CapBnd|CapEff|NoNewPrivs):\s+(\S+)", status, re.MULTILINE))
    assert int(told.pop("Uid")) > 0
    assert told == {"CapBnd": "0" * 16, "CapEff": "0" * 16, "NoNewPrivs": "1"}


def secrets(world: World) -> dict[str, dict[str, str]]:
    """By who sees them, and by file."""
    seen = {}
    for name in ("postgres", "monitor", "alertmanager"):
        files = world.stack.inside(name, "sh", "-c", "cd /run/secrets && grep -H . *").stdout.split()
        seen[name] = dict(line.split(":") for line in files)
    return seen


def test_passwords_are_made_up_and_seen_by_those_alone_who_need_them(world: World) -> None:
    seen = secrets(world)
    assert seen["postgres"].keys() == {"superuser_password", "inferwatch_password", "grafana_password"}
    assert seen["monitor"] == {
        "postgres_password": seen["postgres"]["inferwatch_password"],
        "webhook_token": seen["alertmanager"]["webhook_token"],
    }
    assert seen["alertmanager"].keys() == {"webhook_token"}
    different = {secret for files in seen.values() for secret in files.values()}
    assert len(different) == 4
    assert all(re.fullmatch("[0-9a-f]{48}", secret) for secret in different)


def test_the_next_start_leaves_passwords_as_they_are(world: World) -> None:
    before = secrets(world)
    world.stack.start_again("secrets")
    assert secrets(world) == before


def test_a_server_that_ends_raises_an_alert_that_is_in_the_history_as_delivered(world: World) -> None:
    until(
        lambda: int(world.asks_as_grafana("SELECT sum(samples) FROM server_minute_view WHERE up > 0")), within=PATIENCE
    )
    world.server.close()

    def delivered() -> dict[str, Any] | None:
        rows = world.get("http://127.0.0.1:9840/api/v1/alerts")
        return next((r for r in rows if r["name"] == "ServerDown" and r["delivered"]), None)

    assert until(delivered, within=PATIENCE)["labels"]["server"] == SERVER
    stored = world.asks_as_grafana("SELECT labels FROM alerts WHERE name = 'ServerDown'")
    assert f'"server": "{SERVER}"' in stored or f'"server":"{SERVER}"' in stored


def test_grafana_may_read_the_history_and_change_nothing(world: World) -> None:
    assert int(world.asks_as_grafana("SELECT count(*) FROM alerts")) >= 1
    for change in ("DELETE FROM alerts", "CREATE TABLE t (n int)"):
        assert "permission denied" in world.asks_as_grafana(f"BEGIN READ WRITE; {change}")
    assert "must be superuser" in world.asks_as_grafana("COPY alerts TO PROGRAM 'cat'")


@pytest.mark.parametrize("name", ["monitor", "prometheus", "sidecar", "alertmanager", "postgres"])
def test_it_ends_in_order_within_the_time_that_it_is_given(world: World, name: str) -> None:
    """The last of these tests: what they ended is gone."""
    assert seconds_of(world, name) == (60 if name in {"postgres", "prometheus"} else 10)
    assert world.stack.stop(name) == 0


def seconds_of(world: World, name: str) -> float:
    text: str = world.stack.services[name].content["stop_grace_period"]
    return float(text.removesuffix("s"))
