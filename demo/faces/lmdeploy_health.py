"""What LMDeploy 0.14.0 and later say of their health.

Every 12 seconds a monitor asks the engine, whose own loop answers while its steps hang. It is unhealthy once no step of
the scheduler has come for more than 90 seconds, all of them with requests dispatched to it: hung while it is idle, it
is healthy until somebody asks it for something. An unhealthy one is looked at again for whoever asks.
"""

from __future__ import annotations

import json
from math import ceil, floor

from demo.faces.lmdeploy_handles import Handles
from demo.model import Answer

_POLL_SECONDS = 12.0
_UNHEALTHY_AFTER = 90.0
_LOOKS = floor(_UNHEALTHY_AFTER / _POLL_SECONDS) + 1
"""The first that is longer than that after the one which saw the last progress."""


class Health:
    def __init__(self, started: float, handles: Handles) -> None:
        self.last_step = started
        self._started = started
        self._handles = handles

    def answer(self, now: float) -> Answer:
        if not self._is_stalled(now):
            return _said(200, "healthy", "the engine is healthy")
        return _said(503, "unhealthy", f"no step of the scheduler for {now - self.last_step:.1f} s")

    def _is_stalled(self, now: float) -> bool:
        since = self._handles.busy_since
        return since is not None and now >= self._looked(max(since, self.last_step)) + _LOOKS * _POLL_SECONDS

    def _looked(self, moment: float) -> float:
        """When the monitor saw what happened then."""
        return self._started + ceil((moment - self._started) / _POLL_SECONDS) * _POLL_SECONDS


def _said(status: int, state: str, message: str) -> Answer:
    body = json.dumps({"status": state, "message": message}, separators=(",", ":"))
    return Answer(status, "application/json", body.encode())
