"""How far a long reading has come: on a terminal one line that is written over, else now and then a line of the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

log = logging.getLogger(__name__)

_LOG_EVERY_SECONDS = 60.0


class ProgressLine:
    """From `since` to `until`, in unix seconds. `clock` is this host's."""

    def __init__(self, clock: Callable[[], float], stream: TextIO | None = None) -> None:
        self._clock = clock
        self._stream = sys.stderr if stream is None else stream
        self._begun: tuple[float, float] | None = None
        self._logged = 0.0

    def tell(self, at: float, until: float) -> None:
        """The first time it is called it says from where."""
        now = self._clock()
        if self._begun is None:
            self._begun, self._logged = (now, at), now
            log.info("history: reads what Prometheus has since %s", moment(at))
        text = f"{moment(at)} of {moment(until)}{self._left(now, at, until)}"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[Khistory: {text}")
            self._stream.flush()
        elif now - self._logged >= _LOG_EVERY_SECONDS:
            self._logged = now
            log.info("history: read to %s", text)

    def end(self) -> None:
        """Nothing, unless it was told of any."""
        if self._begun is None:
            return
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        log.info("history: read what was missing since %s", moment(self._begun[1]))
        self._begun = None

    def _left(self, now: float, at: float, until: float) -> str:
        if self._begun is None or at <= self._begun[1]:
            return ""
        (began, since), left = self._begun, until - at
        minutes = (now - began) * left / (at - since) / 60
        return f", {100 * (at - since) / (until - since):.0f} %, about {max(minutes, 1):.0f} min left"


def moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
