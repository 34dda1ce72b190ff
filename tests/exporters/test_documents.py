"""Values out of JSON documents."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.documents import Memory, at, keep, parse, read
from exporters.table import Document, Fold, Form, Frontend, Json, Over, Prefer
from exporters.tables.vllm import VLLM
from tests.exporters.recorded import CAPTURES

STATISTICS = CAPTURES / "trtllm_serve"

# LMDeploy's /distserve/engine_info, made by hand from its description: JSON inside a JSON string.
ENGINE_INFO = json.dumps(
    json.dumps(
        {"tp_size": 2, "dp_size": 1, "ep_size": 1, "dp_rank": 0, "pp_size": None, "block_size": 64}
        | {"num_gpu_blocks": 400, "num_cpu_blocks": 0}
    )
)


def test_json_inside_a_json_string_is_decoded_again() -> None:
    document = parse(ENGINE_INFO)
    assert read(Json("info", "num_gpu_blocks"), {"info": document}) == {"": 400.0}
    assert read(Json("info", "block_size"), {"info": document}) == {"": 64.0}
    assert read(Json("info", "pp_size"), {"info": document}) == {}


@pytest.mark.parametrize("text", ["", "{", "nothing", '"{"', '"a"', "[" * 100_000, '{"a":' * 100_000, "9" * 5000])
def test_what_is_no_json_is_told_as_such(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_a_path_leads_through_objects_and_ends_where_one_is_missing() -> None:
    value = {"a": {"b": {"c": 1}, "l": [1]}, "n": None}
    assert at(value, "a.b.c") == 1
    assert at(value, "a.x.c") is None
    assert at(value, "a.l.0") is None
    assert at(value, "n.x") is None
    assert at(value, "") is value


MODELS = {
    "data": [
        {"id": "base", "parent": None, "max_model_len": 1024},
        {"id": "adapter", "parent": "base", "max_model_len": None},
        {"id": "alias", "max_model_len": 2048.0},
    ]
}


@pytest.mark.parametrize(
    ("term", "found"),
    [
        (Json("m", "id", records="data"), "alias"),
        (Json("m", "id", records="data", over=Over.FIRST), "base"),
        (Json("m", "id", records="data", where={"parent": "base"}), "adapter"),
        (Json("m", "id", records="data", where={"parent": None}), "alias"),
        (Json("m", "id", records="data", where={"parent": None, "max_model_len": 1024}), "base"),
        (Json("m", "id", records="data", where={"parent": "other"}), None),
        (Json("m", "max_model_len", records="data"), 2048.0),
        (Json("m", "max_model_len", records="data", over=Over.SUM), 3072.0),
        (Json("m", "max_model_len", records="data", over=Over.FIRST, scale=0.5), 512.0),
        (Json("m", "max_model_len", records="data", values={"2048": "two", "1024": "one"}), "two"),
        (Json("m", "id", records="data", values={"base": "b"}), "b"),
        (Json("m", "id", records="data", match="^(al|ad)"), "al"),
        (Json("m", "id", records="data", match="^(x)"), None),
        (Json("m", "max_model_len", records="data", match="(.)"), None),
        (Json("m", "id"), None),
        (Json("m", "data"), None),
        (Json("m", "id", records="nothing"), None),
        (Json("other", "id", records="data"), None),
    ],
)
def test_a_term_says_which_records_count_and_what_of_them(term: Json, found: object) -> None:
    assert read(term, {"m": MODELS}) == ({} if found is None else {"": found})


@pytest.mark.parametrize(
    ("raw", "value"),
    [(5, 5.0), (0.25, 0.25), ("text", "text"), (True, "True"), (None, None), ([1], None), ({"a": 1}, None)],
)
def test_numbers_are_numbers_and_all_else_is_text(raw: object, value: object) -> None:
    assert read(Json("d", "x"), {"d": {"x": raw}}) == ({} if value is None else {"": value})


def test_a_yes_or_no_can_be_translated() -> None:
    term = Json("sleeping", "is_sleeping", values={"True": "sleeping", "False": "awake"})
    assert read(term, {"sleeping": {"is_sleeping": True}}) == {"": "sleeping"}
    assert read(term, {"sleeping": {"is_sleeping": False}}) == {"": "awake"}


def test_the_status_of_a_document_is_the_document_itself() -> None:
    term = Json("health", "", values={"200": "awake", "503": "starting"})
    assert read(term, {"health": 503}) == {"": "starting"}
    assert read(term, {"health": 404}) == read(term, {}) == {}


def test_values_stand_apart_by_replica() -> None:
    records = [{"rank": 0, "n": 1}, {"rank": 1, "n": 10}, {"rank": 0, "n": 2}, {"rank": 1.0, "n": 20}, {"n": 100}]
    assert read(Json("d", "n", engine="rank"), {"d": records}) == {"0": 2, "1": 20, "": 100}
    assert read(Json("d", "n", engine="rank", over=Over.SUM), {"d": records}) == {"0": 3, "1": 30, "": 100}


@pytest.mark.parametrize(
    ("raw", "shown"), [("\ud800", "?"), ("a\udfffb", "a?b"), ("é日😀", "é日😀"), (10**400, None), (1e308, 1e308)]
)
def test_what_utf8_or_a_float_cannot_hold_is_not_passed_on(raw: object, shown: object) -> None:
    document = parse(json.dumps({"x": raw}))
    assert read(Json("d", "x"), {"d": document}) == ({} if shown is None else {"": shown})


# Statistics that are read once: each file is what one reader got since its reading before.


def recorded(version: str, state: str) -> object:
    return json.loads((STATISTICS / version / f"statistics-{state}.json").read_text())


def true(version: str, state: str) -> Mapping[str, int | Mapping[str, int]]:
    found: Mapping[str, int | Mapping[str, int]] = json.loads(
        (STATISTICS / version / f"statistics-{state}.truth.json").read_text()
    )["engine_truth"]
    return found


COMPLETED = Json("stats", "numCompletedRequests", over=Over.SUM)
DRAFTED = Json("stats", "specDecodingStats.numDraftTokens", over=Over.SUM)
REUSED = Json("stats", "kvCacheStats.reusedBlocks", over=Over.HELD)
USED = Json("stats", "kvCacheStats.usedNumBlocks")
READS = ["fresh", "load1", "load2", "load2_second_reader", "load3", "idle", "idle_second_poll"]


@pytest.mark.parametrize("version", ["1.1-1.2", "main2026"])
def test_increments_add_up_over_all_reads_and_empty_reads_add_nothing(version: str) -> None:
    memory = Memory()
    for state in READS:
        found = memory.read(COMPLETED, {"stats": recorded(version, state)})
        truth = true(version, state.removesuffix("_second_reader"))
        finished = truth["totals"]["finished"]  # type: ignore[index]
        assert found == ({} if state == "fresh" else {"": finished})


def test_a_value_that_not_every_record_has_adds_up_where_it_is() -> None:
    memory, found = Memory(), {}
    for state in READS:
        found = memory.read(DRAFTED, {"stats": recorded("main2026", state)})
    records = [r for state in READS for r in recorded("main2026", state)]  # type: ignore[attr-defined]
    assert found == {"": sum((r["specDecodingStats"] or {}).get("numDraftTokens", 0) for r in records)}
    assert memory.read(DRAFTED, {"stats": [{"specDecodingStats": None}]}) == found


@pytest.mark.parametrize("version", ["1.1-1.2", "main2026"])
def test_a_held_total_outlives_empty_reads_and_a_last_value_does_not(version: str) -> None:
    memory = Memory()
    for state in READS:
        document = {"stats": recorded(version, state)}
        truth = true(version, state.removesuffix("_second_reader"))
        held, last = memory.read(REUSED, document), memory.read(USED, document)
        assert held == ({} if state == "fresh" else {"": truth["reused_blocks_total"]})
        assert (last == {}) is (document["stats"] == [])


@pytest.mark.parametrize("version", ["1.1-1.2", "main2026"])
def test_the_last_record_is_the_present(version: str) -> None:
    document = {"stats": recorded(version, "load2")}
    truth = true(version, "load2")
    assert read(USED, document) == {"": truth["used_blocks"]}
    assert read(Json("stats", "numQueuedRequests"), document) == {"": truth["queued"]}
    assert read(Json("stats", "inflightBatchingStats.numScheduledRequests"), document) == {"": truth["running"]}


def test_sums_go_on_after_their_document_was_away_and_say_nothing_meanwhile() -> None:
    memory = Memory()
    assert memory.read(COMPLETED, {"stats": [{"numCompletedRequests": 2}]}) == {"": 2}
    assert memory.read(COMPLETED, {}) == {}
    assert memory.read(COMPLETED, {"stats": [{"numCompletedRequests": 3}]}) == {"": 5}


def test_a_servers_own_total_is_followed_from_its_first_record_on_and_over_its_restarts() -> None:
    memory = Memory()
    term = Json("stats", "iter", over=Over.RISE)
    reads: list[tuple[object, float]] = [
        ([{"iter": 500}], 0),
        ([{"iter": 501}, {"iter": 503}], 3),
        ([], 3),
        ([{"iter": 2}], 3 + 2),
        ([{"iter": 4}, {"iter": 1}, {"iter": 6}], 5 + 2 + 1 + 5),
    ]
    for document, total in reads:
        assert memory.read(term, {"stats": document}) == {"": total}


def test_an_idle_server_has_the_value_that_the_table_says_once_it_had_any() -> None:
    memory = Memory()
    term = Json("stats", "running", engine="rank", idle=0.0)
    assert memory.read(term, {"stats": []}) == {}
    assert memory.read(term, {"stats": [{"rank": 0, "running": 3}, {"rank": 1, "running": 4}]}) == {"0": 3, "1": 4}
    assert memory.read(term, {"stats": []}) == {"0": 0, "1": 0}
    assert memory.read(term, {}) == {}


def test_records_can_be_chosen_by_preference() -> None:
    term = Json("m", "n", records="models", where={"name": Prefer("ensemble", "llm")})
    both = [{"name": "llm", "n": 1}, {"name": "ensemble", "n": 2}, {"name": "pre", "n": 3}]
    assert read(term, {"m": {"models": both}}) == {"": 2}
    assert read(term, {"m": {"models": both[:1] + both[2:]}}) == {"": 1}
    assert read(term, {"m": {"models": both[2:]}}) == {"": 3}


# Whatever a document holds


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "b"])
NAMES = st.sampled_from(["a", "b", "c", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(".".join)
TERMS = st.builds(
    Json,
    st.just("d"),
    PATHS,
    records=PATHS,
    where=st.dictionaries(PATHS.filter(bool), SCALARS, max_size=1),
    over=st.sampled_from(Over),
    engine=PATHS,
    match=st.sampled_from(["", "(a)", r"(\w)$"]),
    scale=st.sampled_from([1.0, 1e-3, 1e300]),
    values=st.sampled_from([{}, {"a": "x", "1": "y", "True": "z"}]),
)


@given(VALUES, TERMS)
def test_no_document_is_more_than_a_term_can_take(document: object, term: Json) -> None:
    memory = Memory()
    for _ in range(2):
        for engine, value in memory.read(term, {"d": document}).items():
            assert isinstance(engine, str)
            assert isinstance(value, float | str)
            assert not isinstance(value, str) or value.encode().decode() == value


def table(*terms: Json) -> Frontend:
    documents = (Document("metrics", "/metrics"), Document("d", "/d", Form.JSON))
    facts = {f"fact{i}": (t,) for i, t in enumerate(terms)}
    return Frontend("f", "vllm", ("f",), documents, {"engine": Fold.ENGINE}, "model", facts, (), ())


@given(VALUES, st.lists(TERMS, min_size=1, max_size=3))
def test_a_document_cut_down_to_what_a_table_reads_says_the_same(document: object, terms: list[Json]) -> None:
    cut = keep(table(*terms), "d", document)
    for term in terms:
        if not term.match:
            assert repr(read(term, {"d": cut})) == repr(read(term, {"d": document}))


def test_vllms_settings_are_kept_and_its_environment_is_not() -> None:
    raw = json.loads((CAPTURES / "vllm" / "0.32.0" / "B-2api-ngram-endpoints.json").read_text())["/server_info"]["body"]
    whole = parse(raw) if isinstance(raw, str) else raw
    cut = keep(VLLM, "server_info", whole)
    for alternatives in VLLM.facts.values():
        for term in alternatives:
            if isinstance(term, Json) and term.document == "server_info":
                assert read(term, {"server_info": cut}) == read(term, {"server_info": whole})
    assert len(json.dumps(cut)) < 500 < len(json.dumps(whole))


def test_secrets_beside_what_is_read_are_not_kept() -> None:
    document = {"server_args": {"api_key": "secret", "tp_size": 2}, "api_key": "secret", "records": [{"n": 1, "x": 2}]}
    frontend = table(Json("d", "server_args.tp_size"), Json("d", "n", records="records"))
    assert keep(frontend, "d", document) == {"server_args": {"tp_size": 2}, "records": [{"n": 1}]}
    assert keep(frontend, "other", document) == {}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_should_not_hold_are_not_known(value: float) -> None:
    assert read(Json("d", "x"), {"d": parse(json.dumps({"x": value}))}) == {}


def test_the_recorded_documents_all_parse() -> None:
    paths: list[Path] = sorted(CAPTURES.glob("triton/*/*stats.json"))
    assert paths
    for path in paths:
        assert read(Json("d", "name", records="model_stats", over=Over.FIRST), {"d": parse(path.read_text())})
