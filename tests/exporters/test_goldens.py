"""The whole normalised text of pages of every release: any change of it shows as a difference to be read.

A new page becomes a golden when an empty `….expected` stands beside it and `--update-goldens` fills it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters import exposition
from exporters.tables import FRONTENDS
from tests.exporters.recorded import CAPTURES, normalise

GOLDEN = [page for page in sorted(CAPTURES.glob("*/*/*.prom")) if page.with_suffix(".expected").exists()]


@pytest.mark.parametrize("page", GOLDEN, ids=lambda page: str(page.relative_to(CAPTURES)))
def test_the_normalised_text_is_the_expected_one(page: Path, update_goldens: bool) -> None:
    text = exposition.page([normalise(page).chunks()])
    expected = page.with_suffix(".expected")
    if update_goldens:
        expected.write_text(text)
    assert text == expected.read_text()


def test_every_frontend_has_captures_and_every_release_has_a_golden_and_an_origin() -> None:
    assert {folder.name for folder in CAPTURES.iterdir()} == FRONTENDS.keys()
    assert {page.parent for page in GOLDEN} == {folder for folder in CAPTURES.glob("*/*") if folder.is_dir()}
    assert all((CAPTURES / name / "ORIGIN.md").exists() for name in FRONTENDS)
