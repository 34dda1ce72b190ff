"""The alert history as the rest of the monitor uses it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from exporters.connection import Credentials
from monitor.alert_history.alert import Alert
from monitor.alert_history.follower import AlertFollower
from monitor.alert_history.notification import Notification
from monitor.alert_history.store import AlertStore, Wanted

_log = logging.getLogger(__name__)


class AlertHistory:
    def __init__(
        self,
        store: AlertStore,
        follower: AlertFollower | None = None,
        *,
        access: Credentials,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `follower` only what Alertmanager tells is known. `clock` tells unix seconds."""
        self.access = access
        """What Alertmanager must show."""
        self._store = store
        self._follower = follower
        self._clock = clock
        self.truncated = 0
        """Alerts that Alertmanager left out of its notifications so far."""

    async def run(self) -> None:
        """Until it is cancelled, or for nothing where no Prometheus is read."""
        if self._follower is not None:
            await self._follower.run()

    async def take(self, notification: Notification) -> None:
        """Returns once it is stored. Raises WriteError."""
        await asyncio.to_thread(self._store.tell, notification, self._clock())
        if left_out := notification.truncated_alerts:
            self.truncated += left_out
            _log.warning(
                "Alertmanager left %d alerts out of a notification to receiver %r: see `max_alerts` of its "
                "webhook configuration",
                left_out,
                notification.receiver,
            )

    def find(self, wanted: Wanted) -> list[Alert]:
        """The newest first. Raises ReadError."""
        return self._store.find(wanted)

    def was_told(self) -> bool:
        """Whether Alertmanager ever told of any alert. Raises ReadError."""
        return self._store.was_told()

    def history_problems(self) -> list[str]:
        """What keeps alerts from being read or stored now."""
        problem = None if self._follower is None else self._follower.trouble.text
        return [problem] if problem else []
