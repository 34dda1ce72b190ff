"""The dashboards as Grafana reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dashboards import DASHBOARDS
from dashboards.files import files

Json = dict[str, Any]
FILES = files(DASHBOARDS)
JSON: dict[str, Json] = {name: json.loads(text) for name, text in FILES.items() if name.endswith(".json")}


def panels(dashboard: Json) -> Iterator[Json]:
    """All but rows."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels", ())
        if panel["type"] != "row":
            yield panel


def variables(dashboard: Json, kind: str) -> list[Json]:
    return [v for v in dashboard["templating"]["list"] if v["type"] == kind]


def expressions(dashboard: Json) -> Iterator[tuple[str, str]]:
    """Where it stands, and what is asked."""
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            if "expr" in target:
                yield f"{panel['title']} {target['refId']}", target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation["target"]:
            yield annotation["name"], annotation["target"]["expr"]
