"""Puts the parts of a monitor together as the configuration says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Engine

from alerts.burn import MINUTE
from exporters.observation import Observation
from monitor.alert_history.follower import AlertFollower
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.config import MonitorConfig
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.daily import Daily
from monitor.evaluate.embedded import Embedded
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.ourselves import Ourselves, Sidecar
from monitor.evaluate.poster import Poster
from monitor.evaluate.watch import Watch
from monitor.fleet import STALE_AFTER_SECONDS, Fleet
from monitor.follower import Follower
from monitor.history.ask import History
from monitor.history.database import HistoryError, open_database, upgrade
from monitor.history.lease import SCRAPED, Lease, LeaseError
from monitor.history.store import Store
from monitor.history.upkeep import Upkeep
from monitor.recorder import Recorder
from monitor.sources import Source
from monitor.sources.prometheus.client import Client
from monitor.sources.prometheus.source import PrometheusSource
from monitor.sources.sidecar_url import SidecarUrl


@dataclass(frozen=True, slots=True)
class Monitor:
    fleet: Fleet
    history: History
    recorder: Recorder
    alerts: AlertHistory
    watch: Watch
    database: Engine
    lease: Lease | None

    def close(self) -> None:
        """Once the recorder has ended."""
        if self.lease is not None:
            with suppress(LeaseError):  # it runs out by itself
                self.lease.release()
        self.database.dispose()


def assemble(
    config: MonitorConfig,
    sources: Sequence[Source] = (),
    *,
    database_url: str | None = None,
    clock: Callable[[], float] = time.time,
) -> Monitor:
    """`sources` come before those of the configuration; `database_url` goes before the configuration's.

    Brings the database up to date. Raises HistoryError.
    """
    database = open_database(database_url or config.history.database, config.history.password_file)
    interval = config.scrape.interval
    fleet = Fleet(stale_after=max(STALE_AFTER_SECONDS, 3 * interval))
    client = None if config.prometheus is None else Client(config.prometheus)
    all_sources = [*sources, *_elsewhere(config, client, clock)]
    lease = Lease(database, SCRAPED) if any(source.is_recorded for source in all_sources) else None
    objectives = Objectives(config.slos)
    try:
        upgrade(database)
        store = Store(database, lease)
        recorder = Recorder(
            all_sources,
            fleet,
            store,
            interval=interval,
            follower=_follower(config, client, store, clock),
            upkeep=Upkeep(database, config.history.retention.seconds, Daily(database, objectives).turn),
            clock=clock,
        )
    except HistoryError:
        database.dispose()
        raise
    alerts = _alerts(config, client, AlertStore(database), clock)
    embedded = _embedded(config, database, fleet, recorder, clock)
    watch = Watch(database, objectives, delay=_delay(config), embedded=embedded, clock=clock)
    return Monitor(fleet, History(database), recorder, alerts, watch, database, lease)


def _embedded(
    config: MonitorConfig, database: Engine, fleet: Fleet, recorder: Recorder, clock: Callable[[], float]
) -> Embedded | None:
    """None where a Prometheus has rules."""
    if config.prometheus is not None:
        return None
    to = config.alertmanager
    poster = Poster(to.url, to.access) if to.url else None
    ourselves = Ourselves(config.node, _Known(recorder, fleet))
    rows, store = ConditionRows(database, fleet), AlertStore(database)
    return Embedded(rows, store, ourselves, poster, servers_on=fleet.gpus.last_servers, clock=clock)


@dataclass(frozen=True, slots=True)
class _Known:
    """What this process knows, for conditions of itself."""

    recorder: Recorder
    fleet: Fleet

    def lag(self) -> float:
        return self.recorder.lag()

    def sidecars(self) -> list[Sidecar]:
        silent = self.recorder.source_problems()
        found = (source for source in self.recorder.sources if isinstance(source, SidecarUrl))
        return [Sidecar(source.name, source.node, source.name not in silent) for source in found]

    def observations(self, now: float) -> list[Observation]:
        latest = (self.fleet.latest(row.node, row.server) for row in self.fleet.rows(now) if row.up)
        return [observation for observation in latest if observation is not None]


def _delay(config: MonitorConfig) -> float:
    """Until every source has told what came to an end: it is asked again, and once more if it was late."""
    return 2 * config.scrape.interval if config.prometheus is None else config.prometheus.delay + MINUTE


def _elsewhere(config: MonitorConfig, client: Client | None, clock: Callable[[], float]) -> list[Source]:
    if config.prometheus is not None and client is not None:
        return [PrometheusSource(client, config.prometheus, clock=clock)]
    return [SidecarUrl(url, config.scrape.interval, clock=clock) for url in config.sources.sidecars]


def _follower(
    config: MonitorConfig, client: Client | None, store: Store, clock: Callable[[], float]
) -> Follower | None:
    """Asks through the source's client, which puts one question at a time."""
    if config.prometheus is None or client is None:
        return None
    return Follower(client, store, config.prometheus, clock=clock)


def _alerts(
    config: MonitorConfig, client: Client | None, store: AlertStore, clock: Callable[[], float]
) -> AlertHistory:
    """Asks through the source's client, too."""
    follower = AlertFollower(client, config.prometheus, store) if config.prometheus and client else None
    return AlertHistory(store, follower, access=config.alertmanager, clock=clock)
