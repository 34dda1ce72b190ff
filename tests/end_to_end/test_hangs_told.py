"""Servers that hang, or whose page becomes empty, in the simulated fleet's own time: which alert tells, and when.

What `docs/conditions.md` says of each release is held to what happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.workload import CHAT, Burst, Rate
from inferwatch.reference.hangs import HANGS, Hang
from tests.end_to_end.simulated import MINUTE, START, Lived, read_until

FAULT = 6
QUICK, SLOW = 20, 40
"""Minutes of a hang: enough for a page, and for a ticket."""
RELEASES = {
    "vLLM": ("vllm", "0.32.0"),
    "SGLang 0.5.23": ("sglang", "0.5.23"),
    "SGLang 0.4.9": ("sglang", "0.4.9"),
    "LMDeploy 0.18": ("lmdeploy", "0.18.0"),
    "LMDeploy 0.9.2": ("lmdeploy", "0.9.2"),
    "trtllm-serve": ("trtllm_serve", "1.2.1"),
    "Triton with TensorRT-LLM": ("triton", "24.11"),
}
EMPTIED = "emptied"
STATES = ("at work", "asked", "unasked")
"""With requests running; idle, and asked for something from the next minute on; idle, and never asked again."""
_LIMITS = Limits(running=64, waiting=64, kv_tokens=40_000)
_SLOW = 30.0
"""So many times the usual length of a step, so that few requests are at work all the time."""
_CALM = START + (FAULT - 3) * MINUTE
_CALMS = {
    "at work": (),
    "asked": (Burst(_CALM, 4 * MINUTE, 0.0),),
    "unasked": (Burst(_CALM, 10**6, 0.0),),
}
Place = tuple[str, str]
"""A release, and the state in which it hangs."""


def told_by(place: Place) -> str:
    return of_release(place[0]).told[STATES.index(place[1])]


def of_release(name: str) -> Hang:
    return next(hang for hang in HANGS if hang.release == name)


PLACES = [(release, state) for release in RELEASES for state in STATES]
TICKETS = [place for place in PLACES if place[1] != "unasked" and told_by(place) != "ServerStuck"]
"""And those of which nothing is told, which could be that."""


def named(place: Place) -> str:
    return "-".join(place).lower().replace(" ", "-")


def hung(places: Collection[Place], minutes: int, folder: Path) -> Lived:
    """Each of them in minute `FAULT`, for so many minutes."""
    lasting = {"after": FAULT * MINUTE, "seconds": minutes * MINUTE}
    orders: list[Mapping[str, object]] = [{"kind": "hang", "target": named(place), **lasting} for place in places]
    orders.append({"kind": "empty", "target": EMPTIED, **lasting})
    specs = [
        Spec(named((name, state)), "sim", *RELEASES[name], named((name, state)), (), _LIMITS, slowness=_SLOW)
        for name, state in places
    ]
    specs.append(Spec(EMPTIED, "sim", "sglang", "0.5.23", EMPTIED, (), _LIMITS))
    services = [Service(named(p), (named(p),), CHAT, Rate(0.2, bursts=_CALMS[p[1]])) for p in places]
    services.append(Service(EMPTIED, (EMPTIED,), CHAT, Rate(0.2)))
    fleet = Fleet(specs, services, {"sim": 1}, seed=7, start=START)
    fleet.order(orders, START)
    return read_until(START + (FAULT + minutes) * MINUTE - 1, fleet, folder)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    made = hung([p for p in PLACES if p not in TICKETS], QUICK, tmp_path_factory.mktemp("quick"))
    yield made
    made.monitor.close()


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    made = hung(TICKETS, SLOW, tmp_path_factory.mktemp("slow"))
    yield made
    made.monitor.close()


def told(lived: Lived, server: str) -> list[tuple[str, float]]:
    """Alerts, each with the minutes from the fault on, in order of time."""
    of_server = (a for a in lived.alerts() if a.labels.get("server") == server)
    found = [(a.name, (a.starts_at - START) / MINUTE - FAULT) for a in of_server]
    return sorted(found, key=lambda each: each[1])


def of_hangs(lived: Lived, place: Place) -> list[tuple[str, float]]:
    return [(name, after) for name, after in told(lived, named(place)) if name in ("ServerStuck", "ProgressUnknown")]


def test_the_fleet_has_each_release_of_which_the_documentation_tells() -> None:
    assert [hang.release for hang in HANGS] == list(RELEASES)


@pytest.mark.parametrize("place", [p for p in PLACES if p not in TICKETS], ids=named)
def test_a_server_that_hangs_is_one_page_within_minutes_where_anything_tells(quick: Lived, place: Place) -> None:
    """From the first request on, where that is what tells: a minute after the hang. And minutes are judged late."""
    found = of_hangs(quick, place)
    assert [name for name, _ in found] == ([told_by(place)] if told_by(place) else [])
    assert all(6 <= after <= 9 for _, after in found)


@pytest.mark.parametrize("place", TICKETS, ids=named)
def test_others_are_a_ticket_once_no_usual_generation_takes_longer_or_nothing(slow: Lived, place: Place) -> None:
    found = of_hangs(slow, place)
    assert [name for name, _ in found] == ([told_by(place)] if told_by(place) else [])
    assert all(34 <= after <= 37 for _, after in found)


@pytest.mark.parametrize("state", ["at work", "asked"])
def test_requests_pile_up_at_servers_of_which_nothing_is_told(slow: Lived, state: str) -> None:
    """It is no lack of work."""
    for release in RELEASES:
        if (release, state) in TICKETS:
            assert max(shown.waiting for shown in slow.shown[named((release, state))]) > 10


def test_all_of_them_answer_and_show_their_metrics(quick: Lived, slow: Lived) -> None:
    for lived in (quick, slow):
        for metric in ("llm_up", "llm_metrics_available"):
            found = {name: told.value for name, told in lived.told(metric, aggregation="avg").items()}
            assert found.keys() == lived.fleet.servers.keys()
            assert all(value > 0.9 for name, value in found.items() if name != EMPTIED), metric


def test_a_page_that_was_full_and_is_empty_is_told(quick: Lived) -> None:
    ((name, after),) = told(quick, EMPTIED)
    assert name == "MetricsMissing"
    assert 10 <= after <= 12
