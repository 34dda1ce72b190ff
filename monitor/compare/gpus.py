"""What the GPUs of a server are and drew, minute by minute. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.compare.rows import Number, Rows
from monitor.compare.timeline import Timeline
from monitor.evaluate.plausible import counted, plausible
from monitor.history.cells import Columns
from monitor.history.packed import Floats, Ints
from monitor.history.placement import types_of

COLUMNS = ("power_watts_avg", "energy_joules", "increase_seconds")
"""Of GPUs, to be read."""

Gpu = tuple[str, str]
"""Node and uuid."""
Host = tuple[str, str]
"""Node and name of a server, whatever models it serves."""


@dataclass(frozen=True, slots=True)
class ByMinute:
    """Numbers of one GPU: starts of minutes in order, and the number of each."""

    start: Ints
    value: Floats

    def at(self, moments: Ints) -> Floats:
        """NaN where nothing was read."""
        if not len(self.start):
            return np.full(len(moments), np.nan)
        place = np.minimum(np.searchsorted(self.start, moments), len(self.start) - 1)
        found: Floats = np.where(self.start[place] == moments, self.value[place], np.nan)
        return found


def power(rows: Columns, gpus: Sequence[Gpu]) -> dict[Gpu, ByMinute]:
    """Watts by the energy counter, where there is one, else as they were read. `gpus` are by number of series: one that
    changed its number on the node has several."""
    seconds = rows["increase_seconds"]
    by_energy = np.divide(counted(rows["energy_joules"]), seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    watts = np.where(np.isnan(by_energy), plausible(rows["power_watts_avg"]), by_energy)
    found = {}
    for gpu in dict.fromkeys(gpus):
        own = np.isin(rows["series"], [number for number, each in enumerate(gpus) if each == gpu])
        in_order = np.argsort(rows["start"][own], kind="stable")
        found[gpu] = ByMinute(rows["start"][own][in_order], watts[own][in_order])
    return found


@dataclass(frozen=True, slots=True)
class Use:
    """A server that had a GPU in these minutes, which are in order."""

    gpu: Gpu
    start: Ints


def of_servers(
    rows: Rows,
    hosts: Sequence[Host],
    placed: Mapping[Host, Timeline],
    many: Mapping[Gpu, ByMinute],
    powers: Mapping[Gpu, ByMinute],
) -> tuple[Rows, list[str]]:
    """The rows with the time and the energy of GPUs, and the type of GPU of each row.

    `hosts` are by the number of a server. `many` are the users of each GPU: where there are several nobody knows whose
    its time and its energy were.
    """
    numbers, types = rows.numbers.copy(), [""] * len(rows)
    for host, own, told in _placements(rows.server, rows.start, hosts, placed):
        gpus = [(host[0], uuid) for uuid in told]
        start, seconds = rows.start[own], rows.number(Number.SECONDS)[own]
        kind = ", ".join(sorted(set(told.values()) - {""}))
        for row in own.tolist():
            types[row] = kind
        if gpus:
            alone = np.where(np.all([many[gpu].at(start) <= 1 for gpu in gpus], axis=0), seconds, np.nan)
            unknown = np.full(len(own), np.nan)
            numbers[own, Number.GPU_SECONDS] = len(gpus) * alone
            numbers[own, Number.JOULES] = alone * sum(
                powers[gpu].at(start) if gpu in powers else unknown for gpu in gpus
            )
    return Rows(rows.server, rows.start, numbers, rows.phases), types


def _placements(
    server: Ints, start: Ints, hosts: Sequence[Host], placed: Mapping[Host, Timeline]
) -> Iterator[tuple[Host, Ints, Mapping[str, str]]]:
    """Minutes of a server while it was on the same GPUs, and the types of these by uuid."""
    for number, host in enumerate(hosts):
        timeline = placed.get(host)
        own = np.flatnonzero(server == number)
        if timeline is not None and len(own):
            value = timeline.at(start[own])
            for each in np.unique(value).tolist():
                yield host, own[value == each], types_of(timeline.values[each])


def uses(server: Ints, start: Ints, hosts: Sequence[Host], placed: Mapping[Host, Timeline]) -> Iterator[Use]:
    """Of minutes of servers, by the number of each."""
    for host, own, told in _placements(server, start, hosts, placed):
        yield from (Use((host[0], uuid), start[own]) for uuid in told)


def users(of: Iterable[Use]) -> Mapping[Gpu, ByMinute]:
    """How many have each GPU, minute by minute."""
    found: defaultdict[Gpu, list[Ints]] = defaultdict(list)
    for use in of:
        found[use.gpu].append(use.start)
    counts = {gpu: np.unique(np.concatenate(starts), return_counts=True) for gpu, starts in found.items()}
    return {gpu: ByMinute(start, many.astype(np.float64)) for gpu, (start, many) in counts.items()}
