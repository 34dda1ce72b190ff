from __future__ import annotations

import json
from datetime import UTC, datetime

from alerts.burn import MINUTE
from inferwatch.console import MISUSED, CommandError
from inferwatch.place import opened
from inferwatch.slo_history import Asked, newest_minute
from monitor.evaluate.counts import Counter
from monitor.evaluate.report import as_json, as_markdown, period, report


def print_report(asked: Asked, *, month: str | None, quarter: str | None, json_wanted: bool) -> None:
    """Without either: the month that it is."""
    if month is not None and quarter is not None:
        raise CommandError("--quarter: allowed: without --month", status=MISUSED)
    slos = asked.slos()
    with opened(asked.at.settings, current=True) as engine:
        newest = newest_minute(engine)
        given = month or datetime.fromtimestamp(newest, UTC).strftime("%Y-%m")
        try:
            of = period(quarter or given, months=3 if quarter else 1, newest=int(newest) // MINUTE * MINUTE)
        except ValueError as error:
            name, value = ("quarter", quarter) if quarter else ("month", given)
            raise CommandError(f"--{name}: {value!r}: allowed: {error}", status=MISUSED) from error
        lines = report(Counter(engine), slos, of)
    print(json.dumps(as_json(of, lines), indent=2) if json_wanted else as_markdown(of, lines), end="")
