"""Values out of JSON documents, as a table's `Json` terms ask for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from exporters.table import Json, Over

Documents = Mapping[str, object]
"""Parsed JSON by document name; for a document whose form is STATUS, the HTTP status."""

JsonValue = float | str


def parse(text: str) -> object:
    """The document's value. A JSON string that holds JSON is decoded again. Raises ValueError where it is no JSON."""
    value = json.loads(text)
    for _ in range(2):
        if not isinstance(value, str):
            break
        value = json.loads(value)
    return value


def read(term: Json, documents: Documents) -> dict[str, JsonValue]:
    """Value by engine number ("" where the document does not tell one); empty where it is not there."""
    found: dict[str, JsonValue] = {}
    for record in _records(term, documents.get(term.document)):
        value = _value(term, at(record, term.path))
        if value is None:
            continue
        engine = _text(at(record, term.engine)) if term.engine else ""
        before = found.get(engine)
        if term.over is Over.SUM and isinstance(before, float) and isinstance(value, float):
            found[engine] = before + value
        elif before is None or term.over is not Over.FIRST:
            found[engine] = value
    return found


def _records(term: Json, document: object) -> list[object]:
    holder = at(document, term.records) if term.records else document
    records = holder if isinstance(holder, list) else [] if holder is None else [holder]
    return [r for r in records if all(_has(r, path, wanted) for path, wanted in term.where.items())]


def _has(record: object, path: str, wanted: object) -> bool:
    return at(record, path) == wanted


def at(value: object, path: str) -> object:
    """What lies at a dotted path of objects; None where a step is missing."""
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _value(term: Json, raw: object) -> JsonValue | None:
    if isinstance(raw, str) and term.match:
        found = re.search(term.match, raw)
        raw = found[1] if found else None
    elif term.match and raw is not None:
        return None
    if raw is None or isinstance(raw, dict | list):
        return None
    text = _text(raw)
    if term.values:
        return term.values.get(text)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return text
    return float(raw) * term.scale


def _text(raw: object) -> str:
    if isinstance(raw, float) and raw.is_integer():
        return str(int(raw))
    return "" if raw is None else str(raw)
