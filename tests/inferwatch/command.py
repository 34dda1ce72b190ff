"""Runs a command of `inferwatch` in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from inferwatch.__main__ import main


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str) -> Ran:
        self._monkeypatch.setattr(sys, "argv", ["inferwatch", *arguments])
        self._capsys.readouterr()
        status = _status()
        return Ran(status, *self._capsys.readouterr())


def _status() -> int:
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def lines(text: str, containing: str) -> Sequence[str]:
    return [line for line in text.splitlines() if containing in line]
