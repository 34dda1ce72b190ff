"""The series that an objective is about: engines by group, and the targets that they belong to."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from alerts.slo.spec import Slo
from exporters.schema import IDENTITY, Scope
from monitor.history import tables
from monitor.history.packed import Floats, Ints

Group = tuple[str, ...]
"""Values of the labels that an objective groups by, in their order."""


_C = tables.series.c
_COLUMNS = (
    _C.id, _C.scope, _C.identity, _C.labels, _C.info, _C.first_seen, _C.last_seen,
    *(_C[name] for name in IDENTITY[Scope.ENGINE]),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Members:
    """Numbers of groups and targets are places in `groups` and `target_ids`."""

    groups: tuple[Group, ...]
    engine_ids: Ints
    engine_group: Ints
    engine_target: Ints
    engine_framework: tuple[str, ...]
    engine_frontend: tuple[str, ...]
    """As `llm_server_info` says it."""
    engine_version: tuple[str, ...]
    engine_replica: Ints
    """The same number for engines of one server that differ in theirs alone."""
    engine_seen: Floats
    """First and last, a row for each engine."""
    target_ids: Ints

    def of_framework(self, framework: str) -> NDArray[np.bool_]:
        return np.array([each == framework for each in self.engine_framework], bool)

    def of_frontends(self, frontends: Collection[str]) -> NDArray[np.bool_]:
        """Engines that are of a replica of one of these: some say nothing of themselves."""
        return self._of_replicas(frontend in frontends for frontend in self.engine_frontend)

    def of_releases(self, frontend: str, versions: str) -> NDArray[np.bool_]:
        """The same of a frontend in versions that this regular expression matches as a whole."""
        of = zip(self.engine_frontend, self.engine_version, strict=True)
        return self._of_replicas(f == frontend and re.fullmatch(versions, v) is not None for f, v in of)

    def _of_replicas(self, found: Iterable[bool]) -> NDArray[np.bool_]:
        of = [n for n, is_it in zip(self.engine_replica, found, strict=True) if is_it]
        return np.isin(self.engine_replica, of)


def members(connection: Connection, slo: Slo) -> Members:
    """In order of identity, whatever the ids are."""
    found = connection.execute(select(*_COLUMNS)).mappings()
    known = sorted((dict(row) for row in found), key=lambda row: str(row["identity"]))
    targets = {_place(row): row["id"] for row in known if row["scope"] == Scope.TARGET.value}
    engines = [row for row in known if row["scope"] == Scope.ENGINE.value and _place(row) in targets]
    rows = [row for row in engines if _is_selected(slo, _labels(row))]
    group_of = [_group(slo, _labels(row)) for row in rows]
    groups = sorted(set(group_of))
    places = list(dict.fromkeys(map(_place, rows)))
    return Members(
        groups=tuple(groups),
        engine_ids=_ints(row["id"] for row in rows),
        engine_group=_numbered(group_of, groups),
        engine_target=_numbered(map(_place, rows), places),
        engine_framework=tuple(row["framework"] or "" for row in rows),
        engine_frontend=tuple(row["info"].get("frontend", "") for row in rows),
        engine_version=tuple(row["info"].get("version", "") for row in rows),
        engine_replica=_numbered(map(_replica, rows), list(dict.fromkeys(map(_replica, rows)))),
        engine_seen=np.array([_seen(row) for row in rows], np.float64).reshape(-1, 2),
        target_ids=_ints(targets[place] for place in places),
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _numbered(values: Iterable[Hashable], among: Sequence[Hashable]) -> Ints:
    number = {value: place for place, value in enumerate(among)}
    return _ints(number[value] for value in values)


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["node"], row["server"]


def _replica(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return tuple(row[name] for name in IDENTITY[Scope.ENGINE] if name != "engine")


def _labels(row: Mapping[str, Any]) -> dict[str, str]:
    return {**row["labels"], **{name: row[name] or "" for name in IDENTITY[Scope.ENGINE]}}


def _is_selected(slo: Slo, labels: Mapping[str, str]) -> bool:
    return all(labels.get(name, "") in values for name, values in slo.select.items())


def _group(slo: Slo, labels: Mapping[str, str]) -> Group:
    return tuple(labels.get(name, "") for name in slo.groups)


def _seen(row: Mapping[str, Any]) -> tuple[float, float]:
    first, last = row["first_seen"], row["last_seen"]
    return (-np.inf if first is None else first), (-np.inf if last is None else last)
