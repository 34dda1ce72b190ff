"""Which server runs on which GPU. The processes are real ones, and so is the kernel's account of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporters.gpu.gathered import GpuReading
from exporters.gpu.mapping import ServerAddress, configured, servers_of
from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import Gpu, Host, gpu, host

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at on Linux alone")

# Listens, then starts a child that starts a child of its own: as an engine and its workers do. Tells port and pids.
SERVER = """
import socket, subprocess, sys
worker = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
child = f"import os, subprocess as s, sys; print(os.getpid(), flush=True); s.run([sys.executable, '-c', {worker!r}])"
with socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as server:
    print(server.getsockname()[1], flush=True)
    subprocess.run([sys.executable, "-c", child])
"""


class Server:
    def __init__(self, address: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", SERVER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.popen.stdout
        self.port, _engine, self.worker = (int(self.popen.stdout.readline()) for _ in range(3))

    def stop(self) -> None:
        """The workers end when their input does."""
        self.popen.communicate(timeout=120)


@pytest.fixture
def serve() -> Iterator[Callable[[str], Server]]:
    started: list[Server] = []

    def made(address: str) -> Server:
        started.append(Server(address))
        return started[-1]

    yield made
    for each in started:
        each.stop()


def names(pid: int, *urls: str) -> set[str]:
    addresses = [ServerAddress.of(url, url) for url in urls]
    return set(servers_of([pid], addresses)[pid])


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))
        return str(asking.getsockname()[0])


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_worker_belongs_to_the_server_that_it_descends_from(serve: Callable[[str], Server], address: str) -> None:
    server = serve(address)
    host_part = "[::1]" if ":" in address else "127.0.0.1"
    url = f"http://{host_part}:{server.port}"
    assert names(server.worker, url, f"http://127.0.0.1:{server.port + 1}") == {url}
    assert names(server.popen.pid, url) == {url}


def test_a_server_is_found_under_the_name_and_address_that_it_is_asked_at(serve: Callable[[str], Server]) -> None:
    server = serve("0.0.0.0")
    urls = [f"http://{name}:{server.port}" for name in ("localhost", own_address(), "0.0.0.0")]
    assert names(server.worker, *urls) == set(urls)


def test_a_server_of_another_host_at_the_same_port_is_another(serve: Callable[[str], Server]) -> None:
    server = serve("0.0.0.0")
    assert (
        names(server.worker, f"http://192.0.2.77:{server.port}", f"http://no.such.host.invalid:{server.port}") == set()
    )


def test_a_socket_at_one_address_does_not_answer_at_another(serve: Callable[[str], Server]) -> None:
    server = serve("127.0.0.1")
    assert names(server.worker, f"http://{own_address()}:{server.port}") == set()


def test_a_process_that_is_gone_or_not_to_be_seen_has_no_server() -> None:
    assert servers_of([0, 1, 2**22 + 1], [ServerAddress.of("a", "http://127.0.0.1:80")]) == {
        0: frozenset(), 1: frozenset(), 2**22 + 1: frozenset(),
    }  # fmt: skip


@pytest.mark.parametrize(("url", "port"), [("http://a", 80), ("https://a", 443), ("http://a:8000/x", 8000)])
def test_a_url_without_a_port_has_its_scheme_s(url: str, port: int) -> None:
    assert ServerAddress.of("n", url).port == port


def test_the_process_list_of_the_driver_leads_to_the_server(
    start: Start, library: Path, serve: Callable[[str], Server]
) -> None:
    server = serve("127.0.0.1")
    here = start(library, host(gpu(0, pid_0=server.worker), gpu(1)), configured={"a": [0, 1]})
    collected = here.collect(servers={"a": f"http://127.0.0.1:{server.port}", "b": "http://127.0.0.1:1"})
    assert on(collected.gpu(0)) == {"a": "process"}
    assert on(collected.gpu(1)) == {"a": "config"}


def test_a_new_process_is_looked_at_when_it_appears(
    start: Start, library: Path, serve: Callable[[str], Server]
) -> None:
    server = serve("127.0.0.1")
    servers = {"a": f"http://127.0.0.1:{server.port}"}
    here = start(library, host(gpu(0)))
    assert on(here.collect(servers=servers).gpu(0)) == {}
    here.say(host(gpu(0, pid_0=server.worker, pid_1=4_194_305)))
    assert on(here.collect(servers=servers).gpu(0)) == {"a": "process"}
    here.say(host(gpu(0)))
    assert on(here.collect(servers=servers).gpu(0)) == {}


def test_an_old_driver_tells_its_processes_by_the_older_call(
    start: Start, old_library: Path, serve: Callable[[str], Server]
) -> None:
    server = serve("127.0.0.1")
    here = start(old_library, host(gpu(0, pid_0=server.worker)))
    assert on(here.collect(servers={"a": f"http://127.0.0.1:{server.port}"}).gpu(0)) == {"a": "process"}


def test_a_process_list_that_is_not_permitted_is_said(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0) | {(0, "err.nvmlDeviceGetComputeRunningProcesses_v3"): 4}))
    assert here.collect().gpu(0).findings == {"gpu_no_permission": "process"}


def test_gpus_of_the_configuration_that_are_not_here_are_a_finding(two: Host, start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)), configured={"a": [0, 4, "GPU-9"], "b": ["GPU-0000"]})
    collected = here.collect()
    assert collected.findings == {"gpu_not_here": "a: 4; a: GPU-9"}
    assert on(collected.gpu(0)) == {"a": "config", "b": "config"}


def on(seen: Gpu) -> dict[str, str]:
    return {x["server"]: x["source"] for x in seen.labels("gpu_server_info")}


def test_text_names_one_gpu_or_none() -> None:
    gpus = [GpuReading(uuid, str(i), up=True) for i, uuid in enumerate(("GPU-aa", "GPU-aab", "GPU-b"))]
    assert configured(gpus, {"s": ["GPU-aa", "GPU-b"]}) == ({"GPU-aa": {"s"}, "GPU-b": {"s"}}, [])
    assert configured(gpus, {"s": ["GPU-a"]}) == ({}, ["s: GPU-a"])


def container(proc: Path, pid: int, *, address: str, namespace: str) -> None:
    """A process of a container, as the kernel shows it: listens at 0.0.0.0:8000, its own address is `address`."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "ns").mkdir()
    (folder / "net").mkdir()
    (folder / "stat").write_text(f"{pid} (vllm (x) y) S 1 1 1")
    (folder / "fd" / "3").symlink_to("socket:[4711]")
    (folder / "ns" / "net").symlink_to(f"net:[{namespace}]")
    row = "   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0 100 0 0 10 0"
    (folder / "net" / "tcp").write_text(f"  sl  local_address rem_address   st\n{row}\n")
    (folder / "net" / "fib_trie").write_text(f"Main:\n     |-- {address}\n        /32 host LOCAL\n")


def test_servers_of_containers_are_told_apart_by_their_addresses(tmp_path: Path) -> None:
    """By hand: two containers whose servers listen at the same port."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "net").symlink_to("net:[1]")
    container(tmp_path, 100, address="10.0.0.5", namespace="2")
    container(tmp_path, 200, address="10.0.0.6", namespace="3")
    urls = {"a": "http://10.0.0.5:8000", "b": "http://10.0.0.6:8000", "here": "http://localhost:8000"}
    addresses = [ServerAddress.of(name, url) for name, url in urls.items()]
    assert servers_of([100, 200], addresses, tmp_path) == {100: frozenset({"a"}), 200: frozenset({"b"})}


def test_a_process_that_may_not_be_looked_into_has_no_server(tmp_path: Path) -> None:
    (tmp_path / "100").mkdir()
    (tmp_path / "100" / "stat").write_text("100 (vllm) S 1 1 1")
    assert servers_of([100], [ServerAddress.of("a", "http://localhost:8000")], tmp_path) == {100: frozenset()}
