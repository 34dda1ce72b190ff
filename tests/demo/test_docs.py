from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from demo.standard import SERVICES, SPECS

PAGE = (Path(__file__).parents[2] / "docs" / "simulated-fleet.md").read_text(encoding="utf-8")


def shared() -> list[set[str]]:
    """Services that have a model with others, together with these."""
    model = {spec.name: spec.model for spec in SPECS}
    services = defaultdict(set)
    for service in SERVICES:
        services[model[service.servers[0]]].add(service.name)
    return [names for names in services.values() if len(names) > 1]


def test_it_is_told_which_services_go_on_for_each_other_when_one_has_an_outage() -> None:
    (row,) = re.findall(r"^\| `outage` \| `ServerDown`.*$", PAGE, re.MULTILINE)
    told = re.search(r"unless another service has the model, as (.*?) have one", row)
    assert told
    assert [set(re.findall(r"`(\w+)`", told[1]))] == shared()
