from __future__ import annotations

from cProfile import Profile
from dataclasses import replace
from itertools import permutations

import pytest

from exporters.observation import labels
from monitor.alert_history.alert import Alert, Delivery
from monitor.alert_history.fingerprint import fingerprint
from monitor.alert_history.firings import Firing
from monitor.alert_history.ledger import Ledger
from tests.monitor.alert_history.told import AM, OF, START, alert, notification

SEEN, TOLD = fingerprint(OF), fingerprint(AM)


def seen(
    starts_at: float = START, last_seen: float = START + 60, ends_at: float | None = None, since: float | None = None
) -> Firing:
    active_since = starts_at - 30 if since is None else since
    return Firing(labels(OF), active_since, starts_at, last_seen, last_seen if ends_at is None else ends_at, ends_at)


class Book:
    """The ledger of one test; notifications come one second after the other from `START` on."""

    def __init__(self) -> None:
        self.rows: list[Alert] = []
        self.now = START

    def see(self, *firings: Firing) -> None:
        ledger = Ledger(self.rows)
        for firing in firings:
            ledger.see(firing)
        self._keep(ledger)

    def tell(self, starts_at: float = START, ends_at: float | None = None, receiver: str = "oncall") -> None:
        self.now += 1
        ledger = Ledger(self.rows)
        for each in notification(alert(starts_at, ends_at), receiver=receiver).alerts:
            ledger.tell(each, receiver, self.now)
        self._keep(ledger)

    def _keep(self, ledger: Ledger) -> None:
        gone = {*ledger.gone(), *(row.key for row in ledger.changed())}
        kept = [row for row in self.rows if row.key not in gone]
        self.rows = sorted([*kept, *ledger.changed()], key=lambda row: row.starts_at)

    def spans(self) -> list[tuple[float, float | None]]:
        return [(row.starts_at, row.ends_at) for row in self.rows]


@pytest.fixture
def book() -> Book:
    return Book()


def test_what_prometheus_saw_is_a_row(book: Book) -> None:
    book.see(seen())
    assert book.rows == [Alert(SEEN, START, OF, last_seen=START + 60)]


def test_what_alertmanager_told_is_a_row(book: Book) -> None:
    book.tell()
    told = {"oncall": Delivery(START + 1)}
    url = "http://prometheus/graph"
    assert book.rows == [Alert(TOLD, START, AM, None, {"summary": "slow"}, None, told, url)]


STEPS = {
    "seen": lambda book: book.see(seen()),
    "told": lambda book: book.tell(),
    "ended": lambda book: book.see(seen(ends_at=START + 75)),
    "resolved": lambda book: book.tell(START, START + 75),
}


@pytest.mark.parametrize("order", [o for o in permutations(STEPS) if o.index("told") < o.index("resolved")])
def test_it_is_one_row_whoever_tells_first_and_however_often(order: tuple[str, ...]) -> None:
    book = Book()
    for name in (*order, *order[-1:]):
        STEPS[name](book)
    (row,) = book.rows
    assert (row.fingerprint, row.labels, row.starts_at) == (TOLD, AM, START)
    assert (row.ends_at, row.last_seen) == (START + 75, START + 60)
    assert (row.delivered_at is not None, row.resolved_at is not None) == (True, True)


def test_alertmanagers_word_of_the_end_is_no_end_where_prometheus_sees_it_fire(book: Book) -> None:
    book.see(seen())
    book.tell()
    book.tell(START, START + 30)
    (row,) = book.rows
    assert (row.ends_at, row.resolved_at) == (None, START + 2)


def test_what_began_before_the_first_sample_is_matched_by_when_the_alert_became_active(book: Book) -> None:
    """A Prometheus that has just started fires before it writes samples of it."""
    book.see(seen(START + 2, since=START - 0.123))
    book.tell()
    assert len(book.rows) == 2, "until it is read again"
    book.see(seen(START + 2, since=START - 0.123))
    assert [(row.fingerprint, row.starts_at, row.last_seen) for row in book.rows] == [(TOLD, START, START + 60)]


def test_an_alert_that_fires_anew_is_another_row(book: Book) -> None:
    book.tell()
    book.see(seen(ends_at=START + 75), seen(START + 300, START + 400))
    book.tell(START + 300)
    assert book.spans() == [(START, START + 75), (START + 300, None)]
    assert [row.delivered_at for row in book.rows] == [START + 1, START + 2]


def test_one_that_alertmanager_was_never_asked_to_tell_of_is_not_delivered(book: Book) -> None:
    book.tell()
    book.see(seen(ends_at=START + 75), seen(START + 300, START + 400))
    assert [row.delivered_at for row in book.rows] == [START + 1, None]


def test_of_alertmanager_alone_a_new_start_ends_the_firing_before(book: Book) -> None:
    book.tell()
    book.tell(START + 300)
    assert book.spans() == [(START, START + 300), (START + 300, None)]


def test_a_start_that_is_told_late_ended_before_the_next(book: Book) -> None:
    book.tell(START + 300)
    book.tell()
    assert book.spans() == [(START, START + 300), (START + 300, None)]


def test_a_firing_that_went_on_through_a_pause_joins_what_was_told_of_it(book: Book) -> None:
    """Alertmanager gave the first up, told of its end, and then of a new one."""
    book.see(seen())
    book.tell()
    book.tell(START, START + 240)
    book.tell(START + 600)
    assert book.spans() == [(START, None), (START + 600, None)]
    book.see(seen(START, START + 700))
    (row,) = book.rows
    assert (row.starts_at, row.ends_at, row.delivered_at, row.resolved_at) == (START, None, START + 1, None)


def test_late_samples_prolong_a_firing_that_seemed_to_have_ended(book: Book) -> None:
    book.see(seen(ends_at=START + 75))
    book.see(seen(START, START + 120))
    book.see(seen(START, START + 120, START + 135))
    assert [(row.last_seen, row.ends_at) for row in book.rows] == [(START + 120, START + 135)]


def test_who_reads_older_samples_later_takes_nothing_back(book: Book) -> None:
    book.see(seen(START, START + 120, START + 135))
    for _ in range(2):
        book.see(seen(START, START + 60))
        book.see(seen(START, START + 120))
    assert [(row.last_seen, row.ends_at) for row in book.rows] == [(START + 120, START + 135)]


def test_a_notification_that_is_repeated_changes_nothing(book: Book) -> None:
    book.tell()
    before = book.rows
    book.tell()
    assert book.rows == before
    book.tell(START, START + 75)
    before = book.rows
    book.tell(START, START + 75)
    assert book.rows == before


def test_receivers_are_told_each_by_itself(book: Book) -> None:
    book.tell(receiver="oncall")
    book.tell(receiver="chat")
    book.tell(START, START + 75, receiver="oncall")
    (row,) = book.rows
    assert row.deliveries == {"oncall": Delivery(START + 1, START + 3), "chat": Delivery(START + 2)}
    assert (row.delivered_at, row.resolved_at, row.ends_at) == (START + 1, START + 3, START + 75)


def test_a_receiver_that_is_told_late_that_it_fires_opens_nothing_again(book: Book) -> None:
    book.tell(receiver="oncall")
    book.tell(START, START + 75, receiver="oncall")
    book.tell(receiver="chat")
    assert book.spans() == [(START, START + 75)]


def test_one_that_is_told_after_the_end_that_it_fires_opens_it_again(book: Book) -> None:
    """Prometheus did not reach Alertmanager for a while."""
    book.tell()
    book.tell(START, START + 240)
    book.tell()
    (row,) = book.rows
    assert (row.ends_at, row.delivered_at, row.resolved_at) == (None, START + 1, None)


def test_an_end_before_the_start_is_at_the_start(book: Book) -> None:
    book.tell(START, START - 5)
    assert book.spans() == [(START, START)]


def test_two_clusters_with_the_same_alert_stay_two_rows(book: Book) -> None:
    for cluster in ("c1", "c2"):
        ledger = Ledger(book.rows)
        (each,) = notification(alert(labels={**OF, "cluster": cluster})).alerts
        ledger.tell(each, "oncall", START + 1)
        book._keep(ledger)
    book.see(seen())
    assert [row.last_seen for row in book.rows].count(None) == 1
    assert len(book.rows) == 2


def test_thousands_of_alerts_at_once_are_as_many_rows_whoever_tells_first() -> None:
    many = [{**AM, "server": f"s{number}"} for number in range(3000)]
    told = notification(*(alert(labels=of) for of in many)).alerts
    seen_first = Ledger([])
    for of in many:
        without_external = {name: text for name, text in of.items() if name != "cluster"}
        seen_first.see(replace(seen(), labels=labels(without_external)))
    for each in told:
        seen_first.tell(each, "oncall", START + 1)
    rows = seen_first.changed()
    assert sorted(row.labels["server"] for row in rows) == sorted(of["server"] for of in many)
    assert all(row.deliveries and row.last_seen for row in rows)
    again = Ledger(rows)
    for each in told:
        again.tell(each, "oncall", START + 2)
    assert (again.changed(), again.gone()) == ([], [])


@pytest.mark.parametrize("seen_before", [False, True])
def test_the_work_grows_with_the_alerts_that_are_told_and_not_faster(seen_before: bool) -> None:
    """All of one fingerprint."""
    few, many = (calls_to_tell(number, seen_before=seen_before) for number in (200, 800))
    assert many < 6 * few


def calls_to_tell(number: int, *, seen_before: bool) -> int:
    starts = [START + 600.0 * n for n in range(number)]
    known = [Alert(SEEN, at, OF, at + 300, last_seen=at + 290) for at in starts]
    ledger = Ledger(known if seen_before else [])
    told = notification(*(alert(at + 10, at + 300 if n % 2 else None) for n, at in enumerate(starts))).alerts
    profile = Profile()
    for each in told:
        profile.runcall(ledger.tell, each, "oncall", START)
    assert [row.ends_at is not None for row in ledger.changed()] == [True] * number
    return sum(entry.callcount for entry in profile.getstats())
