"""Every known way in which a server's numbers mislead has its row in the table, and on the reference page."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from exporters.table import Frontend
from exporters.tables import FRONTENDS
from inferwatch.generate import ROOT

KNOWN: dict[str, list[dict[str, str]]] = yaml.safe_load(Path(__file__).with_name("traps.yml").read_text())
ALL = [(name, trap["known"], trap["told"]) for name, traps in KNOWN.items() for trap in traps]


def test_traps_are_known_of_every_frontend() -> None:
    assert KNOWN.keys() == FRONTENDS.keys()
    assert len({known for _, known, _ in ALL}) == len(ALL)


@pytest.mark.parametrize(("name", "known", "told"), ALL, ids=[f"{name}: {known}" for name, known, _ in ALL])
def test_a_known_trap_is_handled_and_told(name: str, known: str, told: str) -> None:
    (trap,) = [t for t in FRONTENDS[name].traps if t.title == told]
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert f"| {trap.title} | {trap.handling} |" in page


@pytest.mark.parametrize("frontend", FRONTENDS.values(), ids=lambda f: f.name)
def test_titles_are_told_once(frontend: Frontend) -> None:
    titles = [trap.title for trap in frontend.traps]
    assert len(titles) == len(set(titles))
