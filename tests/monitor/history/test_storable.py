import json
import random

import pytest
from sqlalchemy import Engine

from exporters.observation import Observation
from monitor.history.ask import History
from monitor.history.life import Wanted
from monitor.history.recording import Recording
from monitor.history.storable import as_json, key_of
from monitor.history.store import Store
from tests.monitor.history.stored import asked, connected
from tests.monitor.observations import ENGINE_0, observation, series

TOKENS, REJECTED = "llm_generation_tokens_total", "llm_requests_rejected_total"
RANDOM = random.Random(1)
HANZI = "".join(chr(RANDOM.randrange(0x4E00, 0x9FFF)) for _ in range(1024))
"""As long as a label may be, and hard to compress."""


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def told(at: float, model: str, version: str, reason: str) -> Observation:
    values = {
        series("llm_server_info", model=model, version=version): 1.0,
        series(TOKENS, model=model): at,
        series(REJECTED, model=model, reason=reason): at,
    }
    return observation(at, values)


def write(store: Store, *observations: Observation) -> None:
    recording = Recording(store, 15)
    for each in observations:
        recording.record([each], each.at)
    recording.flush()


def test_what_a_server_calls_itself_may_hold_anything(database: Engine, store: Store, history: History) -> None:
    write(store, *(told(at, "m\0\ud800", f"\0{at}", "full\0") for at in (5, 20)))
    with connected(database) as connection:
        [row] = asked(connection, "SELECT model, version, requests_rejected FROM engine_minute_view")
    assert row == {"model": "m�?", "version": "�20", "requests_rejected": {"full�": 15}}
    assert [a.labels for a in history.ask(REJECTED, None, 0, 60, 60, ["model", "reason"])] == [
        {"model": "m�?", "reason": "full�"}
    ]
    assert [(e.before, e.after) for e in history.events(Wanted(5, kinds=("version",)))] == [("�5", "�20")]


@pytest.mark.parametrize("model", [HANZI, HANZI[:-1]])
def test_names_may_be_longer_than_an_index_takes(database: Engine, store: Store, history: History, model: str) -> None:
    write(store, *(told(at, model, "1", "full") for at in (5, 20)))
    write(Store(database), told(35, model, "2", "full"))
    assert [
        (a.labels, a.points[0].value) for a in history.ask(TOKENS, None, 0, 60, 60, ["model"], aggregation="sum")
    ] == [({"model": model}, 30)]
    [event] = history.events(Wanted(5, kinds=("version",)))
    assert dict(event.target) == {"node": "n1", "server": "s1"}


def test_long_names_are_told_apart_and_short_ones_can_be_read() -> None:
    assert json.loads(key_of(ENGINE_0)) == dict(ENGINE_0)
    assert len({key_of((("model", HANZI),)), key_of((("model", HANZI[:-1]),))}) == 2


def test_increases_take_few_characters_and_lose_nothing() -> None:
    assert as_json({"b": 0.0, "a": 12.0}) == '{"a":12,"b":0}'
    several = {"half": 0.5, "third": 1 / 3, "large": 1e300, "whole": float(2**53 - 1)}
    assert json.loads(as_json(several)) == several
    assert len(as_json({"large": 1e300})) < 20
