"""What docker-compose.yml says, as `docker compose` would read it: merged, and with variables filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.end_to_end.processes import ROOT

FILE = ROOT / "docker-compose.yml"
HOST_NETWORK = ROOT / "deploy" / "compose" / "host-network.yml"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_UNITS = {"s": 1.0, "m": 60.0}


class _Loader(yaml.SafeLoader):
    """Knows the tag that takes a setting of the other file back."""


_Loader.add_constructor("!reset", lambda _loader, _node: None)


def document(path: Path = FILE) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    return found


def variables(path: Path = FILE) -> dict[str, str]:
    """Defaults by name. Raises ValueError where one has several."""
    found: dict[str, str] = {}
    for name, default in _VARIABLE.findall(path.read_text(encoding="utf-8")):
        if found.setdefault(name, default) != default:
            raise ValueError(f"{name} is {found[name]!r} here and {default!r} there")
    return found


def filled(content: Any, given: Mapping[str, str]) -> Any:
    """With `given` instead of the defaults."""
    if isinstance(content, dict):
        return {key: filled(value, given) for key, value in content.items()}
    if isinstance(content, list):
        return [filled(value, given) for value in content]
    if isinstance(content, str):
        return _VARIABLE.sub(lambda match: given.get(match[1]) or match[2], content)
    return content


@dataclass(frozen=True)
class Volume:
    source: str
    """A path that begins with a dot or a slash, or the name of a volume."""
    target: str
    read_only: bool

    @property
    def is_named(self) -> bool:
        return not self.source.startswith((".", "/"))


@dataclass(frozen=True)
class Service:
    name: str
    content: Mapping[str, Any]

    @property
    def volumes(self) -> list[Volume]:
        parts = [text.split(":") for text in self.content.get("volumes", ())]
        return [Volume(source, target, options == ["ro"]) for source, target, *options in parts]

    @property
    def published(self) -> list[tuple[str, str, int]]:
        """Address, port of the host, port of the container."""
        ports = [text.split(":") for text in self.content.get("ports", ())]
        return [(address, port, int(inner)) for address, port, inner in ports]

    @property
    def waits_for(self) -> dict[str, str]:
        """The condition by the name of the other service."""
        return {name: of["condition"] for name, of in self.content.get("depends_on", {}).items()}

    @property
    def profiles(self) -> list[str]:
        return list(self.content.get("profiles", ()))

    @property
    def check(self) -> list[str]:
        """The command of the health check; empty where there is none."""
        test: list[str] = self.content.get("healthcheck", {}).get("test", ["NONE"])
        kind, *command = test
        assert kind in ("CMD", "NONE"), "no shell: images need not have one"
        return command

    @property
    def time_to_start(self) -> float:
        """Seconds until the health check counts as failed."""
        check = self.content["healthcheck"]
        return seconds(check["start_period"]) + int(check["retries"]) * seconds(check["interval"])

    @property
    def limits(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.content["deploy"]["resources"]["limits"]
        return found


def seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]]


def services(given: Mapping[str, str] | None = None, path: Path = FILE) -> dict[str, Service]:
    content = filled(document(path), given or {})
    return {name: Service(name, of) for name, of in content["services"].items()}


def in_order(of: Mapping[str, Service], without: Sequence[str] = ()) -> list[Service]:
    """Those of no profile, each behind those that it waits for."""
    left = [s for s in of.values() if not s.profiles and s.name not in without]
    found: list[Service] = []
    while left:
        ready = [s for s in left if s.waits_for.keys() <= {*without, *(f.name for f in found)}]
        assert ready, f"these wait for each other: {[s.name for s in left]}"
        found += ready
        left = [s for s in left if s not in ready]
    return found
