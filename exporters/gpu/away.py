"""GPUs that NVML does not give now: which of them are known, and what is said of each, once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exporters.findings import Finding, finding
from exporters.gpu.device import Facts
from exporters.gpu.errors import Code

_LOST = "gpu_lost"
_LONGEST_ADDRESS = 16


@dataclass(frozen=True, slots=True)
class Unopened:
    """A GPU that is there by number and could not be opened; `uuid` where it told that much."""

    index: int
    code: Code
    uuid: str = ""

    @property
    def reason(self) -> str:
        return self.code.finding or "gpu_read_failed"

    def finding(self) -> Finding:
        """For the GPU itself."""
        return finding(self.reason, "" if self.reason == _LOST else self.code.meaning)

    def finding_by_number(self) -> Finding:
        return finding(self.reason, f"GPU {self.index}: {self.code.meaning}")


@dataclass(frozen=True, slots=True)
class Away:
    """`known`: why each is away, by uuid; `unknown`: what is said of those of which only a number is known."""

    known: Mapping[str, Finding]
    unknown: tuple[Finding, ...] = ()

    @property
    def may_come_back(self) -> bool:
        """Starting NVML again may find more."""
        return bool(self.known) or any(found.reason == _LOST for found in self.unknown)


def away(known: Iterable[Facts], here: Sequence[Facts], unopened: Iterable[Unopened]) -> Away:
    """`known` are all GPUs that ever told their uuid, with their last numbers, `here` those that NVML gives now.

    A GPU that fell off the bus keeps its number, or those behind it move up. Numbers follow the order of the bus, so a
    number that cannot be opened is that of a known GPU between the same neighbours, if one is missing there.
    """
    found = {facts.uuid for facts in here}
    missing = {facts.uuid: facts for facts in known if facts.uuid not in found}
    why = {each.uuid: each.finding() for each in unopened if each.uuid}
    left = [facts for uuid, facts in missing.items() if uuid not in why]
    numbers = {facts.index for facts in left}
    unknown: dict[int, Finding] = {}
    # Those whose number is known choose first, so that of two in a row the right one is called unknown.
    for each in sorted((u for u in unopened if not u.uuid), key=lambda u: str(u.index) not in numbers):
        facts = _which(each.index, left, here)
        if facts is None:
            unknown[each.index] = each.finding_by_number()
        else:
            left.remove(facts)
            why[facts.uuid] = each.finding()
    known_away = {uuid: why.get(uuid) or finding(_LOST) for uuid in missing}
    return Away(known_away, tuple(unknown[index] for index in sorted(unknown)))


def _which(index: int, missing: Sequence[Facts], here: Iterable[Facts]) -> Facts | None:
    places = [(int(facts.index), _place(facts)) for facts in here]
    before = max((place for number, place in places if number < index), default="")
    behind = [place for number, place in places if number > index and place]
    fitting = [f for f in missing if not _place(f) or (before < _place(f) and all(_place(f) < b for b in behind))]
    return min(fitting, key=lambda f: f.index != str(index), default=None)


def _place(facts: Facts) -> str:
    """On the bus, in its order; empty where the GPU does not tell. Domains have four digits or more."""
    address = facts.info.get("pci_bus_id", "")
    return address and address.zfill(_LONGEST_ADDRESS)
