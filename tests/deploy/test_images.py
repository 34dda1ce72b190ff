"""The two images, built and run."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.deploy.conftest import Built
from tests.deploy.images import BASE

TARGETS = pytest.mark.parametrize("target", ["sidecar", "monitor"])
_MIB = 2**20


def ran(built: Built, image: str, *command: str, entrypoint: str) -> subprocess.CompletedProcess[str]:
    options = ["--rm", "--read-only", "--read-only-tmpfs=false", f"--entrypoint={entrypoint}"]
    return built.stage.containers("podman", "run", *options, image, *command, check=False)


def inspected(built: Built, image: str) -> dict[str, Any]:
    (found,) = json.loads(built.stage.containers("podman", "image", "inspect", image).stdout)
    return dict(found)


@TARGETS
def test_it_carries_labels_a_user_and_nothing_of_how_it_was_built(built: Built, target: str) -> None:
    found = inspected(built, built.ours(target))
    labels = {key.rpartition(".")[2]: value for key, value in found["Labels"].items() if ".image." in key}
    assert labels | {"description": ""} == {
        "title": f"inferwatch {target}", "description": "", "licenses": "Apache-2.0", "version": "0.1.0",
        "revision": "tested",
    }  # fmt: skip
    assert found["User"] == "10001:10001"
    assert found["Config"]["Entrypoint"] == ["inferwatch"]
    assert not any("pip" in each.lower() or "secret" in each.lower() for each in found["Config"]["Env"])


@TARGETS
def test_it_holds_no_tools_to_build_with_and_no_settings_of_a_package_index(built: Built, target: str) -> None:
    look = "ls /opt/inferwatch/bin /tools /build /run/secrets /etc/pip.conf; command -v gcc make git hatchling"
    said = ran(built, built.ours(target), "-c", look, entrypoint="sh").stdout.split()
    assert {"/opt/inferwatch/bin:", "inferwatch", "python"} <= set(said)
    tools = [name for name in said if name.startswith(("pip", "hatch", "/")) and name != "/opt/inferwatch/bin:"]
    assert not tools


@TARGETS
def test_it_runs_with_a_read_only_root_and_without_root(built: Built, target: str) -> None:
    image = built.ours(target)
    assert ran(built, image, "--version", entrypoint="inferwatch").stdout == "inferwatch 0.1.0\n"
    assert ran(built, image, "-u", entrypoint="id").stdout == "10001\n"
    touched = ran(built, image, "/var/lib/inferwatch/file", entrypoint="touch")
    assert "Read-only file system" in touched.stderr


def test_the_sidecar_has_neither_sql_nor_web_parts_and_is_the_smaller_one(built: Built) -> None:
    sidecar, monitor = built.ours("sidecar"), built.ours("monitor")
    names = "alembic", "fastapi", "jinja2", "numpy", "psycopg", "sqlalchemy", "monitor", "dashboards", "demo"
    look = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n)])"
    assert ran(built, sidecar, "-c", look, entrypoint="python").stdout == "[]\n"
    base, small, large = (inspected(built, image)["Size"] for image in (BASE, sidecar, monitor))
    assert small - base < 60 * _MIB < large - base
