from __future__ import annotations

from pathlib import Path

import pytest

from inferwatch import generate

GENERATED = generate.generated()


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_checked_in_is_what_the_code_generates(name: str) -> None:
    assert (generate.ROOT / name).read_text(encoding="utf-8") == GENERATED[name], "run: make generate"


@pytest.mark.parametrize("folder", ["docs/reference", "alerts/generated", "dashboards/generated"])
def test_nothing_else_lies_among_what_is_generated(folder: str) -> None:
    files = (path for path in (generate.ROOT / folder).rglob("*") if path.is_file())
    found = {str(path.relative_to(generate.ROOT)) for path in files}
    assert found == {name for name in GENERATED if name.startswith(f"{folder}/")}


def test_generating_again_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate.main(tmp_path)
    written = capsys.readouterr().out.splitlines()
    assert len(written) == len(GENERATED)
    generate.main(tmp_path)
    assert capsys.readouterr().out == ""
