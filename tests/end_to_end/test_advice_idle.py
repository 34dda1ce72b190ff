"""A simulated server that nobody asks for anything: its GPU is told as idle, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.server import Spec
from tests.end_to_end.advised import HOUR, MINUTE, NODE, START, Lived, findings, lived, names, number
from tests.end_to_end.advised_days import Copy, copy

END = 6 * HOUR + 30 * MINUTE
SPECS = (Spec("asleep", NODE, "sglang", "0.5.23", "m-asleep", (1,)),)
"""GPU 0 is nobody's: it is free."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(SPECS, [], END, tmp_path_factory.mktemp("idle")) as made:
        yield made


@pytest.mark.parametrize("now", [END, None], ids=["with what servers say", "from the history alone"])
def test_the_gpu_of_a_server_without_requests_is_idle(fleet: Lived, now: float | None) -> None:
    told = fleet.advice(0, END, now=now)
    assert names(told) == {f"GPU 1 of {NODE}": ["gpus_idle"]}
    (finding,) = findings(told)[f"GPU 1 of {NODE}"]
    assert finding.text == f"GPU 1 of {NODE} did nothing, and its memory is held by asleep."
    assert number(finding, "share of time with any kernel").value == 0
    assert number(finding, "memory in use").value == 73_200 * 2**20
    assert finding.seconds == pytest.approx(END, abs=MINUTE)
    assert fleet.fleet.truth.summary().arrived == 0


def test_less_than_six_hours_are_no_ground_for_it(fleet: Lived) -> None:
    told = fleet.advice(0, 5 * HOUR)
    assert names(told) == {}
    (needs,) = {missing.needs for missing in told.advice.missing if missing.name == "gpus_idle"}
    assert needs == "`gpu_utilization_ratio` over 6 h"


def test_at_steps_of_an_hour_it_is_as_well(fleet: Lived) -> None:
    """As many hours before were like these."""
    begin = int(START)
    copy(fleet.history.engine, [Copy(begin, begin + 6 * HOUR, begin - 6 * HOUR)])
    (finding,) = fleet.advice(-6 * HOUR, END).advice.findings
    assert (finding.name, finding.target.gpu) == ("gpus_idle", "1")
    assert finding.evidence[0].steps == (5 * MINUTE, HOUR)
