"""Every file that Grafana reads: dashboards, and the provisioning of data sources and of their folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from dashboards.checks import check
from dashboards.grafana import to_json
from dashboards.model import Dashboard, Dialect

FOLDER = "/var/lib/grafana/dashboards"
"""Where Grafana finds the dashboards; provisioning is in /etc/grafana/provisioning."""
PASSWORD_FILE = "/run/secrets/postgres_password"  # noqa: S105
SCRAPE_INTERVAL = "15s"
"""Of the Prometheus that is provisioned: rates look back over at least four of them."""
_PREFIX = "inferwatch-"


def files(dashboards: Iterable[Dashboard]) -> dict[str, str]:
    """Text by path. Raises RefusedError where a dashboard must not be written."""
    found = tuple(dashboards)
    check(found)
    drawn = {f"dashboards/{_name(d)}": to_json(d) for d in found}
    sqlite = {f"sqlite/{_name(d)}": to_json(d, Dialect.SQLITE) for d in found if d.is_sql}
    provisioning = {
        "provisioning/datasources/inferwatch.yml": _yaml(_sources()),
        "provisioning/dashboards/inferwatch.yml": _yaml(_provider()),
    }
    return {**drawn, **sqlite, **provisioning}


def _name(dashboard: Dashboard) -> str:
    return f"{dashboard.uid.removeprefix(_PREFIX)}.json"


def _yaml(content: object) -> str:
    return "# Written by `make generate`.\n" + yaml.safe_dump(content, sort_keys=False, width=120)


def _sources() -> dict[str, Any]:
    prometheus = {
        "name": "Prometheus",
        "uid": "inferwatch-prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": "http://prometheus:9090",
        "isDefault": True,
        "editable": False,
        "jsonData": {"httpMethod": "POST", "prometheusType": "Prometheus", "timeInterval": SCRAPE_INTERVAL},
    }
    history = {
        "name": "inferwatch history",
        "uid": "inferwatch-postgres",
        "type": "grafana-postgresql-datasource",
        "access": "proxy",
        "url": "postgres:5432",
        "user": "grafana",
        "editable": False,
        "jsonData": {"database": "inferwatch", "sslmode": "disable", "postgresVersion": 1500},
        "secureJsonData": {"password": f"$__file{{{PASSWORD_FILE}}}"},
    }
    return {"apiVersion": 1, "datasources": [prometheus, history]}


def _provider() -> dict[str, Any]:
    provider = {
        "name": "inferwatch",
        "orgId": 1,
        "type": "file",
        "folder": "inferwatch",
        "folderUid": "inferwatch",
        "disableDeletion": True,
        "allowUiUpdates": False,
        "updateIntervalSeconds": 60,
        "options": {"path": FOLDER},
    }
    return {"apiVersion": 1, "providers": [provider]}
