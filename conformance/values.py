"""What an expression can stand for, as far as the source shows it: strings, metric types, lists. Never a guess."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum
from itertools import product

from conformance.scopes import UNKNOWN, Assigned, Binding, Defined, Imported, Scope, Sources, Step, Steps

_DEEPEST = 12
_LIBRARY = "prometheus_client"

Expression = tuple[ast.expr, Scope]


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"


_KINDS = {kind.value.capitalize(): kind for kind in Kind}


class Values:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def kinds(self, expression: ast.expr, scope: Scope, depth: int = 0) -> set[Kind]:
        """Types of metric of which it may be the class."""
        if depth > _DEEPEST:
            return set()
        match expression:
            case ast.BoolOp() | ast.IfExp():
                return {kind for choice in _choices(expression) for kind in self.kinds(choice, scope, depth + 1)}
            case ast.Subscript(slice=key):  # {Gauge: …, Counter: …}[Gauge]: a class by the class that it stands for
                return self.kinds(key, scope, depth + 1)
            case ast.Name() | ast.Attribute():
                bindings = self._bindings(expression, scope, depth + 1)
                return {kind for binding in bindings for kind in self._kinds_of(binding, depth + 1)}
        return set()

    def _kinds_of(self, binding: Binding, depth: int) -> set[Kind]:
        match binding:
            case Imported(module=module, name=name) if module.partition(".")[0] == _LIBRARY and name in _KINDS:
                return {_KINDS[name]}
            case Assigned():
                found = self._parts(binding.value, binding.scope, binding.steps, depth)
                return {kind for part in found if part for kind in self.kinds(*part, depth + 1)}
            case Defined(scope=scope) if scope.parent is not None:
                return {kind for base in scope.bases for kind in self.kinds(base, scope.parent, depth + 1)}
        return set()

    def strings(self, expression: ast.expr, scope: Scope, depth: int = 0) -> set[str]:
        """Every string that it may be; `None` is none. UNKNOWN stands for what is not shown."""
        if depth > _DEEPEST:
            return {UNKNOWN}
        match expression:
            case ast.Constant(value=str() as text):
                return {text}
            case ast.Constant(value=None):
                return set()
            case ast.JoinedStr(values=parts):
                return self._joined(parts, scope, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right], scope, depth)
            case ast.BoolOp() | ast.IfExp():
                return {text for choice in _choices(expression) for text in self.strings(choice, scope, depth + 1)}
            case ast.Name() | ast.Attribute():
                return self._named(expression, scope, depth + 1)
        return {UNKNOWN}

    def _joined(self, parts: list[ast.expr], scope: Scope, depth: int) -> set[str]:
        choices = [self.strings(_plain(part), scope, depth + 1) or {UNKNOWN} for part in parts]
        return {"".join(choice) for choice in product(*choices)}

    def _named(self, expression: ast.Name | ast.Attribute, scope: Scope, depth: int) -> set[str]:
        bindings = self._bindings(expression, scope, depth)
        if not bindings and isinstance(expression, ast.Attribute) and expression.attr == "value":  # of an Enum
            return self.strings(expression.value, scope, depth + 1)
        if not bindings or not all(isinstance(b, Assigned) for b in bindings):
            known = {text for b in bindings if isinstance(b, Assigned) for text in self._strings_of(b, depth)}
            return known | {UNKNOWN}
        return {text for b in bindings if isinstance(b, Assigned) for text in self._strings_of(b, depth)}

    def _strings_of(self, binding: Assigned, depth: int) -> Iterator[str]:
        for part in self._parts(binding.value, binding.scope, binding.steps, depth):
            yield from self.strings(*part, depth + 1) if part else {UNKNOWN}

    def texts(self, expression: ast.expr | None, scope: Scope) -> tuple[str, ...] | None:
        """A list of strings (labels), if each element is shown."""
        if expression is None:
            return ()
        elements = self._elements(expression, scope)
        if elements is None:
            return None
        texts = [self.strings(*element) for element in elements]
        known = all(len(choices) == 1 and not any(UNKNOWN in text for text in choices) for choices in texts)
        return tuple(next(iter(choices)) for choices in texts) if known else None

    def numbers(self, expression: ast.expr | None, scope: Scope) -> tuple[float, ...] | None:
        """A list of numbers (bounds), if each element is shown."""
        elements = self._elements(expression, scope) if expression is not None else None
        if elements is None:
            return None
        try:
            return tuple(float(ast.literal_eval(element)) for element, _ in elements)
        except (ValueError, TypeError):
            return None

    def _elements(self, expression: ast.expr, scope: Scope, depth: int = 0) -> list[Expression] | None:
        """Of one list, tuple or set; lists may be added together."""
        if depth > _DEEPEST:
            return None
        match expression:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return [(element, scope) for element in elements]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self._elements(left, scope, depth + 1), self._elements(right, scope, depth + 1)
                return None if first is None or second is None else first + second
            case ast.Name() | ast.Attribute():
                match self._bindings(expression, scope, depth + 1):
                    case [Assigned(value=value, scope=inner, steps=())]:
                        return self._elements(value, inner, depth + 1)
        return None

    def _parts(self, expression: ast.expr, scope: Scope, steps: Steps, depth: int) -> Iterator[Expression | None]:
        """What `steps` lead to, None where the source does not show it."""
        if not steps:
            yield expression, scope
            return
        for container in self._containers(expression, scope, depth + 1):
            inner = _step(container[0], steps[0]) if container else [None]
            for part in inner:
                if container is None or part is None:
                    yield None
                else:
                    yield from self._parts(part, container[1], steps[1:], depth + 1)

    def _containers(self, expression: ast.expr, scope: Scope, depth: int) -> Iterator[Expression | None]:
        match expression:
            case ast.Name() | ast.Attribute():
                yield from self._named_containers(expression, scope, depth)
            case ast.Call(func=ast.Attribute(value=table, attr="items" | "keys" | "values" as view), args=[]):
                for found in self._containers(table, scope, depth + 1):
                    yield (_view(found[0], view), found[1]) if found and isinstance(found[0], ast.Dict) else None
            case _:
                yield expression, scope

    def _named_containers(
        self, expression: ast.Name | ast.Attribute, scope: Scope, depth: int
    ) -> Iterator[Expression | None]:
        bindings = self._bindings(expression, scope, depth + 1)
        if not bindings:
            yield None
        for binding in bindings:
            if not isinstance(binding, Assigned):
                yield None
                continue
            for part in self._parts(binding.value, binding.scope, binding.steps, depth + 1):
                if part is None:
                    yield None
                else:
                    yield from self._containers(*part, depth + 1)

    def _bindings(self, expression: ast.expr, scope: Scope, depth: int) -> list[Binding]:
        if depth > _DEEPEST:
            return []
        match expression:
            case ast.Name(id=name):
                found = scope.find(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if scope.owner:
                found = self._member(scope.owner, name, depth + 1)
            case ast.Attribute(value=value, attr=name):
                outer = self._bindings(value, scope, depth + 1)
                found = [inner for binding in outer for inner in self._inside(binding, name, depth + 1)]
            case _:
                found = []
        return [inner for binding in found for inner in self._followed(binding, depth + 1)]

    def _inside(self, binding: Binding, name: str, depth: int) -> list[Binding]:
        match binding:
            case Defined(scope=scope):
                return self._member(scope, name, depth + 1)
            case Imported(module=module, name=inner):
                return [Imported(f"{module}.{inner}" if inner else module, name)]
        return []

    def _member(self, scope: Scope, name: str, depth: int) -> list[Binding]:
        """Of a class, or of the first of its bases that has it."""
        if name in scope.names:
            return scope.names[name]
        for base in scope.bases if depth <= _DEEPEST and scope.parent is not None else []:
            for binding in self._bindings(base, scope.parent or scope, depth + 1):
                if isinstance(binding, Defined) and (found := self._member(binding.scope, name, depth + 1)):
                    return found
        return []

    def _followed(self, binding: Binding, depth: int) -> list[Binding]:
        """An import from the wheel itself as what stands there."""
        if not isinstance(binding, Imported) or not binding.name or depth > _DEEPEST:
            return [binding]
        module = self._sources.imported(binding.module)
        if module is None or binding.name not in module.scope.names:
            return [binding]
        return [inner for found in module.scope.names[binding.name] for inner in self._followed(found, depth + 1)]


def _choices(expression: ast.BoolOp | ast.IfExp) -> list[ast.expr]:
    return expression.values if isinstance(expression, ast.BoolOp) else [expression.body, expression.orelse]


def _plain(part: ast.expr) -> ast.expr:
    """The value inside the braces of an f-string, where nothing formats it."""
    match part:
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return value
    return part


def _step(container: ast.expr, step: int | Step) -> list[ast.expr | None]:
    if isinstance(step, int):
        match container:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if step < len(elements):
                return [elements[step]]
        return [None]
    match container:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return list(elements)
        case ast.Dict(keys=keys):
            return list(keys)
    return [None]


def _view(table: ast.Dict, view: str) -> ast.expr:
    pairs = [(key, value) for key, value in zip(table.keys, table.values, strict=True) if key is not None]
    if view == "items":
        return ast.List([ast.Tuple([key, value]) for key, value in pairs])
    return ast.List([key if view == "keys" else value for key, value in pairs])
