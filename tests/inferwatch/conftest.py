from __future__ import annotations

import pytest

from tests.inferwatch.command import Command


@pytest.fixture
def inferwatch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)
