"""The whole normalised text of one page per release: any change of it shows as a difference to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters import exposition
from exporters.tables import FRONTENDS
from tests.exporters.recorded import CAPTURES, normalise, page_id

_MIDDLE = ("1-mid62s.prom", "A-1-mid12.prom", "C-dp2-smallkv-1-mid03.prom", "B-2api-ngram-1-mid05.prom")


def releases() -> list[Path]:
    return [folder for frontend in FRONTENDS for folder in sorted((CAPTURES / frontend).iterdir()) if folder.is_dir()]


GOLDEN = [folder / name for folder in releases() for name in _MIDDLE if (folder / name).exists()]


@pytest.mark.parametrize("page", GOLDEN, ids=page_id)
def test_the_normalised_text_is_the_expected_one(page: Path, update_goldens: bool) -> None:
    text = exposition.page([normalise(page).chunks()])
    expected = page.with_suffix(".expected")
    if update_goldens:
        expected.write_text(text)
    assert text == expected.read_text()


def test_every_release_has_a_golden() -> None:
    assert {page.parent for page in GOLDEN} == set(releases())
