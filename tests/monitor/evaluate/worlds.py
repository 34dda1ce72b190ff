"""Servers that are judged minute by minute, without a Prometheus."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from exporters.observation import Observation
from monitor.alert_history.alert import Alert
from monitor.alert_history.store import AlertStore, Wanted
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.embedded import Embedded
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.ourselves import Ourselves, Sidecar
from monitor.evaluate.poster import Poster
from monitor.evaluate.watch import Watch
from monitor.fleet import Fleet
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import START, engine, minute, target, up, write
from tests.monitor.evaluate.test_watch import SPEC


@dataclass
class Known:
    """What a monitor would know of itself."""

    behind: float = 0.0
    of_sidecars: list[Sidecar] = field(default_factory=list)
    of_servers: list[Observation] = field(default_factory=list)

    def lag(self) -> float:
        return self.behind

    def sidecars(self) -> list[Sidecar]:
        return self.of_sidecars

    def observations(self, _now: float) -> list[Observation]:
        return self.of_servers


class World:
    """A server that is judged minute by minute."""

    def __init__(self, database: Engine, folder: Path, poster: Poster | None = None, begins: int = START) -> None:
        self.database, self.now, self.begins = database, float(begins), begins
        (folder / "slo.yml").write_text(SPEC)
        self._file = folder / "slo.yml"
        self._poster = poster
        self.known = Known()
        self.minute = 0
        self.start()

    def start(self) -> None:
        """Anew, as after a restart of the process."""
        self.fleet = Fleet()
        rows, store = ConditionRows(self.database, self.fleet), AlertStore(self.database)
        ourselves = Ourselves("n1", self.known)
        servers_on = self.fleet.gpus.last_servers
        self.embedded = Embedded(rows, store, ourselves, self._poster, servers_on=servers_on, clock=lambda: self.now)
        objectives = Objectives([self._file])
        self.watch = Watch(self.database, objectives, delay=30, embedded=self.embedded, clock=lambda: self.now)

    def serve(self, minutes: int, *, failed: float = 0.0, is_up: bool = True, judged: bool = True) -> None:
        for _ in range(minutes):
            rows: dict[Any, Any] = {target("a"): up(is_up), target("b"): up(), engine("b"): minute()}
            if is_up:
                rows[engine("a")] = minute(finished={"stop": 100 - failed, "error": failed})
            write(self.database, [Window(self.begins + 60 * self.minute, rows)])
            self.minute += 1
            self.now = self.begins + 60 * self.minute + 30.0
            if judged:
                self.watch.turn()
                assert self.watch.history_problems() == []

    def pass_by(self, minutes: int) -> None:
        """Nobody is there to observe anything."""
        self.minute += minutes
        self.now += 60.0 * minutes

    def alerts(self, name: str) -> list[Alert]:
        return AlertStore(self.database).find(Wanted(100, self.now, name=name))
