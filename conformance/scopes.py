"""Python source as scopes: what each name is bound to, in every place at once. Read with `ast`; nothing is run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

UNKNOWN = "*"
"""The part of a string that the source does not show; no metric's name has it."""


class Step(Enum):
    EACH = "each"
    """Every element: the target of a loop."""


Steps = tuple[int | Step, ...]
"""From an expression to the part of it that a name gets: positions in tuples, elements of a loop."""


@dataclass(frozen=True, slots=True)
class Assigned:
    value: ast.expr
    scope: Scope
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Imported:
    module: str
    name: str
    """Empty: the module itself."""


@dataclass(frozen=True, slots=True)
class Defined:
    """A class; its scope also holds what its methods assign to `self`."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Unknown:
    """A parameter, a function, the target of `with` or `+=`: anything whose value the source does not show."""


Binding = Assigned | Imported | Defined | Unknown


@dataclass(eq=False, slots=True)
class Scope:
    parent: Scope | None = None
    owner: Scope | None = None
    """In a method: the scope of its class."""
    is_class: bool = False
    bases: list[ast.expr] = field(default_factory=list)
    names: dict[str, list[Binding]] = field(default_factory=dict)

    def add(self, name: str, binding: Binding) -> None:
        self.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> list[Binding]:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not scope.is_class):
                return scope.names[name]
            scope = scope.parent
        return []


@dataclass(frozen=True, slots=True)
class Module:
    path: str
    scope: Scope
    calls: list[tuple[ast.Call, Scope]]
    texts: list[tuple[str, int]]
    """Strings with their lines; an f-string has UNKNOWN for each of its expressions."""


def read(source: bytes, path: str) -> Module:
    """Raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the release's source, not of ours
        tree = ast.parse(source, path)
    reader = _Reader(path)
    reader.visit(tree)
    return Module(path, reader.module, reader.calls, reader.texts)


class Sources:
    """The Python files of a wheel, by path and by module. A file is parsed when it is asked for, and once."""

    def __init__(self, paths: Iterable[str], text: Callable[[str], bytes]) -> None:
        self._paths = {_dotted(path): path for path in paths}
        self._text = text
        self._modules: dict[str, Module | None] = {}
        self.broken: dict[str, str] = {}
        """Path of a file that could not be parsed, and why."""

    def module(self, path: str) -> Module | None:
        if path not in self._modules:
            self._modules[path] = self._read(path)
        return self._modules[path]

    def imported(self, dotted: str) -> Module | None:
        """The module of that name, if it is in the wheel."""
        path = self._paths.get(dotted)
        return self.module(path) if path else None

    def _read(self, path: str) -> Module | None:
        try:
            return read(self._text(path), path)
        except (SyntaxError, ValueError, RecursionError) as error:
            self.broken[path] = str(error)
            return None


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class _Reader(ast.NodeVisitor):
    def __init__(self, path: str) -> None:
        self._package = _dotted(path).split(".") if path.endswith("/__init__.py") else _dotted(path).split(".")[:-1]
        self.module = self._scope = Scope()
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.texts: list[tuple[str, int]] = []

    def _inside(self, scope: Scope, nodes: Iterable[ast.AST]) -> None:
        outer, self._scope = self._scope, scope
        for node in nodes:
            self.visit(node)
        self._scope = outer

    def _bind(self, target: ast.expr, value: ast.expr, steps: Steps = ()) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for i, element in enumerate(target.elts):
                self._bind(element, value, (*steps, i))
        elif place := self._place(target):
            place[0].add(place[1], Assigned(value, self._scope, steps))

    def _hide(self, target: ast.expr) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.expr) and (place := self._place(name)):
                place[0].add(place[1], Unknown())

    def _place(self, target: ast.expr) -> tuple[Scope, str] | None:
        match target:
            case ast.Name(id=name):
                return self._scope, name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if self._scope.owner:
                return self._scope.owner, name
        return None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        scope = self._scope
        inner = Scope(scope, scope if scope.is_class else scope.owner)
        for parameter in _parameters(node.args):
            inner.add(parameter, Unknown())
        self.visit(node.args)
        self._inside(inner, [node.body] if isinstance(node, ast.Lambda) else node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope.add(node.name, Unknown())
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        inner = Scope(self._scope, is_class=True, bases=node.bases)
        self._scope.add(node.name, Defined(inner))
        self._inside(inner, node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, node.value)
            self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._hide(node.target)
        self.visit(node.value)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._bind(node.target, node.iter, (Step.EACH,))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._loop(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self._loop(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._loop(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._hide(node.optional_vars)
        self.visit(node.context_expr)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name if alias.asname else alias.name.partition(".")[0]
            self._scope.add(alias.asname or module, Imported(module, ""))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self._package[: len(self._package) - node.level + 1] if node.level else []
        module = ".".join([*above, *filter(None, [node.module])])
        for alias in node.names:
            self._scope.add(alias.asname or alias.name, Imported(module, alias.name))

    def visit_Call(self, node: ast.Call) -> None:
        self.calls.append((node, self._scope))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append((node.value, node.lineno))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        parts = [str(part.value) if isinstance(part, ast.Constant) else UNKNOWN for part in node.values]
        self.texts.append(("".join(parts), node.lineno))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return (argument.arg for argument in named if argument is not None)
