from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.schema import FRAMEWORKS
from monitor.advise.framework import Basis, Choice, choose
from monitor.advise.matrix import MOST, STARS, Criterion
from monitor.advise.model import Asked
from monitor.advise.workload import Traits, traits
from monitor.advise.world import ADAPTERS, GENERATION_P50, HIT, PROMPT_P50, QUERIED, RUNNING, WAITING
from monitor.compare.model import Band, Cell, Comparison, Estimate, Group, Measure, Workload
from monitor.history.answer import Point
from tests.monitor.advise.hand import OFTEN_IDLE, START, VLLM, Values, server, world

BUSY = Traits("m", ("vllm",), 2, 64.0, 512.0, 256.0, 0.05, 0.0)


def cell(framework: str, tokens: float, spread: float = 100.0, *, at_once: int = 64, **more: object) -> Cell:
    measures = {
        Measure.TOKENS: Estimate(tokens, tokens - spread, tokens + spread),
        Measure.TTFT_P99: Estimate(0.98, 0.9, 1.0),
    }
    given = {"workload": Workload(512.0, 256.0, 0.05), "minutes": 120, "model": "m"} | more
    group = Group(framework, str(given["model"]))
    return Cell(group, Band(at_once), int(str(given["minutes"])), float(at_once), measures, given["workload"])  # type: ignore[arg-type]


def compared(*cells: Cell) -> Comparison:
    return Comparison(0, 3600, cells)


def texts(of: Choice, basis: Basis) -> list[str]:
    return [sentence.text for sentence in of.sentences if sentence.basis is basis]


def test_the_matrix_has_a_row_for_every_criterion_and_framework() -> None:
    assert set(STARS) == set(Criterion)
    for stars in STARS.values():
        assert set(stars) == set(FRAMEWORKS)
        assert all(1 <= many <= MOST for many in stars.values())


def test_traits_are_told_from_the_history() -> None:
    given: dict[Asked, Values] = {
        RUNNING: OFTEN_IDLE,
        WAITING: 0.0,
        PROMPT_P50: 500.0,
        GENERATION_P50: 250.0,
        ADAPTERS: 3.0,
    }
    (told,) = traits(world(server(given), server({QUERIED: 100_000.0, HIT: 20_000.0, **given}, name="s2")))
    assert told == Traits(
        model="m",
        frameworks=("vllm",),
        servers=2,
        at_once=48.0,
        prompt_tokens=500.0,
        generation_tokens=250.0,
        hit_ratio=0.35,
        adapters=3.0,
    )
    both = world(
        server(facts={**VLLM, "quantization": "fp8"}), server(name="s2", facts={**VLLM, "quantization": "none"})
    )
    assert traits(both)[0].quantisation == "fp8"


def test_of_steps_of_several_lengths_each_counts_for_its_time() -> None:
    """Two hours with ten at once, and one of steps of five minutes with fifty."""
    busy = server({RUNNING: 50.0, WAITING: 0.0})
    calm = {at: Point(at, 3600, 10.0, None, None, 3600.0, 1) for at in (START - 7200, START - 3600)}
    both = replace(busy, told={RUNNING: {**calm, **busy.of(RUNNING)}})
    assert [of.at_once for of in traits(world(both))] == [10.0]
    half = replace(busy, told={RUNNING: {START - 3600: calm[START - 3600], **busy.of(RUNNING)}})
    assert [of.at_once for of in traits(world(half))] == [30.0]


def test_requests_that_wait_are_under_way_too() -> None:
    (told,) = traits(world(server({RUNNING: 48.0, WAITING: 16.0})))
    assert told.at_once == 64.0


def test_without_measurements_the_article_decides_and_is_named() -> None:
    told = choose(BUSY, None)
    assert (told.first, told.basis) == ("tensorrt_llm", Basis.REFERENCE)
    assert told.sentences[-1].text == (
        "TensorRT-LLM, by the reference figures alone. For measured ones let two frameworks serve this model for 10 "
        "minutes each at a like load."
    )
    assert texts(told, Basis.REFERENCE)[0] == (
        "For throughput the article gives, of 5 stars: TensorRT-LLM 5, SGLang 4, LMDeploy 4, vLLM 3."
    )
    assert texts(told, Basis.SEEN)[0] == "Requests under way at once at a server, median: 64."
    assert "Two frameworks were not measured side by side" in texts(told, Basis.NOTHING)[-1]


@pytest.mark.parametrize(
    ("of", "first"),
    [
        (Traits("m", (), 1, 12.0, None, None, None, None), "lmdeploy"),
        (Traits("m", (), 1, 64.0, None, None, 0.3, None), "sglang"),
        (Traits("m", (), 1, 64.0, None, None, 0.5, 4.0), "vllm"),
        (Traits("m", (), 1, None, None, None, None, 4.0), "vllm"),
        (Traits("m", (), 1, None, None, None, None, None), "vllm"),
        (Traits("m", (), 1, 64.0, None, None, 0.1, None, "awq"), "lmdeploy"),
    ],
)
def test_the_article_takes_the_workload_into_account(of: Traits, first: str) -> None:
    """LMDeploy and TensorRT-LLM have 5 stars for few requests at once; vLLM and SGLang 8 for adapters and throughput:
    where two have as many, the one that is named first."""
    assert (choose(of, None).first, choose(of, None).basis) == (first, Basis.REFERENCE)


def test_what_was_measured_overrules_the_article() -> None:
    told = choose(BUSY, compared(cell("vllm", 18_400), cell("sglang", 21_600), cell("tensorrt_llm", 17_000)))
    assert (told.first, told.basis) == ("sglang", Basis.MEASURED)
    assert texts(told, Basis.MEASURED) == [
        "SGLang at about 64 at once: 21,600 tokens/s (21,500 to 21,700), P99 of the first token 0.98 s, in 120 "
        "minutes.",
        "vLLM at about 64 at once: 18,400 tokens/s (18,300 to 18,500), P99 of the first token 0.98 s, in 120 minutes.",
        "TensorRT-LLM at about 64 at once: 17,000 tokens/s (16,900 to 17,100), P99 of the first token 0.98 s, in 120 "
        "minutes.",
        "So SGLang: it was measured to make the most tokens, whatever the article says.",
    ]


def test_intervals_that_overlap_speak_for_nobody() -> None:
    told = choose(BUSY, compared(cell("vllm", 18_400, 2_000), cell("sglang", 21_600, 2_000)))
    assert (told.first, told.basis) == ("", Basis.MEASURED)
    assert told.sentences[-1].text == ("No difference is shown between SGLang and vLLM: nothing speaks for a change.")


def test_few_minutes_one_framework_or_another_model_are_no_measurement() -> None:
    for cells in (
        [cell("vllm", 18_400), cell("sglang", 21_600, minutes=9)],
        [cell("vllm", 18_400)],
        [cell("vllm", 18_400, model="other"), cell("sglang", 21_600, model="other")],
        [cell("vllm", 18_400), cell("sglang", 21_600, at_once=128)],
    ):
        assert choose(BUSY, compared(*cells)).basis is Basis.REFERENCE


def test_the_nearest_load_stands_in_and_is_said_to() -> None:
    far = [cell("vllm", 11_200, at_once=16), cell("sglang", 12_800, at_once=16)]
    near = [cell("vllm", 22_100, at_once=128), cell("sglang", 27_300, at_once=128)]
    told = choose(BUSY, compared(*far, *near))
    assert "That is the nearest load at which two of them were seen; usual here are about 64." in texts(
        told, Basis.MEASURED
    )
    assert "27,300" in texts(told, Basis.MEASURED)[0]


def test_adapters_rule_out_who_cannot_exchange_them_however_fast() -> None:
    adapted = Traits("m", (), 2, 64.0, 512.0, 256.0, 0.05, 4.0)
    told = choose(adapted, compared(cell("tensorrt_llm", 23_800), cell("vllm", 18_400), cell("sglang", 17_000)))
    assert (told.first, told.basis) == ("vllm", Basis.MEASURED)
    assert "TensorRT-LLM is left out, for its LoRA adapters." in texts(told, Basis.REFERENCE)


def test_lengths_that_differ_are_said_to_explain_a_part() -> None:
    longer = cell("sglang", 21_600, workload=Workload(512.0, 400.0))
    told = choose(BUSY, compared(cell("vllm", 18_400), longer))
    assert any("not of one length (256 to 400 tokens)" in text for text in texts(told, Basis.MEASURED))
