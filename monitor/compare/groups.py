"""Which group each minute belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.compare.asked import BY_VERSION, Asked, By
from monitor.compare.model import LEAST_MINUTES, Group
from monitor.compare.observed import Named, Observed
from monitor.compare.rows import MINUTE, Flags
from monitor.history.packed import Ints

SIDES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Grouped:
    """`of` is by row; -1 belongs to none."""

    groups: tuple[Group, ...]
    of: Ints
    without_change: tuple[Group, ...] = ()
    """Groups of which there is nothing before or nothing after."""


def grouped(seen: Observed, asked: Asked) -> Grouped:
    plain = _plain(seen, asked.by)
    if asked.split is None:
        return plain
    if asked.split == BY_VERSION:
        return _split(plain, _by_version(seen, plain), seen.version)
    return _split(plain, _by_moment(seen.rows.start, float(asked.split)), None)


def _plain(seen: Observed, by: By | None) -> Grouped:
    version = seen.version.of if by is By.VERSION else np.zeros_like(seen.version.of)
    keys = np.stack([seen.rows.server, seen.gpu.of, version], axis=1)
    different, number = np.unique(keys, axis=0, return_inverse=True)
    groups: dict[Group, int] = {}
    of_key = []
    for server, gpu, release in different.tolist():
        one = seen.servers[server]
        group = Group(one.framework, one.model, seen.gpu.names[gpu], one.role, simulated=one.simulated)
        if by is By.VERSION:
            group = replace(group, version=seen.version.names[release])
        elif by is By.SERVER:
            group = replace(group, server=f"{one.node}/{one.server}")
        of_key.append(groups.setdefault(group, len(groups)))
    return Grouped(tuple(groups), np.array(of_key, np.int64)[number.reshape(-1)])


def _by_moment(start: Ints, moment: float) -> Ints:
    """Numbers of sides; the minute in which the moment lies is on neither."""
    found: Ints = np.where(start + MINUTE <= moment, 0, np.where(start >= moment, 1, -1))
    return found


def _by_version(seen: Observed, plain: Grouped) -> Ints:
    """In each group the release that came last, and the one before it. Others are on neither side."""
    sides = np.full(len(plain.of), -1, np.int64)
    known = np.flatnonzero([name != "" for name in seen.version.names])
    for group in range(len(plain.groups)):
        own, releases = _newest_change(seen, (plain.of == group) & np.isin(seen.version.of, known))
        for side, version in enumerate(releases):
            sides[own & (seen.version.of == version)] = side
    return sides


def _newest_change(seen: Observed, own: Flags) -> tuple[Flags, Sequence[int]]:
    """Rows of the servers that changed, and both releases; without servers that did, those of what came in the place
    of others: releases that are there from the start are side by side, and none is before another."""
    changes = {s: _first_seen(seen, own & (seen.rows.server == s)) for s in set(seen.rows.server[own].tolist())}
    changed = {server: found for server, found in changes.items() if len(found) > 1}
    if changed:
        pair = [release for _, release in max(changed.values(), key=lambda found: found[-1])[-2:]]
        both = [server for server, found in changed.items() if set(pair) <= {release for _, release in found}]
        return own & np.isin(seen.rows.server, both), pair
    found = _first_seen(seen, own)[-2:]
    came = len(found) > 1 and found[1][0] - found[0][0] >= LEAST_MINUTES * MINUTE
    return own, [release for _, release in found] if came else []


def _first_seen(seen: Observed, own: Flags) -> list[tuple[int, int]]:
    """When each release was seen first, and its number, in order of time."""
    releases = set(seen.version.of[own].tolist())
    return sorted((int(seen.rows.start[own & (seen.version.of == each)].min()), each) for each in releases)


def _split(plain: Grouped, sides: Ints, versions: Named | None) -> Grouped:
    """Each group into what was before and what after; groups with only one of both are none."""
    groups: list[Group] = []
    of, without = np.full(len(plain.of), -1, np.int64), []
    for number, group in enumerate(plain.groups):
        own = [(plain.of == number) & (sides == side) for side in range(len(SIDES))]
        if not all(rows.any() for rows in own):
            without.append(group)
            continue
        for rows, side in zip(own, SIDES, strict=True):
            version = group.version if versions is None else versions.names[versions.of[rows][0]]
            of[rows] = len(groups)
            groups.append(replace(group, side=side, version=version))
    return Grouped(tuple(groups), of, tuple(without))
