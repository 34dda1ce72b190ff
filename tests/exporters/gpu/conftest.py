from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.exporters.gpu import scripted
from tests.exporters.gpu.scripted import Host, Process, Script

Start = Callable[..., Host]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stub library."""
    return scripted.compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scripted.compiled(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER")


class Pool:
    """Processes by library: importing the binding takes longer than a test."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._idle: defaultdict[Path | None, list[Process]] = defaultdict(list)

    def take(self, library: Path | None) -> Process:
        idle = self._idle[library]
        return idle.pop() if idle else Process(self._factory.mktemp("process"), library)

    def give_back(self, library: Path | None, host: Host) -> None:
        if host.hung or host.process.popen.poll() is not None:
            host.process.kill()
        else:
            host.close()
            self._idle[library].append(host.process)

    def close(self) -> None:
        for processes in self._idle.values():
            for process in processes:
                process.kill()


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path, pool: Pool) -> Iterator[Callable[..., Host]]:
    """Starts hosts: `start(library, script, **options of NvmlSource)`."""
    started: list[tuple[Path | None, Host]] = []

    def host(library: Path | None, script: Script | None = None, **options: object) -> Host:
        folder = tmp_path / f"host{len(started)}"
        folder.mkdir()
        made = Host(folder, pool.take(library), script or {}, options)
        started.append((library, made))
        return made

    yield host
    for library, made in started:
        pool.give_back(library, made)


@pytest.fixture
def two(start: Start, library: Path) -> Host:
    """Two H100s that have everything."""
    return start(library, scripted.host(scripted.gpu(0), scripted.gpu(1)))
