"""What each condition must fire at, and what it must not: one table for Prometheus and for minute rows.

Minutes are reckoned by hand: a window of N minutes is (end - N, end], readings come every 30 seconds.
"""

from __future__ import annotations

from tests.alerts.conditions.cases_of_gpus import GPU_CASES
from tests.alerts.conditions.cases_of_ourselves import OUR_CASES
from tests.alerts.conditions.cases_of_servers import SERVER_CASES
from tests.alerts.conditions.cases_of_stuck import STUCK_CASES

CASES = [*SERVER_CASES, *STUCK_CASES, *GPU_CASES, *OUR_CASES]
