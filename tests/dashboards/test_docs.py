from __future__ import annotations

import re

from alerts.rules.files import expressions
from alerts.rules.known import of_schema, problems
from exporters.loader import read_yaml
from inferwatch.generate import ROOT
from tests.dashboards.panels import FILES

DOCS = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
GENERATED = ROOT / "dashboards" / "generated"


def test_every_dashboard_has_its_row() -> None:
    told = re.findall(r"^\| `(\w+\.json)` \|", DOCS, re.MULTILINE)
    assert sorted(told) == sorted(name.removeprefix("dashboards/") for name in FILES if name.startswith("dashboards/"))


def test_what_is_said_of_the_provisioning_is_in_it() -> None:
    sources = FILES["provisioning/datasources/inferwatch.yml"]
    for told in re.findall(r"`(http://prometheus:\d+|postgres:\d+|/run/secrets/\w+)`", DOCS):
        assert told in sources


def test_rules_check_finds_every_metric_and_label_of_the_dashboards() -> None:
    """With the rules that record some of them beside."""
    files = [ROOT / "alerts" / "generated" / "slo-rules.yml", *sorted((GENERATED / "dashboards").glob("*.json"))]
    found = [e for file in files for e in expressions(file.name, read_yaml(file)[0])]
    assert len({e.place.split(":")[0] for e in found}) >= 6
    assert problems(found, of_schema()) == []
