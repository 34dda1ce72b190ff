"""SGLang's faces: held to recorded pages, consistent, and read by the product as what they are."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from demo.faces.sglang import Sglang
from demo.model import Identity, Limits, Request
from exporters.normalise import Reading
from exporters.tables import FRONTENDS
from tests.demo.faces import held
from tests.demo.faces.product import Sidecar, counted, info, qualities, reasons, total
from tests.demo.faces.scripted import START, Scripted, body, watched
from tests.exporters import recorded

SGLANG = FRONTENDS["sglang"]
CAPTURES = Path(__file__).parents[2] / "captures" / "sglang"
OLD, NEW = RELEASES = ("0.4.9", "0.5.23")
MODEL = "Qwen/Qwen2.5-7B-Instruct"
LIMITS = Limits(kv_tokens=32_768, block_tokens=1, context_tokens=32_768)

NO_GRAMMAR = {"sglang:num_so_requests is missing": "no simulated request asks for a grammar"}
NO_DETOKENIZER = {
    "sglang:process_cpu_seconds is not in the recording": "the recorded code ran without the processes that tell it"
}


def faced(
    release: str,
    *,
    engines: int = 1,
    tensor_parallel: int = 1,
    role: Literal["unified", "prefill", "decode"] = "unified",
    limits: Limits = LIMITS,
) -> tuple[Sglang, list[Scripted]]:
    found = [Scripted(limits) for _ in range(engines)]
    identity = Identity(MODEL, release, START, role=role, tensor_parallel=tensor_parallel, pid=13567)
    face = Sglang(identity, found)
    watched(face, found)
    return face, found


def asked(number: int, after: float, **more: Any) -> Request:
    return Request(number, START + after, **{"prompt_tokens": 200, "output_tokens": 50, "cached_tokens": 64, **more})


# Held to recordings


def hold(face: Sglang, recording: str, known: dict[str, str] | None = None) -> None:
    shown = body(face, START + 300)
    held.consistent(shown)
    held.held(shown, (CAPTURES / recording).read_text(), known)


def serve(engine: Scripted) -> None:
    """One request that streams and one that does not."""
    engine.serve(asked(1, 1))
    engine.serve(asked(4, 20))


def lose(engine: Scripted) -> None:
    """One whose client goes away, and one that is put back into the queue."""
    engine.serve(asked(2, 40, leaves_after=6))
    again = asked(3, 50)
    engine.begin(again)
    engine.preempt(again, START + 60)


def ask_page(face: Sglang) -> None:
    """What whoever recorded asked for before."""
    face.answer("/health", START)
    face.answer("/metrics", START)


def test_a_fresh_0_4_9_shows_nothing_at_all() -> None:
    face, _ = faced(OLD)
    assert (CAPTURES / OLD / "tp1-0_fresh.prom").read_text() == body(face, START + 60) == ""


def test_a_0_4_9_is_as_recorded() -> None:
    face, (engine,) = faced(OLD)
    serve(engine)
    lose(engine)
    hold(face, "0.4.9/tp1-2_load.prom", NO_GRAMMAR)


def test_two_engines_of_0_4_9_write_over_one_another_as_recorded() -> None:
    face, engines = faced(OLD, engines=2)
    for engine in engines:
        serve(engine)
        lose(engine)
    flag = "the recorded server ran without --collect-tokens-histogram"
    lengths = {f"sglang:{n}_tokens_histogram is not in the recording": flag for n in ("prompt", "generation")}
    hold(face, "0.4.9/dp2-1_load.prom", NO_GRAMMAR | lengths)


def test_a_fresh_0_5_23_is_as_recorded() -> None:
    face, _ = faced(NEW)
    face.answer("/health", START)
    hold(face, "0.5.23/tp1-0_fresh.prom", NO_DETOKENIZER)


def test_a_0_5_23_that_lost_nothing_yet_is_as_recorded() -> None:
    face, (engine,) = faced(NEW)
    ask_page(face)
    serve(engine)
    hold(face, "0.5.23/tp1-1_load.prom", NO_GRAMMAR | NO_DETOKENIZER)


@pytest.mark.parametrize("recording", ["tp1-2_load", "tp1-8_just_drained", "tp1-9_idle45s"])
def test_a_0_5_23_is_as_recorded(recording: str) -> None:
    face, (engine,) = faced(NEW)
    ask_page(face)
    serve(engine)
    lose(engine)
    hold(face, f"0.5.23/{recording}.prom", NO_GRAMMAR | NO_DETOKENIZER)


def test_two_tensor_parallel_ranks_of_0_5_23_repeat_what_is_recorded_of_them() -> None:
    face, (engine,) = faced(NEW, tensor_parallel=2)
    ask_page(face)
    serve(engine)
    lose(engine)
    hold(face, "0.5.23/tp2-1_load.prom", NO_GRAMMAR | NO_DETOKENIZER)


def test_two_engines_of_0_5_23_are_as_recorded() -> None:
    face, engines = faced(NEW, engines=2)
    ask_page(face)
    for engine in engines:
        serve(engine)
        lose(engine)
    hold(face, "0.5.23/dp2-8_just_drained.prom", NO_GRAMMAR | NO_DETOKENIZER)


def test_adapters_of_0_5_23_are_as_recorded() -> None:
    face, (engine,) = faced(NEW, limits=Limits(kv_tokens=32_768, block_tokens=1, context_tokens=32_768, adapters=8))
    ask_page(face)
    serve(engine)
    lose(engine)
    cache = "the recorded server also has a cache in host memory and in storage"
    families = (
        "load_back_duration_seconds", "load_back_tokens", "load_back_bytes", "eviction_duration_seconds",
        "evicted_tokens", "hicache_backup_duration_seconds", "hicache_backup_tokens", "hicache_backup_bytes",
        "hicache_host_used_tokens", "hicache_host_total_tokens", "storage_prefetch_unfulfilled_tokens",
        "storage_prefetch_deferred_tokens", "backuped_tokens",
    )  # fmt: skip
    known = {
        **{f"sglang:{name} is missing": cache for name in families},
        "sglang:cached_tokens_total{cache_source=host,engine_type=unified,model_name} is missing": cache,
        "sglang:spec_verify_calls is missing": "the recorded server speculates",
    }
    hold(face, "0.5.23/spec_lora_hicache-8_just_drained.prom", known | NO_GRAMMAR | NO_DETOKENIZER)


# Rhythm and traps


@pytest.mark.parametrize("release", RELEASES)
def test_counters_never_fall_and_buckets_add_up(release: str) -> None:
    face, (engine,) = faced(release)
    pages = [body(face, START)]
    for number in range(1, 6):
        engine.serve(asked(number, 30.0 * number, leaves_after=6 if number == 3 else None))
        pages.append(body(face, START + 30 * number + 20))
    for before, after in pairwise(pages):
        held.consistent(after)
        held.grown(before, after)


def test_tokens_of_0_4_9_are_counted_when_a_request_is_done() -> None:
    face, (engine,) = faced(OLD)
    request = asked(1, 1)
    engine.begin(request)
    engine.decode(request, 49)
    assert "generation_tokens_total" not in body(face, START + 30)
    engine.finish(request, "stop")
    shown = body(face, START + 30)
    assert held.value(shown, "sglang:generation_tokens_total") == 50
    assert held.value(shown, "sglang:cached_tokens_total") == 64


def test_tokens_of_0_5_23_are_counted_live_but_for_the_first() -> None:
    face, (engine,) = faced(NEW)
    request = asked(1, 1)
    engine.begin(request)
    engine.decode(request, 49)
    live = held.values(body(face, START + 30), "sglang:realtime_tokens_total", "mode")
    assert live == {"prefill_compute": 136, "prefill_cache": 64, "decode": 49}
    assert held.value(body(face, START + 30), "sglang:queue_time_seconds_count") == 1


def test_a_report_of_prompts_leaves_out_whom_they_belong_to_and_one_of_decode_steps_comes_every_40() -> None:
    face, (engine,) = faced(NEW)
    request = asked(1, 1)
    engine.begin(request)
    shown = body(face, START + 2)
    assert held.value(shown, "sglang:num_running_reqs") == 0
    assert held.value(shown, "sglang:cache_hit_rate") == 0.32  # 64 of 200
    engine.decode(request, 39)
    assert held.value(body(face, START + 3), "sglang:num_running_reqs") == 0
    engine.decode(request, 3)  # the 40th at 1.75 + 40 * 0.25 s
    shown = body(face, START + 12)
    assert held.value(shown, "sglang:num_running_reqs") == 1
    assert held.value(shown, "sglang:gen_throughput") == pytest.approx((1 + 40) / 11.75 - 1 / 11.75)
    assert held.value(shown, "sglang:token_usage") == 0.01
    assert held.value(shown, "sglang:full_token_usage") == 243 / 32_768


def test_decode_reports_of_0_4_9_do_not_round_and_clear_the_hit_rate() -> None:
    face, (engine,) = faced(OLD)
    request = asked(1, 1)
    engine.begin(request)
    assert held.value(body(face, START + 2), "sglang:token_usage") == 0.01
    engine.decode(request, 40)
    shown = body(face, START + 12)
    assert held.value(shown, "sglang:token_usage") == 241 / 32_768
    assert held.value(shown, "sglang:cache_hit_rate") == 0


def test_of_two_engines_of_0_4_9_the_one_that_reported_last_is_shown() -> None:
    face, engines = faced(OLD, engines=2)
    for number, engine in ((1, engines[1]), (2, engines[0])):
        request = asked(number, 2.0 * number)
        engine.begin(request)
        engine.queue(asked(8 + number, 20))
        engine.decode(request, 40 * number)
    engines[0].begin(asked(5, 40))
    shown = body(face, START + 41)
    assert held.value(shown, "sglang:num_running_reqs") == 1
    assert held.value(shown, "sglang:num_used_tokens") == (200 + 81) + (200 + 1)


def test_an_empty_batch_is_told_by_0_4_9_after_30_seconds_and_by_0_5_23_at_once() -> None:
    running = {}
    for release in RELEASES:
        face, (engine,) = faced(release)
        engine.serve(asked(1, 1))  # done after 14 seconds; the last report is of 11.75
        pages = [body(face, START + after) for after in (14.5, 41, 42)]
        running[release] = [held.value(page, "sglang:num_running_reqs") for page in pages]
        assert held.value(pages[-1], "sglang:gen_throughput") == 0
    assert running == {OLD: [1, 1, 0], NEW: [0, 0, 0]}


def test_who_is_cancelled_in_the_queue_is_in_the_aborts_alone() -> None:
    face, (engine,) = faced(NEW)
    engine.serve(asked(1, 1, leaves_after=6))
    early = asked(2, 30)
    engine.queue(early)
    engine.waiting.remove(early)
    early.reason, early.finished = "abort", START + 31
    engine.observers[0].finished(early, START + 31)
    shown = body(face, START + 40)
    assert held.value(shown, "sglang:num_aborted_requests_total") == 2
    assert held.value(shown, "sglang:num_requests_total") == 1
    assert held.value(shown, "sglang:e2e_request_latency_seconds_count") == 1


def test_the_second_tensor_parallel_rank_repeats_queue_times_and_retractions() -> None:
    face, (engine,) = faced(NEW, tensor_parallel=2)
    serve(engine)
    lose(engine)
    shown = body(face, START + 70)
    assert held.values(shown, "sglang:queue_time_seconds_count", "tp_rank") == {"0": 4, "1": 4}
    assert held.values(shown, "sglang:num_retracted_requests_total", "tp_rank") == {"0": 1, "1": 1}
    assert held.values(shown, "sglang:num_running_reqs", "tp_rank").keys() == {"0"}


def test_the_last_retraction_is_told_once_with_the_schedulers_process() -> None:
    face, (engine,) = faced(NEW)
    lose(engine)
    engine.serve(asked(5, 70, output_tokens=1))
    assert held.values(body(face, START + 80), "sglang:num_retracted_reqs", "pid") == {"13568": 1}
    engine.serve(asked(6, 90, output_tokens=1))
    assert held.values(body(face, START + 99), "sglang:num_retracted_reqs", "pid") == {"13568": 0}


def test_a_prefill_server_sends_no_tokens_and_tells_what_it_hands_over() -> None:
    face, (engine,) = faced(NEW, role="prefill")
    engine.serve(asked(1, 1, output_tokens=1))
    shown = body(face, START + 30)
    held.consistent(shown)
    assert "sglang:time_to_first_token_seconds" not in shown
    assert "sglang:inter_token_latency_seconds" not in shown
    assert held.value(shown, "sglang:generation_tokens_total", engine_type="prefill") == 1
    assert held.value(shown, "sglang:utilization") == -1
    assert held.value(shown, "sglang:kv_transfer_total_mb_sum") == pytest.approx(200 * 0.057344)
    assert set(held.values(shown, "sglang:per_stage_req_latency_seconds_count", "stage")) == {
        "request_process", "prefill_bootstrap", "prefill_forward", "prefill_transfer_kv_cache",
    }  # fmt: skip


def test_a_decode_server_computes_no_prompts() -> None:
    face, (engine,) = faced(NEW, role="decode")
    request = asked(1, 1, is_prefilled=True, cached_tokens=0)
    engine.take(request)
    engine.decode(request, 49)
    engine.finish(request, "length")
    shown = body(face, START + 30)
    held.consistent(shown)
    assert held.values(shown, "sglang:realtime_tokens_total", "mode") == {"decode": 49}
    assert held.value(shown, "sglang:generation_tokens_total", engine_type="decode") == 50
    assert held.value(shown, "sglang:time_to_first_token_seconds_sum") == 0.5
    assert "prefill_forward" not in shown


def test_a_first_token_that_came_along_goes_out_with_the_decode_servers_first_step() -> None:
    face, _ = faced(NEW, role="decode")
    request = asked(1, 1, is_prefilled=True, first_token=START + 1.25, scheduled=START + 1.5)
    face.observer(0).arrived(request, START + 1)
    face.observer(0).scheduled(request, START + 1.5)
    shown = body(face, START + 2)
    assert held.value(shown, "sglang:time_to_first_token_seconds_sum") == 0.5
    assert held.value(shown, "sglang:time_to_first_token_seconds_count") == 1


def test_unknown_releases_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.5\.0 is not known: it is one of 0\.4\.9, 0\.5\.23"):
        faced("0.5.0")


# Documents


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("/health", 200, 200),
        ("/v1/models", 200, 200),
        ("/get_model_info", 200, 200),
        ("/model_info", 404, 200),
        ("/get_server_info", 200, 200),
        ("/server_info", 404, 200),
        ("/get_load", 200, 404),
        ("/v1/loads?include=core", 404, 200),
        ("/version", 404, 404),
    ],
)
def test_each_release_has_its_documents(path: str, old: int, new: int) -> None:
    found = [faced(release)[0].answer(path, START) for release in RELEASES]
    assert [answer.status for answer in found] == [old, new]
    assert all(json.loads(answer.body) == {"detail": "Not Found"} for answer in found if answer.status == 404)


def test_loads_are_those_of_the_moment_by_engine() -> None:
    face, engines = faced(NEW, engines=2)
    engines[1].begin(asked(1, 1))
    engines[1].queue(asked(2, 3))
    loads = json.loads(face.answer("/v1/loads", START + 4).body)["loads"]
    assert [(one["dp_rank"], one["num_running_reqs"], one["num_waiting_reqs"]) for one in loads] == [
        (0, 0, 0), (1, 1, 1),
    ]  # fmt: skip
    assert loads[1]["num_used_tokens"] == 201
    shown = body(face, START + 5)
    assert held.value(shown, "sglang:get_loads_duration_seconds_count") == 1


# As the product reads it


@pytest.mark.parametrize(("release", "found"), [(OLD, ["empty_body"]), (NEW, [])])
def test_the_product_finds_of_a_fresh_server_what_it_finds_of_the_recorded_one(release: str, found: list[str]) -> None:
    face, _ = faced(release)
    assert reasons(Sidecar(face, SGLANG).read_fresh(START + 60)) == found
    assert reasons(recorded.normalise(CAPTURES / release / "tp1-0_fresh.prom")) == found


@pytest.mark.parametrize("release", RELEASES)
def test_the_product_knows_the_server_and_its_release(release: str) -> None:
    face, (engine,) = faced(release, tensor_parallel=2)
    serve(engine)
    told = info(Sidecar(face, SGLANG).read(START + 60))
    facts = ("version", "model", "tp", "dp", "max_model_len", "block_size", "prefix_caching", "role")
    assert [told.label(fact) for fact in facts] == [release, MODEL, "2", "1", "32768", "1", "true", "unified"]


def grown(before: Reading, after: Reading, metric: str) -> float:
    return total(after, metric) - total(before, metric)


def observed(before: Reading, after: Reading, metric: str) -> tuple[float, object]:
    (count, sum_), (older, old_sum) = counted(after, metric), counted(before, metric)
    return count - older, pytest.approx(sum_ - old_sum)


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_product_counts_between_two_readings_is_the_truth(release: str) -> None:
    face, (engine,) = faced(release)
    serve(engine)
    running = asked(2, 45)
    engine.begin(running)
    sidecar = Sidecar(face, SGLANG)
    before = sidecar.read(START + 60)
    engine.serve(asked(3, 61, prompt_tokens=333, output_tokens=7, ends_by="stop"), queue=1.5)
    engine.serve(asked(8, 70), queue=0.25)
    engine.serve(asked(5, 90, leaves_after=4))
    engine.decode(running, 10)
    engine.queue(asked(6, 100))
    engine.serve(asked(7, 110, output_tokens=1))
    after = sidecar.read(START + 120)

    def of(metric: str) -> tuple[float, object]:
        return observed(before, after, metric)

    assert reasons(after) == []
    assert after.unmapped == ()
    assert grown(before, after, "llm_requests_finished_total") == 4
    assert grown(before, after, "llm_prompt_tokens_total") == 333 + 200 + 200 + 200
    assert grown(before, after, "llm_prefix_cache_hit_tokens_total") == 4 * 64
    assert of("llm_time_to_first_token_seconds") == (4, (1.5 + 0.25) + (0.25 + 0.25) + 2 * (0.5 + 0.25))
    assert of("llm_inter_token_latency_seconds") == (6 + 49 + 3 + 10, 68 * 0.25)
    assert of("llm_request_duration_seconds") == (4, (1.5 + 7 * 0.25) + (0.25 + 50 * 0.25) + (0.5 + 4 * 0.25) + 0.75)
    assert of("llm_prompt_length_tokens") == (4, 933)
    assert of("llm_generation_length_tokens") == (4, 7 + 50 + 4 + 1)
    assert total(after, "llm_requests_waiting") == 1
    generated = 7 + 50 + 4 + 1
    if release == NEW:
        assert grown(before, after, "llm_generation_tokens_total") == generated + 10
        assert grown(before, after, "llm_prefix_cache_query_tokens_total") == 933
        assert of("llm_queue_time_seconds") == (4, 1.5 + 0.25 + 0.5 + 0.5)
    else:
        assert grown(before, after, "llm_generation_tokens_total") == generated


def test_the_product_counts_engines_apart_and_ranks_once() -> None:
    face, engines = faced(NEW, engines=2, tensor_parallel=2)
    serve(engines[0])
    lose(engines[1])
    reading = Sidecar(face, SGLANG).read(START + 70)
    assert total(reading, "llm_preemptions_total", engine="1") == 1
    assert total(reading, "llm_preemptions_total", engine="0") == 0
    assert counted(reading, "llm_queue_time_seconds")[0] == 4
    assert total(reading, "llm_kv_cache_capacity_tokens") == 2 * 32_768
    assert total(reading, "llm_requests_running_limit") == 2 * 256


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_product_knows_the_role_of_a_server(role: Literal["prefill", "decode"]) -> None:
    face, (engine,) = faced(NEW, role=role)
    engine.serve(asked(1, 1, output_tokens=1 if role == "prefill" else 50))
    reading = Sidecar(face, SGLANG).read(START + 60)
    assert info(reading).label("role") == role
    assert reasons(reading) == []
    assert reading.unmapped == ()
    first = qualities(reading)["llm_time_to_first_token_seconds"]
    assert first == ("unavailable" if role == "prefill" else "exact")


@pytest.mark.parametrize("release", RELEASES)
def test_all_fields_are_worth_to_the_product_what_they_are_on_the_recorded_page(release: str) -> None:
    """But for what only documents tell, which nobody recorded."""
    face, (engine,) = faced(release)
    serve(engine)
    lose(engine)
    ours = qualities(Sidecar(face, SGLANG).read(START + 70))
    theirs = qualities(recorded.normalise(CAPTURES / release / "tp1-2_load.prom"))
    documents = {"llm_requests_running_limit"} | ({"llm_kv_cache_capacity_tokens"} if release == OLD else set())
    assert {name for name in ours if ours[name] != theirs[name]} == documents
