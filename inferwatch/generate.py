"""Writes everything that is generated from the code: `python -m inferwatch.generate [ROOT]`."""

from __future__ import annotations

import sys
from pathlib import Path

from alerts.alertmanager import configuration
from alerts.conditions import condition_groups
from alerts.rules.slo import slo_groups
from alerts.rules.text import prometheus_rule, rule_file
from alerts.slo.published import DEFAULT, json_schema
from alerts.slo.spec import read
from dashboards import DASHBOARDS
from dashboards.files import files
from inferwatch.reference import pages
from inferwatch.reference.conditions import conditions_page
from inferwatch.reference.dashboards import dashboards_page

ROOT = Path(__file__).parent.parent


def generated() -> dict[str, str]:
    """Text by path below the root of the repository."""
    groups = slo_groups(read(DEFAULT))
    return {
        **{f"docs/reference/{name}": text for name, text in pages().items()},
        "docs/reference/slo.schema.json": json_schema(),
        "alerts/generated/slo-rules.yml": rule_file(groups),
        "alerts/generated/slo-prometheusrule.yml": prometheus_rule(groups, "inferwatch-slo"),
        "docs/conditions.md": conditions_page(),
        "docs/reference/dashboards.md": dashboards_page(DASHBOARDS),
        "alerts/generated/conditions-rules.yml": rule_file(condition_groups()),
        "alerts/generated/conditions-prometheusrule.yml": prometheus_rule(condition_groups(), "inferwatch-conditions"),
        "alerts/generated/alertmanager.yml": configuration(teams=["search"], user_labels=["team"]),
        **{f"dashboards/generated/{name}": text for name, text in files(DASHBOARDS).items()},
    }


def main(root: Path = ROOT) -> None:
    for name, text in generated().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path}")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
