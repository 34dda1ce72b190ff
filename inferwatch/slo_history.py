"""What commands about objectives have in common that judge a history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from alerts.slo.spec import Slo
from exporters.config import default_path
from inferwatch.console import CommandError
from inferwatch.misuse import problems_end
from inferwatch.place import Place
from inferwatch.process import load
from monitor.config import MonitorConfig
from monitor.evaluate.objectives import slos_of
from monitor.history.store import Store

_USUAL = Path("slo.yml")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which objectives, over which history. Without `file` they are those of the configuration, or of slo.yml here."""

    file: Path | None
    at: Place

    def slos(self) -> list[Slo]:
        """Raises CommandError."""
        with problems_end():
            return slos_of(self._files())

    def _files(self) -> Sequence[Path]:
        if self.file is not None:
            return [self.file]
        configured = load(self.at.config or default_path(), MonitorConfig).slos
        return configured or [_USUAL]


def newest_minute(engine: Engine) -> float:
    """Its end, in unix seconds. Raises CommandError where there is none."""
    newest = Store(engine).newest(time.time())
    if newest is None:
        raise CommandError("there is no minute in the history yet")
    return newest
