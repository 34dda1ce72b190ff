"""A plan is shared where it is the same but for the server's name, and only there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporters import plan, shared
from exporters.normalise import Identity, Limits, Normaliser, Reading
from exporters.plan import Plan
from exporters.shared import SharedPlans
from exporters.tables import FRONTENDS
from tests.exporters.recorded import CAPTURES, page_id, side_documents

PAGES = sorted(p for p in CAPTURES.glob("*/*/*.prom") if "after" in p.name or "mid01" in p.name)
FIRST, SECOND = Identity("n", "a:8000"), Identity("n", 'b"\\:8000')
PAGE = CAPTURES / "vllm" / "0.32.0" / "A-2-after.prom"
TEXT = PAGE.read_text()


def read(
    plans: SharedPlans | None, identity: Identity, text: str = TEXT, page: Path = PAGE, samples: int = 9000
) -> Reading:
    frontend = FRONTENDS[page.parent.parent.name]
    follower = Normaliser(frontend, identity, Limits(max_samples=samples), plans)
    return follower.normalise(text, side_documents(page, frontend))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each plan that is compiled."""
    made: list[int] = []
    real = plan.compile_plan

    def counting(*arguments: object) -> Plan:
        made.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shared, "compile_plan", counting)
    return made


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_shared_plan_says_what_the_server_s_own_says(page: Path) -> None:
    plans = SharedPlans()
    read(plans, FIRST, page.read_text(), page)
    of_shared, own = read(plans, SECOND, page.read_text(), page), read(None, SECOND, page.read_text(), page)
    assert of_shared.chunks() == own.chunks()
    assert (of_shared.values, of_shared.histograms) == (own.values, own.histograms)
    assert (of_shared.fields, of_shared.mapped, of_shared.unmapped) == (own.fields, own.mapped, own.unmapped)
    assert (of_shared.findings, of_shared.dropped_samples) == (own.findings, own.dropped_samples)


def test_servers_that_differ_in_name_and_numbers_share_one_plan(compiled: list[int]) -> None:
    plans = SharedPlans()
    read(plans, FIRST)
    read(plans, SECOND, TEXT.replace(" 0.0\n", " 7.0\n"))
    assert len(compiled) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(SECOND, node="m"),
        replace(SECOND, labels={"team": "x"}),
        replace(SECOND, model="mine"),
        replace(SECOND, role="decode"),
        replace(SECOND, model_aliases={"a": "b"}),
        replace(SECOND, prefer={"entry": "e"}),
        replace(SECOND, server=""),
    ],
)
def test_what_else_is_known_of_a_server_makes_another_plan(compiled: list[int], other: Identity) -> None:
    plans = SharedPlans()
    read(plans, FIRST)
    assert read(plans, other).chunks() == read(None, other).chunks()
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "text",
    [TEXT.replace(" counter\n", " gauge\n", 1), TEXT + "new 1\n", TEXT.replace('engine="0"', 'engine="1"')],
    ids=["type", "sample", "label"],
)
def test_another_page_makes_another_plan(compiled: list[int], text: str) -> None:
    plans = SharedPlans()
    read(plans, FIRST)
    read(plans, SECOND, text)
    assert len(compiled) == 2


def test_other_limits_make_another_plan(compiled: list[int]) -> None:
    plans = SharedPlans()
    read(plans, FIRST)
    read(plans, SECOND, samples=8999)
    assert len(compiled) == 2


def test_a_duplicate_is_told_with_the_server_s_own_number() -> None:
    plans = SharedPlans()
    read(plans, FIRST, TEXT + "twice 1\ntwice 2\n")
    assert ("twice 3", "duplicate") in read(plans, SECOND, TEXT + "twice 1\ntwice 3\n").dropped_samples
