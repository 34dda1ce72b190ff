"""Each alert has a runbook, and a runbook names nothing that does not exist."""

from __future__ import annotations

import re

import pytest

from alerts.conditions import CONDITIONS
from alerts.rules.burn import NAMES
from alerts.rules.model import RUNBOOKS
from exporters.findings import GPU_KINDS, KINDS
from exporters.gpu.xids import XIDS, Class
from exporters.schema import METRICS, PHASE_OF_METRIC
from exporters.tables import FRONTENDS
from inferwatch.generate import ROOT

BOOKS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / RUNBOOKS).glob("*.md")}
HEADINGS = ["What it means", "How to confirm", "What to do"]
KNOWN = {*METRICS, *KINDS, *GPU_KINDS, *(f"{metric}_{part}" for metric in PHASE_OF_METRIC for part in ("sum", "count"))}


def test_every_alert_has_one_and_there_are_no_others() -> None:
    assert set(BOOKS) == {*CONDITIONS, *NAMES.values()}


@pytest.mark.parametrize("name", BOOKS)
def test_it_says_what_it_means_how_to_confirm_and_what_to_do(name: str) -> None:
    headings = re.findall(r"^## (.+)$", BOOKS[name], re.MULTILINE)
    assert BOOKS[name].startswith(f"# {name}\n")
    assert headings[:3] == HEADINGS
    assert headings[3:] in ([], ["By framework"])


@pytest.mark.parametrize("name", BOOKS)
def test_it_names_only_metrics_and_findings_that_there_are(name: str) -> None:
    assert set(re.findall(r"\b(?:llm|gpu|inferwatch)_\w+", BOOKS[name])) <= KNOWN


@pytest.mark.parametrize("name", BOOKS)
def test_its_links_lead_to_runbooks(name: str) -> None:
    assert set(re.findall(r"\]\((\w+)\.md\)", BOOKS[name])) <= set(BOOKS)


@pytest.mark.parametrize("name", ["KvCacheSaturated", "QueueGrowing", "PrefixHitsCollapsed", "PreemptionsFrequent"])
def test_the_flags_it_names_are_those_of_the_tables(name: str) -> None:
    known = [flag for frontend in FRONTENDS.values() for of_purpose in frontend.flags.values() for flag in of_purpose]
    flags = {name for flag in known for name in flag.name.split(", ")}
    told = set(re.findall(r"`(--[a-z-]\S*)`", BOOKS[name]))
    assert told
    assert told <= flags


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("GpuXidHardware", Class.HARDWARE),
        ("GpuXidRecovered", Class.RECOVERED),
        ("GpuXidApplication", Class.APPLICATION),
    ],
)
def test_the_numbers_of_xids_are_those_of_the_class(name: str, kind: Class) -> None:
    told = re.search(r"^Numbers: ([\d, ]+)\.$", BOOKS[name], re.MULTILINE)
    assert told is not None
    assert [int(number) for number in told[1].split(", ")] == sorted(n for n, xid in XIDS.items() if xid.kind is kind)
