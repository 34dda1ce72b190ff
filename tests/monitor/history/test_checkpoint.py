import json
import zlib

from monitor.history import checkpoint
from monitor.history.minutes import Mean, State, advance
from tests.monitor.observations import ENGINE_0, in_part, observation, series

RUNNING, TOKENS = series("llm_requests_running"), series("llm_generation_tokens_total")
PREEMPTIONS = series("llm_preemptions_total")


def state() -> State:
    made = State()
    for at, running in ((5.0, 2.0), (20.0, 4.0)):
        advance(made, observation(at, {RUNNING: running, TOKENS: at}, start_time=1.0), 30.0)
    return made


def test_a_state_is_read_back_as_it_was_written() -> None:
    assert checkpoint.load(checkpoint.dump(state())) == state()


def test_what_a_reading_in_part_leaves_open_is_read_back_too() -> None:
    made = State()
    advance(made, in_part(5.0, {TOKENS: 5.0}), 30.0)
    loaded = checkpoint.load(checkpoint.dump(made))
    assert loaded == made
    assert loaded is not None
    advance(loaded, observation(20.0, {TOKENS: 7.0, PREEMPTIONS: 900.0}), 30.0)
    assert loaded.window is not None
    assert loaded.window.rows[ENGINE_0].counters == {(TOKENS.metric, ""): 2.0}


def test_what_the_first_release_wrote_is_gone_on_with() -> None:
    """It keyed gauges by their metric alone, and took each reading for whole."""
    document = json.loads(zlib.decompress(checkpoint.dump(state())))
    del document["base"]["knows_zero"]
    for _, row in document["window"]["rows"]:
        row["gauges"] = {metric: numbers for metric, _, *numbers in row["gauges"]}
    loaded = checkpoint.load(zlib.compress(json.dumps(document).encode()))
    assert loaded == state()
    assert loaded is not None
    assert loaded.window is not None
    assert loaded.window.rows[ENGINE_0].gauges == {("llm_requests_running", ""): Mean(6.0, 2, 4.0)}


def test_a_damaged_one_is_not_read() -> None:
    assert checkpoint.load(b"nothing of the kind") is None
