"""What a reader of a comparison must know to read it right. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.compare.groups import Grouped
from monitor.compare.model import Cell, Comparison, Group, Place, Workload
from monitor.compare.observed import Observed
from monitor.compare.windows import DURATIONS

_UNLIKE_BY = 1.25
"""Mean lengths that differ by more are told."""
_UNLIKE_SHARES = 0.1
"""So are shares."""
_MIXED_BY = 0.02
"""Of a GPU: so much is for want of digits."""


def notes(
    told: Comparison, seen: Observed, groups: Grouped, windows: Mapping[str, int], lost: Sequence[Place]
) -> Comparison:
    """`windows` are minutes of a window by frontend, where they are more than one; `lost` is where no lengths match."""
    found = [
        *_of_time(told, seen),
        *_of_changes(groups, told.split),
        *_of_windows(windows),
        *_of_roles(groups.groups),
        *_of_gpus(groups.groups),
        *_of_lengths(lost),
        *_of_workloads(told),
        *_of_sizes(told),
    ]
    return replace(told, notes=tuple(found))


def name_of(group: Group) -> str:
    """As short as it is clear beside others with the same model, type of GPU and role."""
    who = group.framework or "unknown framework"
    side, tool = group.side and f"({group.side})", group.tool and f"[{group.tool}]"
    parts = who, group.server, group.version, side, tool, "(simulated)" if group.simulated else ""
    return " ".join(filter(None, parts))


def _of_time(told: Comparison, seen: Observed) -> Iterator[str]:
    if seen.kept_since > told.since:
        yield "Minutes of a part of this time are not kept any more; hours cannot be sorted by concurrency."


def _of_changes(groups: Grouped, split: str) -> Iterator[str]:
    if groups.without_change:
        what = "release" if split == "version" else "side of that moment"
        names = ", ".join(sorted({f"{name_of(g)} {g.model}" for g in groups.without_change}))
        yield f"Minutes of one {what} only, so left out: {names}."


def _of_windows(windows: Mapping[str, int]) -> Iterator[str]:
    for frontend, minutes in sorted(windows.items()):
        yield (
            f"{frontend} counts tokens when a request finishes: its minutes are taken together in windows of "
            f"{minutes} at a steady concurrency, {DURATIONS} times as long as its longest requests (P99)."
        )


def _of_roles(groups: Sequence[Group]) -> Iterator[str]:
    roles = sorted({group.role for group in groups} - {"unified"})
    if roles:
        yield (
            f"Servers with the role {' or '.join(roles)} stand by themselves: a request passes through both, and is "
            "not counted twice."
        )


def _of_gpus(groups: Sequence[Group]) -> Iterator[str]:
    if any(not group.gpu for group in groups):
        yield "The type of GPU of some servers is not known: they are compared as if it were one type of its own."


@dataclass(frozen=True, slots=True)
class _Trait:
    name: str
    of: Callable[[Workload], float | None]
    is_share: bool


_TRAITS = (
    _Trait("prompt tokens", lambda w: w.prompt_tokens, is_share=False),
    _Trait("output tokens", lambda w: w.generation_tokens, is_share=False),
    _Trait("prefix hits", lambda w: w.hit_ratio, is_share=True),
    _Trait("aborted requests", lambda w: w.abort_ratio, is_share=True),
    _Trait("GPUs of a server", lambda w: w.gpus, is_share=False),
)


def side_by_side(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Those that are compared with each other."""
    found: defaultdict[Place, list[Cell]] = defaultdict(list)
    for each in cells:
        found[Place.of(each.group, each.band)].append(each)
    return list(found.values())


def _of_lengths(lost: Sequence[Place]) -> Iterator[str]:
    for place in lost:
        yield (
            f"No minutes of the compared have mean lengths in a common range, {place.model} at about "
            f"{place.band.at_once}: their workloads are too unlike."
        )


def _of_workloads(told: Comparison) -> Iterator[str]:
    for cells in side_by_side(told.told):
        for trait in _TRAITS:
            known = [(value, each) for each in cells if (value := trait.of(each.workload)) is not None]
            if len(known) > 1 and _is_unlike(trait, [value for value, _ in known]):
                names = ", ".join(f"{name_of(each.group)} {_said(trait, value)}" for value, each in known)
                where = f"{cells[0].group.model} at about {cells[0].band.at_once}"
                yield f"Workloads differ, {where}: {trait.name}: {names}."


def _of_sizes(told: Comparison) -> Iterator[str]:
    for each in told.told:
        gpus = each.workload.gpus
        if gpus is not None and abs(gpus - round(gpus)) > _MIXED_BY:
            what = f"{each.group.model} at about {each.band.at_once}: {name_of(each.group)}"
            yield f"Servers of different sizes are taken together, {what}: {gpus:.2g} GPUs on average."


def _is_unlike(trait: _Trait, values: Sequence[float]) -> bool:
    low, high = min(values), max(values)
    return high - low > _UNLIKE_SHARES if trait.is_share else high > _UNLIKE_BY * low


def _said(trait: _Trait, value: float) -> str:
    return f"{value * 100:.0f} %" if trait.is_share else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
