"""From a fault in what a server serves to the page, by real parts: sidecars, Prometheus with the generated rules,
Alertmanager with the generated example, its webhook, the monitor, SQL and a browser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.browser import chromium
from tests.end_to_end.chains import Chain, Node, chain, quarter_of_an_hour, subject
from tests.end_to_end.processes import until
from tests.end_to_end.vllm_by_hand import Vllm

TIMES = 10
"""So many times faster than it is generated: a minute of the rules is six seconds, so that one in which the machine
stands still is not many of theirs."""
PATIENCE = 600.0
"""Seconds. Where a machine stands still while an alert ends nobody says so, and the monitor waits for five minutes."""
LOST, DOWN_THERE = ("GpuLost", "node-a", "0"), ("ServerDown", "node-a", "chat-a")
DOWN_HERE, BLIND = ("ServerDown", "node-b", "chat-b"), ("MetricsMissing", "node-b", "blind")
XID, UNKNOWN_XID = ("GpuXidHardware", "node-b", "0", "79"), ("GpuXidUnknown", "node-b", "1", "999")
SLOW, FAILING = ("SloBurnPage", "first-token", "slow"), ("SloBurnPage", "availability", "failing")
TICKETS = {("SloBurnTicket", *of[1:]) for of in (SLOW, FAILING)}
ALWAYS = ("Watchdog",)
SUDDEN = {XID, UNKNOWN_XID, SLOW, FAILING}
XIDS = {XID, UNKNOWN_XID}
TOLD = {LOST, DOWN_HERE, BLIND, SLOW, FAILING}
LASTING = {*TOLD, DOWN_THERE}
EVERY = {*LASTING, *SUDDEN, *TICKETS}
PEOPLE: dict[str, set[tuple[str, ...]]] = {
    "oncall": {LOST, DOWN_HERE, XID, SLOW, FAILING},
    "tickets": {BLIND, UNKNOWN_XID},
    "dead-man-switch": {ALWAYS},
}
WITNESS = {each for told in PEOPLE.values() for each in told}
Rows = Mapping[tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True)
class Stage:
    """What is known at one time. Rows are those of the API by what they are about, `stored` what SQL has."""

    rows: Rows
    stored: set[tuple[str, ...]]
    page: str
    held_back: set[tuple[str, ...]]
    told: Mapping[str, set[tuple[str, ...]]]
    """Of what fires, by receiver."""


@dataclass(frozen=True)
class Seen:
    healthy: set[tuple[str, ...]]
    faulty: Stage
    while_it_is_said: set[tuple[str, ...]]
    """What fires long after the XIDs, which are still on the page."""
    generated: Stage
    """Still later, with the rules in their own time."""
    well: Stage
    repeated: list[str]
    """How the monitor was told of one alert, again and again."""


def fleet() -> tuple[Node, Node]:
    there = Node("node-a", {"chat-a": Vllm("chat")})
    models = {"chat-b": "chat", "chat-c": "chat", "blind": "blind", "slow": "slow", "failing": "failing"}
    here = Node("node-b", {name: Vllm(model) for name, model in models.items()})
    for node in (there, here):
        node.show_gpus({0: 0, 1: 0})
    return there, here


@contextmanager
def again_and_again(do: Callable[[], None]) -> Iterator[None]:
    """Meanwhile: on a machine that stands still scrapes are missed, and nobody knows which."""
    over = Event()

    def work() -> None:
        while not over.wait(0.3):
            do()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def going_wrong(there: Node, here: Node) -> Iterator[None]:
    """But for the GPU that is lost."""
    there.servers["chat-a"].stop()
    here.servers["chat-b"].stop()
    here.show_gpus({0: 79, 1: 999})
    here.servers["blind"].show("<html>busy</html>")

    def answer() -> None:
        here.servers["slow"].answer(10, first_token=3.0)
        here.servers["failing"].answer(15)
        here.servers["failing"].answer(5, reason="error")

    with again_and_again(answer):
        yield


@contextmanager
def going_well(there: Node, here: Node) -> Iterator[None]:
    """The XIDs stay on the page, as a dcgm-exporter keeps them."""
    there.servers["chat-a"].start()
    there.show_gpus({0: 0, 1: 0})
    here.servers["chat-b"].start()
    here.servers["blind"].show()

    def answer() -> None:
        for name in ("slow", "failing"):
            here.servers[name].answer(20_000)

    with again_and_again(answer):
        yield


def rows_of(of: Chain) -> dict[tuple[str, ...], dict[str, Any]]:
    """The newest of each: where a scrape failed an alert may have been over for a moment, and fired again."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in of.monitor.alerts():
        newer = found.setdefault(subject(row["labels"]), row)
        is_before = row["ends_at"] is not None and row["ends_at"] <= newer["starts_at"]
        assert newer is row or is_before, f"one firing is one row: {newer}, {row}"
    return found


def stage(of: Chain, browser: Browser) -> Stage:
    page = browser.new_page()
    page.goto(f"{of.monitor.url}/alerts")
    text = " ".join(page.locator("main").inner_text().split())
    page.close()
    told: dict[str, set[tuple[str, ...]]] = {}
    for receiver, body in of.people.told:
        now = {subject(alert["labels"]) for alert in body["alerts"] if alert["status"] == "firing"}
        told[receiver] = told.get(receiver, set()) | now
    by_sql = {subject(labels) for _, labels, *_ in of.monitor.stored()}
    return Stage(rows_of(of), by_sql, text, of.held_back(), told)


def has_begun(of: Chain) -> bool:
    missing = LASTING - of.firing()
    assert not missing, f"not firing: {missing}"
    return True


def is_lost(of: Chain) -> bool:
    return LOST in of.firing()


def is_faulty(seen: Stage) -> None:
    """Where a page was missed while this was looked at, an alert is over for a moment: then it is looked at again."""
    firing = {of for of, row in seen.rows.items() if row["state"] == "firing"}
    assert firing >= {*LASTING, *TICKETS, ALWAYS}, firing
    assert seen.held_back >= {DOWN_THERE, *TICKETS}, seen.held_back
    for receiver, wanted in {**PEOPLE, "inferwatch": WITNESS}.items():
        assert seen.told.get(receiver, set()) >= wanted, receiver


def is_sudden(seen: Stage) -> None:
    rows = {of: (row["state"], row["delivered"]) for of, row in seen.rows.items() if of in SUDDEN}
    assert rows == dict.fromkeys(SUDDEN, ("firing", True)), rows
    assert seen.told.get("inferwatch", set()) >= SUDDEN, seen.told


def is_well(seen: Stage) -> None:
    left = {of for of in EVERY if seen.rows[of]["state"] != "resolved"}
    assert not left, left
    assert "No alert fires." in seen.page


def looked_at(of: Chain, browser: Browser, wanted: Callable[[Stage], None]) -> Stage:
    """As soon as all that is wanted is seen at one time."""

    def look() -> Stage:
        found = stage(of, browser)
        wanted(found)
        return found

    return until(look, of.monitor.process, within=PATIENCE)


def is_over(of: Chain, those: Collection[tuple[str, ...]]) -> bool:
    left = of.firing().intersection(those)
    assert not left, f"still firing: {left}"
    return True


def is_told(of: Chain, wanted: Collection[tuple[str, ...]]) -> bool:
    rows = rows_of(of)
    return all(of in rows and rows[of]["delivered"] for of in wanted)


def is_told_of_the_end(of: Chain) -> bool:
    rows = rows_of(of)
    return all(receiver["resolved_at"] for each in TOLD | XIDS for receiver in rows[each]["receivers"])


def reads(of: Chain, wanted: set[tuple[str, ...]], key: str) -> None:
    """Each start of the monitor reads the alerts of Prometheus at once, else it does so every minute."""

    def has() -> bool:
        rows = rows_of(of)
        missing = {each for each in wanted if each not in rows or not rows[each][key]}
        assert not missing, f"no {key} of {missing}"
        return True

    of.monitor.restart()
    until(has, of.monitor.process, within=PATIENCE)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("chain")
    there, here = nodes = fleet()
    with ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node.read(folder))
        past = quarter_of_an_hour(nodes, folder / "generated.om")
        generated = stack.enter_context(chain(nodes, folder / "generated", past=past))
        past = quarter_of_an_hour(nodes, folder / "hurried.om", TIMES)
        hurried = stack.enter_context(chain(nodes, folder / "hurried", times=TIMES, past=past))
        browser = stack.enter_context(chromium())
        process = hurried.prometheus.process
        until(lambda: hurried.prometheus.number("min(count_over_time(llm_up[30s]))") >= 3, process, within=PATIENCE)
        healthy = until(hurried.firing, process, within=PATIENCE)
        there.show_gpus({1: 0})
        # What holds another back has to be there first, also where the sidecar stands still.
        until(lambda: is_lost(hurried), process, within=PATIENCE)
        with going_wrong(there, here):
            until(lambda: has_begun(hurried), process, within=PATIENCE)
            reads(hurried, {*LASTING, *TICKETS}, "last_seen")
            until(lambda: len(hurried.people.heard("tickets", alertname=BLIND[0])), process, within=PATIENCE)
            until(lambda: is_told(hurried, TOLD | XIDS), process, within=PATIENCE)
            faulty = looked_at(hurried, browser, is_faulty)
            until(lambda: is_over(hurried, XIDS), process, within=PATIENCE)
            while_it_is_said = hurried.firing()
            until(lambda: is_told(generated, SUDDEN), generated.alertmanager.process, within=PATIENCE)
            in_its_time = looked_at(generated, browser, is_sudden)
        with going_well(there, here):
            until(lambda: is_over(hurried, EVERY), process, within=PATIENCE)
            reads(hurried, EVERY, "ends_at")
            until(lambda: is_told_of_the_end(hurried), process, within=PATIENCE)
            until(lambda: len(hurried.people.heard("inferwatch", alertname=ALWAYS[0])) > 3, process, within=PATIENCE)
        well = looked_at(hurried, browser, is_well)
        repeated = hurried.people.heard("inferwatch", alertname=ALWAYS[0])
        yield Seen(healthy, faulty, while_it_is_said, in_its_time, well, repeated)


def test_nothing_fires_but_the_watchdog_while_all_is_well(seen: Seen) -> None:
    assert seen.healthy == {ALWAYS}


def test_every_fault_is_a_firing_in_the_history(seen: Seen) -> None:
    states = {of: row["state"] for of, row in seen.faulty.rows.items()}
    assert {of for of, state in states.items() if state == "firing"} >= {*LASTING, *TICKETS, ALWAYS}
    assert states.keys() == {*EVERY, ALWAYS}
    assert seen.faulty.stored == states.keys()


def test_people_are_told_by_severity(seen: Seen) -> None:
    told = seen.faulty.told
    assert {receiver: told[receiver] for receiver in PEOPLE} == PEOPLE
    assert told["inferwatch"] == WITNESS


def test_a_lost_gpu_silences_a_server_that_is_down_on_its_node_alone(seen: Seen) -> None:
    assert DOWN_THERE in seen.faulty.held_back
    assert DOWN_HERE not in seen.faulty.held_back
    held, told = seen.faulty.rows[DOWN_THERE], seen.faulty.rows[DOWN_HERE]
    assert held["labels"].items() >= {"node": "node-a", "server": "chat-a", "severity": "page"}.items()
    assert seen.faulty.rows[LOST]["labels"]["node"] == held["labels"]["node"]
    assert (held["state"], held["delivered"], held["receivers"]) == ("firing", None, [])
    assert (told["delivered"], [receiver["name"] for receiver in told["receivers"]]) == (True, ["inferwatch"])


def test_a_page_silences_the_ticket_of_its_objective(seen: Seen) -> None:
    assert seen.faulty.held_back == {DOWN_THERE, *TICKETS}
    for of in TICKETS:
        assert seen.faulty.rows[of]["receivers"] == []


def test_what_is_told_again_is_one_row(seen: Seen) -> None:
    assert seen.repeated.count("firing") > 3
    watchdog = seen.well.rows[ALWAYS]
    assert (watchdog["state"], len(watchdog["receivers"])) == ("firing", 1)
    assert watchdog["starts_at"] == seen.faulty.rows[ALWAYS]["starts_at"]
    assert seen.well.stored == seen.well.rows.keys()


def test_the_page_shows_what_fires_with_its_runbook(seen: Seen) -> None:
    page = seen.faulty.page
    for text in (
        "page GpuLost A GPU that was there does not answer any more.",
        "GPU 0 on node-a was lost (GPU-node-a-0) Servers on it: not known",
        "blind on node-b is up, but its metrics cannot be read",
        "SLO first-token (model=slow role=unified) burns its error budget",
        "SLO availability (model=failing role=unified) burns its error budget",
        "What it means, how to confirm, what to do",
    ):
        assert text in page
    assert "chat-b on node-b is down, or up for moments only" in page
    assert "nobody was told" not in page


def test_all_of_it_is_over_once_the_fault_is(seen: Seen) -> None:
    rows = {of: row for of, row in seen.well.rows.items() if of != ALWAYS}
    assert rows.keys() == EVERY
    for of, row in rows.items():
        assert row["state"] == "resolved", of
        assert row["starts_at"] < row["ends_at"], of
    assert "No alert fires. none Watchdog" in seen.well.page


def test_people_are_told_of_the_end(seen: Seen) -> None:
    for of in TOLD | XIDS:
        assert all(receiver["resolved_at"] for receiver in seen.well.rows[of]["receivers"]), of


def test_an_xid_ends_by_itself_while_the_page_of_the_gpu_still_says_it(seen: Seen) -> None:
    """After ten minutes, less what the machine stood still when it came."""
    assert not seen.while_it_is_said & XIDS
    for of in XIDS:
        assert seen.well.rows[of]["ends_at"] - seen.well.rows[of]["starts_at"] > 300 / TIMES


def test_the_rules_do_so_in_their_own_time_too(seen: Seen) -> None:
    rows = {of: row for of, row in seen.generated.rows.items() if of in SUDDEN}
    assert {of: (row["state"], row["delivered"]) for of, row in rows.items()} == dict.fromkeys(SUDDEN, ("firing", True))
    assert seen.generated.told["inferwatch"] >= SUDDEN
    assert "GPU 0 on node-b reported XID 79: the GPU has fallen off the bus" in seen.generated.page
    assert "SLO first-token (model=slow role=unified) burns its error budget" in seen.generated.page
