"""Reads one YAML file into a frozen model, or says everything that is wrong with it at once.

A problem is one line: file, path to the key, value found, what is allowed. Values of keys that hold or name a secret,
or text of people, are never shown. A validator raises ValueError with the text of what is allowed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails

from exporters.address import masked
from exporters.quote import cut, quoted

_SECRET_KEY = re.compile(r"token(?!s)|prompt|password|secret|credential|authorization|api_?key", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHOWN_BITS = 256
_MAX_BYTES = 2**20


class ConfigError(ValueError):
    """Each of `problems` is one line for people."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Told(ValueError):
    """A validator's: the text says all there is to say, the value included."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`value` as it may be shown; `path` is empty for the file as a whole."""

    path: str
    value: str
    allowed: str

    def line(self, file: str) -> str:
        return ": ".join(part for part in (file, self.path, self.value, self.allowed) if part)


class Section(BaseModel):
    """Part of a configuration: frozen, every key known."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)


class Root(Section):
    """A whole file as one process reads it. `known` names all sections there are, those of other processes too."""

    known: ClassVar[frozenset[str]] = frozenset()

    foreign: Mapping[str, object] = Field(default={}, exclude=True, repr=False)
    """Other processes' sections, unread."""

    @classmethod
    def across(cls, _raw: Mapping[str, object]) -> list[Problem]:
        """What no single key can tell, judged on the raw file so that it is told together with the rest."""
        return []

    def unusable(self) -> list[str]:
        """What this host lacks, or has too much, for a configuration that is good as such: a line each."""
        return []


def _seconds(value: object) -> object:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match:
        return float(match[1]) * _SECONDS[match[2]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("seconds, or text such as 15s, 500ms, 2m")
    return value


def _in_folder(value: object, info: ValidationInfo) -> object:
    folder = (info.context or {}).get("folder")
    return folder / value if folder is not None and isinstance(value, str) and value else value


_Root = TypeVar("_Root", bound=Root)

Text = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]
PathInFolder = Annotated[Path, BeforeValidator(_in_folder)]
"""A path, from the folder of the configuration's file on."""


def within(shortest: str, longest: str) -> WrapValidator:
    """For seconds of which others cannot mean anything: both are text such as 15s."""
    least, most = (TypeAdapter(Seconds).validate_python(text) for text in (shortest, longest))

    def check(value: object, seconds: ValidatorFunctionWrapHandler) -> float:
        with suppress(ValidationError):
            if least <= (found := float(seconds(value))) <= most:
                return found
        raise ValueError(f"{shortest} to {longest}, in seconds or as text such as 15s")

    return WrapValidator(check)


def load(path: Path | None, model: type[_Root]) -> _Root:
    """Without a path: the defaults. Relative paths inside the file are relative to its folder. Raises ConfigError."""
    made = model() if path is None else _read(path, model)
    if unusable := made.unusable():
        raise ConfigError(unusable)
    return made


def _read(path: Path, model: type[_Root]) -> _Root:
    raw, problems = read_yaml(path)
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError([f"{path}: {shown('', raw)}: allowed: a mapping of sections"])
    return _build(raw, problems, model, path)


def _build(raw: dict[object, object], problems: list[Problem], model: type[_Root], path: Path) -> _Root:
    own = {k: v for k, v in raw.items() if k in model.model_fields and k != "foreign" and v is not None}
    foreign = {k: v for k, v in raw.items() if k in model.known and k not in model.model_fields}
    sections = {*model.model_fields, *model.known} - {"foreign"}
    problems += [unknown_key("", k, sections) for k in raw if k not in sections]
    problems += model.across({str(k): v for k, v in own.items()})
    try:
        made = model.model_validate({**own, "foreign": foreign}, context={"folder": path.parent})
    except ValidationError as error:
        problems += problems_of(error, model)
    else:
        if not problems:
            return made
    raise ConfigError(dict.fromkeys(p.line(str(path)) for p in problems))


def read_yaml(path: Path) -> tuple[object, list[Problem]]:
    """The file's value, and its duplicate keys (the first of each counts). Raises ConfigError."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Regular files only: a device or pipe may have no end. Raises ConfigError."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError([f"{path}: allowed: a regular file"])
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([f"{path}: could not be read: {error.strerror}"]) from error
    if len(raw) > _MAX_BYTES:
        raise ConfigError([f"{path}: more than {_MAX_BYTES} bytes: allowed: at most 1 MiB"])
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: byte {error.start}: allowed: UTF-8 text"]) from error


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that nobody writes to would block."""
    return os.open(path, flags | os.O_NONBLOCK)


def parse_yaml(text: str, name: str) -> tuple[object, list[Problem]]:
    with _reading(name):
        loader = _Loader(text)
        return loader.get_single_data(), loader.duplicates


def parse_documents(text: str, name: str) -> tuple[list[object], list[Problem]]:
    """Of a file that may have several. Raises ConfigError."""
    with _reading(name):
        loader, found = _Loader(text), list[object]()
        while loader.check_data():  # type: ignore[no-untyped-call]
            found.append(loader.get_data())
        return found, loader.duplicates


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError([f"{name}: {_yaml_problem(error)}: allowed: YAML"]) from error


def _yaml_problem(error: Exception) -> str:
    match error:
        case yaml.MarkedYAMLError(problem_mark=yaml.Mark() as mark):
            return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
        case yaml.reader.ReaderError():
            return f"character {error.position}: U+{error.character:04X}"
        case RecursionError():
            return "nested too deeply"
    return str(error)


class _Loader(yaml.SafeLoader):
    """SafeLoader that notices duplicate keys; dates stay text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[Problem] = []
        self._checked: set[int] = set()

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Raises YAMLError alone: PyYAML's own constructors let others through."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"this is no {kind}", node.start_mark) from error

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolves merge keys; comes by more than once where a mapping is merged into others."""
        if id(node) not in self._checked:
            self._checked.add(id(node))
            node.value = list(self._without_duplicates(node.value))
        super().flatten_mapping(node)

    def _without_duplicates(self, pairs: list[tuple[yaml.Node, yaml.Node]]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        lines: dict[str, int] = {}
        for key, value in pairs:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in lines:
                told = f"duplicate key, first on line {lines[key.value]}"
                self.duplicates.append(Problem(f"line {line}", f"`{masked(key.value)}`", told))
                continue
            if isinstance(key, yaml.ScalarNode):
                lines[key.value] = line
            yield key, value


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def unknown_key(parent: str, key: object, known: Iterable[str]) -> Problem:
    """The value is not shown: nobody knows what it is."""
    names = sorted(known)
    near = get_close_matches(str(key), names, 1) or [n for n in names if str(key) in n]
    hint = f"did you mean `{near[0]}`?" if near else f"allowed: {', '.join(names)}"
    name = masked(str(key))
    return Problem(f"{parent}.{name}" if parent else name, "unknown key", hint)


def shown(path: str, value: object) -> str:
    """The value as an error may show it."""
    if _SECRET_KEY.search(path):
        return "(value not shown)"
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return quoted(masked(value))
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > _SHOWN_BITS:
            return "a number of very many digits"
        case _:
            return cut(masked(str(value)))


def path_of(location: Iterable[int | str]) -> str:
    """servers[0].url"""
    path = ""
    for step in location:
        if step == "[key]":
            continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    return [_problem(e, model) for e in error.errors(include_url=False)]


def _problem(error: ErrorDetails, model: type[BaseModel]) -> Problem:
    location = error["loc"]
    path = path_of(location)
    if error["type"] == "extra_forbidden":
        return unknown_key(path_of(location[:-1]), location[-1], _keys_at(model, location[:-1]))
    if error["type"] == "missing":
        return Problem(path, "missing", "a value is required")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, Told):
        return Problem(path, "", str(cause))
    return Problem(path, shown(path, error["input"]), f"allowed: {_allowed(error)}")


_ALLOWED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "path_type": "a path",
    "string_too_short": "text that is not empty",
}


def _allowed(error: ErrorDetails) -> str:
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        return "text (put it in quotes)"
    cause = error.get("ctx", {}).get("error")
    if cause is not None:
        return str(cause)
    return _ALLOWED.get(error["type"]) or error["msg"].removeprefix("Input should be ")


def _keys_at(model: type[BaseModel], location: Iterable[int | str]) -> Iterable[str]:
    """The keys that the section at `location` has."""
    current: type[BaseModel] = model
    for step in location:
        if isinstance(step, str) and step in current.model_fields:
            current = next(_sections(current.model_fields[step].annotation), current)
    return current.model_fields


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _sections(inner)
