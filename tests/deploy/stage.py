"""A place in which containers run wherever root may make namespaces: on a machine, in a container, in a chroot.

It has its own mounts, so that `/` is a mount point (runc and buildah want that, and in a chroot it is none), control
groups are there, and images lie in memory; and its own network with nothing but loopback, so that every port is free.
What runs there knows the same paths as outside.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.end_to_end.processes import until
from tests.services import require

_MAKE = """\
set -e
mount --make-rprivate / 2>/dev/null || true
mount --rbind / "$1/root"
cd "$1/root"
mountpoint -q ./proc || mount -t proc proc ./proc
mountpoint -q ./sys || mount -t sysfs sysfs ./sys
if ! mountpoint -q ./sys/fs/cgroup; then
  if grep -q '^[1-9]' /proc/self/cgroup; then
    mount -t tmpfs -o mode=755 cgroup ./sys/fs/cgroup
    sed -n 's/^[1-9][0-9]*:\\([^:]*\\):.*/\\1/p' /proc/self/cgroup | while read -r of; do
      mkdir "./sys/fs/cgroup/${of#name=}"
      case $of in *=*) of=none,$of ;; esac
      mount -t cgroup -o "$of" cgroup "./sys/fs/cgroup/${of#*=}"
    done
  else
    mount -t cgroup2 cgroup2 ./sys/fs/cgroup
  fi
fi
mount -t tmpfs -o mode=755 images ".$2"
exec chroot . sh -c 'touch "$1/ready"; exec sleep infinity' _ "$2"
"""
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "{work}/libpod"
"""
_NEWNET = 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


class Stage:
    def __init__(self, work: Path, process: subprocess.Popen[bytes]) -> None:
        self.work = work
        """In memory, and seen by what runs here; from outside it is `seen`."""
        self.seen = Path(f"/proc/{process.pid}/root{work}")
        self._enter = ["nsenter", f"--target={process.pid}", "--mount", "--root", f"--wdns={work}"]
        self._network = Path(f"/proc/{process.pid}/ns/net")
        settings = self.seen / "containers.conf"
        settings.write_text(_SETTINGS.format(work=work))
        (self.seen / "tmp").mkdir()
        self._environment = {
            **os.environ, "CONTAINERS_CONF": str(work / "containers.conf"), "TMPDIR": str(work / "tmp"),
        }  # fmt: skip

    def run(
        self, *command: str, network: bool = True, check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """In the network of here, or else in the machine's. Where the command fails, the error has its words."""
        inside = [*self._enter, *(["--net"] if network else []), "--", *command]
        done = subprocess.run(
            inside, env=self._environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done

    def containers(
        self, program: str, *arguments: str, network: bool = True, check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """podman or buildah."""
        storage = [f"--root={self.work}/storage", f"--runroot={self.work}/run", "--storage-driver=overlay"]
        return self.run(require(program), *storage, *arguments, network=network, check=check, timeout=timeout)

    @contextmanager
    def network(self) -> Iterator[None]:
        """This thread is in the network of here: what it opens there stays there."""
        with Path("/proc/thread-self/ns/net").open() as outside, self._network.open() as inside:
            _enter(inside.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())


@contextmanager
def stage() -> Iterator[Stage]:
    _need_root()
    folder = Path(tempfile.mkdtemp(prefix="iw-"))  # podman refuses paths of more than 50 characters
    work = folder / "work"
    for path in (work, folder / "root"):
        path.mkdir()
    command = ["unshare", "--mount", "--net", "--propagation=unchanged", "sh", "-c", _MAKE, "_", str(folder), str(work)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        made = Stage(work, _ready(process, work))
        _loopback_up(made)
        yield made
        made.containers("podman", "rm", "--all", "--force", "--time=0", check=False)
        groups = ["-depth", "-type", "d", "-path", "*/libpod_parent*"]
        made.run("find", "/sys/fs/cgroup", *groups, "-exec", "rmdir", "{}", "+", check=False)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


def _need_root() -> None:
    if os.geteuid() != 0:
        _cannot("only root may make the namespaces that they need")


def _cannot(why: str) -> NoReturn:
    message = f"*** no containers can be run here: {why}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def _ready(process: subprocess.Popen[bytes], work: Path) -> subprocess.Popen[bytes]:
    def looked() -> bool:
        assert process.stderr is not None
        if process.poll() is not None:
            _cannot(process.stderr.read().decode())
        return Path(f"/proc/{process.pid}/root{work}/ready").exists()

    until(looked)
    return process


def _loopback_up(made: Stage) -> None:
    with made.network(), socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "could not enter a network")
