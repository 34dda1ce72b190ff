"""Runs services of docker-compose.yml as it says, by podman: all share one network, in which names are loopback."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.compose import Service, seconds
from tests.deploy.stage import Stage
from tests.end_to_end.processes import ROOT

PAUSE_SECONDS = 60
"""For which the machine may stand still, or have other things to do."""
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Stack:
    stage: Stage
    services: Mapping[str, Service]
    images: Mapping[str, str]
    """By service, instead of what the file names."""
    instead: Mapping[str, Path]
    """Other files by those that the compose file mounts."""

    def start(self, service: Service) -> None:
        """As `docker compose up` does: not before those that it waits for, and until its health check says so."""
        entrypoint = [f"--entrypoint={self._json(service.content['entrypoint'])}"] if self._ends(service) else []
        self._podman("run", "--detach", f"--name={service.name}", *self._options(service), *entrypoint,
                     self.images[service.name], *self._command(service))  # fmt: skip
        if self._ends(service):
            self._ended(service.name)
        else:
            self._wait(service)

    def start_again(self, name: str) -> None:
        """One that ends by itself."""
        self._podman("start", name)
        self._ended(name)

    def stop(self, name: str) -> int:
        """The exit status; 137 where it did not end within the time that the file gives it, and the machine more."""
        allowed = int(seconds(self.services[name].content["stop_grace_period"]) + PAUSE_SECONDS)
        self._podman("stop", f"--time={allowed}", name)
        return int(self._podman("inspect", "--format={{.State.ExitCode}}", name))

    def inside(
        self, name: str, *command: str, check: bool = True, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs it in the container's file system and network, as its user and with its environment.

        `podman exec` does not, where this machine is a chroot: the file system that it goes to is the one outside.
        """
        pid = self._podman("inspect", "--format={{.State.Pid}}", name).strip()
        assert pid != "0", f"{name} has ended\n{self.log(name)}"
        process = Path(f"/proc/{pid}")
        uid = user or re.findall(r"^Uid:\s+(\d+)", (process / "status").read_text(), re.MULTILINE)[0]
        environment = (process / "environ").read_text().strip("\0").split("\0")
        enter = ["nsenter", f"--target={pid}", "--mount", "--root", "--wdns=/", "--uts", f"--setuid={uid}"]
        return self.stage.run(*enter, "--", "/usr/bin/env", "-i", *environment, *command, check=check)

    def log(self, name: str) -> str:
        done = self.stage.containers("podman", "logs", name, check=False)
        return done.stdout + done.stderr

    def _podman(self, *arguments: str) -> str:
        return self.stage.containers("podman", *arguments).stdout

    def _ended(self, name: str) -> None:
        assert self._podman("wait", name).strip() == "0", self.log(name)

    def _ends(self, service: Service) -> bool:
        return "service_completed_successfully" in {
            how for other in self.services.values() for name, how in other.waits_for.items() if name == service.name
        }

    @staticmethod
    def _json(words: list[str]) -> str:
        return str(words).replace("'", '"')

    def _command(self, service: Service) -> list[str]:
        return [str(word) for word in service.content.get("command", ())]

    def _options(self, service: Service) -> list[str]:
        content = service.content
        names = [*self.services, *(host.partition(":")[0] for host in content.get("extra_hosts", ()))]
        return [
            "--read-only-tmpfs=false",
            *(["--read-only"] if content["read_only"] else []),
            *(f"--cap-drop={name}" for name in content["cap_drop"]),
            *(f"--security-opt={text.partition(':')[0]}" for text in content["security_opt"]),
            *(f"--{key}={content[key]}" for key in ("user", "uts", "hostname") if key in content),
            *([f"--shm-size={content['shm_size']}"] if "shm_size" in content else []),
            *(f"--env={key}={value}" for key, value in content.get("environment", {}).items()),
            *(f"--add-host={name}:{_HERE}" for name in names),
            *(f"--tmpfs={text}" for text in content.get("tmpfs", ())),
            *(f"--volume={self._source(v.source)}:{v.target}{':ro' if v.read_only else ''}" for v in service.volumes),
            *self._limits(service),
        ]

    @staticmethod
    def _limits(service: Service) -> list[str]:
        limits = service.limits
        return [
            f"--memory={limits['memory']}", f"--cpus={limits['cpus']}", f"--pids-limit={limits['pids']}",
        ]  # fmt: skip

    def _source(self, source: str) -> str:
        if source in self.instead:
            return str(self.instead[source])
        return str(ROOT / source) if source.startswith(".") else source

    def _wait(self, service: Service) -> None:
        until = time.monotonic() + service.time_to_start + PAUSE_SECONDS
        while True:
            check = self.inside(service.name, *service.check, check=False)
            if check.returncode == 0:
                return
            told = f"{service.name}: {check.stdout}{check.stderr}\n{self.log(service.name)}"
            assert time.monotonic() < until, told
            time.sleep(0.5)


@contextmanager
def running(stack: Stack, services: Sequence[Service]) -> Iterator[Stack]:
    """One after the other; nothing is left of them."""
    try:
        for service in services:
            stack.start(service)
        yield stack
    finally:
        stack.stage.containers("podman", "rm", "--all", "--force", "--time=0", check=False)
        stack.stage.containers("podman", "volume", "rm", "--all", "--force", check=False)
