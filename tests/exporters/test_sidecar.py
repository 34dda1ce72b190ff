from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from exporters import detect
from exporters import sidecar as sidecar_module
from exporters import target as target_module
from exporters.collected import Collected
from exporters.config import Config
from exporters.exposition import read_samples
from exporters.sidecar import NotAllowed, Sidecar
from tests.exporters.held import held_time
from tests.exporters.recorded import VLLM as CAPTURES
from tests.exporters.servers import Served, pages, response, serving, silence, unused_url

BUSY = response((CAPTURES / "0.32.0" / "A-2-after.prom").read_bytes())
LONG = 120.0
SETTINGS = {"node": "rack-1", "scrape": {"timeout": LONG}}

Make = Callable[..., Sidecar]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[Sidecar] = []

    def sidecar(*urls: str, **more: object) -> Sidecar:
        made.append(Sidecar(config(*urls, **more), clock=lambda: 1_800_000_000.0))
        return made[-1]

    yield sidecar
    for each in made:
        await each.aclose()


@pytest.fixture
async def vllm() -> AsyncIterator[Served]:
    async with serving(pages({"/metrics": BUSY})) as served:
        yield served


@pytest.fixture
async def hanging() -> AsyncIterator[Served]:
    async with serving(silence) as served:
        yield served


def config(*urls: str, **more: object) -> Config:
    return Config.model_validate({**SETTINGS, "servers": [{"url": url} for url in urls], **more})


def name(served: Served) -> str:
    return served.url.removeprefix("http://")


def by_server(collected: list[Collected]) -> dict[str, list[str]]:
    """Reasons of the findings by server."""
    return {c.observation.server: [f.reason for f in c.observation.findings] for c in collected}


def value(page: str, metric: str, **where: str) -> float:
    (only,) = [s.value for s in read_samples(page) if s.name == metric and where.items() <= s.labels.items()]
    return only


async def test_every_server_has_a_result_in_the_order_of_the_configuration(make: Make, vllm: Served) -> None:
    down = unused_url()
    collected = await make(down, vllm.url).collect(LONG)
    assert [c.observation.server for c in collected] == [down.removeprefix("http://"), name(vllm)]
    assert [c.observation.available for c in collected] == [False, True]


async def test_a_server_that_hangs_hides_no_other(make: Make, vllm: Served, hanging: Served) -> None:
    sidecar = make(vllm.url, hanging.url)
    good, _ = sidecar.targets()
    with held_time() as held:
        collecting = asyncio.create_task(sidecar.collect(2.0))
        while good.last is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        held.pass_by(1.95)
        collected = await collecting
    assert by_server(collected) == {name(vllm): [], name(hanging): ["timeout"]}
    page = sidecar.page(collected)
    assert value(page, "llm_up", server=name(vllm)) == 1
    assert value(page, "llm_up", server=name(hanging)) == 0
    assert value(page, "inferwatch_scrape_errors_total", server=name(hanging), reason="timeout") == 1


async def test_a_server_s_own_time_out_counts_where_it_is_shorter(make: Make, hanging: Served) -> None:
    sidecar = make(servers=[{"url": hanging.url, "timeout": 0.05}])
    async with asyncio.timeout(LONG):
        collected = await sidecar.collect(LONG * 10)
    assert by_server(collected) == {name(hanging): ["timeout"]}


async def test_without_a_time_out_the_servers_own_ones_count(make: Make, hanging: Served) -> None:
    async with asyncio.timeout(LONG):
        assert by_server(await make(hanging.url, scrape={"timeout": 0.05}).collect()) == {name(hanging): ["timeout"]}


async def test_concurrent_scrapes_share_one_collection(make: Make) -> None:
    release = asyncio.Event()

    async def held(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(BUSY)

    async with serving(held) as served:
        sidecar = make(servers=[{"url": served.url, "frontend": "vllm"}])
        scrapes = [asyncio.create_task(sidecar.collect(LONG)) for _ in range(5)]
        await served.asked.wait()
        scrapes += [asyncio.create_task(sidecar.collect(LONG)) for _ in range(5)]
        await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(*scrapes)
        assert served.count("/metrics") == 1
    assert len({id(r[0]) for r in results}) == 1
    assert results[0][0].observation.available


async def test_a_scrape_that_cannot_wait_leaves_the_collection_to_the_others(make: Make) -> None:
    release = asyncio.Event()

    async def held(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(BUSY)

    async with serving(held) as served:
        sidecar = make(served.url)
        patient = asyncio.create_task(sidecar.collect(LONG))
        await served.asked.wait()
        hasty = await sidecar.collect(0.05)
        abandoned = asyncio.create_task(sidecar.collect(LONG))
        await asyncio.sleep(0)
        abandoned.cancel()
        release.set()
        good = await patient
        assert served.count("/metrics") == 1
    assert by_server(hasty) == {name(served): ["timeout"]}
    assert by_server(good) == {name(served): ["documents_unread"]}
    late = sidecar.page(hasty)
    assert value(late, "llm_up") == 0
    assert value(late, "inferwatch_scrape_errors_total", reason="timeout") == 0


async def test_a_page_that_came_and_is_not_read_yet_is_no_time_out_of_its_server(
    make: Make, vllm: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go = threading.Event(), threading.Event()
    real = detect.detect

    def held(text: str, content_type: str = "") -> detect.Detected:
        reading.set()
        go.wait(LONG)
        return real(text, content_type)

    monkeypatch.setattr(detect, "detect", held)
    monkeypatch.setattr(target_module, "_BIG_CHARACTERS", 0)
    sidecar = make(vllm.url)
    patient = asyncio.create_task(sidecar.collect(LONG))
    assert await asyncio.to_thread(reading.wait, LONG)
    hasty = await sidecar.collect(0.05)
    go.set()
    good = await patient
    assert by_server(hasty) == {name(vllm): ["not_read_yet"]}
    page = sidecar.page(hasty)
    assert (value(page, "llm_up"), value(page, "llm_metrics_available")) == (1, 0)
    assert good[0].observation.available


async def test_a_server_that_was_not_asked_yet_is_told_as_such(
    make: Make, vllm: Served, hanging: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar_module, "_MAX_COLLECTING", 1)
    sidecar = make(hanging.url, vllm.url)
    patient = asyncio.create_task(sidecar.collect(LONG))
    await hanging.asked.wait()
    hasty = await sidecar.collect(0.05)
    patient.cancel()
    assert by_server(hasty) == {name(hanging): ["timeout"], name(vllm): ["not_read_yet"]}


async def test_no_more_than_so_many_servers_are_asked_at_a_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = most = 0
    three = asyncio.Event()

    async def counting(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked, most
        if path == "/metrics":
            asked += 1
            most = max(most, asked)
            if most == 3:
                three.set()
            await three.wait()
            await asyncio.sleep(0.02)  # for a fourth to come
            asked -= 1
        writer.write(BUSY)

    monkeypatch.setattr(sidecar_module, "_MAX_COLLECTING", 3)
    async with AsyncExitStack() as stack:
        many = [await stack.enter_async_context(serving(counting)) for _ in range(8)]
        collected = await make(*(s.url for s in many)).collect(LONG)
    assert all(c.observation.available for c in collected)
    assert most == 3


async def test_the_sidecar_says_what_it_is(make: Make, vllm: Served) -> None:
    sidecar = make(vllm.url)
    page = sidecar.page(await sidecar.collect(LONG))
    assert value(page, "inferwatch_build_info", node="rack-1", grid="1") == 1
    assert value(page, "inferwatch_config_last_reload_successful", node="rack-1") == 1
    assert value(page, "inferwatch_config_last_reload_success_timestamp_seconds") == 1_800_000_000


async def test_without_servers_there_is_still_a_page(make: Make) -> None:
    sidecar = make()
    assert value(sidecar.page(await sidecar.collect()), "inferwatch_build_info") == 1


async def test_a_page_has_each_family_once(make: Make, vllm: Served) -> None:
    sidecar = make(servers=[{"url": vllm.url, "name": "a"}, {"url": f"{vllm.url}/", "name": "b"}])
    lines = sidecar.page(await sidecar.collect(LONG)).splitlines()
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))


async def test_a_reload_keeps_the_servers_that_did_not_change(make: Make, vllm: Served) -> None:
    sidecar = make(vllm.url, "http://127.0.0.1:1", "http://127.0.0.1:2")
    before = {t.server.url: t for t in sidecar.targets()}
    changed = {"url": "http://127.0.0.1:1", "timeout": 3}
    sidecar.reload(config(servers=[{"url": vllm.url}, changed, {"url": "http://127.0.0.1:3"}]))
    after = {t.server.url: t for t in sidecar.targets()}
    assert list(after) == [vllm.url, "http://127.0.0.1:1", "http://127.0.0.1:3"]
    assert after[vllm.url] is before[vllm.url]
    assert after["http://127.0.0.1:1"] is not before["http://127.0.0.1:1"]


async def test_a_reload_in_the_middle_of_a_collection_leaves_it_its_result(make: Make, hanging: Served) -> None:
    sidecar = make(hanging.url)
    running = asyncio.create_task(sidecar.collect(LONG))
    await hanging.asked.wait()
    sidecar.reload(config())
    assert by_server(await running) == {name(hanging): ["timeout"]}
    assert sidecar.targets() == []


async def test_a_failed_reload_is_told_until_one_succeeds(make: Make) -> None:
    sidecar = make()
    sidecar.reload_failed()
    assert value(sidecar.page([]), "inferwatch_config_last_reload_successful") == 0
    sidecar.reload(config())
    assert value(sidecar.page([]), "inferwatch_config_last_reload_successful") == 1


@pytest.fixture
def targets_file(tmp_path: Path) -> Path:
    return tmp_path / "targets.json"


def name_targets(path: Path, *urls: str) -> None:
    path.with_suffix(".new").write_text(json.dumps([{"targets": list(urls), "labels": {"team": "search"}}]))
    path.with_suffix(".new").replace(path)


def put(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


async def test_servers_of_target_files_come_and_go_without_a_reload(
    make: Make, vllm: Served, targets_file: Path
) -> None:
    name_targets(targets_file)
    sidecar = make(file_sd=[str(targets_file)])
    assert await sidecar.collect(LONG) == []
    name_targets(targets_file, vllm.url)
    (collected,) = await sidecar.collect(LONG)
    assert collected.observation.user_labels == (("team", "search"),)
    assert collected.observation.available
    name_targets(targets_file)
    assert await sidecar.collect(LONG) == []


async def test_a_broken_target_file_is_told_and_changes_nothing(
    make: Make, vllm: Served, targets_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name_targets(targets_file, vllm.url)
    sidecar = make(file_sd=[str(targets_file)])
    (before,) = sidecar.targets()
    put(targets_file, "{")
    collected = await sidecar.collect(LONG)
    assert sidecar.targets() == [before]
    assert value(sidecar.page(collected), "inferwatch_config_last_reload_successful") == 0
    assert len(sidecar.problems) == 1
    assert str(targets_file) in sidecar.problems[0]
    assert sidecar.problems[0] in caplog.text
    name_targets(targets_file, vllm.url)
    assert value(sidecar.page(await sidecar.collect(LONG)), "inferwatch_config_last_reload_successful") == 1


async def test_a_reload_while_a_target_file_is_broken_keeps_its_servers(
    make: Make, vllm: Served, targets_file: Path
) -> None:
    name_targets(targets_file, vllm.url)
    sidecar = make(file_sd=[str(targets_file)])
    before = sidecar.targets()
    put(targets_file, "{")
    sidecar.reload(config(file_sd=[str(targets_file)]))
    assert sidecar.targets() == before
    sidecar.reload(config())
    assert sidecar.targets() == []


async def test_a_server_named_twice_counts_once(
    make: Make, targets_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name_targets(targets_file, "GPU-1:8000", "gpu-2:80/metrics", "http://gpu-2", "127.0.0.1:1", "localhost:1")
    sidecar = make(servers=[{"url": "http://gpu-1:8000/", "name": "big"}], file_sd=[str(targets_file)])
    targets = sidecar.targets()
    assert [t.server.name for t in targets] == ["big", "gpu-2:80", "127.0.0.1:1", "localhost:1"]
    assert not targets[0].server.labels
    assert value(sidecar.page([]), "inferwatch_config_last_reload_successful") == 1
    assert sidecar.problems == []
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "file_sd: http://gpu-1:8000 is named more than once: the first counts"),
        ("INFO", "file_sd: http://gpu-2 is named more than once: the first counts"),
    ]


async def test_a_server_left_out_for_its_name_is_told(make: Make, targets_file: Path) -> None:
    name_targets(targets_file, "http://gpu-1:8000/a", "http://gpu-1:8000/b")
    sidecar = make(file_sd=[str(targets_file)])
    assert [t.server.url for t in sidecar.targets()] == ["http://gpu-1:8000/a"]
    assert sidecar.problems == [
        "file_sd: http://gpu-1:8000/b is left out: http://gpu-1:8000/a has its name, 'gpu-1:8000'"
    ]
    assert value(sidecar.page([]), "inferwatch_config_last_reload_successful") == 1


async def test_what_is_wrong_is_logged_when_it_begins_only(
    make: Make, targets_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = targets_file.with_name("broken.json")
    put(broken, "{")
    name_targets(targets_file, "gpu-1:8000", "gpu-1:8000")
    sidecar = make(file_sd=[str(broken), str(targets_file)])
    assert len(caplog.records) == 2
    name_targets(targets_file, "gpu-1:8000", "gpu-1:8000", "gpu-2:8000")
    assert len(sidecar.targets()) == 2
    sidecar.reload(sidecar.config)
    assert len(caplog.records) == 2
    put(broken, "[]")
    sidecar.targets()
    put(broken, "{")
    sidecar.targets()
    assert [r.message for r in caplog.records[2:]] == sidecar.problems


async def test_sections_that_nothing_reads_are_told_once(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    sidecar = make(foreign={"web": 17, "history": {}, "compare": {}, "advise": None})
    sidecar.reload(sidecar.config)
    assert [r.message for r in caplog.records] == [
        "configuration: nothing reads these sections in this release: advise, web"
    ]


async def test_labels_of_the_user_stand_on_everything_but_where_a_label_is_the_metric_s_own(make: Make) -> None:
    async with serving(pages({"/metrics": BUSY})) as served:
        sidecar = make(servers=[{"url": served.url, "labels": {"team": "search", "source": "mine"}}])
        samples = read_samples(sidecar.page(await sidecar.collect(LONG), own=False))
    assert all(s.labels["team"] == "search" for s in samples)
    info = [s for s in samples if s.name == "llm_field_info"]
    assert info
    assert "mine" not in {s.labels.get("source") for s in info}
    assert {s.labels["source"] for s in samples if s.name != "llm_field_info"} == {"mine"}


async def test_a_probe_reads_an_allowed_server(make: Make, vllm: Served) -> None:
    sidecar = make(probe={"allow": ["127.0.0.1:*"]})
    collected = await sidecar.probe(vllm.url, LONG)
    assert collected.observation.available
    page = sidecar.page([collected], own=False)
    assert value(page, "llm_up", server=name(vllm)) == 1
    assert "inferwatch_build_info" not in page
    assert sidecar.targets() == []


async def test_probes_of_one_server_share_its_state(make: Make, vllm: Served) -> None:
    sidecar = make(probe={"allow": ["127.0.0.1:*"]})
    await asyncio.gather(*(sidecar.probe(url, LONG) for url in (vllm.url, f"{vllm.url}/metrics", f"{vllm.url}/")))
    assert vllm.count("/metrics") == 1


async def test_a_probe_of_a_configured_server_is_that_server_s_collection(make: Make, vllm: Served) -> None:
    sidecar = make(servers=[{"url": vllm.url, "name": "big", "labels": {"team": "search"}}])
    for asked in (vllm.url, f"{vllm.url}/metrics", vllm.url.replace("http", "HTTP"), "big"):
        collected = await sidecar.probe(asked, LONG)
        assert collected.observation.server == "big"
    assert len(sidecar.targets()) == 1


@pytest.mark.parametrize("url", ["http://10.0.0.1:8000", "http://127.0.0.1:1/admin", "file:///etc/passwd", "", "x"])
async def test_a_probe_goes_nowhere_else(make: Make, url: str) -> None:
    with pytest.raises(NotAllowed):
        await make(probe={"allow": ["127.0.0.1:*"]}).probe(url, LONG)


@pytest.mark.parametrize("url", ["http://me:s3cr3t@gpu-1:8000", "http://gpu-1:8000/?token=s3cr3t"])
async def test_a_probe_that_is_refused_shows_no_secret(make: Make, url: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        await make(probe={"allow": ["*:*"]}).probe(url, LONG)
    assert "s3cr3t" not in str(caught.value)


async def test_a_probe_that_fails_is_data(make: Make) -> None:
    url = unused_url()
    collected = await make(probe={"allow": ["127.0.0.1:*"]}).probe(url, LONG)
    assert by_server([collected]) == {url.removeprefix("http://"): ["connection_refused"]}


async def test_only_so_many_probed_servers_are_remembered(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_module, "_MAX_PROBED", 2)
    sidecar = make(probe={"allow": ["127.0.0.0/8"]})
    for host in (1, 2, 3):
        await sidecar.probe(f"http://127.0.0.{host}:1", LONG)
    assert len(sidecar._probed) == 2


async def test_a_closed_sidecar_leaves_no_collection_running(make: Make, hanging: Served) -> None:
    sidecar = make(hanging.url)
    running = asyncio.create_task(sidecar.collect(LONG))
    await hanging.asked.wait()
    await sidecar.aclose()
    assert by_server(await running) == {name(hanging): ["timeout"]}
