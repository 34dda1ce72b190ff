"""Percentiles of a fleet of three frameworks, whose bounds differ, against the latencies that were really there.

vLLM's are its clients' own; SGLang's and TensorRT-LLM's are what their code was made to observe. All of vLLM's requests
fall into the first hour, those of the others into both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from sqlalchemy import Engine

from exporters.collected import Outcome, observation_of
from exporters.normalise import Identity, Normaliser
from exporters.observation import Observation
from exporters.schema import E2E, TTFT, Phase
from exporters.tables import FRONTENDS
from monitor.history.ask import Answer, History, Point
from monitor.history.question import question
from monitor.history.recording import Recording
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier
from tests.exporters.recorded import CAPTURES, side_documents

HOUR = 3600
FULL_HOUR = 1_796_083_200 + HOUR
"""What is read later belongs to the second hour."""
RUNS = {
    "vllm": ("vllm/0.32.0", {"A-0-fresh": -60.0, "A-2-after": -1.0}),
    "sglang": (
        "sglang/0.5.23",
        {
            "tp1-0_fresh": -290.0,
            "tp1-1_load": -200.0,
            "tp1-2_load": -20.0,
            "tp1-3_load": 200.0,
            "tp1-8_just_drained": 300,
        },
    ),
    "trtllm_serve": (
        "trtllm_serve/main2026",
        {"page-fresh": -290.0, "page-load1": -130.0, "page-load2": -20.0, "page-load3": 100.0, "page-idle": 290.0},
    ),
}
"""By frontend: the folder of the run, and when its pages are read, in seconds from the full hour."""
FRAMEWORK = {"trtllm_serve": "tensorrt_llm"}


def pages() -> Iterator[Observation]:
    for frontend, (folder, moments) in RUNS.items():
        identity = Identity("n1", frontend)
        normaliser = Normaliser(FRONTENDS[frontend], identity)
        for name, at in moments.items():
            page = CAPTURES / folder / f"{name}.prom"
            reading = normaliser.normalise(page.read_text(), side_documents(page, FRONTENDS[frontend]))
            yield observation_of(Outcome(FULL_HOUR + at, up=True, reading=reading), identity, 0.1)


def latencies(phase: Phase, frontend: str, page: str) -> list[float]:
    """Of all requests so far."""
    folder = CAPTURES / RUNS[frontend][0]
    if frontend == "vllm":
        requests = json.loads((folder / "A-truth.json").read_text())["requests"] if page != "A-0-fresh" else []
        return [r[phase.name] for r in requests if r["i"] < 10_000]
    if frontend == "sglang":
        fed = json.loads((folder / f"{page}.json").read_text())["fed_histograms"]
        return list(fed[{"ttft": "ttft_fed", "e2e": "e2e"}[phase.name]]["values"])
    return list(json.loads((folder / f"{page}.truth.json").read_text())["per_request_latencies_so_far"][phase.name])


def between(phase: Phase, frontend: str, since: float, until: float) -> list[float]:
    """Of the requests that pages read in (since, until] show first; moments in seconds from the full hour."""
    moments = RUNS[frontend][1]
    first = min(moments, key=moments.__getitem__)
    before = max((p for p, at in moments.items() if at <= since), key=moments.__getitem__, default=first)
    last = max((p for p, at in moments.items() if at <= until), key=moments.__getitem__)
    new = Counter(latencies(phase, frontend, last)) - Counter(latencies(phase, frontend, before))
    return list(new.elements())


@pytest.fixture(params=[False, True], ids=["minutes", "rolled up"])
def asked(request: pytest.FixtureRequest, database: Engine, history: History, store: Store) -> History:
    recording = Recording(store, 300.0)
    for each in sorted(pages(), key=lambda observation: observation.at):
        recording.record([each], each.at)
    recording.flush()
    while request.param and roll_up(database, FULL_HOUR + 3 * HOUR):
        pass
    return history


QUANTILES = [0.5, 0.9, 0.99]
PHASES = pytest.mark.parametrize("phase", [TTFT, E2E], ids=["ttft", "e2e"])


def holds(point: Point, true: list[float], q: float) -> bool:
    assert point.lower is not None
    assert point.upper is not None
    assert point.lower <= point.value <= point.upper
    return point.lower <= float(np.quantile(true, q)) <= point.upper


@PHASES
def test_the_true_percentiles_of_the_fleet_lie_between_the_bounds(asked: History, phase: Phase) -> None:
    true = [value for frontend in RUNS for value in between(phase, frontend, -HOUR, HOUR)]
    assert len(true) > 500
    for q in QUANTILES:
        [answer] = asked.ask(phase.metric, q, FULL_HOUR - HOUR, FULL_HOUR + HOUR, 2 * HOUR)
        [point] = answer.points
        assert point.series == len(RUNS)
        assert holds(point, true, q)


@PHASES
@pytest.mark.parametrize("frontend", RUNS)
def test_the_same_holds_for_one_model_one_framework_and_one_server(asked: History, phase: Phase, frontend: str) -> None:
    framework = FRAMEWORK.get(frontend, frontend)
    true = between(phase, frontend, -HOUR, HOUR)
    labels = [answer.labels for answer in by(asked, phase, "framework", "model")]
    models = {each["framework"]: each["model"] for each in labels}
    for where in ({"framework": framework}, {"model": models[framework]}, {"server": frontend}):
        for q in QUANTILES:
            [answer] = asked.ask(phase.metric, q, FULL_HOUR - HOUR, FULL_HOUR + HOUR, 2 * HOUR, (), where)
            assert holds(answer.points[0], true, q), where


@PHASES
@pytest.mark.parametrize("q", QUANTILES)
def test_the_same_holds_for_each_hour_and_each_framework_in_it(asked: History, phase: Phase, q: float) -> None:
    fleet = asked.ask(phase.metric, q, FULL_HOUR - HOUR, FULL_HOUR + HOUR, HOUR)
    told = {"": fleet[0]} | {answer.labels["framework"]: answer for answer in by(asked, phase, "framework", q=q)}
    for framework, answer in told.items():
        frontends = [f for f in RUNS if framework in ("", FRAMEWORK.get(f, f))]
        for point in answer.points:
            since = point.start - FULL_HOUR
            true = [value for f in frontends for value in between(phase, f, since, since + HOUR)]
            assert holds(point, true, q), (framework, since)
    hours = {framework: len(answer.points) for framework, answer in told.items()}
    assert hours == {"": 2, "vllm": 1, "sglang": 2, "tensorrt_llm": 2}


def by(history: History, phase: Phase, *names: str, q: float = 0.99) -> list[Answer]:
    return history.ask(phase.metric, q, FULL_HOUR - HOUR, FULL_HOUR + HOUR, HOUR, names)


@pytest.mark.usefixtures("asked")
def test_hours_answer_once_they_are_rolled_up(request: pytest.FixtureRequest, history: History) -> None:
    asked = question(TTFT.metric, 0.99, FULL_HOUR - HOUR, FULL_HOUR + HOUR, HOUR, (), {}, None)
    rolled_up = "rolled up" in request.node.name
    assert [part.tiers for part in history.tell(asked).parts] == [(Tier.HOUR if rolled_up else Tier.MINUTE,)]
