from __future__ import annotations

from pathlib import Path

import pytest

from inferwatch import generate


@pytest.mark.parametrize("name", generate.generated())
def test_what_is_checked_in_is_what_the_code_generates(name: str) -> None:
    assert (generate.ROOT / name).read_text(encoding="utf-8") == generate.generated()[name], "run: make generate"


def test_nothing_else_lies_among_the_generated_pages() -> None:
    folder = generate.ROOT / "docs" / "reference"
    assert {f"docs/reference/{path.name}" for path in folder.iterdir()} == set(generate.generated())


def test_generating_again_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate.main(tmp_path)
    written = capsys.readouterr().out.splitlines()
    assert len(written) == len(generate.generated())
    generate.main(tmp_path)
    assert capsys.readouterr().out == ""
