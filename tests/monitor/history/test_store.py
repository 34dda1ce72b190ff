from pathlib import Path

import pytest
from sqlalchemy import Engine

from exporters.schema import METRICS, Metric, Scope, Type, Unit
from monitor.history.ask import History
from monitor.history.columns import STORED, columns_of, why_not_stored
from monitor.history.minutes import Event
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.history.stored import everything
from tests.monitor.observations import observation, series

RUNNING = series("llm_requests_running")


def path_of(database: Engine) -> Path:
    return Path(database.url.database or "")


def test_a_series_keeps_when_it_was_seen_and_what_it_said_of_itself(database: Engine, store: Store) -> None:
    recording = Recording(store, 15)
    for at, version in [(30, "0.32.0"), (100, "0.33.0")]:
        info = series("llm_server_info", version=version, wire_model="org/m-a")
        recording.record([observation(at, {info: 1, RUNNING: 1})], at)
    recording.record([observation(115, up=False, available=False)], 115)
    recording.flush()
    stored = everything(path_of(database))
    engine, target = stored["series"]
    assert engine[1:8] == ("engine", "n1", "s1", "vllm", "m-a", "unified", "0")
    assert engine[9] == {"version": "0.33.0", "wire_model": "org/m-a"}
    assert engine[10:] == (30, 100)
    assert target[1:8] == ("target", "n1", "s1", None, None, None, None)
    assert stored["events"] == [(target[0], 100, "version", "0.32.0", "0.33.0")]


def test_a_target_that_never_answered_was_never_seen(database: Engine, store: Store) -> None:
    recording = Recording(store, 15)
    recording.record([observation(30, up=False, available=False)], 30)
    recording.flush()
    [target] = everything(path_of(database))["series"]
    assert target[10:] == (None, None)


def test_newest_is_the_end_of_the_last_stored_minute(store: Store) -> None:
    assert store.newest() is None
    recording = Recording(store, 15)
    recording.record([observation(30), observation(130)], 130)
    assert store.newest() == 60
    assert Recording(store, 15).newest == 60


def test_old_minutes_are_forgotten_and_newer_ones_stay(database: Engine, store: Store, history: History) -> None:
    recording = Recording(store, 15)
    recording.record([observation(at, {RUNNING: 1}) for at in (30, 90, 150)], 150)
    recording.flush()
    assert store.forget(before=120) == 4, "two minutes, each of an engine and its target"
    [answer] = history.ask("llm_requests_running", None, 0, 300, 60)
    assert [p.start for p in answer.points] == [120]


def test_events_are_told_newest_first(store: Store, history: History) -> None:
    recording = Recording(store, 15)
    for at, tokens in [(30, 50), (45, 3), (60, 9), (75, 1)]:
        recording.record([observation(at, {series("llm_generation_tokens_total"): tokens})], at)
    found = history.events("n1", "s1", limit=10)
    assert [(e.at, e.kind) for e in found] == [(75, "restart"), (45, "restart")]
    assert history.events("n1", "other", limit=10) == []
    assert isinstance(found[0], Event)


def test_every_metric_of_a_server_is_stored_or_it_is_said_why_not() -> None:
    for metric in METRICS.values():
        assert (metric.name in STORED) != bool(why_not_stored(metric)), metric.name


def test_no_two_columns_have_one_name() -> None:
    from monitor.history.columns import ENGINE_COLUMNS, column_names

    names = [name for columns in ENGINE_COLUMNS.values() for name in column_names(columns)]
    assert len(names) == len(set(names))


def test_a_metric_of_a_shape_without_columns_is_refused_with_its_name() -> None:
    odd = Metric("llm_odd", Type.GAUGE, Unit.COUNT, Scope.ENGINE, "Odd.", ("colour",))
    with pytest.raises(ValueError, match="llm_odd: neither a column nor an entry of NOT_STORED"):
        columns_of(odd)
