"""What is answered where faults are ordered: GET, POST and DELETE of `/faults`, GET of `/truth`, in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from demo.faults import KINDS, Fault, FaultError, Parameter
from demo.fleet import Fleet
from demo.model import Answer
from demo.told import truth_of

PATH, TRUTH = "/faults", "/truth"
_MOST_DIGITS = 18


def control(fleet: Fleet, method: str, path: str, content_type: str, body: bytes, now: float) -> Answer:
    """Whatever is wrong with a question is said in the answer."""
    path, _, query = path.partition("?")
    path = path.rstrip("/")
    fleet.advance(now)
    try:
        if method in ("GET", "HEAD") and path in ("", PATH):
            return _told(200, listing(fleet))
        if method in ("GET", "HEAD") and path == TRUTH:
            return _told(200, truth_of(fleet, query))
        if method == "POST" and path == PATH:
            return _told(201, [shown(fleet, fault) for fault in fleet.order(_read(content_type, body), now)])
        if method == "DELETE" and path.startswith(f"{PATH}/"):
            return _ended(fleet, path.removeprefix(f"{PATH}/"), now)
    except FaultError as error:
        return _told(422, {"error": str(error)})
    allowed = f"GET {PATH}, POST {PATH}, DELETE {PATH}/NUMBER, GET {TRUTH}"
    return _told(404 if method in ("GET", "HEAD") else 405, {"error": f"{method} {path}: allowed: {allowed}"})


def listing(fleet: Fleet) -> Mapping[str, object]:
    return {
        "faults": [shown(fleet, fault) for fault in fleet.schedule],
        "kinds": {kind.name: _kind(kind.name) for kind in KINDS.values()},
        "targets": fleet.places(),
    }


def shown(fleet: Fleet, fault: Fault) -> Mapping[str, object]:
    told = {name: value for name, value in asdict(fault).items() if name != "values"}
    return {**told, **fault.values, "state": fleet.schedule.state(fault)}


def _kind(name: str) -> Mapping[str, object]:
    kind = KINDS[name]
    parameters = {p.name: f"{p.meaning}: {p.allowed} ({_default(p)})" for p in kind.parameters}
    return {"on": kind.on, "meaning": kind.meaning, "seconds": kind.seconds, "parameters": parameters}


def _default(parameter: Parameter) -> str:
    return "no default" if parameter.default is None else f"default {parameter.default:g}"


def _read(content_type: str, body: bytes) -> object:
    """JSON that says so: what a page elsewhere lets a browser send without asking is not."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise FaultError("Content-Type", content_type, "application/json")
    try:
        return json.loads(body, object_pairs_hook=_object)
    except FaultError:
        raise
    except (ValueError, RecursionError) as error:
        raise FaultError("body", body[:50].decode(errors="replace"), f"JSON ({error})") from None


def _object(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    """Of a name that is given twice nobody knows which value is meant."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise FaultError("body", name, "each name once in an object")
        found[name] = value
    return found


def _ended(fleet: Fleet, number: str, now: float) -> Answer:
    if not number.isdecimal() or len(number) > _MOST_DIGITS:
        raise FaultError("number", number, "the number of a fault")
    fault = fleet.schedule.end(int(number), now)
    fleet.advance(now)
    return _told(200, shown(fleet, fault))


def _told(status: int, value: object) -> Answer:
    return Answer(status, "application/json", json.dumps(value, indent=1).encode() + b"\n")
