"""Asks a Prometheus what Grafana would ask it for a dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.dashboards.panels import Json, panels
from tests.dashboards.recorded import EVERY, MINUTES
from tests.end_to_end.web import get
from tests.servers.queried import Queried

RATE_INTERVAL, RANGE = 4 * EVERY, (MINUTES - 5) * 60
_OF_GRAFANA = {"__rate_interval": f"{RATE_INTERVAL}s", "__range": f"{RANGE}s", "__range_s": str(RANGE)}
_VARIABLE = re.compile(r"\$(\w+)")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True)
class Grafana:
    """At one moment, over the time before it."""

    prometheus: Queried
    at: int

    def choices(self, dashboard: Json, **chosen: Sequence[str]) -> dict[str, str]:
        """Every variable as it stands in an expression; all of what there is, where nothing is chosen."""
        found: dict[str, str] = {}
        for variable in dashboard["templating"]["list"]:
            name = variable["name"]
            if variable["type"] == "custom":
                found[name] = chosen.get(name, [variable["current"]["value"]])[0]
            elif variable["type"] == "query":
                found[name] = self._chosen(variable, chosen.get(name), found)
        return found

    def _chosen(self, variable: Json, wanted: Sequence[str] | None, before: Mapping[str, str]) -> str:
        if wanted is None and variable.get("allValue"):
            return str(variable["allValue"])
        found = wanted or self.options(variable, before)
        return _alternatives(found) if variable["multi"] else [*found, ""][0]

    def options(self, variable: Json, before: Mapping[str, str]) -> list[str]:
        query = interpolated(variable["query"], before)
        if match := _LABEL_VALUES.fullmatch(query):
            found = self._asked(f"group by ({match[2]}) (last_over_time({match[1]}[{RANGE}s]))")
            return sorted(r["metric"].get(match[2], "") for r in found)
        result = self._asked(query.removeprefix("query_result(").removesuffix(")"))
        lines = ["{" + ",".join(f'{k}="{v}"' for k, v in r["metric"].items()) + "} 1" for r in result]
        return sorted({m[1] for line in lines if (m := re.search(variable["regex"].strip("/"), line))})

    def answers(self, target: Json, choices: Mapping[str, str]) -> list[dict[str, Any]]:
        """Series with their `value`, or over the time that is shown with their `values`."""
        expr = interpolated(target["expr"], choices)
        return self._asked(expr) if target.get("instant") else self._asked_over(expr)

    def _asked(self, expr: str) -> list[dict[str, Any]]:
        return _result(get(f"{self.prometheus.url}/api/v1/query", query=expr, time=str(self.at)).json(), expr)

    def _asked_over(self, expr: str) -> list[dict[str, Any]]:
        over = {"start": str(self.at - RANGE), "end": str(self.at), "step": "60"}
        return _result(get(f"{self.prometheus.url}/api/v1/query_range", query=expr, **over).json(), expr)

    def panel(self, dashboard: Json, title: str, **chosen: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """The answers of the only panel of this title, by the letter of the target."""
        return self.asked(one(dashboard, title), dashboard, **chosen)

    def asked(self, panel: Json, dashboard: Json, **chosen: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        choices = self.choices(dashboard, **chosen)
        return {target["refId"]: self.answers(target, choices) for target in panel["targets"]}


def one(dashboard: Json, title: str, kind: str = "") -> Json:
    """The panel of this title, and of this type if several have it."""
    (panel,) = (p for p in panels(dashboard) if p["title"] == title and kind in ("", p["type"]))
    return panel


def _result(answer: Any, expr: str) -> list[dict[str, Any]]:
    assert answer["status"] == "success", f"{answer.get('error')}: {expr}"
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _alternatives(values: Sequence[str]) -> str:
    escaped = [_SPECIAL.sub(r"\\\\\g<0>", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def interpolated(text: str, values: Mapping[str, str]) -> str:
    known = {**_OF_GRAFANA, **values}
    return _VARIABLE.sub(lambda match: known.get(match[1], match[0]), text)


def now(series: Mapping[str, Any]) -> float:
    """The newest value."""
    return float(series["value"][1] if "value" in series else series["values"][-1][1])
