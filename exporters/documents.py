"""Values out of JSON documents, as a table's `Json` terms ask for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from exporters.table import Frontend, Json, Over, Prefer
from exporters.terms import terms

Documents = Mapping[str, object]
"""Parsed JSON by document name; for a document whose form is STATUS, what the server says of its health."""

JsonValue = float | str


def parse(text: str) -> object:
    """The document's value. A JSON string that holds JSON is decoded again. Raises ValueError where it is no JSON."""
    value: object = text
    for _ in range(3):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None
    return value


def keep(frontend: Frontend, document: str, parsed: object) -> object:
    """`parsed` without what the table does not read: server documents hold environment and paths that are not ours."""
    patterns: dict[str, list[str]] = {}
    for term in terms(frontend):
        if isinstance(term, Json) and term.document == document:
            prefix = f"{term.records}." if term.records else ""
            for path in (term.path, *filter(None, (term.engine, *term.where))):
                whole = (prefix + path).rstrip(".")
                patterns.setdefault(whole, []).append(term.match if path == term.path else "")
    return _prune(parsed, [(path.split(".") if path else [], found) for path, found in patterns.items()])


def _prune(value: object, wanted: list[tuple[list[str], list[str]]]) -> object:
    """`wanted` are paths with the patterns that are read there; an empty pattern reads the whole value."""
    if isinstance(value, list):
        return [None if isinstance(item, list) else _prune(item, wanted) for item in value]
    if isinstance(value, dict):
        inner: dict[str, list[tuple[list[str], list[str]]]] = {}
        for path, found in wanted:
            if path:
                inner.setdefault(path[0], []).append((path[1:], found))
        return {k: _prune(v, inner[k]) for k, v in value.items() if k in inner}
    patterns = [p for path, found in wanted if not path for p in found]
    if isinstance(value, str) and patterns and all(patterns):
        return ", ".join(m[0] for p in patterns if (m := re.search(p, value)))
    return value if patterns else None


class Memory:
    """Reads terms again and again: sums of records that are read once go on from where they were."""

    def __init__(self, prefer: Mapping[str, str] | None = None) -> None:
        """`prefer`: the value that the configuration names for a role of `Prefer`."""
        self._prefer = prefer or {}
        self._kept: dict[int, dict[str, JsonValue]] = {}
        self._seen: dict[int, dict[str, JsonValue]] = {}
        """Each term's newest values, whether the last reading brought any or not."""

    def read(self, term: Json, documents: Documents) -> dict[str, JsonValue]:
        if documents.get(term.document) is None:
            return {}
        seen, kept = self._seen.setdefault(id(term), {}), self._kept.setdefault(id(term), {})
        if term.over is Over.RISE:
            for engine, total in _values(term, documents, self._prefer):
                kept[engine] = _added(kept.get(engine), _rise(seen.get(engine), total))
                seen[engine] = total
            return dict(kept)
        found = read(term, documents, self._prefer)
        if term.over is Over.SUM:
            kept |= {engine: _added(kept.get(engine), value) for engine, value in found.items()}
            return dict(kept)
        seen |= found
        if term.over is Over.HELD:
            return dict(seen)
        return dict.fromkeys(seen, term.idle) if not found and term.idle is not None else found


def read(term: Json, documents: Documents, prefer: Mapping[str, str] | None = None) -> dict[str, JsonValue]:
    """Value by engine number ("" where the document does not tell one); empty where it is not there."""
    found: dict[str, JsonValue] = {}
    for engine, value in _values(term, documents, prefer):
        if term.over in (Over.SUM, Over.PARTS):
            found[engine] = _added(found.get(engine), value)
        elif term.over is not Over.FIRST or engine not in found:
            found[engine] = value
    return found


def _values(term: Json, documents: Documents, prefer: Mapping[str, str] | None) -> Iterator[tuple[str, JsonValue]]:
    """With the engine's number, record by record."""
    for record in _records(term, documents.get(term.document), prefer):
        value = _value(term, at(record, term.path))
        if value is not None:
            yield _scalar_text(at(record, term.engine)) if term.engine else "", value


def _added(before: JsonValue | None, value: JsonValue) -> JsonValue:
    return before + value if isinstance(before, float) and isinstance(value, float) else value


def _rise(before: JsonValue | None, value: JsonValue) -> JsonValue:
    """By how much a total grew; one that fell began anew, and what lies before the first one is not ours."""
    if before is None:
        return 0.0
    if isinstance(before, float) and isinstance(value, float) and before <= value:
        return value - before
    return value


def _records(term: Json, document: object, prefer: Mapping[str, str] | None) -> list[object]:
    holder = at(document, term.records) if term.records else document
    records = holder if isinstance(holder, list) else [] if holder is None else [holder]
    for path, wanted in term.where.items():
        chosen: tuple[object, ...] = (wanted,)
        if isinstance(wanted, Prefer):
            chosen = wanted.among({_scalar_text(at(r, path)) for r in records}, prefer)
        records = [r for r in records if at(r, path) in chosen]
    return records


def at(value: object, path: str) -> object:
    """What lies at a dotted path of objects, the value itself at the empty path; None where a step is missing."""
    for step in path.split(".") if path else ():
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _value(term: Json, raw: object) -> JsonValue | None:
    if term.match:
        found = re.search(term.match, raw) if isinstance(raw, str) else None
        raw = found[1] if found else None
    if raw is None or isinstance(raw, dict | list):
        return None
    text = _scalar_text(raw)
    if term.values:
        return term.values.get(text)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return text
    try:
        number = float(raw) * term.scale
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _scalar_text(raw: object) -> str:
    """As labels show it. A lone surrogate, which JSON can carry and UTF-8 cannot, becomes `?`."""
    if raw is None or isinstance(raw, dict | list):
        return ""
    shown = int(raw) if isinstance(raw, float) and raw.is_integer() else raw
    return str(shown).encode("utf-8", "replace").decode()
