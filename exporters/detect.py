"""Which frontend is behind a metrics page, from the page alone; and what it is if none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from exporters import documents, exposition
from exporters.documents import Documents
from exporters.findings import Finding, finding
from exporters.router import servers_behind
from exporters.table import Frontend, Json, Over
from exporters.tables import FRONTENDS
from exporters.terms import marks
from exporters.wire import Page, index, local_name, stem

_MAX_FAMILIES_TOLD = 5
_KEPT_PAGES = 4


_SERVED = Json("models", "id", records="data", over=Over.FIRST)
_OWNERS = [f for f in FRONTENDS.values() if f.owner]

UNKNOWN = Frontend(
    name="",
    framework="",
    prefixes=(),
    documents=tuple({f.owner[0].document: f.document(f.owner[0].document) for f in _OWNERS if f.owner}.values()),
    folds={},
    model_label="",
    facts={"owner": tuple(f.owner[0] for f in _OWNERS if f.owner), "model": (_SERVED,)},
    fields=(),
    ignore=(),
)
"""A server of which nobody knows yet what it is: the documents that may tell."""


@dataclass(frozen=True, slots=True)
class Detected:
    """`frontend` without a finding: its engine metrics are there. With one: what it may be, see `is_confirmed`."""

    frontend: Frontend | None
    finding: Finding | None = None


def detect(text: str, content_type: str = "") -> Detected:
    text = text.removeprefix(exposition.BYTE_ORDER_MARK)
    stripped = text.strip()
    if not stripped:
        return Detected(None, finding("empty_body"))
    if stripped[0] in "[{" and _is_json(stripped):
        return Detected(None, finding("json_body", stripped[:80]))
    if stripped[0] == "<" or "text/html" in content_type:
        return Detected(None, finding("html_body", stripped[:80]))
    try:
        regular, _ = exposition.regular(text)
    except exposition.InvalidExposition as error:
        return Detected(None, finding("invalid_exposition", str(error)))
    return _by_marks(regular)


def is_confirmed(frontend: Frontend, side: Documents) -> bool:
    """Whether side documents make sure that it is this frontend, where its page shows no engine metrics.

    Any application may have the page of a server whose statistics are switched off.
    """
    if frontend.owner is None:
        return False
    term, owner = frontend.owner
    return owner in documents.read(term, side).values()


def owner_of(side: Documents) -> Frontend | None:
    """Which frontend it is, by what the documents of `UNKNOWN` or of a frontend say."""
    return next((f for f in FRONTENDS.values() if is_confirmed(f, side)), None)


@dataclass(frozen=True, slots=True)
class Owned:
    """`detail` says what is known of a server that has no metrics page."""

    frontend: Frontend | None
    detail: str


def by_owner(side: Documents) -> Owned:
    frontend = owner_of(side)
    if frontend is not None:
        return Owned(frontend, f"it is {frontend.name}")
    models = documents.read(_SERVED, side)
    told = f"an OpenAI API of {', '.join(map(str, models.values()))} that tells no framework" if models else ""
    return Owned(None, told)


def unconfirmed(frontend: Frontend) -> Finding:
    return finding("no_engine_metrics", f"if it is {frontend.name}, its statistics are switched off")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True  # only JSON nests
    return True


def _by_marks(regular: str) -> Detected:
    """No number of the page plays a part: pages that differ in numbers alone are looked at once."""
    lines = regular.split("\n")
    return _by_keys("\n".join(line if line.startswith("#") else line.rpartition(" ")[0] for line in lines))


@lru_cache(maxsize=_KEPT_PAGES)
def _by_keys(keys: str) -> Detected:
    """`keys`: a regular page without its numbers."""
    lines = keys.split("\n")
    names = dict.fromkeys(re.split("[{ ]", line, maxsplit=1)[0] for line in lines if line and line[0] != "#")
    told = {*names, *exposition.declared_names(lines)}
    pages = {f.name: index(lines, lines, f.prefixes) for f in FRONTENDS.values() if _may_be(f, told)}
    shown = {name: _marks_shown(FRONTENDS[name], page) for name, page in pages.items()}
    best = max(shown, key=lambda name: shown[name], default="")
    if shown.get(best):
        behind = servers_behind(FRONTENDS[best], pages[best])
        return Detected(None, finding("router", f"{best} metrics of {behind}")) if behind else Detected(FRONTENDS[best])
    for name, page in pages.items():
        switched_off = FRONTENDS[name].switched_off
        if switched_off and page.holds(switched_off, ()):
            return Detected(FRONTENDS[name], finding("stats_disabled", f"if it is {name}: others have such pages too"))
    return Detected(None, finding("no_engine_metrics", ", ".join(list(names)[:_MAX_FAMILIES_TOLD])))


def _marks_shown(frontend: Frontend, page: Page) -> int:
    return sum(page.holds((mark,), ()) for mark in marks(frontend))


def _may_be(frontend: Frontend, names: Iterable[str]) -> bool:
    """Whether any name is one by which the frontend may be recognised: without, the page needs no closer look."""
    wanted = {stem(c.partition("{")[0]) for c in (*marks(frontend), *frontend.switched_off)}
    return any(stem(local_name(name, frontend.prefixes)) in wanted for name in names)
