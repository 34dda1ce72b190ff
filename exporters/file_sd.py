"""Servers named in Prometheus-style target files: lists of `{targets: [...], labels: {...}}`, re-read when they change.

A file that is broken keeps its last good targets and has a problem. `__scheme__` and `__metrics_path__` mean what they
mean to Prometheus, `__frontend__` and `__role__` set the keys of the same name; other `__` labels are dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from exporters.address import masked
from exporters.config import Server
from exporters.loader import ConfigError, Problem, Section, Text, parse_yaml, path_of, problems_of, read_text

_SETTINGS = {"__metrics_path__": "metrics_path", "__frontend__": "frontend", "__role__": "role"}

Stamp = tuple[int, int, int]


class _Group(Section):
    targets: tuple[Text, ...]
    labels: Mapping[str, str] = Field(default={})


_GROUPS = TypeAdapter(list[_Group])


@dataclass(frozen=True, slots=True)
class _File:
    stamp: Stamp | None
    servers: tuple[Server, ...] = ()
    problems: tuple[str, ...] = ()


class TargetFiles:
    def __init__(self, patterns: Iterable[Path]) -> None:
        """`*` is allowed in the last part of a pattern."""
        self.patterns = tuple(patterns)
        self._files: dict[Path, _File] = {}

    @property
    def servers(self) -> list[Server]:
        return [s for file in self._files.values() for s in file.servers]

    @property
    def problems(self) -> list[str]:
        return [p for file in self._files.values() for p in file.problems]

    def refresh(self) -> bool:
        """Reads what changed since the last time; whether anything did."""
        before = self._files
        self._files = {path: _refreshed(path, before.get(path)) for path in self._paths()}
        return self._files != before

    def _paths(self) -> list[Path]:
        found: dict[Path, None] = {}
        for pattern in self.patterns:
            matches = sorted(pattern.parent.glob(pattern.name)) if "*" in pattern.name else [pattern]
            found.update(dict.fromkeys(matches))
        return list(found)


def _refreshed(path: Path, before: _File | None) -> _File:
    stamp = _stamp(path)
    if before is not None and before.stamp == stamp:
        return before
    try:
        return _File(stamp, tuple(read(path)))
    except ConfigError as error:
        return _File(stamp, before.servers if before else (), error.problems)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def read(path: Path) -> list[Server]:
    """Raises ConfigError with everything that is wrong."""
    value, problems = _parse(path, read_text(path))
    servers: list[Server] = []
    try:
        groups = _GROUPS.validate_python(value)
    except ValidationError as error:
        problems += problems_of(error, _Group)
    else:
        for index, group in enumerate(groups):
            servers += _servers(f"[{index}]", group, problems)
    if problems:
        raise ConfigError(dict.fromkeys(p.line(str(path)) for p in problems))
    return servers


def _parse(path: Path, text: str) -> tuple[object, list[Problem]]:
    if path.suffix != ".json":
        value, problems = parse_yaml(text, str(path))
        return [] if value is None else value, problems
    return _parse_json(path, text)


def _parse_json(path: Path, text: str) -> tuple[object, list[Problem]]:
    problems: list[Problem] = []

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        counts = Counter(key for key, _ in pairs)
        problems.extend(Problem("", f"`{masked(key)}`", "duplicate key") for key, n in counts.items() if n > 1)
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=mapping), problems
    except RecursionError as error:
        raise ConfigError([f"{path}: nested too deeply: allowed: JSON"]) from error
    except ValueError as error:
        raise ConfigError([f"{path}: {error}: allowed: JSON"]) from error


def _servers(path: str, group: _Group, problems: list[Problem]) -> list[Server]:
    scheme = group.labels.get("__scheme__", "http")
    settings = {key: group.labels[label] for label, key in _SETTINGS.items() if label in group.labels}
    labels = {k: v for k, v in group.labels.items() if not k.startswith("__")}
    made = []
    for index, target in enumerate(group.targets):
        url = target if "://" in target else f"{scheme}://{target}"
        try:
            made.append(Server.model_validate({"url": url, "labels": labels, **settings}))
        except ValidationError as error:
            for p in problems_of(error, Server):
                place = f"{path}.targets[{index}]" if p.path == "url" else path_of([f"{path}.{p.path}"])
                problems.append(Problem(place, p.value, p.allowed))
    return made
