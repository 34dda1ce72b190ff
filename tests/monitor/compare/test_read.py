from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import Engine as Database

from monitor.compare.asked import Asked
from monitor.compare.observed import Server
from monitor.compare.read import observed
from monitor.compare.rows import Number
from monitor.history.minutes import Event
from monitor.history.question import InvalidParameter
from monitor.history.store import Store
from tests.monitor.compare.stored import KIND, MINUTE, START, TTFT, Engine, gpu_window, target, window, write

ASKED = Asked(START, START + 3600)


@pytest.fixture
def database(each_database: Database) -> Database:
    return each_database


def test_engines_of_a_server_are_added_up_minute_by_minute(database: Database, store: Store) -> None:
    both = Engine(), Engine(number="1", prompt=10_000.0)
    write(store, [window(n, *both) for n in range(3)])
    seen = observed(database, ASKED)
    assert seen.servers == (Server("n1", "s1", "vllm", "llama", "unified", "vllm"),)
    assert seen.rows.start.tolist() == [START, START + MINUTE, START + 2 * MINUTE]
    assert seen.rows.at_once.tolist() == [32, 32, 32]
    assert seen.rows.number(Number.PROMPT).tolist() == [40_000] * 3
    assert seen.rows.number(Number.SECONDS).tolist() == [60] * 3
    assert seen.rows.number(Number.FINISHED).tolist() == [120] * 3
    (ttft,) = seen.rows.phases["ttft"]
    assert ttft.bounds == TTFT
    assert ttft.counts.tolist() == [[20, 80, 18, 2, 0]] * 3
    assert not seen.partial.any()
    assert not seen.changed.any()


def test_roles_and_models_of_one_server_are_servers_of_their_own(database: Database, store: Store) -> None:
    write(store, [window(0, Engine(), Engine(model="qwen"), Engine(role="prefill"))])
    assert [(s.model, s.role) for s in observed(database, ASKED).servers] == [
        ("llama", "prefill"), ("llama", "unified"), ("qwen", "unified"),
    ]  # fmt: skip


def test_requests_that_wait_count_with_those_that_run(database: Database, store: Store) -> None:
    write(store, [window(0, Engine(waiting=10.0), Engine("s2"))])
    assert observed(database, ASKED).rows.at_once.tolist() == [26, 16], "where none is known to wait, those that run"


def test_simulated_servers_are_known_by_their_label(database: Database, store: Store) -> None:
    write(store, [window(0, Engine(), Engine("s2", source="simulated"), Engine("s3", source="rack-7"))])
    assert [(s.server, s.simulated) for s in observed(database, ASKED).servers] == [
        ("s1", False), ("s2", True), ("s3", False),
    ]  # fmt: skip


def test_a_minute_without_one_of_the_engines_is_partial(database: Database, store: Store) -> None:
    one, two = Engine(), Engine(number="1")
    write(store, [window(0, one, two), window(1, one), window(2, one, two), window(3, one, replace(two, covered=30.0))])
    assert observed(database, ASKED).partial.tolist() == [False, True, False, True]


def test_an_engine_that_came_later_is_not_missed_before(database: Database, store: Store) -> None:
    one, two = Engine(), Engine(number="1")
    write(store, [window(0, one), window(1, one), window(2, one, two), window(3, one, two)])
    assert observed(database, ASKED).partial.tolist() == [False] * 4


def test_what_is_not_exposed_is_not_known(database: Database, store: Store) -> None:
    start = window(0, Engine())
    for row in start.rows.values():
        row.counters.pop(("llm_prefix_cache_hit_tokens_total", ""), None)
        row.counters = {key: added for key, added in row.counters.items() if key[0] != "llm_requests_finished_total"}
    write(store, [start])
    rows = observed(database, ASKED).rows
    assert np.isnan([rows.number(column)[0] for column in (Number.HIT, Number.FINISHED, Number.ABORTED)]).all()
    assert rows.phases["e2e"] == ()


def test_minutes_with_a_change_are_marked_and_releases_told_by_events(database: Database, store: Store) -> None:
    at = START + 2 * MINUTE + 15
    events = [
        Event(target("s1"), at, "restart"),
        Event(target("s1"), at, "version", "0.31.0", "0.32.0"),
        Event(target("s1"), START + 30, "state", "awake", "sleeping"),
    ]
    write(store, [window(n, Engine()) for n in range(4)], events)
    seen = observed(database, ASKED)
    assert seen.changed.tolist() == [False, False, True, False]
    assert [seen.version.names[n] for n in seen.version.of] == ["0.31.0"] * 3 + ["0.32.0"]


def test_an_upgrade_after_the_time_asked_for_tells_what_was_before(database: Database, store: Store) -> None:
    event = Event(target("s1"), START + 3 * MINUTE + 15, "version", "0.31.0", "0.32.0")
    write(store, [window(n, Engine()) for n in range(5)], [event])
    seen = observed(database, Asked(START, START + 3 * MINUTE))
    assert [seen.version.names[n] for n in seen.version.of] == ["0.31.0"] * 3


def test_the_energy_of_gpus_belongs_to_their_server(database: Database, store: Store) -> None:
    gpus = {"s1": f"GPU-0 {KIND}, GPU-1 {KIND}"}
    write(store, [window(n, Engine(), gpus=gpus) for n in range(2)])
    write(store, [gpu_window(n, uuid) for n in range(2) for uuid in ("GPU-0", "GPU-1", "GPU-2")])
    seen = observed(database, ASKED)
    assert seen.rows.number(Number.JOULES).tolist() == [48_000] * 2
    assert seen.rows.number(Number.GPU_SECONDS).tolist() == [120] * 2
    assert [seen.gpu.names[n] for n in seen.gpu.of] == [KIND] * 2


def test_without_readings_of_gpus_their_type_is_as_the_server_was_told_last(database: Database, store: Store) -> None:
    write(store, [window(0, Engine())])
    seen = observed(database, ASKED)
    assert [seen.gpu.names[n] for n in seen.gpu.of] == [KIND]
    assert np.isnan(seen.rows.number(Number.GPU_SECONDS)).all()


def test_only_the_model_that_is_asked_for_is_read(database: Database, store: Store) -> None:
    write(store, [window(0, Engine(), Engine("s2", model="qwen"))])
    assert [s.model for s in observed(database, replace(ASKED, model="qwen")).servers] == ["qwen"]
    assert observed(database, replace(ASKED, model="none")).servers == ()


def test_too_much_at_once_is_refused_with_what_is_allowed(database: Database, store: Store) -> None:
    write(store, [window(0, Engine())])
    with pytest.raises(InvalidParameter, match="600,001 minutes of 1 engines") as refused:
        observed(database, Asked(START - 600_000 * MINUTE, START + MINUTE))
    assert (refused.value.parameter, refused.value.allowed) == ("since", ("at most 10000 hours, or one model",))
