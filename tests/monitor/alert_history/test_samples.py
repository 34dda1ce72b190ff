from __future__ import annotations

from math import inf, nan

import pytest

from monitor.alert_history.samples import Activation, activations
from monitor.sources.prometheus.answers import Points

OF = {"alertname": "Slow", "server": "a"}
LABELS = (("alertname", "Slow"), ("server", "a"))


def alerts(*moments: float, **more: str) -> Points:
    labels = {"__name__": "ALERTS", "alertstate": "firing", **OF, **more}
    return Points(labels, [(at, 1.0) for at in moments])


def for_state(*points: tuple[float, float], **more: str) -> Points:
    return Points({"__name__": "ALERTS_FOR_STATE", **OF, **more}, list(points))


def told(*series: Points, dropped: tuple[str, ...] = ()) -> list[Activation]:
    return activations(series, dropped)


def test_an_alert_is_active_before_it_fires() -> None:
    (found,) = told(alerts(130, 145), for_state((100, 100), (115, 100), (130, 100), (145, 100)))
    assert found == Activation(LABELS, LABELS, 100, 130, 145, 145, 15)


def test_one_that_never_fired_is_active_all_the_same() -> None:
    (found,) = told(for_state((100, 100), (115, 100)))
    assert (found.first_firing, found.last) == (None, 115)


def test_an_evaluation_that_was_missed_ends_no_activation() -> None:
    (found,) = told(alerts(100, 115, 160), for_state((100, 100), (115, 100), (160, 100)))
    assert (found.since, found.last, found.interval) == (100, 160, 15)


def test_one_that_went_away_for_one_evaluation_is_two() -> None:
    first, second = told(alerts(100, 115, 145), for_state((100, 100), (115, 100), (145, 145)))
    assert (first.since, first.last, second.since, second.last) == (100, 115, 145, 145)
    assert second.interval == 15, "of the series, since it has but one sample itself"


def test_the_first_may_be_one_sample_and_is_as_far_from_the_next_as_later_ones_are() -> None:
    """Else it is told of so late that the next already fires, and both are one."""
    first, second = told(alerts(100, 145, 160), for_state((100, 100), (145, 145), (160, 145)))
    assert (first.last, first.interval, first.told_at) == (100, 15, 122.5)
    assert (second.since, second.interval) == (145, 15)


def test_without_the_moment_of_activation_a_longer_distance_is_a_new_one() -> None:
    first, second = told(alerts(100, 115, 130, 160, 175))
    assert (first.since, first.last) == (85, 130), "it may have been active since the evaluation before"
    assert (second.since, second.last) == (145, 175)


def test_a_mark_of_the_end_is_no_sample() -> None:
    """VictoriaMetrics tells those, too."""
    (found,) = told(Points(alerts().labels, [(100, 1), (115, 1), (130, nan)]), for_state((100, 100), (130, nan)))
    assert (found.last_firing, found.last) == (115, 115)
    assert told(for_state((130, nan))) == []


def test_a_single_sample_is_of_the_usual_interval() -> None:
    (found,) = told(alerts(100))
    assert (found.since, found.interval) == (40, 60)


def test_replicas_are_told_apart_and_are_one_alert() -> None:
    series = [alerts(at, at + 15, replica=name) for at, name in ((100, "x"), (107, "y"))]
    found = told(*series, dropped=("replica",))
    assert [a.labels for a in found] == [LABELS, LABELS]
    assert [dict(a.series)["replica"] for a in found] == ["x", "y"]


def test_text_that_no_database_holds_is_replaced() -> None:
    (found,) = told(alerts(100, note="a\0b"))
    assert dict(found.labels)["note"] == "a�b"


@pytest.mark.parametrize(("interval", "after"), [(15, 22.5), (60, 90), (200, 250), (300, inf), (900, inf)])
def test_it_is_told_after_the_evaluation_that_said_no_and_within_what_prometheus_looks_back(
    interval: float, after: float
) -> None:
    assert Activation((), (), 0, 0, 1000, 1000, interval).told_at == 1000 + after
