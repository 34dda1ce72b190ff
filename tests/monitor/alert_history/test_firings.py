from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporters.observation import Labels, labels
from monitor.alert_history.alert import Alert, Delivery
from monitor.alert_history.firings import Firing, Known, firings, undecided
from monitor.alert_history.samples import Activation

OF = {"alertname": "Slow", "server": "a"}
LABELS = labels(OF)


def active(
    since: float, last: float, *, fires: float | None = 0, interval: float = 15, series: Labels = LABELS
) -> Activation:
    """Fires `fires` seconds after it became active, never where that is None."""
    first = None if fires is None else since + fires
    return Activation(series, LABELS, since, first, None if first is None else last, last, interval)


def known(until: float, *gone: Activation, alive: Sequence[int] = ()) -> Known:
    return Known(frozenset((a.series, a.last) for a in gone), alive, until)


def found(
    *active: Activation, known: Known, stored: Sequence[Alert] = (), settled: float = -1
) -> list[tuple[float, float, float | None]]:
    made = firings(active, stored, known, settled)
    return [(f.starts_at, f.last_seen, f.ends_at) for f in made]


def stored(starts_at: float, last_seen: float, **more: str) -> Alert:
    return Alert("f", starts_at, {**OF, **more}, last_seen=last_seen, deliveries={"r": Delivery(1)} if more else {})


def minutes(first: int, last: int) -> list[int]:
    return list(range(first, last + 1, 60))


def test_an_alert_that_prometheus_marked_as_gone_ended_at_the_evaluation_after_its_last_sample() -> None:
    a = active(600, 900, fires=60)
    assert found(a, known=known(960, a)) == [(660, 900, 915)]


def test_one_whose_samples_reach_until_now_fires_on() -> None:
    assert found(active(600, 900), known=known(910)) == [(600, 900, None)]


def test_one_that_was_only_about_to_fire_is_none() -> None:
    a = active(600, 900, fires=None)
    assert found(a, known=known(960, a)) == []


def test_two_activations_with_an_end_between_them_are_two_firings() -> None:
    a, b = active(600, 900), active(930, 1000)
    assert found(a, b, known=known(1010, a)) == [(600, 900, 915), (930, 1000, None)]


def test_while_prometheus_has_nothing_at_all_an_alert_fires_on() -> None:
    assert found(active(600, 900), known=known(90_000)) == [(600, 900, None)]
    assert found(active(600, 900), active(4000, 4500), known=known(4510)) == [(600, 4500, None)]


def test_one_that_is_there_again_soon_after_a_pause_fired_through_it() -> None:
    a, b = active(600, 900), active(4000, 4500, fires=120)
    assert found(a, b, known=known(4510, alive=minutes(3960, 4500))) == [(600, 4500, None)]


def test_one_that_is_not_there_again_ended_with_the_first_minute_that_could_have_shown_it() -> None:
    a = active(600, 900)
    back = minutes(3960, 4260)
    assert found(a, known=known(4259, alive=back)) == [(600, 900, None)], "it may still come back"
    assert found(a, known=known(4260, alive=back)) == [(600, 900, 3960)]


def test_one_that_comes_long_after_the_pause_is_another() -> None:
    a, b = active(600, 900), active(4500, 4600)
    assert found(a, b, known=known(4610, alive=minutes(3960, 4560))) == [(600, 900, 3960), (4500, 4600, None)]


def test_a_minute_that_began_before_the_next_evaluation_was_due_says_nothing() -> None:
    """30 s for two evaluations after 900, so the minute from 930 to 990 is the first."""
    a = active(600, 900)
    assert found(a, known=known(2000, alive=minutes(960, 1980))) == [(600, 900, 1020)]
    assert found(active(600, 870), known=known(2000, alive=minutes(960, 1980))) == [(600, 870, 960)]


def test_what_the_table_has_goes_on() -> None:
    a = active(4000, 4500)
    assert found(a, known=known(4510), stored=[stored(100, 900)]) == [(100, 4500, None)]
    assert found(a, known=known(4510), stored=[stored(100, 4200)]) == [(100, 4500, None)]


def test_what_the_table_has_ends_where_prometheus_is_back_without_it() -> None:
    back = known(4560, alive=minutes(4200, 4560))
    assert found(known=back, stored=[stored(100, 900)]) == [(100, 900, 4200)]


def test_a_row_that_began_after_what_is_read_is_another_firing() -> None:
    a = active(600, 900)
    assert found(a, known=known(960, a), stored=[stored(5000, 5100)]) == [(600, 900, 915)]


def test_the_labels_are_prometheus_own_where_alertmanager_was_told_more() -> None:
    (firing,) = firings([active(600, 900)], [stored(100, 700, cluster="c")], known(910), -1)
    assert firing == Firing(LABELS, 100, 100, 900, 900, None)


def test_of_two_replicas_the_one_that_goes_on_counts() -> None:
    a, b = active(600, 900, series=(*LABELS, ("z", "1"))), active(607, 967, series=(*LABELS, ("z", "2")))
    assert found(a, b, known=known(970, a)) == [(600, 967, None)]
    assert found(a, b, known=known(1000, a, b)) == [(600, 967, 982)]


def test_what_ended_earlier_is_left_as_it_was() -> None:
    a, b = active(600, 900), active(930, 1000)
    assert found(a, b, known=known(1010, a), settled=900) == [(930, 1000, None)]


@pytest.mark.parametrize(("gone", "until", "asked"), [(True, 5000, []), (False, 1289, []), (False, 1290, [900])])
def test_the_minutes_since_are_looked_at_only_where_they_decide(gone: bool, until: float, asked: list[float]) -> None:
    """390 s after the last sample: two evaluations, a minute, and the time that an alert has to come back."""
    a = active(600, 900)
    assert undecided([a], [], known(until, *([a] if gone else []))) == asked


def test_they_are_looked_at_between_two_activations_too() -> None:
    assert undecided([active(600, 900), active(1000, 1100)], [], known(1100)) == [900]
    assert undecided([active(600, 900), active(850, 1100)], [stored(100, 700)], known(1100)) == []
