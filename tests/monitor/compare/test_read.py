from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import Engine as Database

from monitor.compare.asked import Asked
from monitor.compare.observed import Server
from monitor.compare.read import observed
from monitor.compare.rows import Number
from monitor.history.minutes import Event, Window
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


def test_what_is_counted_for_all_engines_together_is_that_of_the_server(database: Database, store: Store) -> None:
    """As SGLang's data-parallel engines: each has its gauges, tokens and hits, the server its prompts and latencies."""
    write(store, [_data_parallel(n) for n in range(3)])
    seen = observed(database, ASKED)
    assert seen.servers == (Server("n1", "s1", "sglang", "llama", "unified", "sglang"),)
    assert seen.rows.at_once.tolist() == [40, 40, 40], "16 that run and 4 that wait at each of two"
    by_hand = {Number.PROMPT: 50_000, Number.GENERATION: 30_000, Number.FINISHED: 60, Number.HIT: 6_000}
    for column, number in by_hand.items():
        assert seen.rows.number(column).tolist() == [number] * 3
    assert seen.rows.number(Number.SECONDS).tolist() == [60] * 3
    (ttft,) = seen.rows.phases["ttft"]
    assert ttft.counts.tolist() == [[10, 40, 9, 1, 0]] * 3
    assert not seen.partial.any()


def test_a_minute_without_what_is_counted_for_all_engines_is_partial(database: Database, store: Store) -> None:
    windows = [_data_parallel(n) for n in range(3)]
    del windows[1].rows[Engine(framework="sglang", number="").labels]
    write(store, windows)
    assert observed(database, ASKED).partial.tolist() == [False, True, False]


def test_a_number_that_one_of_the_engines_does_not_tell_is_not_known(database: Database, store: Store) -> None:
    one, two = Engine(), Engine(number="1")
    made = window(0, one, two)
    del made.rows[two.labels].counters["llm_prompt_tokens_total", ""]
    write(store, [made])
    rows = observed(database, ASKED).rows
    assert np.isnan(rows.number(Number.PROMPT)).all()
    assert rows.number(Number.GENERATION).tolist() == [30_000]


def test_a_minute_that_does_not_tell_who_waits_is_partial_where_others_do(database: Database, store: Store) -> None:
    write(store, [window(0, Engine(waiting=4.0)), window(1, Engine()), window(2, Engine(waiting=4.0))])
    assert observed(database, ASKED).partial.tolist() == [False, True, False]


def _data_parallel(number: int) -> Window:
    """Two engines, and a line without an engine for what is counted of both."""
    engines = [Engine(framework="sglang", number=n, waiting=4.0) for n in ("0", "1")]
    of_all = Engine(framework="sglang", number="", prompt=50_000.0)
    made = window(number, *engines, of_all)
    for engine in engines:
        row = made.rows[engine.labels]
        row.histograms = {}
        row.counters = {key: n for key, n in row.counters.items() if key[0] not in _OF_ALL}
    row = made.rows[of_all.labels]
    row.gauges, row.info = {}, {}
    row.counters = {key: n for key, n in row.counters.items() if key[0] in _OF_ALL}
    return made


_OF_ALL = ("llm_prompt_tokens_total", "llm_requests_finished_total")


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


@pytest.mark.parametrize("model", ["", "llama"])
def test_a_gpu_that_another_model_has_too_is_shared_whatever_is_asked_for(
    database: Database, store: Store, model: str
) -> None:
    """The other one is there in the first of two minutes."""
    gpus = dict.fromkeys(("s1", "s2"), f"GPU-0 {KIND}")
    write(store, [window(0, Engine(), Engine("s2", model="qwen"), gpus=gpus), window(1, Engine(), gpus=gpus)])
    write(store, [gpu_window(n, "GPU-0") for n in range(2)])
    seen = observed(database, replace(ASKED, model=model))
    [llama] = [number for number, server in enumerate(seen.servers) if server.model == "llama"]
    rows = seen.rows.of(seen.rows.server == llama)
    assert np.isnan(rows.number(Number.JOULES)).tolist() == [True, False]
    assert np.isnan(rows.number(Number.GPU_SECONDS)).tolist() == [True, False]


def test_a_neighbour_on_a_gpu_of_its_own_shares_none(database: Database, store: Store) -> None:
    gpus = {"s1": f"GPU-0 {KIND}", "s2": f"GPU-1 {KIND}"}
    write(store, [window(0, Engine(), Engine("s2", model="qwen"), gpus=gpus)])
    write(store, [gpu_window(0, uuid) for uuid in ("GPU-0", "GPU-1")])
    assert observed(database, replace(ASKED, model="llama")).rows.number(Number.JOULES).tolist() == [24_000]


def test_too_much_at_once_is_refused_with_what_is_allowed(database: Database, store: Store) -> None:
    write(store, [window(0, Engine())])
    with pytest.raises(InvalidParameter, match="600,001 minutes of 1 engines") as refused:
        observed(database, Asked(START - 600_000 * MINUTE, START + MINUTE))
    assert (refused.value.parameter, refused.value.allowed) == ("since", ("at most 10000 hours, or one model",))
