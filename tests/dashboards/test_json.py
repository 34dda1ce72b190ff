"""What Grafana's own linter would say, and whether Grafana's own types hold every word of the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboards.panels import FILES, JSON, Json, panels, variables

UNITS = {
    "none", "short", "percentunit", "s", "bytes", "binBps", "reqps", "watt", "joule", "celsius", "hertz",
    "dateTimeAsIso", "dateTimeFromNow", "kwatth",
}  # fmt: skip
"""Of those that Grafana knows, the ones that panels have."""
KNOWN_TO_GRAFANA_ALONE = re.compile(r"^\.annotations\.list\[\d+\]\.(target\.\w+|titleFormat|textFormat)")
"""These types know annotations of Grafana's own database alone: the data source reads the rest."""
every = pytest.mark.parametrize("name", JSON)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, of in value.items():
            yield from leaves(of, f"{path}.{key}")
    elif isinstance(value, list):
        for i, of in enumerate(value):
            yield from leaves(of, f"{path}[{i}]")
    else:
        yield path, value


@every
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2")  # Grafana 12 still stores this one
def test_grafanas_own_types_hold_every_word(name: str) -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    read = Dashboard.from_json(JSON[name])
    written = dict(leaves(json.loads(JSONEncoder().encode(read))))
    lost = {path: value for path, value in leaves(JSON[name]) if written.get(path) != value}
    assert {path for path in lost if not KNOWN_TO_GRAFANA_ALONE.search(path)} == set()


@every
def test_there_is_one_data_source_and_it_is_a_variable(name: str) -> None:
    dashboard = JSON[name]
    (source,) = variables(dashboard, "datasource")
    assert source["label"] == "Data source"
    assert source["name"] == ("datasource" if source["query"] == "prometheus" else "database"), "links take it along"
    own = f"${{{source['name']}}}"
    references = [ref for path, ref in leaves(dashboard) if path.endswith("datasource.uid")]
    assert set(references) == {own}
    for panel in panels(dashboard):
        if panel["type"] != "text":
            assert {panel["datasource"]["uid"], *(t["datasource"]["uid"] for t in panel["targets"])} == {own}
            assert {t["datasource"]["type"] for t in panel["targets"]} == {source["query"]}


@every
def test_nothing_asks_the_importer_for_anything(name: str) -> None:
    assert not {"__inputs", "__requires", "id", "version"} & JSON[name].keys()


@every
def test_every_choice_is_read_anew_when_the_time_range_changes(name: str) -> None:
    assert {v["refresh"] for v in variables(JSON[name], "query")} <= {2}


@every
def test_every_panel_has_title_description_unit_and_targets(name: str) -> None:
    for panel in panels(JSON[name]):
        assert panel["title"]
        assert panel["description"]
        if panel["type"] != "text":
            assert panel["targets"]
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS


@every
def test_rates_look_back_over_what_grafana_says(name: str) -> None:
    for panel in panels(JSON[name]):
        for target in panel.get("targets", ()):
            over = re.findall(r"\bi?rate\([^\[]*\[([^\]]*)\]", target.get("expr", ""))
            assert set(over) <= {"$__rate_interval"}


@every
def test_it_cannot_be_edited_where_the_edit_would_be_lost(name: str) -> None:
    assert JSON[name]["editable"] is False


@every
def test_no_two_panels_have_the_same_number(name: str) -> None:
    numbers = [panel["id"] for panel in JSON[name]["panels"]]
    assert len(numbers) == len(set(numbers))


def test_no_two_dashboards_have_the_same_uid() -> None:
    uids = [dashboard["uid"] for name, dashboard in JSON.items() if name.startswith("dashboards/")]
    assert len(uids) == len(set(uids))


@every
def test_panels_lie_within_the_grid_and_never_over_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in JSON[name]["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


@every
def test_a_missing_value_is_drawn_as_missing(name: str) -> None:
    for panel in panels(JSON[name]):
        if panel["type"] == "text":
            continue
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"] == "no data"
        assert defaults["custom"].get("spanNulls", False) is False
        reduced = panel["options"].get("reduceOptions")
        assert reduced is None or all(t.get("instant", True) for t in panel["targets"]), "a last value may be hours old"


def by_name(found: Json, kind: str, name: str) -> Json:
    (only,) = (v for v in variables(found, kind) if v["name"] == name)
    return only


def test_choices_of_the_fleet_take_several_values_and_all() -> None:
    fleet = JSON["dashboards/fleet.json"]
    for name in ("node", "framework", "model", "role", "server"):
        choice = by_name(fleet, "query", name)
        assert (choice["multi"], choice["includeAll"], choice["current"]["value"]) == (True, True, ["$__all"])


@every
def test_a_choice_of_one_is_compared_as_it_is_and_has_a_name_of_its_own(name: str) -> None:
    """Grafana escapes what regular expressions read otherwise in choices of several alone; and a link takes along that
    all are chosen, whatever the dashboard to which it leads can choose."""
    of_one = {v["name"] for v in variables(JSON[name], "query") if not v["multi"]}
    asked = " ".join(str(text) for path, text in leaves(JSON[name]) if path.endswith((".expr", ".query")))
    for choice in of_one:
        assert f'="${choice}"' in asked
        assert f'=~"${choice}"' not in asked
    others = {v["name"] for other in JSON.values() for v in variables(other, "query") if v["multi"]}
    assert not of_one & others


def test_a_click_on_a_server_leads_to_it_with_the_time_and_the_data_source() -> None:
    (table,) = (p for p in panels(JSON["dashboards/fleet.json"]) if p["type"] == "table" and p["title"] == "Servers")
    (link,) = (
        value[0]["url"]
        for override in table["fieldConfig"]["overrides"]
        for prop, value in ((p["id"], p["value"]) for p in override["properties"])
        if prop == "links"
    )
    assert link == (
        '/d/inferwatch-server?var-one_node=${__data.fields["Host"]}&var-one_server=${__data.fields["Server"]}'
        "&${datasource:queryparam}&${__url_time_range}"
    )


def test_dashboards_lead_to_each_other_and_take_choices_and_time_along() -> None:
    for dashboard in JSON.values():
        (link,) = dashboard["links"]
        assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
            "dashboards", ["inferwatch"], True, True,
        )  # fmt: skip
        assert "inferwatch" in dashboard["tags"]


def test_the_text_is_the_same_every_time_and_sorted() -> None:
    from dashboards import DASHBOARDS
    from dashboards.files import files

    assert files(DASHBOARDS) == FILES
    for name, found in JSON.items():
        assert FILES[name] == json.dumps(found, indent=2, sort_keys=True) + "\n"
