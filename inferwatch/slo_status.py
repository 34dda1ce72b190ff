from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from alerts.burn import MINUTE, duration
from inferwatch.console import columns
from inferwatch.place import opened
from inferwatch.slo_history import Asked, newest_minute
from monitor.api.slos import slos_out
from monitor.evaluate.counts import Counter
from monitor.evaluate.status import Burn, Status, statuses
from monitor.evaluate.watch import Told
from monitor.page import quantities

_HEAD = ("objective", "group", "state", "budget left", "burn by window", "lasts", "minutes not known")


def status(asked: Asked, *, as_json: bool) -> None:
    slos = asked.slos()
    with opened(asked.at.settings, current=True) as engine:
        at = int(newest_minute(engine)) // MINUTE * MINUTE
        found = statuses(Counter(engine), slos, at)
    if as_json:
        told = Told(at, tuple(slos), tuple(found))
        print(json.dumps([slo.model_dump(mode="json") for slo in slos_out(told)], indent=2))
        return
    print(f"as of {quantities.moment(at)}")
    print(*columns([_HEAD, *(_row(each) for each in found)], indent=""), sep="\n")
    print(*_rests_on(found), sep="", end="")


def _rests_on(found: Iterable[Status]) -> Iterator[str]:
    """Rows whose threshold is none of the servers' own bounds."""
    for of in found:
        for blur in of.blurs:
            yield f"{' '.join((of.slo.name, *filter(None, of.group)))}: {blur.text}\n"


def _row(of: Status) -> tuple[str, ...]:
    return (
        of.slo.name,
        " ".join(f"{name}={value}" for name, value in of.labels.items()),
        of.state.value,
        "-" if of.left is None else f"{of.left * 100:.1f} %",
        " ".join(_burn(burn) for burn in of.burns) or "-",
        "-" if of.exhausted_in is None else quantities.duration(of.exhausted_in),
        f"{of.counts.minutes_unknown:.0f} of {of.counts.minutes:.0f}",
    )


def _burn(of: Burn) -> str:
    rate = "-" if of.long is None else f"{of.long:.2f}"
    return f"{duration(of.window.long)}:{rate}{'!' if of.holds else ''}"
