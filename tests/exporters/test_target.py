from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporters import target as target_module
from exporters.collected import Collected
from exporters.config import Server
from exporters.exposition import page, read_samples
from exporters.findings import KINDS
from exporters.normalise import Normaliser
from exporters.schema import METRICS
from exporters.table import Document, Form
from exporters.tables import FRONTENDS
from exporters.tables.vllm import VLLM
from exporters.target import Target
from tests.exporters.held import held_time
from tests.exporters.recorded import VLLM as CAPTURES
from tests.exporters.servers import (
    CERTIFICATE,
    Handler,
    answering,
    https_context,
    pages,
    response,
    serving,
    silence,
    unused_url,
)

BUSY = (CAPTURES / "0.32.0" / "A-2-after.prom").read_bytes()
FRESH = (CAPTURES / "0.32.0" / "A-0-fresh.prom").read_bytes()
NO_STATS = (CAPTURES / "0.32.0" / "D-nologstats-2-after.prom").read_bytes()
SEVERAL_API_SERVERS = (CAPTURES / "0.32.0" / "B-2api-ngram-2-after.prom").read_bytes()
ENDPOINTS = json.loads((CAPTURES / "0.32.0" / "A-endpoints.json").read_text())
LONG = 120.0
JSON = "application/json"
SECRET = "s3cr3t-t0ken"

Make = Callable[..., Target]


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def make(clock: Clock) -> AsyncIterator[Make]:
    made: list[Target] = []

    def target(url: str, *, destructive: bool = True, patience: float | None = LONG, **more: object) -> Target:
        server = Server.model_validate({"url": url, **more})
        made.append(
            Target(server, node="rack-1", timeout=LONG, clock=clock, destructive=destructive, patience=patience)
        )
        return made[-1]

    yield target
    for each in made:
        await each.aclose()


async def collect(target: Target, seconds: float = LONG) -> Collected:
    return await target.collect(asyncio.get_running_loop().time() + seconds)


async def side_documents_read(target: Target) -> None:
    """A collection does not wait for documents that it has seen before; a test does."""
    running = list(target._side._running.values())
    await asyncio.gather(*running, return_exceptions=True)


def vllm(body: bytes = BUSY, **more: bytes) -> dict[str, bytes]:
    recorded = {path: response(e["body"], content_type=JSON) for path, e in ENDPOINTS.items() if e.get("status") == 200}
    return {**recorded, "/health": response(), "/metrics": response(body), **more}


def samples(collected: Collected) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for sample in read_samples(page([collected.chunks])):
        found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(collected: Collected, metric: str, **where: str) -> float:
    (only,) = [v for labels, v in samples(collected)[metric] if where.items() <= labels.items()]
    return only


def reasons(collected: Collected) -> list[str]:
    return [f.reason for f in collected.observation.findings]


async def test_a_server_is_recognised_and_normalised(make: Make, clock: Clock) -> None:
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, labels={"team": "search"}))
    seen = collected.observation
    assert (seen.up, seen.available, seen.at, seen.node) == (True, True, clock.now, "rack-1")
    assert seen.server == served.url.removeprefix("http://")
    assert seen.user_labels == (("team", "search"),)
    assert seen.duration > 0
    (labels, one) = samples(collected)["llm_server_info"][0]
    assert one == 1
    assert (labels["version"], labels["max_model_len"], labels["team"]) == ("0.32.0", "1024", "search")
    assert value(collected, "llm_up") == value(collected, "llm_metrics_available") == 1
    assert value(collected, "llm_requests_running") == 0


async def test_all_that_is_exported_carries_the_identity_and_the_users_labels(make: Make) -> None:
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, name="big", labels={"team": "search"}))
    identity = {"node": "rack-1", "server": "big", "team": "search"}.items()
    for name, found in samples(collected).items():
        for labels, _ in found:
            assert identity <= labels.items(), name


async def test_an_observation_holds_what_is_exported(make: Make) -> None:
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url))
    seen = collected.observation
    assert {s.metric for s in (*seen.values, *seen.histograms)} <= set(collected.chunks)
    assert all(metric in METRICS for metric in collected.chunks)
    exact = {f.field for f in seen.fields if f.quality == "exact"}
    assert {labels["field"] for labels, _ in samples(collected)["llm_field_info"]} == {
        f.field for f in seen.fields
    } - exact


async def test_a_field_that_is_not_exact_says_why(make: Make) -> None:
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, labels={"source": "replay"}))
    told = {labels["field"]: labels for labels, _ in samples(collected)["llm_field_info"]}
    assert told["llm_requests_waiting_api"]["quality"] == "unavailable"
    assert told["llm_requests_waiting_api"]["reason"]
    assert told["llm_requests_finished_total"]["source"] == "vllm:request_success_total"


NOT_READABLE: dict[str, tuple[Handler, str, bool]] = {
    "log statistics switched off": (pages(vllm(NO_STATS)), "stats_disabled", True),
    "an empty page": (pages(vllm(b"")), "empty_body", True),
    "a JSON list": (pages({"/metrics": response("[]", content_type=JSON)}), "json_body", True),
    "a web page": (pages({"/metrics": response("<html>hi</html>", content_type="text/html")}), "html_body", True),
    "another program's metrics": (pages({"/metrics": response("node_load1 0.3\n")}), "no_engine_metrics", True),
    "nonsense": (pages({"/metrics": response("hello, world!\n")}), "invalid_exposition", True),
    "404": (pages({}), "not_found", True),
    "401": (pages({"/metrics": response(status=401)}), "unauthorized", True),
    "503": (pages({"/metrics": response(status=503)}), "server_error", True),
    "a redirect to a login": (
        pages({"/metrics": response(status=302, headers={"Location": "http://login.example/"})}),
        "unexpected_status", True),
    "a time-out": (silence, "timeout", False),
    "a cut body": (answering(response(BUSY, length=10**6)), "truncated", True),
    "a Latin-1 page": (pages({"/metrics": response(b"a{b=\"\xe9\"} 1\n")}), "encoding", True),
    "another protocol": (answering(b"SSH-2.0-OpenSSH\r\n"), "protocol_error", False),
    "a page that is too large": (pages(vllm(b"#" * 100_001)), "too_large", True),
}  # fmt: skip


@pytest.mark.parametrize(("handler", "reason", "up"), NOT_READABLE.values(), ids=NOT_READABLE.keys())
async def test_a_page_that_is_no_engine_metrics_is_a_finding(
    make: Make, handler: Handler, reason: str, up: bool
) -> None:
    async with serving(handler) as served:
        collected = await collect(make(served.url, max_body_bytes=100_000), 0.5 if reason == "timeout" else LONG)
    assert reasons(collected) == [reason]
    assert collected.observation.findings[0].remedy
    assert (collected.observation.up, collected.observation.available) == (up, False)
    assert value(collected, "llm_up") == up
    assert value(collected, "llm_metrics_available") == 0
    assert value(collected, "inferwatch_finding", reason=reason) == 1
    if collected.observation.findings[0].severity == "error":
        assert value(collected, "inferwatch_scrape_errors_total", reason=reason) == 1


async def test_a_closed_port_is_a_finding(make: Make) -> None:
    collected = await collect(make(unused_url()))
    assert reasons(collected) == ["connection_refused"]
    assert not collected.observation.up


async def test_a_server_that_fails_exports_nothing_that_it_said_before(make: Make) -> None:
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        good = await collect(target)
        answers["/metrics"] = response(status=500)
        bad = await collect(target)
    assert "llm_requests_running" in good.chunks
    assert {m for m in bad.chunks if not m.startswith("inferwatch_")} == {"llm_up", "llm_metrics_available"}
    assert "inferwatch_unmapped_families" not in bad.chunks
    assert (bad.observation.values, bad.observation.histograms, bad.observation.fields) == ({}, {}, ())


async def test_the_last_page_and_the_last_failure_are_remembered_for_debugging(make: Make, clock: Clock) -> None:
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        await collect(target)
        clock.now += 15
        answers["/metrics"] = response(status=500)
        bad = await collect(target)
        assert (bad.debug.body.encode(), bad.debug.body_at) == (BUSY, clock.now - 15)
        assert bad.debug.mapped == {}
        clock.now += 15
        answers["/metrics"] = response(FRESH)
        good = await collect(target)
    assert (good.debug.body.encode(), good.debug.body_at) == (FRESH, clock.now)
    assert target.last_error is not None
    at, finding = target.last_error
    assert (at, finding.reason, finding.detail) == (clock.now - 15, "server_error", "HTTP 500")


async def test_health_tells_that_a_server_without_metrics_lives(make: Make) -> None:
    async def hanging_metrics(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/metrics":
            held.pass_by(LONG - 1)  # the rest is kept to ask for health
            await silence(path, reader, writer)
        else:
            await pages({"/health": response(status=503)})(path, reader, writer)

    async with serving(hanging_metrics) as served:
        with held_time() as held:
            collected = await collect(make(served.url))
    assert reasons(collected) == ["timeout"]
    assert (collected.observation.up, collected.observation.available) == (True, False)


async def test_failures_are_counted_from_zero(make: Make) -> None:
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        first = await collect(target)
        counts = {labels["reason"]: n for labels, n in samples(first)["inferwatch_scrape_errors_total"]}
        assert set(counts) == {reason for reason, kind in KINDS.items() if kind.severity == "error"}
        assert set(counts.values()) == {0.0}
        answers["/metrics"] = response(status=404)
        await collect(target)
        last = await collect(target)
    assert value(last, "inferwatch_scrape_errors_total", reason="not_found") == 2
    assert value(last, "inferwatch_scrape_errors_total", reason="timeout") == 0


async def test_left_out_samples_are_counted_and_shown(make: Make) -> None:
    bad = BUSY + b'vllm:num_requests_running{engine="0",model_name="tiny-qwen"} 7\n'
    async with serving(pages(vllm(bad))) as served:
        target = make(served.url)
        await collect(target)
        collected = await collect(target)
    assert value(collected, "inferwatch_dropped_samples_total", reason="duplicate") == 2
    assert value(collected, "inferwatch_dropped_samples_total", reason="nan") == 0
    assert [reason for _, reason in collected.debug.dropped] == ["duplicate"]
    assert "dropped_samples" in reasons(collected)
    assert collected.observation.available


async def test_unknown_families_are_counted_and_shown(make: Make) -> None:
    new = BUSY + b"# TYPE vllm:brand_new_total counter\nvllm:brand_new_total 1\n"
    async with serving(pages(vllm(new))) as served:
        collected = await collect(make(served.url))
    assert value(collected, "inferwatch_unmapped_families") == 1
    assert collected.debug.unmapped == ("vllm:brand_new_total",)
    assert collected.debug.mapped["vllm:num_requests_waiting"] == "llm_requests_waiting"


async def test_side_documents_are_read_in_their_own_time(make: Make, clock: Clock) -> None:
    async with serving(pages(vllm())) as served:
        target = make(served.url)
        for _ in range(4):
            await collect(target)
            await side_documents_read(target)
        assert (served.count("/metrics"), served.count("/version"), served.count("/v1/models")) == (4, 1, 2)
        clock.now += 60.0
        await collect(target)
        await side_documents_read(target)
        assert (served.count("/version"), served.count("/v1/models")) == (2, 3)


async def test_of_side_documents_only_what_is_used_is_kept(make: Make) -> None:
    info = {"vllm_config": {"model": "/home/me/secret"}, "vllm_env": {"HF_TOKEN": SECRET}, "system_env": {"a": 1}}
    answers = vllm(**{"/server_info?config_format=json": response(json.dumps(info), content_type=JSON)})
    async with serving(pages(answers)) as served:
        collected = await collect(make(served.url))
    assert collected.debug.documents["version"] == {"version": "0.32.0"}
    kept = json.dumps(collected.debug.documents)
    assert SECRET not in kept
    assert "vllm_env" not in kept
    assert "root" not in kept


async def test_side_documents_that_hang_do_not_delay_the_metrics_beyond_their_grace(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "_SETTLE_SECONDS", 0.05)

    async def only_metrics(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/metrics":
            writer.write(response(BUSY))
        else:
            await silence(path, reader, writer)

    async with serving(only_metrics) as served, asyncio.timeout(LONG):
        collected = await collect(make(served.url, patience=None))
    assert collected.observation.available
    assert reasons(collected) == ["documents_unread"]


@pytest.mark.parametrize("answer", [response("no JSON"), response("[" * 100_000), response(status=500), b""])
async def test_side_documents_are_never_required(make: Make, answer: bytes) -> None:
    answers = vllm()
    answers |= {path: answer for path in answers if path not in ("/metrics", "/health")}
    async with serving(pages(answers)) as served:
        target = make(served.url)
        first = await collect(target)
    assert first.observation.available
    assert (labels := samples(first)["llm_server_info"][0][0])["model"] == "tiny-qwen"
    assert "version" not in labels


async def test_what_a_side_document_said_stays_until_it_says_something_else(make: Make, clock: Clock) -> None:
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        await collect(target)
        answers["/version"] = response("", length=5)  # it breaks off: nothing is known of a change
        clock.now += 60
        await collect(target)
        await side_documents_read(target)
        kept = await collect(target)
        assert kept.debug.documents["version"] == {"version": "0.32.0"}
        answers["/version"] = response(status=404)
        clock.now += 60
        await collect(target)
        await side_documents_read(target)
        gone = await collect(target)
    assert "version" not in gone.debug.documents
    assert gone.debug.document_problems["version"] == "not_found: HTTP 404"


@pytest.mark.parametrize("before", [BUSY, SEVERAL_API_SERVERS], ids=["start time", "counters that fell"])
async def test_after_a_restart_side_documents_are_read_at_once(make: Make, before: bytes) -> None:
    after = FRESH.replace(b"process_start_time_seconds 1", b"process_start_time_seconds 2")
    if before is SEVERAL_API_SERVERS:
        after = (CAPTURES / "0.32.0" / "B-2api-ngram-0-fresh.prom").read_bytes()
    answers = vllm(before)
    async with serving(pages(answers)) as served:
        target = make(served.url)
        await collect(target)
        answers["/metrics"] = response(after)
        answers["/version"] = response('{"version": "0.33.0"}', content_type=JSON)
        collected = await collect(target)
    versions = {labels["version"] for labels, _ in samples(collected)["llm_server_info"]}
    assert versions == {"0.33.0"}


async def test_a_server_that_went_away_is_asked_anew_when_it_is_back(make: Make) -> None:
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        await collect(target)
        url, port = served.url, int(served.url.rpartition(":")[2])
    down = await collect(target)
    assert (reasons(down), down.debug.documents) == (["connection_refused"], {})
    answers["/version"] = response('{"version": "0.33.0"}', content_type=JSON)
    async with serving(pages(answers), port=port) as served:
        assert served.url == url
        back = await collect(target)
    assert samples(back)["llm_server_info"][0][0]["version"] == "0.33.0"


async def test_a_frontend_that_is_not_known_yet_is_looked_for_again(make: Make) -> None:
    answers = {"/metrics": response(b"")}
    async with serving(pages(answers)) as served:
        target = make(served.url)
        assert reasons(await collect(target)) == ["empty_body"]
        answers |= vllm()
        assert (await collect(target)).observation.available


async def test_a_configured_frontend_is_not_overruled(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(VLLM, name="other", prefixes=("other",))
    monkeypatch.setitem(FRONTENDS, "other", other)
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, frontend="other"))
    assert reasons(collected) == ["no_engine_metrics"]
    assert collected.observation.findings[0].detail == "it looks like vllm, configured is other"


async def test_another_frontend_at_the_same_address_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(VLLM, name="other", prefixes=("other",))
    monkeypatch.setitem(FRONTENDS, "other", other)
    answers = vllm()
    async with serving(pages(answers)) as served:
        target = make(served.url)
        assert (await collect(target)).debug.frontend == "vllm"
        answers["/metrics"] = response(BUSY.replace(b"vllm:", b"other:"))
        collected = await collect(target)
    assert collected.debug.frontend == "other"
    assert collected.observation.available


async def test_the_metrics_of_a_frontend_with_a_path_of_its_own_are_found(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """trtllm-serve answers JSON at /metrics and has its text elsewhere."""
    documents = (Document("metrics", "/prometheus/metrics"), *VLLM.documents[1:])
    monkeypatch.setitem(FRONTENDS, "other", replace(VLLM, name="other", prefixes=("other",), documents=documents))
    body = BUSY.replace(b"vllm:", b"other:")
    answers = {"/metrics": response("[]", content_type=JSON), "/prometheus/metrics": response(body)}
    async with serving(pages(answers)) as served:
        target = make(served.url)
        collected = await collect(target)
        assert collected.observation.available
        assert collected.debug.url == f"{served.url}/prometheus/metrics"
        await collect(target)
        assert (served.count("/metrics"), served.count("/prometheus/metrics")) == (1, 2)


async def test_a_configured_path_is_the_only_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = (Document("metrics", "/prometheus/metrics"), *VLLM.documents[1:])
    monkeypatch.setitem(FRONTENDS, "other", replace(VLLM, name="other", documents=documents))
    async with serving(pages({"/metrics": response("[]", content_type=JSON)})) as served:
        collected = await collect(make(served.url, metrics_path="/metrics"))
        assert set(served.paths) == {"/metrics", "/v1/models", "/v2"}
    assert reasons(collected) == ["json_body"]
    assert "/prometheus/metrics" in collected.observation.findings[0].remedy


async def test_a_document_of_another_port_is_asked_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(pages({"/metrics": response(BUSY)})) as elsewhere:
        port = elsewhere.url.rpartition(":")[2]
        documents = (Document("metrics", f":{port}/metrics"),)
        monkeypatch.setitem(FRONTENDS, "vllm", replace(VLLM, documents=documents))
        collected = await collect(make("http://127.0.0.1:1", frontend="vllm"))
    assert collected.observation.available


async def test_a_destructive_document_is_read_by_the_server_s_own_target_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = (*VLLM.documents, Document("stats", "/stats", Form.JSON, destructive=True))
    monkeypatch.setitem(FRONTENDS, "vllm", replace(VLLM, documents=documents))
    async with serving(pages(vllm(**{"/stats": response("[]", content_type=JSON)}))) as served:
        await collect(make(served.url, frontend="vllm", destructive=False))
        assert served.count("/stats") == 0
        owner = make(served.url, frontend="vllm")
        await collect(owner)
        await side_documents_read(owner)
        assert served.count("/stats") == 1


async def test_a_defect_of_ours_is_a_finding_of_that_target(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    async with serving(pages(vllm())) as served:
        target = make(served.url)
        monkeypatch.setattr(Normaliser, "normalise", broken)
        collected = await collect(target)
    assert reasons(collected) == ["internal_error"]
    assert (collected.observation.up, collected.observation.available) == (True, False)
    assert value(collected, "inferwatch_scrape_errors_total", reason="internal_error") == 1
    assert "KeyError: 'a defect'" in caplog.text
    assert collected.debug.body.encode() == BUSY


async def test_a_page_with_too_many_samples_is_refused(make: Make) -> None:
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, max_samples=100))
    assert reasons(collected) == ["too_many_samples"]


async def test_a_big_page_is_read_aside_of_the_event_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    normalise = Normaliser.normalise

    def noting(self: Normaliser, *given: object) -> object:
        threads.append(threading.current_thread())
        return normalise(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Normaliser, "normalise", noting)
    async with serving(pages(vllm())) as served:
        target = make(served.url)
        await collect(target)
        monkeypatch.setattr(target_module, "_BIG_CHARACTERS", 1000)
        collected = await collect(target)
    assert collected.observation.available
    assert [t is threading.main_thread() for t in threads] == [True, False]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


def put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


async def test_a_token_file_is_read_for_each_request(make: Make, token_file: Path) -> None:
    async with serving(pages(vllm())) as served:
        target = make(served.url, bearer_token_file=str(token_file))
        await collect(target)
        assert served.header("authorization") == f"Bearer {SECRET}"
        put(token_file, b"another")
        await collect(target)
        assert served.header("authorization") == "Bearer another"


async def test_a_token_of_the_environment_is_sent(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TOKEN", SECRET)
    async with serving(pages(vllm())) as served:
        collected = await collect(make(served.url, bearer_token_env="GPU_TOKEN"))
        assert served.header("authorization") == f"Bearer {SECRET}"
    assert SECRET not in repr(collected)


@pytest.mark.parametrize("token", [None, b"", b"two words", b"a\nb", "tökén".encode()])
async def test_a_token_that_cannot_be_used_is_a_finding_where_it_is_wanted(
    make: Make, token_file: Path, token: bytes | None
) -> None:
    async with serving(pages({"/metrics": response(status=401)})) as served:
        target = make(served.url, bearer_token_file=str(token_file))
        put(token_file, token)
        collected = await collect(target)
        assert served.header("authorization") is None
    assert reasons(collected) == ["credentials_unreadable"]
    assert (collected.observation.up, collected.observation.available) == (True, False)


async def test_https_needs_a_certificate_that_is_trusted(make: Make) -> None:
    async with serving(pages(vllm()), https_context()) as served:
        stranger = await collect(make(served.url))
        trusted = await collect(make(served.url, tls={"ca_file": str(CERTIFICATE)}))
        careless = await collect(make(served.url, tls={"insecure_skip_verify": True}))
    assert (reasons(stranger), stranger.observation.up) == (["tls_error"], False)
    assert trusted.observation.available
    assert careless.observation.available


async def test_a_certificate_file_that_was_replaced_makes_another_target(make: Make, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    put(authority, CERTIFICATE.read_bytes())
    target = make("https://gpu-1:8000", tls={"ca_file": str(authority)})
    assert target.is_for(target.server, "rack-1", LONG, {})
    os.utime(authority, (1, 1))
    assert not target.is_for(target.server, "rack-1", LONG, {})
    assert not target.is_for(target.server, "rack-2", LONG, {})


async def test_windows_start_with_the_second_collection(make: Make, clock: Clock) -> None:
    earlier = (CAPTURES / "0.32.0" / "A-1-mid06.prom").read_bytes()
    answers = vllm(earlier)
    async with serving(pages(answers)) as served:
        target = make(served.url)
        first = await collect(target)
        clock.now += 15
        answers["/metrics"] = response(BUSY)
        second = await collect(target)
    assert "llm_latency_quantile_seconds" not in first.chunks
    bounds = {labels["bound"]: v for labels, v in samples(second)["llm_latency_quantile_seconds"]
              if labels["phase"] == "e2e" and labels["q"] == "0.99"}  # fmt: skip
    assert bounds["lower"] <= bounds["estimate"] <= bounds["upper"]
    assert 0 <= value(second, "llm_prefix_cache_hit_ratio") <= 1


async def test_a_target_that_is_still_being_collected_is_late(make: Make) -> None:
    async with serving(silence) as served:
        target = make(served.url)
        gate = asyncio.Semaphore(1)
        task = target.collecting(asyncio.get_running_loop().time() + LONG, gate)
        assert target.collecting(0.0, gate) is task
        await asyncio.sleep(0)
        late = target.late()
        await target.aclose()
    assert (reasons(late), late.observation.up) == (["timeout"], False)
    assert value(late, "inferwatch_scrape_errors_total", reason="timeout") == 0
    assert task.cancelled()


def check(collected: Collected) -> None:
    """Whatever came, the result says something and can be written."""
    text = page([collected.chunks])
    assert collected.observation.available or collected.observation.findings
    assert {f.reason for f in collected.observation.findings} <= set(KINDS)
    assert "internal_error" not in reasons(collected)
    names = [(s.name, tuple(sorted(s.labels.items()))) for s in read_samples(text)]
    assert len(names) == len(set(names))


LINES = BUSY.splitlines(keepends=True)

mangled = st.one_of(
    st.binary(max_size=2000),
    st.text(max_size=500).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from(LINES), max_size=60).map(b"".join),
    st.tuples(st.integers(0, len(BUSY)), st.binary(max_size=20)).map(lambda p: BUSY[: p[0]] + p[1] + BUSY[p[0] :]),
    st.tuples(st.integers(0, len(BUSY)), st.integers(0, len(BUSY))).map(lambda p: BUSY[min(p) : max(p)]),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(mangled, min_size=1, max_size=2))
def test_no_body_whatsoever_is_more_than_a_target_can_take(bodies: list[bytes]) -> None:
    async def run() -> None:
        answers = vllm()
        async with serving(pages(answers)) as served, contextlib.AsyncExitStack() as stack:
            target = Target(Server.model_validate({"url": served.url}), node="n")
            stack.push_async_callback(target.aclose)
            for body in bodies:
                answers["/metrics"] = response(body)
                check(await collect(target))
            answers["/metrics"] = response(BUSY)
            assert (await collect(target)).observation.available

    asyncio.run(run())


COMPLETED = 'data: {"choices": [{"text": " four"}]}\n\ndata: [DONE]\n\n'
SYNTHETIC = {"interval": 60, "model": "llama", "prompt": "a prompt of ours"}


def completing(answers: dict[str, bytes], body: str = COMPLETED, status: int = 200) -> dict[str, bytes]:
    """The connection is closed, as the body of the question is not read."""
    closing = {"Connection": "close"}
    answer = response(body, status=status, content_type="text/event-stream", headers=closing)
    return {**answers, "/v1/completions": answer}


async def asked(target: Target) -> None:
    """One synthetic request, without waiting for its moment."""
    assert target._prober is not None
    await target._prober.once()


def probed(collected: Collected) -> set[str]:
    found = {name for name in samples(collected) if name.startswith("llm_probe_")}
    assert found == {series.metric for series in collected.observation.values if series.metric.startswith("llm_probe_")}
    return found


async def test_a_synthetic_request_is_told_beside_what_was_collected(make: Make) -> None:
    answered, may_complete = pages(completing(vllm())), asyncio.Event()

    async def answer(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/completions":
            await may_complete.wait()
        await answered(path, reader, writer)

    async with serving(answer) as served:
        target = make(served.url, synthetic_request=SYNTHETIC, labels={"team": "search"})
        assert probed(await collect(target)) == set()
        may_complete.set()
        await asked(target)
        collected = await collect(target)
    assert probed(collected) == {
        "llm_probe_success", "llm_probe_time_to_first_token_seconds", "llm_probe_duration_seconds",
    }  # fmt: skip
    assert value(collected, "llm_probe_success", node="rack-1", server=target.server.name, team="search") == 1
    assert (
        0 < value(collected, "llm_probe_time_to_first_token_seconds") <= value(collected, "llm_probe_duration_seconds")
    )
    assert "llm_requests_running" in samples(collected)
    assert reasons(collected) == []


async def test_a_synthetic_request_that_failed_is_a_finding_and_no_failed_collection(make: Make, clock: Clock) -> None:
    async with serving(pages(completing(vllm(), status=503))) as served:
        target = make(served.url, synthetic_request=SYNTHETIC)
        await collect(target)
        await asked(target)
        collected = await collect(target)
        clock.now += 121
        later = await collect(target)
    assert probed(collected) == {"llm_probe_success"}
    assert value(collected, "llm_probe_success") == 0
    (found,) = collected.observation.findings
    assert (found.reason, found.detail) == ("probe_failed", "HTTP 503")
    assert value(collected, "inferwatch_finding", reason="probe_failed", severity="warning") == 1
    assert target.last_error is None
    assert probed(later) == set()
    assert reasons(later) == []


async def test_a_server_without_metrics_can_be_told_to_answer(make: Make) -> None:
    async with serving(pages(completing({}))) as served:
        target = make(served.url, synthetic_request=SYNTHETIC)
        await asked(target)
        collected = await collect(target)
    assert (collected.observation.up, collected.observation.available) == (True, False)
    assert value(collected, "llm_probe_success") == 1
    assert reasons(collected) == ["not_found"]


async def test_of_a_server_that_is_down_no_old_success_is_told(make: Make) -> None:
    async with serving(pages(completing(vllm()))) as served:
        target = make(served.url, synthetic_request=SYNTHETIC)
        await collect(target)
        await asked(target)
    assert probed(await collect(target)) == set()
    await asked(target)
    down = await collect(target)
    assert value(down, "llm_probe_success") == 0
    assert reasons(down) == ["connection_refused", "probe_failed"]
    assert down.observation.findings[1].detail == f"connection_refused: {target.server.name}"


async def test_neither_prompt_nor_answer_nor_token_is_shown(make: Make, token_file: Path) -> None:
    async with serving(pages(completing(vllm(), "data: {'four'}\n\n"))) as served:
        target = make(served.url, synthetic_request=SYNTHETIC, bearer_token_file=str(token_file))
        await asked(target)
        assert served.header("authorization") == f"Bearer {SECRET}"
        collected = await collect(target)
    assert "probe_failed" in reasons(collected)
    for secret in ("a prompt of ours", "four", SECRET):
        assert secret not in repr(collected) + repr(target.server) + page([collected.chunks])


async def test_a_synthetic_request_that_hangs_delays_no_collection(make: Make) -> None:
    hanging = asyncio.Event()
    answers = vllm()

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path != "/v1/completions":
            return await pages(answers)(path, reader, writer)
        hanging.set()
        await reader.read()
        return None

    async with serving(handler) as served:
        target = make(served.url, synthetic_request=SYNTHETIC)
        sending = asyncio.create_task(asked(target))
        await hanging.wait()
        assert (await collect(target)).observation.available
        assert not sending.done()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_another_synthetic_request_makes_another_target(make: Make) -> None:
    target = make("http://gpu-1:8000", synthetic_request=SYNTHETIC)
    changed = Server.model_validate({"url": "http://gpu-1:8000", "synthetic_request": {**SYNTHETIC, "interval": 61}})
    assert target.is_for(target.server, "rack-1", LONG, {})
    assert not target.is_for(changed, "rack-1", LONG, {})
