from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.ask import History
from monitor.history.life import EVENT_KINDS, Seen, Wanted
from monitor.history.minutes import Event
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.gpu_data import gathered, lost, reading
from tests.monitor.observations import TARGET, observation, series

RUNNING = series("llm_requests_running")
GPU_0 = (("gpu", "0"), ("node", "n1"), ("uuid", "GPU-0"))


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


@pytest.fixture
def history(database: Engine) -> History:
    """Of a server that is started anew with other flags, and of a GPU that is lost meanwhile."""
    recording = Recording(Store(database), 15)
    lives = [(30, 1, "8192", "bfloat16"), (45, 1, "8192", "bfloat16"), (60, 50, "32768", "float16")]
    for at, start, length, dtype in lives:
        info = series("llm_server_info", version="0.32.0", max_model_len=length, dtype=dtype)
        told = gathered(at, lost("0") if at == 45 else reading("0"), node="n1", on={"0": "s1"})
        seen = observation(at, {info: 1, RUNNING: 1}, start_time=start)
        recording.record([seen, observation(at, server="s2", up=False, available=False)], at, told.gpus)
    recording.flush()
    return History(database)


def kinds(history: History, wanted: Wanted) -> list[tuple[float, str]]:
    return [(event.at, event.kind) for event in history.events(wanted)]


def test_events_are_told_the_newest_first(history: History) -> None:
    assert history.events(Wanted(10)) == [
        Event(GPU_0, 60, "state", "down", "up"),
        Event(TARGET, 60, "dtype", "bfloat16", "float16"),
        Event(TARGET, 60, "max_model_len", "8192", "32768"),
        Event(TARGET, 60, "restart"),
        Event(GPU_0, 45, "state", "up", "down"),
    ]


def test_events_can_be_chosen(history: History) -> None:
    assert kinds(history, Wanted(10, kinds=("restart", "dtype"))) == [(60, "dtype"), (60, "restart")]
    assert kinds(history, Wanted(10, uuid="GPU-0")) == [(60, "state"), (45, "state")]
    assert kinds(history, Wanted(1, server="s1")) == [(60, "dtype")]
    assert kinds(history, Wanted(10, node="n1", server="s2")) == []
    assert kinds(history, Wanted(10, node="n2")) == []


def test_a_window_of_events_has_its_end_and_not_its_start(history: History) -> None:
    assert kinds(history, Wanted(10, since=30, until=45)) == [(45, "state")]
    assert kinds(history, Wanted(10, since=45, until=59.9)) == []


def test_first_and_last_sight_are_known(history: History) -> None:
    assert history.seen_server("n1", "s1") == Seen(30, 60)
    assert history.seen_server("n1", "s2") == Seen(None, None)
    assert history.seen_server("n1", "nobody") == Seen(None, None)
    assert history.seen_gpus() == {("n1", "GPU-0"): Seen(30, 60)}


def test_every_kind_fits_its_column_and_is_described() -> None:
    assert max(map(len, EVENT_KINDS)) <= 32
    described = (Path(__file__).parents[3] / "docs" / "history.md").read_text()
    assert [kind for kind in EVENT_KINDS if f"`{kind}`" not in described] == []
