"""Which server runs on which GPU: by the processes on the GPU, then by the configuration.

A process on a GPU belongs to the server whose port it, or a process that it descends from, listens at. It is looked at
from its own network namespace, so a container's server is found by the container's address.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from exporters.gpu.gathered import GpuReading

Address = IPv4Address | IPv6Address

_LISTENING = "0A"
_MOST_ANCESTORS = 64


@dataclass(frozen=True, slots=True)
class ServerAddress:
    name: str
    host: str
    port: int

    @classmethod
    def of(cls, name: str, url: str) -> ServerAddress:
        parts = urlsplit(url)
        return cls(name, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


class _Listening(NamedTuple):
    address: Address
    port: int


def configured(
    gpus: Iterable[GpuReading], wanted: Mapping[str, Sequence[int | str]]
) -> tuple[dict[str, set[str]], list[str]]:
    """Servers by uuid as the configuration names them, and what it names that is not here.

    A number stands for the GPU or, where it is split, for all of its instances; text for the one uuid that is it or
    starts with it.
    """
    found: dict[str, set[str]] = {}
    unknown: list[str] = []
    known = list(gpus)
    for server, entries in wanted.items():
        for entry in entries:
            named = _by_number(known, entry) if isinstance(entry, int) else _by_uuid(known, entry)
            for uuid in named:
                found.setdefault(uuid, set()).add(server)
            if not named:
                unknown.append(f"{server}: {entry}")
    return found, unknown


def _by_number(gpus: Sequence[GpuReading], number: int) -> list[str]:
    split = {gpu.parent for gpu in gpus}
    return [g.uuid for g in gpus if g.gpu.partition(":")[0] == str(number) and g.uuid not in split]


def _by_uuid(gpus: Sequence[GpuReading], text: str) -> list[str]:
    starting = [gpu.uuid for gpu in gpus if gpu.uuid.startswith(text)]
    return [text] if text in starting else starting if len(starting) == 1 else []


def servers_of(
    pids: Iterable[int], servers: Iterable[ServerAddress], proc: Path = Path("/proc")
) -> dict[int, frozenset[str]]:
    """Names of servers by process id. May look names up, which may take long."""
    by_port: dict[int, list[ServerAddress]] = {}
    for server in servers:
        by_port.setdefault(server.port, []).append(server)
    addresses = cache(_addresses)
    found: dict[int, frozenset[str]] = {}
    for pid in pids:
        sockets = [(proc / str(p), s) for p in _chain(proc, pid) for s in _listening(proc / str(p))]
        found[pid] = frozenset(
            server.name
            for folder, listening in sockets
            for server in by_port.get(listening.port, ())
            if _answers(proc, folder, listening.address, addresses(server.host))
        )
    return found


def _chain(proc: Path, pid: int) -> Iterator[int]:
    """The process and those that it descends from, without the first of all."""
    for _ in range(_MOST_ANCESTORS):
        if pid <= 1:
            return
        yield pid
        pid = _parent(proc / str(pid))


def _parent(folder: Path) -> int:
    """0 where it cannot be told. The name in brackets may hold anything."""
    try:
        return int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _listening(folder: Path) -> list[_Listening]:
    inodes = set(_socket_inodes(folder))
    sockets = _sockets(folder) if inodes else {}
    return [sockets[inode] for inode in inodes & sockets.keys()]


def _socket_inodes(folder: Path) -> Iterator[str]:
    """None of a process that this one may not look into."""
    try:
        for descriptor in os.scandir(folder / "fd"):
            target = _link(Path(descriptor.path))
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:
        return


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _sockets(folder: Path) -> dict[str, _Listening]:
    """Listening TCP sockets of the process's network namespace by inode."""
    found: dict[str, _Listening] = {}
    for name in ("tcp", "tcp6"):
        for line in _lines(folder / "net" / name)[1:]:
            columns = line.split()
            if len(columns) > 9 and columns[3] == _LISTENING:
                address, _, port = columns[1].partition(":")
                found[columns[9]] = _Listening(_address(address), int(port, 16))
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _address(text: str) -> Address:
    """The kernel writes words of four bytes in the machine's byte order: little, on all that have such GPUs."""
    raw = bytes.fromhex(text)
    address = ip_address(b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4)))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _addresses(host: str) -> list[Address]:
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [ip_address(str(address[0]).partition("%")[0]) for *_, address in found]


def _answers(proc: Path, folder: Path, bound: Address, asked: list[Address]) -> bool:
    """Whether a server asked at one of these addresses is the socket bound there."""
    local = asked if bound.is_unspecified else [a for a in asked if a == bound]
    return any(_is_local(proc, folder, address) for address in local)


def _is_local(proc: Path, folder: Path, address: Address) -> bool:
    """Whether the address is one of the process's own host or container."""
    if address.is_loopback or address.is_unspecified:
        return _link(folder / "ns" / "net") == _link(proc / "self" / "ns" / "net")
    return address in _own_addresses(folder)


def _own_addresses(folder: Path) -> set[Address]:
    """From the kernel's tables of the process's network namespace."""
    lines = _lines(folder / "net" / "fib_trie")
    own: set[Address] = set()
    for line, after in pairwise(lines):
        if "host LOCAL" in after and "|--" in line:
            own.add(ip_address(line.partition("|--")[2].strip()))
    for line in _lines(folder / "net" / "if_inet6"):
        own.add(ip_address(bytes.fromhex(line.split()[0])))
    return own
