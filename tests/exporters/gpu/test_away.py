"""GPUs that fell off the bus, before and after NVML was started again: each is told of once."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.findings import finding
from exporters.gpu.away import Unopened, away
from exporters.gpu.device import Facts
from exporters.gpu.errors import code_of
from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import Collected, Host, Script, gpu, host, uuid

LOST, RESET, DENIED = 15, 16, 4
OFF_THE_BUS = "the GPU is off the bus or does not answer"


def lost(number: int, code: int = LOST) -> Script:
    return gpu(number) | {(number, "err"): code}


def numbered(*gpus: Script) -> Script:
    """The host has these alone, with numbers in a row."""
    names = [next(iter(each))[0] for each in gpus]
    return host(*gpus) | {(-1, f"number.{index}"): name for index, name in enumerate(names)}


def told(collected: Collected) -> list[str]:
    """What is said of GPUs that are lost: uuids, and what the host says."""
    named = [g.uuid for g in collected.gpus if "gpu_lost" in g.findings]
    return [*named, *([collected.findings["gpu_lost"]] if "gpu_lost" in collected.findings else [])]


def up(collected: Collected) -> list[str]:
    return [g.uuid for g in collected.gpus if g.up]


@pytest.fixture
def three(start: Start, library: Path) -> Host:
    made = start(library, host(gpu(0), gpu(1), gpu(2)))
    made.collect()
    return made


def test_a_known_gpu_that_is_lost_is_told_once_when_nvml_was_started_again(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0), lost(1)))
    for later in (15, 60, 15, 120):
        collected = two.collect(later=later)
        assert told(collected) == [uuid(1)]
        assert collected.findings == {}
        assert up(collected) == [uuid(0)]
    two.say(host(gpu(0), gpu(1)))
    back = two.collect(later=600)
    assert (told(back), up(back)) == ([], [uuid(0), uuid(1)])


def test_of_two_that_are_lost_the_known_one_has_its_uuid_and_the_other_its_number(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0), gpu(1), lost(2)))
    assert told(here.collect()) == [f"GPU 2: {OFF_THE_BUS}"]
    here.say(host(gpu(0), lost(1), lost(2)))
    for later in (15, 60, 600):
        assert told(here.collect(later=later)) == [uuid(1), f"GPU 2: {OFF_THE_BUS}"]
    here.say(host(gpu(0), lost(1), gpu(2)))
    collected = here.collect(later=600)
    assert (told(collected), up(collected)) == ([uuid(1)], [uuid(0), uuid(2)])
    here.say(host(gpu(0), gpu(1), gpu(2)))
    assert told(here.collect(later=600)) == []


def test_a_known_gpu_without_a_number_is_told_once_and_is_found_when_it_is_back(three: Host) -> None:
    three.say(host(gpu(0), lost(1), gpu(2)))
    three.collect()
    three.say(numbered(gpu(0), gpu(2)))
    for later in (60, 15):
        collected = three.collect(later=later)
        assert (told(collected), up(collected)) == ([uuid(1)], [uuid(0), uuid(2)])
        assert [g.gpu for g in collected.gpus] == ["0", "1", "1"]
    three.say(host(gpu(0), gpu(1), gpu(2)))
    back = three.collect(later=600)
    assert (told(back), up(back)) == ([], [uuid(0), uuid(1), uuid(2)])
    assert [g.gpu for g in back.gpus] == ["0", "1", "2"]
    assert f"{uuid(1)} is back" in three.log()


def test_a_gpu_that_moved_up_and_is_lost_is_not_taken_for_an_unknown_one(three: Host) -> None:
    # The first is off the bus; the last cannot be opened, by the number that the second had.
    three.say(numbered(lost(0), gpu(1), gpu(2)))
    three.collect()
    three.say(numbered(gpu(1), lost(2)))
    collected = three.collect(later=60)
    assert (told(collected), up(collected)) == ([uuid(0), uuid(2)], [uuid(1)])


def test_an_unknown_gpu_that_is_lost_is_not_taken_for_a_known_one_elsewhere(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0), gpu(1), lost(2)))
    here.collect()
    here.say(numbered(gpu(1), lost(2)))
    collected = here.collect(later=60)
    assert (told(collected), up(collected)) == ([uuid(0), f"GPU 1: {OFF_THE_BUS}"], [uuid(1)])


def test_a_gpu_that_tells_its_uuid_and_is_lost_then_is_known_by_it(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0), gpu(1) | {(1, "err.nvmlDeviceGetPciInfo_v3"): LOST}))
    collected = here.collect()
    assert told(collected) == [uuid(1)]
    assert {k: v for k, v in collected.gpu(1).values().items() if "xid" not in k} == {"gpu_up": 0}
    here.say(host(gpu(0), gpu(1)))
    assert here.collect(later=60).gpu(1).findings == {}


def test_a_known_gpu_that_cannot_be_opened_says_why_itself(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0), lost(1)))
    two.collect()
    two.say(host(gpu(0), lost(1, RESET)))
    collected = two.collect(later=60)
    assert collected.findings == {}
    assert collected.gpu(1).findings == {"gpu_reset_required": "the GPU needs a reset"}
    two.say(host(gpu(0), gpu(1)))
    assert two.collect(later=600).gpu(1).up


# Which number is whose, alone


def facts(name: str, number: int, bus: str = "") -> Facts:
    return Facts(name, str(number), {"pci_bus_id": f"0000:{bus}:00.0"} if bus else {})


def unopened(*numbers: int, code: int = LOST) -> list[Unopened]:
    return [Unopened(number, code_of(code)) for number in numbers]


A, B, C = facts("a", 0, "1a"), facts("b", 1, "2a"), facts("c", 2, "3a")


@pytest.mark.parametrize(
    ("known", "here", "numbers", "missing", "unknown"),
    [
        ([A, B, C], [A, C], [1], ["b"], []),
        ([A, B, C], [], [0, 1, 2], ["a", "b", "c"], []),
        ([A, B], [A], [1, 2], ["b"], [2]),
        ([A, C], [A], [1, 2], ["c"], [1]),
        ([A], [A], [1, 2], [], [1, 2]),
        ([], [], [0], [], [0]),
        ([A, B, C], [A, facts("c", 1, "3a")], [], ["b"], []),
        ([A, B, C], [facts("b", 0, "2a")], [1], ["a", "c"], []),
        ([A, B, C], [facts("b", 0, "2a"), facts("c", 1, "3a")], [2], ["a"], [2]),
        ([A, facts("b", 1)], [A], [1], ["b"], []),
    ],
)
def test_a_number_is_that_of_a_missing_gpu_between_the_same_neighbours(
    known: list[Facts], here: list[Facts], numbers: list[int], missing: list[str], unknown: list[int]
) -> None:
    gone = away(known, here, unopened(*numbers))
    assert list(gone.known) == missing
    assert set(gone.known.values()) <= {finding("gpu_lost")}
    assert [f.detail for f in gone.unknown] == [f"GPU {number}: {OFF_THE_BUS}" for number in unknown]


def test_places_on_the_bus_are_in_the_order_of_their_domains() -> None:
    far = Facts("far", "1", {"pci_bus_id": "10000:01:00.0"})
    assert list(away([A, far], [A], unopened(1)).known) == ["far"]
    assert away([A, far], [far], unopened(0)).unknown == ()


def test_only_what_is_lost_or_was_there_is_looked_for_again() -> None:
    assert away([A], [A], unopened(1)).may_come_back
    assert away([A, B], [A], []).may_come_back
    assert not away([A], [A], unopened(1, code=DENIED)).may_come_back
    assert not away([A], [A], []).may_come_back
