from __future__ import annotations

from tests.alerts.conditions.world import Case, Fires, Samples, World, gone, held, rising

A = {"node": "n1", "server": "a"}
DAY = 1440


def sidecar(up: Samples, knows: float = 10.5) -> World:
    """It tells of itself until it is down."""
    at = 'job="inferwatch",instance="n1:9840"'
    of = f'inferwatch_build_info{{node="n1",{at},version="1",grid="1"}}'
    return {f"up{{{at}}}": up, of: [*held(1, knows), *gone(len(up) / 2 - knows)]}


def unmapped(samples: Samples) -> World:
    return {'inferwatch_unmapped_families{node="n1",server="a"}': samples}


def lag(samples: Samples) -> World:
    return {'inferwatch_history_lag_seconds{node="n1"}': samples}


N1 = {"node": "n1", "job": "inferwatch", "instance": "n1:9840"}

OUR_CASES = [
    Case("it is gone", "SidecarDown", sidecar([*held(1, 10.5), *held(0, 30)]), (Fires(16, None, N1),), since=10),
    Case("it is back after 15 minutes", "SidecarDown", sidecar([*held(1, 10.5), *held(0, 15), *held(1, 10)]),
         (Fires(16, 26, N1),)),
    Case("an upgrade", "SidecarDown", sidecar([*held(1, 10.5), *held(0, 5), *held(1, 10)])),
    Case("something else is down", "SidecarDown", {'up{job="web",instance="n1:80"}': held(0, 30)}),
    Case("it is up", "SidecarDown", sidecar(held(1, 30), 30)),

    # fires 15 minutes after the upgrade, until a day later the hour before last shows them too
    Case("an upgrade", "UnmappedFamilies", unmapped([*held(0, DAY + 60.5), *held(3, DAY + 60)]),
         (Fires(DAY + 76, 2 * DAY + 61, A),), since=DAY + 60),
    Case("those of always", "UnmappedFamilies", unmapped([*held(3, DAY + 60)]), (Fires(15, DAY, A),)),
    Case("fewer than before", "UnmappedFamilies", unmapped([*held(5, DAY), *held(3, 60)]), (Fires(15, DAY, A),)),
    Case("none", "UnmappedFamilies", unmapped(held(0, 60))),
    Case("for a moment", "UnmappedFamilies", unmapped([*held(0, 20), *held(2, 14), *held(0, 20)])),

    Case("a database that is away", "HistoryLagging", lag([*held(90, 10.5), *held(900, 20), *held(60, 10)]),
         (Fires(16, 31, {"node": "n1"}),)),
    Case("no minute is written from minute 10 on", "HistoryLagging", lag([*held(90, 10), *rising(60, 20, 90)]),
         (Fires(19, None, {"node": "n1"}),), since=10),
    Case("two minutes behind", "HistoryLagging", lag(held(120, 30))),
    Case("for a moment", "HistoryLagging", lag([*held(90, 10.5), *held(900, 5), *held(60, 10)])),
    Case("no history here", "HistoryLagging", {'inferwatch_build_info{node="n1",version="1",grid="1"}': held(1, 20)}),

    Case("always", "Watchdog", {'up{job="x",instance="y"}': held(1, 10)}, (Fires(0, None, {}),), since=0),
]  # fmt: skip

LONG_DOWN = Case("it is gone for more than a day", "SidecarDown", sidecar([*held(1, 10.5), *held(0, DAY + 60)]),
                 (Fires(16, None, N1),))  # fmt: skip
"""Of Prometheus alone, which knows it by its alert then."""
