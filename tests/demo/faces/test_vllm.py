"""vLLM's faces: held to recorded pages, consistent, and read by the product as what they are."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from demo.faces.vllm import Vllm
from demo.model import Identity, Limits, Request
from exporters.tables import FRONTENDS
from tests.demo.faces import held
from tests.demo.faces.product import Sidecar, counted, info, qualities, reasons, total
from tests.demo.faces.scripted import START, Scripted, body, watched
from tests.exporters import recorded

VLLM = FRONTENDS["vllm"]
CAPTURES = Path(__file__).parents[2] / "captures" / "vllm"
RELEASES = ("0.6.6.post1", "0.10.2", "0.32.0")
MODEL = "tiny-qwen"
LIMITS = Limits(kv_tokens=5120, block_tokens=32, context_tokens=1024)
WITH_ADAPTERS = Limits(kv_tokens=5120, block_tokens=32, context_tokens=1024, adapters=2)
_PYTHON = frozenset({"minor", "patchlevel", "version"})
_SPECULATION = "the recorded engine speculates"


def faced(release: str, limits: Limits = LIMITS, engines: int = 1) -> tuple[Vllm, list[Scripted]]:
    found = [Scripted(limits) for _ in range(engines)]
    face = Vllm(Identity(MODEL, release, START, adapters=("ada1", "ada2")), found)
    watched(face, found)
    return face, found


def asked(number: int, after: float, **more: Any) -> Request:
    return Request(number, START + after, **{"prompt_tokens": 200, "output_tokens": 20, "cached_tokens": 64, **more})


# Held to recordings


def configured(page: str) -> frozenset[str]:
    """The names of the settings that a page tells: their values are the operator's."""
    (config,) = [f for f in held.families(page) if f.name == "vllm:cache_config_info"]
    return frozenset(config.samples[0].labels) - {"engine"}


def hold(face: Vllm, recording: str, known: dict[str, str] | None = None, *, after: float = 300) -> None:
    theirs = (CAPTURES / recording).read_text()
    ours = body(face, START + after)
    held.consistent(ours)
    held.held(ours, theirs, known, free=held.FREE | configured(theirs) | {"handler"} | _PYTHON)


def serve_adapters(engine: Scripted) -> None:
    """In the recorded order: one, both, the other, both the other way round, none."""
    engine.serve(asked(1, 1))
    first, second, third = (asked(n, 10.0 * n, adapter=a) for n, a in ((2, "ada2"), (3, "ada1"), (4, "ada2")))
    engine.begin(first)
    engine.begin(second)
    engine.finish(first, "length")
    engine.begin(third)
    engine.decode(third, 19)
    engine.finish(second, "length")
    engine.finish(third, "stop")


def test_a_fresh_0_32_is_as_recorded() -> None:
    face, _ = faced("0.32.0", WITH_ADAPTERS)
    ask_documents(face)
    hold(face, "0.32.0/A-0-fresh.prom")


def ask_documents(face: Vllm) -> None:
    """What whoever recorded asked for before."""
    face.answer("/v1/models", START + 1)
    face.answer("/is_sleeping", START + 1)


def test_a_0_32_after_its_requests_is_as_recorded() -> None:
    face, (engine,) = faced("0.32.0", WITH_ADAPTERS)
    ask_documents(face)
    serve_adapters(engine)
    hold(face, "0.32.0/A-2-after.prom")


def test_families_stand_in_the_recorded_order() -> None:
    face, (engine,) = faced("0.32.0", WITH_ADAPTERS)
    ask_documents(face)
    serve_adapters(engine)
    recorded_page = (CAPTURES / "0.32.0" / "A-2-after.prom").read_text()
    assert list(held.shapes(body(face, START + 300))) == list(held.shapes(recorded_page))


def test_a_0_32_after_errors_is_as_recorded() -> None:
    face, (engine,) = faced("0.32.0", WITH_ADAPTERS)
    ask_documents(face)
    serve_adapters(engine)
    engine.reject(asked(9, 100, prompt_tokens=3000))
    hold(face, "0.32.0/A-4-errors.prom")


def test_two_engines_of_0_32_are_merged_as_recorded() -> None:
    face, engines = faced("0.32.0", Limits(kv_tokens=1280, block_tokens=32, context_tokens=1024), 2)
    ask_documents(face)
    for engine in engines:
        engine.serve(asked(1, 1))
    sampled = "the recorded server samples its blocks (--kv-cache-metrics)"
    names = ("lifetime_seconds", "idle_before_evict_seconds", "reuse_gap_seconds")
    hold(face, "0.32.0/C-dp2-smallkv-1-mid03.prom", {f"vllm:kv_block_{name} is missing": sampled for name in names})


def test_a_0_10_is_as_recorded_but_for_what_the_recording_leaves_out() -> None:
    face, (engine,) = faced("0.10.2", WITH_ADAPTERS)
    engine.serve(asked(1, 1))
    engine.serve(asked(2, 20, adapter="ada1"))
    speculation = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
    http = ("requests", "request_size_bytes", "response_size_bytes", "request_duration_seconds")
    lists = "vllm:lora_requests_info{max_lora=2,running_lora_adapters=ada1,waiting_lora_adapters"
    by_hand = "the recording was fed with lists made by hand: the engine names each adapter in both"
    no_server = "there was no HTTP server around the recorded metrics"
    known = {
        **{f"vllm:spec_decode_num_{n}{c} is missing": _SPECULATION for n in speculation for c in ("", "_created")},
        **{
            f"http_{name}{created} is not in the recording": no_server
            for name in (*http, "request_duration_highr_seconds")
            for created in ("", "_created")
        },
        f"{lists}}} is missing": by_hand,
        f"{lists}=ada1}} is not in the recording": by_hand,
    }
    hold(face, "0.10.2/1-mid62s.prom", known)


def test_a_fresh_0_6_shows_nothing_but_its_configuration() -> None:
    face, _ = faced("0.6.6.post1", WITH_ADAPTERS)
    hold(face, "0.6.6.post1/0-fresh.prom")


def test_a_0_6_is_as_recorded() -> None:
    face, (engine,) = faced("0.6.6.post1", WITH_ADAPTERS)
    engine.serve(asked(1, 1))
    engine.serve(asked(2, 20, adapter="ada1"))
    hold(face, "0.6.6.post1/1-mid62s.prom")


@pytest.mark.parametrize(
    "path", ["/version", "/v1/models", "/health", "/ping", "/load", "/server_info", "/is_sleeping"]
)
def test_documents_of_0_32_are_as_recorded(path: str) -> None:
    told = json.loads((CAPTURES / "0.32.0" / "A-endpoints.json").read_text())[path]
    face, _ = faced("0.32.0", WITH_ADAPTERS)
    answer = face.answer(path, START)
    assert (answer.status, answer.content_type) == (told["status"], told["content_type"] or "")
    theirs, ours = (json.loads(text or "null") for text in (told["body"], answer.body))
    if path == "/v1/models":
        theirs["data"] = [card for card in theirs["data"] if card["id"] != "tiny-alias"]
        theirs, ours = [[_settled(card) for card in found["data"]] for found in (theirs, ours)]
    assert ours == theirs


def _settled(card: dict[str, Any]) -> dict[str, Any]:
    """Without times, chance and paths."""
    chance = {"id": "", "created": 0}
    return {**card, "created": 0, "root": "", "permission": [{**p, **chance} for p in card["permission"]]}


def test_the_first_release_has_neither_ping_nor_load() -> None:
    face, _ = faced("0.6.6.post1")
    assert [face.answer(path, START).status for path in ("/ping", "/load", "/health", "/version")] == [
        404,
        404,
        200,
        200,
    ]


@pytest.mark.parametrize(
    ("release", "content_type"),
    [("0.10.2", "text/plain; version=0.0.4; charset=utf-8"), ("0.32.0", "text/plain; version=1.0.0; charset=utf-8")],
)
def test_the_page_has_the_type_of_its_release(release: str, content_type: str) -> None:
    face, _ = faced(release)
    assert face.answer("/metrics", START).content_type == content_type
    assert face.answer("/metrics/", START).content_type == "text/plain; version=0.0.4; charset=utf-8"


# Rhythm and traps


@pytest.mark.parametrize("release", RELEASES)
def test_counters_never_fall_and_buckets_add_up(release: str) -> None:
    face, (engine,) = faced(release, WITH_ADAPTERS)
    pages = [body(face, START)]
    for number in range(1, 6):
        request = asked(number, 30.0 * number, adapter="ada1" if number % 2 else "")
        request.leaves_after = 5 if number == 3 else None
        engine.serve(request)
        pages.append(body(face, START + 30 * number + 20))
    for before, after in pairwise(pages):
        held.consistent(after)
        held.grown(before, after)


def test_tokens_move_while_a_request_runs_and_its_lengths_when_it_is_done() -> None:
    face, (engine,) = faced("0.32.0")
    request = asked(1, 1, cached_tokens=0)
    engine.begin(request)
    engine.decode(request, 9)
    shown = body(face, START + 60)
    assert held.value(shown, "vllm:generation_tokens_total") == 10
    assert held.value(shown, "vllm:inter_token_latency_seconds_count") == 9
    assert held.value(shown, "vllm:prompt_tokens_total") == 200
    assert held.value(shown, "vllm:request_prompt_tokens_count") == 0
    assert held.value(shown, "vllm:num_requests_running") == 1
    assert held.value(shown, "vllm:kv_cache_usage_perc") == 7 / 159  # 210 tokens in blocks of 32
    engine.finish(request, "stop")
    shown = body(face, START + 61)
    assert held.value(shown, "vllm:request_prompt_tokens_sum") == 200
    assert held.value(shown, "vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("release", RELEASES)
def test_requests_whose_client_went_away_are_counted_nowhere_but_their_tokens_are(release: str) -> None:
    face, (engine,) = faced(release)
    engine.serve(asked(1, 1))
    engine.serve(asked(2, 20, leaves_after=5))
    shown = body(face, START + 60)
    assert held.values(shown, "vllm:request_success_total", "finished_reason").get("abort", 0) == 0
    assert held.value(shown, "vllm:e2e_request_latency_seconds_count") == 1
    assert held.value(shown, "vllm:time_to_first_token_seconds_count") == 2
    assert held.value(shown, "vllm:generation_tokens_total") == 25


def test_refusals_of_a_full_queue_are_told_of_those_of_long_prompts_only_by_http() -> None:
    face, (engine,) = faced("0.32.0", Limits(waiting=1, context_tokens=1024))
    engine.reject(asked(1, 1))
    engine.reject(asked(2, 2, prompt_tokens=2000))
    shown = body(face, START + 10)
    refused = {"max_num_queued_reqs": 1, "max_num_queued_tokens": 0}
    assert held.values(shown, "vllm:admission_rejections_total", "reason") == refused
    assert held.values(shown, "http_requests_total", "status") == {"5xx": 1, "4xx": 1}


def test_a_release_that_counts_blocks_has_no_prefix_counters_but_a_rate_of_its_life() -> None:
    face, (engine,) = faced("0.6.6.post1")
    engine.serve(asked(1, 1, cached_tokens=0))
    engine.serve(asked(2, 20))
    shown = body(face, START + 60)
    assert "prefix_cache_queries" not in shown
    assert held.value(shown, "vllm:gpu_prefix_cache_hit_rate") == 2 / 12  # 64 of 200 tokens: 2 blocks of 6, twice
    assert held.value(shown, "vllm:cpu_prefix_cache_hit_rate") == -1


def test_the_rates_of_a_v0_engine_are_of_its_last_interval_and_fall_to_nothing_when_it_is_polled() -> None:
    face, (engine,) = faced("0.6.6.post1")
    request = asked(1, 10)
    engine.begin(request, queue=0, step=1.0)  # 136 tokens computed in the 11 seconds since the start
    name = "vllm:avg_prompt_throughput_toks_per_s"
    assert held.value(body(face, START + 12), name) == pytest.approx(136 / 11)
    engine.finish(request, "length", step=1.0)
    assert held.value(body(face, START + 14), name) == pytest.approx(136 / 11)
    assert held.value(body(face, START + 30), name) == 0


def test_the_newest_list_of_adapters_is_the_empty_one_once_all_are_done() -> None:
    face, (engine,) = faced("0.32.0", WITH_ADAPTERS)
    serve_adapters(engine)
    told = held.values(body(face, START + 300), "vllm:lora_requests_info", "running_lora_adapters")
    assert max(told, key=lambda names: told[names]) == ""
    assert len(told) == 5


def test_two_engines_count_apart_and_each_tells_the_blocks_of_both() -> None:
    face, engines = faced("0.32.0", engines=2)
    engines[1].serve(asked(1, 1))
    shown = body(face, START + 60)
    assert held.values(shown, "vllm:generation_tokens_total", "engine") == {"0": 0, "1": 20}
    assert held.values(shown, "vllm:cache_config_info", "num_gpu_blocks") == {"320": 1}
    assert held.values(shown, "vllm:cache_config_info", "kv_cache_size_tokens") == {"5120": 1}


def test_an_upgrade_may_rename_families() -> None:
    engine = Scripted(LIMITS)
    names = {"vllm:num_requests_running": "vllm:requests_running", "vllm:generation_tokens_total": "vllm:output_total"}
    face = Vllm(Identity(MODEL, "0.32.0", START), [engine], renamed=names)
    watched(face, [engine])
    engine.begin(asked(1, 1))
    shown = body(face, START + 60)
    assert held.value(shown, "vllm:requests_running") == held.value(shown, "vllm:output_total") == 1
    assert not any(name in held.shapes(shown) for name in ("vllm:num_requests_running", "vllm:generation_tokens"))
    assert Sidecar(face, VLLM).read(START + 60).unmapped


def test_unknown_releases_and_several_v0_engines_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.7\.0 is not known: it is one of 0\.6\.6\.post1, 0\.10\.2, 0\.32\.0"):
        faced("0.7.0")
    with pytest.raises(ValueError, match="has one engine, not 2"):
        faced("0.6.6.post1", engines=2)


# As the product reads it


@pytest.mark.parametrize("release", RELEASES)
def test_the_product_knows_a_fresh_server_and_its_release(release: str) -> None:
    face, _ = faced(release, WITH_ADAPTERS)
    reading = Sidecar(face, VLLM).read(START + 60)
    assert reasons(reading) == (["no_requests_yet"] if release == "0.6.6.post1" else [])
    told = info(reading)
    assert (told.label("version"), told.label("model")) == (release, MODEL)
    assert told.label("max_model_len") == "1024"
    assert told.label("block_size") == "32"
    assert told.label("prefix_caching") == "true"


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_product_counts_between_two_readings_is_the_truth(release: str) -> None:
    face, (engine,) = faced(release, WITH_ADAPTERS)
    engine.serve(asked(1, 1))
    running = asked(2, 40)
    engine.begin(running)
    sidecar = Sidecar(face, VLLM)
    before = sidecar.read(START + 60)
    engine.serve(asked(3, 61, prompt_tokens=333, output_tokens=7, ends_by="stop"), queue=1.5)
    engine.serve(asked(4, 70, adapter="ada1"), queue=0.25)
    engine.serve(asked(5, 80, leaves_after=4))
    engine.decode(running, 10)
    engine.preempt(running, START + 90)
    engine.queue(asked(6, 110))
    after = sidecar.read(START + 120)

    def grew(metric: str, **where: str) -> float:
        return total(after, metric, **where) - total(before, metric, **where)

    def observed(metric: str) -> tuple[float, object]:
        (count, sum_), (older, old_sum) = counted(after, metric), counted(before, metric)
        return count - older, pytest.approx(sum_ - old_sum)

    assert reasons(after) == []
    assert after.unmapped == ()
    assert total(after, "llm_requests_finished_total", reason="stop") == 1
    assert grew("llm_requests_finished_total", reason="length") == 1
    assert grew("llm_prompt_tokens_total") == 333 + 200 + 200
    assert grew("llm_generation_tokens_total") == 7 + 20 + 4 + 10
    assert grew("llm_preemptions_total") == 1
    assert observed("llm_time_to_first_token_seconds") == (3, (1.5 + 0.25) + (0.25 + 0.25) + (0.5 + 0.25))
    assert observed("llm_inter_token_latency_seconds") == (6 + 19 + 3 + 10, 38 * 0.25)
    assert observed("llm_request_duration_seconds") == (2, (1.5 + 7 * 0.25) + (0.25 + 20 * 0.25))
    assert observed("llm_queue_time_seconds") == (2, 1.75)
    assert observed("llm_prompt_length_tokens") == (2, 533)
    assert observed("llm_generation_length_tokens") == (2, 27)
    assert total(after, "llm_requests_running") == 1
    assert total(after, "llm_requests_waiting") == 1
    if release != "0.6.6.post1":
        assert grew("llm_prefix_cache_query_tokens_total") == 733
        assert grew("llm_prefix_cache_hit_tokens_total") == 3 * 64


def test_the_product_reads_adapters_and_capacity_as_they_are() -> None:
    face, (engine,) = faced("0.32.0", WITH_ADAPTERS)
    engine.begin(asked(1, 1, adapter="ada2"))
    reading = Sidecar(face, VLLM).read(START + 60)
    assert total(reading, "llm_lora_adapters_running") == 1
    assert total(reading, "llm_lora_adapters_limit") == 2
    assert total(reading, "llm_kv_cache_capacity_tokens") == 5120
    assert total(reading, "llm_process_start_time_seconds") == START


@pytest.mark.parametrize(
    ("release", "recording", "speculates"),
    [
        ("0.6.6.post1", "1-mid62s.prom", False),
        ("0.10.2", "1-mid62s.prom", True),
        ("0.32.0", "A-2-after.prom", False),
    ],
)
def test_all_fields_are_worth_to_the_product_what_they_are_on_the_recorded_page(
    release: str, recording: str, speculates: bool
) -> None:
    face, (engine,) = faced(release, WITH_ADAPTERS)
    engine.serve(asked(1, 1, adapter="ada1"))
    ours = qualities(Sidecar(face, VLLM).read(START + 60))
    theirs = qualities(recorded.normalise(CAPTURES / release / recording))
    speculation = {name for name in ours if "spec_decode" in name} if speculates else set()
    assert {name for name in ours if ours[name] != theirs[name]} == speculation
