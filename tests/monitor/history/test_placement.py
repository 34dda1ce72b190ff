from collections.abc import Iterable

from exporters.gpu.gathered import GpuReading, observation_of
from exporters.gpu.observation import GpuObservation
from monitor.history.minutes import Event, State, advance
from monitor.history.placement import place, placements
from tests.monitor.gpu_data import H100
from tests.monitor.observations import ENGINE_0, TARGET, observation, series

NAME = H100["name"]
L40 = "NVIDIA L40S"


def gpu(number: str, *servers: str, up: bool = True, name: str = NAME, profile: str = "") -> GpuObservation:
    info = {"name": name, **({"mig_profile": profile} if profile else {})}
    return observation_of(
        "n1", 0, GpuReading(f"GPU-{number}", number, up, info=info), dict.fromkeys(servers, "process")
    )


def lived(*readings: Iterable[GpuObservation], server: str = "s1") -> tuple[State, list[Event]]:
    """A reading of the node's GPUs every 15 seconds, after one of the server."""
    state = State()
    events: list[Event] = []
    advance(state, observation(1), 30)
    for number, gpus in enumerate(readings):
        told = placements(gpus).get(server)
        if told is not None:
            events += place(state, 15.0 * number, told)
    return state, events


def test_a_server_that_moved_to_other_gpus_is_an_event_with_the_second_reading_that_says_so() -> None:
    before, after = [gpu("0", "s1"), gpu("1")], [gpu("0"), gpu("1", "s1")]
    _, events = lived(before, before, after, after, after)
    assert events == [Event(TARGET, 45, "gpus", f"GPU-0 {NAME}", f"GPU-1 {NAME}")]


def test_gpus_taken_one_after_the_other_at_the_start_are_no_change() -> None:
    both = [gpu("0", "s1"), gpu("1", "s1")]
    state, events = lived([gpu("0", "s1"), gpu("1")], both, both)
    assert events == []
    assert state.facts["gpus"] == f"GPU-0 {NAME}, GPU-1 {NAME}"


def test_what_only_one_reading_says_floods_nothing() -> None:
    here, there = [gpu("0", "s1"), gpu("1")], [gpu("0"), gpu("1", "s1")]
    _, events = lived(here, here, there, here, there, here, here)
    assert events == []


def test_a_lost_gpu_stays_with_its_server() -> None:
    well = [gpu("0", "s1"), gpu("1", "s1")]
    half = [gpu("0", "s1"), gpu("1", up=False)]
    state, events = lived(well, well, half, half, half, well, well)
    assert events == []
    assert state.facts["gpus"] == f"GPU-0 {NAME}, GPU-1 {NAME}"


def test_a_gpu_that_is_not_its_own_any_more_is_an_event() -> None:
    well, half = [gpu("0", "s1"), gpu("1", "s1")], [gpu("0", "s1"), gpu("1")]
    _, events = lived(well, well, half, half)
    assert [(e.before, e.after) for e in events] == [(f"GPU-0 {NAME}, GPU-1 {NAME}", f"GPU-0 {NAME}")]


def test_a_server_that_no_gpu_names_is_where_it_was() -> None:
    """It is restarted, or its processes cannot be seen."""
    well, gone = [gpu("0", "s1")], [gpu("0")]
    state, events = lived(well, well, gone, gone, gone)
    assert (events, state.facts["gpu"]) == ([], NAME)


def test_a_name_that_is_learnt_later_is_no_change() -> None:
    nameless, named = [gpu("0", "s1", name="")], [gpu("0", "s1")]
    state, events = lived(nameless, nameless, named, named)
    assert (events, state.facts["gpu"]) == ([], NAME)


def test_several_types_of_gpus_are_joined() -> None:
    mixed = [gpu("0", "s1"), gpu("1", "s1", name=L40), gpu("2", "s1")]
    state, _ = lived(mixed, mixed)
    assert state.facts["gpu"] == f"{NAME}, {L40}"


def test_an_instance_is_of_a_type_of_its_own() -> None:
    plain = [gpu("0:1", "s1", profile="1g.10gb")]
    said = [gpu("0:1", "s1", name=f"{NAME} MIG 1g.10gb", profile="1g.10gb")]
    assert lived(plain, plain)[0].facts["gpu"] == lived(said, said)[0].facts["gpu"] == f"{NAME} MIG 1g.10gb"


def test_servers_that_share_a_gpu_each_have_it() -> None:
    told = placements([gpu("0", "s1", "s2"), gpu("1", "s2")])
    assert {server: len(placement.gpus) for server, placement in told.items()} == {"s1": 1, "s2": 2}


def test_the_type_is_kept_with_the_target_and_its_engines_and_which_they_are_with_the_target() -> None:
    state, _ = lived([gpu("0", "s1")], [gpu("0", "s1")])
    advance(state, observation(35, {series("llm_server_info", version="0.32.0"): 1}), 30)
    assert state.window is not None
    assert state.window.rows[TARGET].info == {"gpu": NAME, "gpus": f"GPU-0 {NAME}"}
    assert state.window.rows[ENGINE_0].info == {"version": "0.32.0", "gpu": NAME}


def test_nothing_is_said_of_a_server_that_was_never_observed() -> None:
    state, told = State(), placements([gpu("0", "s1")])["s1"]
    assert (place(state, 15, told), place(state, 30, told)) == ((), ())
