"""Which GPUs a server runs on, told by those of its node: kept with the server, and its changes as events of it.

GPUs and servers are read apart, so a change is believed when two readings in a row say the same: a server that starts
takes its GPUs one after the other. That no GPU names the server is not known to be a change, and a GPU that is lost
stays with the servers that ran on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from exporters.gpu.observation import GpuObservation
from exporters.schema import Scope
from monitor.history.minutes import Event, State
from monitor.history.rows import scope_of

_SEPARATOR = ", "
_CANDIDATE = "gpus_candidate"


@dataclass(frozen=True, slots=True)
class Placement:
    """Of one server at one moment."""

    gpus: frozenset[str]
    """uuid and name of each."""
    lost: frozenset[str]
    """The uuids of the node's GPUs that do not answer: whether it runs on them is not known."""


def placements(gpus: Iterable[GpuObservation]) -> dict[str, Placement]:
    """By name of the server, of the GPUs of one node."""
    told = list(gpus)
    lost = frozenset(gpu.uuid for gpu in told if not gpu.up)
    servers = sorted({server for gpu in told for server in gpu.servers})
    return {server: _placement([gpu for gpu in told if server in gpu.servers], lost) for server in servers}


def _placement(own: Iterable[GpuObservation], lost: frozenset[str]) -> Placement:
    return Placement(frozenset(f"{gpu.uuid} {_type(gpu)}".strip() for gpu in own), lost)


def _type(gpu: GpuObservation) -> str:
    """An instance is of another type than the whole GPU; its name does not always say so."""
    name, profile = gpu.info.get("name", ""), gpu.info.get("mig_profile", "")
    return f"{name} MIG {profile}".strip() if profile not in name else name


def place(state: State, at: float, placement: Placement) -> tuple[Event, ...]:
    """Takes it into the state of the server, which was observed before."""
    before = _split(state.facts.get("gpus", ""))
    unknown = placement.lost - _uuids(placement.gpus)
    now = sorted(placement.gpus | {entry for entry in before if _uuid(entry) in unknown})
    told, candidate = _SEPARATOR.join(now), state.facts.get(_CANDIDATE)
    of = next((each for each in state.read if scope_of(each) is Scope.TARGET), None)
    state.facts[_CANDIDATE] = told
    if of is None or told != candidate:
        return ()
    event = Event(of, at, "gpus", state.facts.get("gpus"), told)
    state.facts["gpus"] = told
    state.facts["gpu"] = _SEPARATOR.join(sorted({kind for entry in now if (kind := entry.partition(" ")[2])}))
    return (event,) if event.before is not None and _uuids(before) != _uuids(now) else ()


def types_of(text: str) -> dict[str, str]:
    """The type of each GPU, by uuid, of what `gpus` says among facts and in events."""
    parts = (entry.partition(" ") for entry in _split(text))
    return {uuid: kind for uuid, _, kind in parts}


def _split(text: str) -> list[str]:
    return text.split(_SEPARATOR) if text else []


def _uuid(entry: str) -> str:
    return entry.partition(" ")[0]


def _uuids(entries: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_uuid, entries))
