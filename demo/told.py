"""What is told of the truth: of one server, or of all behind one address, in a window of time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from urllib.parse import parse_qsl

from demo.faults import FaultError, one_of
from demo.fleet import Fleet
from demo.truth import Window

_NAMES = ("server", "service", "start", "end")
_USUAL_SECONDS = 300.0


def truth_of(fleet: Fleet, query: str) -> Mapping[str, object]:
    """Raises FaultError."""
    asked = _asked(query)
    window = _window(fleet, asked)
    servers = _servers(fleet, asked)
    told = {
        "start": window.start, "end": window.end, "known_since": fleet.known_since,
        "servers": {name: _summary(fleet, window, [name]) for name in servers},
    }  # fmt: skip
    if len(servers) > 1 and not fleet.service_of(servers[0]).decode:  # else each request is at two servers
        told["service"] = _summary(fleet, window, servers)
    return told


def _asked(query: str) -> Mapping[str, str]:
    found = parse_qsl(query, keep_blank_values=True)
    for name, value in found:
        if name not in _NAMES or sum(other == name for other, _ in found) > 1:
            raise FaultError(name, value, f"{', '.join(_NAMES)}, each once")
    return dict(found)


def _servers(fleet: Fleet, asked: Mapping[str, str]) -> Sequence[str]:
    if ("server" in asked) == ("service" in asked):
        raise FaultError("server", asked.get("server"), "one of `server` and `service`, with a name")
    if "server" in asked:
        return [one_of("server", asked["server"], list(fleet.servers))]
    service = fleet.services[one_of("service", asked["service"], list(fleet.services))]
    return [name for name in (*service.servers, service.decode) if name]


def _window(fleet: Fleet, asked: Mapping[str, str]) -> Window:
    """What was before is forgotten, and what is to come nobody knows."""
    end = _moment(asked, "end", fleet.now, fleet.known_since, fleet.now)
    start = _moment(asked, "start", max(fleet.known_since, end - _USUAL_SECONDS), fleet.known_since, end)
    return Window(start, end)


def _moment(asked: Mapping[str, str], name: str, usual: float, least: float, most: float) -> float:
    if name not in asked:
        return usual
    try:
        moment = float(asked[name])
    except ValueError:
        moment = math.nan
    if not least <= moment <= most:
        raise FaultError(name, asked[name], f"unix seconds from {least} to {most}")
    return moment


def _summary(fleet: Fleet, window: Window, servers: Sequence[str]) -> Mapping[str, object]:
    specs = [fleet.servers[name].spec for name in servers]
    return asdict(fleet.truth.summary(window, {spec.engine(n) for spec in specs for n in range(spec.engines)}))
