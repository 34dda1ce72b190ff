from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from exporters.config import Config, load
from exporters.target import Target
from inferwatch.discover import HOSTS, Seen
from inferwatch.watched import Watched
from tests.end_to_end.processes import free_port
from tests.inferwatch.listeners import HTML, TEXT, serving

PAGE = (200, TEXT, "vllm:num_requests_running 1.0\n")


@asynccontextmanager
async def watched(
    path: Path | None = None,
    *,
    hosts: Iterable[str] = HOSTS,
    ports: Iterable[int] = (),
) -> AsyncIterator[Watched]:
    made = Watched(path, load(path, Config), hosts=tuple(hosts), ports=tuple(ports))
    try:
        yield made
    finally:
        await made.sidecar.aclose()


def config(folder: Path, *urls: str) -> Path:
    path = folder / "inferwatch.yml"
    path.write_text(yaml.safe_dump({"servers": [{"url": url} for url in urls]}))
    return path


def urls(of: Watched) -> list[str]:
    targets: list[Target] = of.sidecar.targets()
    return [target.server.url for target in targets]


async def test_servers_found_on_this_host_are_read() -> None:
    async with (
        serving({"/metrics": PAGE}) as one,
        serving({"/metrics": (200, HTML, "<html>")}) as other,
        watched(ports=[one, other]) as servers,
    ):
        seen = await servers.look()
        assert [s.server is not None for s in seen] == [True, False]
        assert urls(servers) == [f"http://127.0.0.1:{one}"]


async def test_a_server_that_was_found_stays_and_its_port_is_not_asked_again() -> None:
    port = free_port()
    async with watched(ports=[port]) as servers:
        async with serving({"/metrics": PAGE}, port=port):
            await servers.look()
        assert await servers.look() == []
        assert urls(servers) == [f"http://127.0.0.1:{port}"]


async def test_configured_servers_are_read_and_nothing_is_looked_for(tmp_path: Path) -> None:
    async with watched(config(tmp_path, "http://gpu-1:8000")) as servers:
        assert not servers.is_looking
        assert urls(servers) == ["http://gpu-1:8000"]


async def test_a_target_file_counts_as_configured(tmp_path: Path) -> None:
    path = tmp_path / "inferwatch.yml"
    path.write_text(yaml.safe_dump({"file_sd": ["targets.json"]}))
    (tmp_path / "targets.json").write_text('[{"targets": ["gpu-1:8000"]}]')
    async with watched(path) as servers:
        assert not servers.is_looking
        assert urls(servers) == ["http://gpu-1:8000"]


async def test_a_reload_reads_the_new_servers(tmp_path: Path) -> None:
    async with watched(config(tmp_path, "http://gpu-1:8000")) as servers:
        config(tmp_path, "http://gpu-1:8000", "http://gpu-2:8000")
        servers.reload()
        assert urls(servers) == ["http://gpu-1:8000", "http://gpu-2:8000"]


async def test_a_reload_of_a_wrong_configuration_changes_nothing(tmp_path: Path) -> None:
    async with watched(config(tmp_path, "http://gpu-1:8000")) as servers:
        config(tmp_path, "ftp://gpu-1")
        servers.reload()
        assert urls(servers) == ["http://gpu-1:8000"]
        name = "inferwatch_config_last_reload_successful{"
        (line,) = [line for line in servers.sidecar.page([]).splitlines() if line.startswith(name)]
        assert line.endswith(" 0.0")


async def test_servers_that_a_reload_names_replace_those_found(tmp_path: Path) -> None:
    path = tmp_path / "inferwatch.yml"
    path.write_text("{}")
    async with serving({"/metrics": PAGE}) as port, watched(path, ports=[port]) as servers:
        await servers.look()
        config(tmp_path, "http://gpu-1:8000")
        servers.reload()
        assert urls(servers) == ["http://gpu-1:8000"]
        assert not servers.is_looking


async def test_whoever_keeps_looking_is_told_of_a_new_server() -> None:
    told: asyncio.Queue[Seen] = asyncio.Queue()
    async with serving({"/metrics": PAGE}) as port, watched(ports=[port]) as servers:
        looking = asyncio.create_task(servers.keep_looking(told.put, every=0.01))
        assert (await told.get()).port == port
        looking.cancel()


async def test_nothing_is_looked_for_without_a_host() -> None:
    async with watched(hosts=[]) as servers:
        assert not servers.is_looking


async def test_servers_of_another_host_are_read_there() -> None:
    async with serving({"/metrics": PAGE}) as port, watched(hosts=["localhost"], ports=[port]) as servers:
        await servers.look()
        assert urls(servers) == [f"http://localhost:{port}"]
