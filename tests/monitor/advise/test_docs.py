"""The page of docs has what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.flags import Purpose
from exporters.tables import FRONTENDS
from monitor.advise import capacity, framework
from monitor.advise.closer import MOST, NEWEST
from monitor.advise.findings import RULES
from monitor.advise.matrix import STARS
from monitor.advise.rule import OBSERVED, Rule
from monitor.advise.standing import STOOD, STOOD_LONG
from monitor.api.advice import AdviceOut

TEXT = (Path(__file__).parents[3] / "docs" / "advice.md").read_text(encoding="utf-8")


def row(rule: Rule) -> str:
    limits = "; ".join(f"{limit.what} {limit.shown}" for limit in rule.limits)
    return f"| `{rule.name}` | {rule.title}: {rule.meaning[0].lower()}{rule.meaning[1:]} | {limits} |"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_finding_has_its_row_with_its_limits(rule: Rule) -> None:
    assert row(rule) in TEXT


def test_findings_stand_in_the_order_in_which_they_are_told() -> None:
    places = [TEXT.index(f"| `{rule.name}` |") for rule in RULES]
    assert places == sorted(places)


def test_other_limits_are_those_of_the_code() -> None:
    for limit in (
        OBSERVED, MOST, NEWEST, STOOD, STOOD_LONG, framework.FEW, framework.SHARED, framework.UNLIKE,
        capacity.LEAST_STRETCHES, capacity.LEAST_REQUESTS, capacity.BEYOND, capacity.APPROACHED,
    ):  # fmt: skip
        assert f"| {limit.what} | {limit.shown} | {limit.why} |" in TEXT


def test_the_article_s_matrix_is_told() -> None:
    for criterion, stars in STARS.items():
        told = " | ".join(str(stars[name]) for name in ("vllm", "sglang", "lmdeploy", "tensorrt_llm"))
        assert f"| {criterion.value} | {told} |" in TEXT


@pytest.mark.parametrize("name", FRONTENDS)
def test_flags_are_those_of_the_tables(name: str) -> None:
    flags = FRONTENDS[name].flags
    cells = (
        ", ".join(_told(flag.name, flag.releases) for flag in flags.get(purpose, ())) or "–" for purpose in Purpose
    )
    assert f"| {name} | {' | '.join(cells)} |" in TEXT


def _told(name: str, releases: str) -> str:
    code = ", ".join(f"`{part}`" for part in name.split(", "))
    return f"{code} ({releases})" if releases else code


def test_every_part_of_the_answer_is_described() -> None:
    api = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
    section = api.split("\n## Advice\n")[1].split("\n## ")[0]
    assert all(f"`{name}`" in section for name in AdviceOut.model_fields)
