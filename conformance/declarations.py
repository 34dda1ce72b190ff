"""The metrics that a wheel's source declares: calls of the client library's classes, and what could not be followed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from conformance.scopes import UNKNOWN, Module, Scope, Sources
from conformance.values import Kind, Values
from exporters.wire import stem

_NOT_SHOWN = "the source does not show the whole name here"
_NAMED_OTHERWISE = {"namespace", "subsystem", "unit", None}
"""Arguments that make up the name too; None is `**arguments`."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Family:
    """`name` as on the wire. Labels and bounds are None where the source does not show all of them.

    `kind` is None where the name stands in the source and no call that declares it could be followed.
    """

    name: str
    kind: Kind | None
    place: Place
    labels: tuple[str, ...] | None = None
    bounds: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A declaration whose name is not shown; `name` has UNKNOWN in place of the hidden part."""

    place: Place
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Declared:
    files: int
    """Python files of the wheel, tests left out."""
    families: tuple[Family, ...]
    unresolved: tuple[Unresolved, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    node: ast.Call
    scope: Scope
    kinds: set[Kind]


def declared(sources: Sources, paths: Iterable[str], prefixes: Iterable[str]) -> Declared:
    """`paths` are the files that may declare metrics or hold their names; others are read where those import them."""
    paths, values = sorted(paths), Values(sources)
    modules = [module for path in paths if (module := sources.module(path))]
    calls = {module.path: _calls(module, values) for module in modules}
    found = [item for path, inside in calls.items() for call in inside for item in _from_call(call, path, values)]
    families = _first([item for item in found if isinstance(item, Family)])
    named, hidden = _named(modules, calls, prefixes, families)
    unresolved = {*hidden, *(item for item in found if isinstance(item, Unresolved))}
    unresolved |= {Unresolved(Place(path, 0), UNKNOWN, why) for path, why in sources.broken.items()}
    return Declared(len(paths), (*families, *named), tuple(sorted(unresolved, key=lambda u: (u.place, u.name))))


def _calls(module: Module, values: Values) -> list[_Call]:
    """Those of the client library's classes."""
    found = [_Call(node, scope, values.kinds(node.func, scope)) for node, scope in module.calls]
    return [call for call in found if call.kinds]


def _first(families: Iterable[Family]) -> list[Family]:
    """Each name and type once, in the order of names."""
    found: dict[tuple[str, Kind | None], Family] = {}
    for family in families:
        found.setdefault((family.name, family.kind), family)
    return sorted(found.values(), key=lambda f: (f.name, f.place))


def _from_call(call: _Call, path: str, values: Values) -> Iterator[Family | Unresolved]:
    node, scope, place = call.node, call.scope, Place(path, call.node.lineno)
    name = _argument(node, 0, "name")
    names = (values.strings(name, scope) if name is not None else set()) or {UNKNOWN}
    spread = any(isinstance(argument, ast.Starred) for argument in node.args)
    labels = None if spread else values.texts(_argument(node, 2, "labelnames"), scope)
    bounds = values.numbers(_argument(node, len(node.args), "buckets"), scope)
    otherwise = any(keyword.arg in _NAMED_OTHERWISE for keyword in node.keywords)
    for text in sorted(names):
        if UNKNOWN in text or otherwise:
            yield Unresolved(place, text, _NOT_SHOWN)
        elif len(call.kinds) > 1:
            yield Unresolved(place, text, f"may be a {' or a '.join(sorted(call.kinds))}")
        else:
            (kind,) = call.kinds
            yield Family(_on_the_wire(text, kind), kind, place, labels, bounds)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if by_name is not None or position >= len(call.args):
        return by_name
    return None if any(isinstance(a, ast.Starred) for a in call.args[: position + 1]) else call.args[position]


def _on_the_wire(name: str, kind: Kind) -> str:
    if kind is Kind.COUNTER:
        return name.removesuffix("_total") + "_total"
    return f"{name}_info" if kind is Kind.INFO else name


def _named(
    modules: Iterable[Module], calls: Mapping[str, list[_Call]], prefixes: Iterable[str], families: list[Family]
) -> tuple[list[Family], set[Unresolved]]:
    """Names of families that no call seen declares, and f-strings that make up names outside of such calls."""
    starts = "|".join(re.escape(p) for p in prefixes if p and not p.endswith("_")) or r"\b\B"
    whole, partly = re.compile(rf"(?:{starts}):[a-zA-Z_]\w*"), re.compile(rf"(?:{starts}):[\w*]*\*[\w*]*")
    named, hidden = [], set()
    for module in modules:
        told = {line for call in calls[module.path] for line in _lines(call.node)}
        for text, line in module.texts:
            if whole.fullmatch(text) and not _covers(text, families):
                named.append(Family(text, None, Place(module.path, line)))
            elif partly.fullmatch(text) and line not in told:
                hidden.add(Unresolved(Place(module.path, line), text, _NOT_SHOWN))
    return _first(named), hidden


def _lines(node: ast.Call) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _covers(text: str, families: Iterable[Family]) -> bool:
    """Whether it is the name of a family, or the beginning of one: code that reads metrics selects by it."""
    return any(stem(text) == stem(family.name) or family.name.startswith(f"{text}_") for family in families)
