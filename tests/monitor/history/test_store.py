from dataclasses import replace

import pytest
from sqlalchemy import Engine

from exporters.schema import METRICS, Metric, Scope, Type, Unit
from monitor.history.columns import STORED, columns_of, why_not_stored
from monitor.history.minutes import Event, Minute, Window
from monitor.history.recording import Recording
from monitor.history.store import Batch, Store
from monitor.history.upsert import Progress
from tests.monitor.history.stored import asked, connected, engine_rows, everything, rows
from tests.monitor.observations import ENGINE_0, TARGET, observation, series

RUNNING = series("llm_requests_running")


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_a_series_keeps_when_it_was_seen_and_what_it_said_of_itself(database: Engine, store: Store) -> None:
    recording = Recording(store, 15)
    for at, version in [(30, "0.32.0"), (100, "0.33.0")]:
        info = series("llm_server_info", version=version, wire_model="org/m-a")
        recording.record([observation(at, {info: 1, RUNNING: 1})], at)
    recording.record([observation(115, up=False, available=False)], 115)
    recording.flush()
    stored = everything(database)
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
    [target] = everything(database)["series"]
    assert target[10:] == (None, None)


def test_newest_is_the_end_of_the_last_stored_minute(store: Store) -> None:
    assert store.newest() is None
    recording = Recording(store, 15)
    recording.record([observation(30), observation(130)], 130)
    assert store.newest() == 60
    assert Recording(store, 15).newest == 60


def test_every_metric_of_a_server_is_stored_or_it_is_said_why_not() -> None:
    for metric in METRICS.values():
        assert (metric.name in STORED) != bool(why_not_stored(metric)), metric.name


def test_no_two_columns_have_one_name() -> None:
    from monitor.history.columns import ENGINE_COLUMNS

    names = [name for columns in ENGINE_COLUMNS.values() for column in columns for name in column.names]
    assert len(names) == len(set(names))


def test_a_metric_of_a_shape_without_columns_is_refused_with_its_name() -> None:
    odd = Metric("llm_odd", Type.GAUGE, Unit.COUNT, Scope.ENGINE, "Odd.", ("colour",))
    with pytest.raises(ValueError, match="llm_odd: neither a column nor an entry of NOT_STORED"):
        columns_of(odd)


def window(start: int, samples: int = 4, tokens: float = 1) -> Window:
    minute = Minute(samples, start + 15.0, start + 60.0, counters={("llm_generation_tokens_total", ""): tokens})
    return Window(start, {ENGINE_0: minute})


def test_windows_are_written_together_with_how_far_their_source_was_read(database: Engine, store: Store) -> None:
    assert store.progress("http://prometheus") is None
    told = Progress("http://prometheus", 0, 120)
    store.write_windows([window(0), window(60, tokens=2)], [Event(ENGINE_0, 30, "restart")], told)
    assert {s: r["generation_tokens"] for s, r in engine_rows(database).items()} == {0: 1, 60: 2}
    assert len(everything(database)["events"]) == 1
    assert store.progress("http://prometheus") == told
    assert store.progress("http://another") is None


@pytest.mark.parametrize(
    ("told", "kept"),
    [((160, 220), (100, 220)), ((200, 260), (100, 260)), ((40, 100), (40, 200)), ((120, 180), (100, 200))],
)
def test_progress_that_adjoins_is_added_up(store: Store, told: tuple[int, int], kept: tuple[int, int]) -> None:
    for since, until in ((100, 200), told):
        store.write_windows([], [], Progress("a", since, until))
    assert store.progress("a") == Progress("a", *kept)


@pytest.mark.parametrize("told", [[(100, 200), (260, 300)], [(260, 300), (100, 200)]])
def test_progress_never_claims_a_gap(store: Store, told: list[tuple[int, int]]) -> None:
    for since, until in told:
        store.write_windows([], [], Progress("a", since, until))
    assert store.progress("a") == Progress("a", 260, 300)


def test_a_window_that_is_handed_in_twice_is_stored_once_and_with_the_more_readings(
    database: Engine, store: Store
) -> None:
    """As after a clock that was set back."""
    store.write_windows([window(0, 3, 30), window(0, 4, 40), window(0, 2, 20)], [], Progress("a", 0, 60))
    assert {s: r["generation_tokens"] for s, r in engine_rows(database).items()} == {0: 40}


def test_an_hour_is_due_for_its_roll_up_again_with_every_write_of_its_minutes(database: Engine, store: Store) -> None:
    for starts in ([0, 3540, 3600], [60], []):
        store.write_windows([window(start) for start in starts], [], Progress("a", 0, 3660))
    with database.connect() as connection:
        due = connection.exec_driver_sql("SELECT tier, start, touched FROM rollup_due ORDER BY start").all()
    assert [tuple(row) for row in due] == [("hour", 0, 2), ("hour", 3600, 1)]


def test_a_series_was_first_seen_when_its_earliest_window_says_whenever_that_is_read(
    database: Engine, store: Store
) -> None:
    for start in (600, 0):
        store.write_windows([window(start)], [], Progress("a", start, start + 60))
    [stored] = everything(database)["series"]
    assert stored[-2:] == (15, 660)


def test_a_checkpoint_of_a_gpu_is_kept_by_its_uuid(store: Store) -> None:
    for uuid in ("GPU-1", "GPU-2"):
        store.write([Batch("n1", "", 1.0, (), (), uuid.encode(), uuid)])
    assert store.checkpoint("n1", "", "GPU-2") == b"GPU-2"
    assert store.checkpoint("n1", "") is None


def test_a_minute_of_a_gpu_has_its_own_table_and_no_server(database: Engine, store: Store) -> None:
    gpu = (("gpu", "0"), ("node", "n1"), ("rack", "7"), ("uuid", "GPU-1"))
    store.write_windows([Window(60, {gpu: Minute(4, 61.0, 120.0, 60.0, 60.0)})], [], Progress("a", 60, 120))
    [stored] = rows(database, "gpu_minute").values()
    assert (stored["samples"], stored["increase_seconds"]) == (4, 60)
    with connected(database) as connection:
        [named] = asked(connection, "SELECT scope, node, server, uuid, gpu, labels FROM series")
    assert tuple(named.values()) == ("gpu", "n1", "", "GPU-1", "0", {"rack": "7"})


def test_events_of_a_window_that_is_read_again_are_those_that_are_told_now(database: Engine, store: Store) -> None:
    """A reading that comes late shows that the restart was earlier, and another one in the minute after."""
    early, late = Event(TARGET, 62.5, "restart"), Event(TARGET, 77.5, "restart")
    other, upgrade = Event(TARGET, 59.0, "restart"), Event(TARGET, 77.5, "version", "1", "2")

    def write(samples: int, *events: Event) -> list[tuple[float, str, str | None]]:
        windows = [Window(60, {TARGET: Minute(samples=samples)}), Window(120, {TARGET: Minute(samples=samples)})]
        store.write_windows(windows, events, None)
        return [(at, kind, before) for _, at, kind, before, _ in everything(database)["events"]]

    store.write_windows([Window(0, {TARGET: Minute(samples=4)})], [other], None)
    assert write(3, late, upgrade) == [(59, "restart", None), (77.5, "restart", None), (77.5, "version", "1")]
    changed = replace(upgrade, before="1.5")
    assert write(4, early, changed) == [(59, "restart", None), (62.5, "restart", None), (77.5, "version", "1.5")]
    assert write(3, late, upgrade) == [(59, "restart", None), (62.5, "restart", None), (77.5, "version", "1.5")], (
        "who has read less changes nothing"
    )
