from __future__ import annotations

from monitor.page.merged import merged

FULL = "the disk is full; make room there"
SILENT = "no answer: connection refused"


def sidecar(host: str, why: str = SILENT) -> str:
    return f"could not read the sidecar at http://{host}:9840/metrics: {why}"


def test_what_one_cause_at_one_place_keeps_from_being_done_is_one_sentence() -> None:
    told = [f"could not {what} at /var/h.sqlite: {FULL}" for what in ("write the history", "write the alert history")]
    one = f"could not write the history or write the alert history at /var/h.sqlite: {FULL}"
    assert merged(told) == [one]
    assert merged([*told, f"could not keep budgets at /var/h.sqlite: {FULL}"]) == [
        one.replace("history or write", "history, write").replace(" at /", " or keep budgets at /")
    ]


def test_one_cause_at_several_places_is_one_sentence_that_names_them() -> None:
    assert merged([sidecar("a"), sidecar("b"), sidecar("c")]) == [
        "could not read the sidecar at http://a:9840/metrics, http://b:9840/metrics and http://c:9840/metrics: "
        + SILENT
    ]


def test_of_many_places_the_rest_is_counted() -> None:
    [told] = merged(sidecar(f"h{n}") for n in range(20))
    assert "http://h7:9840/metrics and 12 more: " in told
    assert "h8" not in told


def test_what_differs_in_its_cause_stays_apart_and_what_is_the_same_is_said_once() -> None:
    assert merged([sidecar("a"), sidecar("b", "HTTP 401"), sidecar("a")]) == [sidecar("a"), sidecar("b", "HTTP 401")]


def test_a_sentence_of_another_form_stays_as_it_is() -> None:
    told = ["slo.yml: window: '3y': allowed: 1d to 90d", "2 minutes could not be written and are lost"]
    assert merged(told) == told
    assert merged([]) == []
