"""Results of load tests as runs: one file per tool. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from exporters.quote import quoted
from monitor.compare.imported import aiperf, guidellm, vllm
from monitor.compare.imported.document import Document, ForeignFile
from monitor.compare.imported.run import Run

_Object = dict[str, object]
_Reader = Callable[[Document], Iterator[Run]]
TOOLS: Mapping[str, tuple[str, _Reader]] = {
    aiperf.TOOL: (aiperf.MARK, aiperf.runs),
    guidellm.TOOL: (guidellm.MARK, guidellm.runs),
    vllm.TOOL: (vllm.MARK, vllm.runs),
}
"""By the tool's name: what only its results hold, and what reads them. The first that fits is meant."""


def parse(text: str, file: str) -> list[Run]:
    """Raises ForeignFile, saying what is wrong where."""
    found = [run for document in _documents(text, file) for run in _read(document)]
    if not found:
        raise ForeignFile(f"{file}: there is no run in it that completed a request")
    return found


def _read(document: Document) -> Iterator[Run]:
    for mark, runs in TOOLS.values():
        if document.has(mark):
            return runs(document)
    marks = ", ".join(f"`{mark}` ({tool})" for tool, (mark, _) in TOOLS.items())
    raise ForeignFile(f"{document.place}: allowed: the result of a load test as JSON, which has one of {marks}")


def _object(twice: list[tuple[_Object, str]], pairs: Sequence[tuple[str, object]]) -> _Object:
    """Of a name with two values nobody knows which one is meant: `twice` has them, an object after those within it."""
    found: _Object = {}
    for name, value in pairs:
        if name in found:
            twice.append((found, name))
        found[name] = value
    return found


def _path(whole: object, wanted: _Object) -> str:
    """To an object within it, "" for itself."""
    left: list[tuple[str, object]] = [("", whole)]
    while left:
        path, value = left.pop()
        if value is wanted:
            return path
        if isinstance(value, dict):
            left += ((f"{path}.{name}" if path else name, each) for name, each in value.items())
        elif isinstance(value, list):
            left += ((f"{path}[{number}]", each) for number, each in enumerate(value))
    return ""


def _stands_twice(document: Document, within: _Object, name: str) -> ForeignFile:
    path = ".".join(filter(None, (_path(document.value, within), name)))
    return ForeignFile(f"{document.place}: {quoted(path)}: stands twice; allowed: each name once in an object")


def _documents(text: str, file: str) -> Iterator[Document]:
    """One, or several after each other, as results that are appended stand in a file."""
    twice: list[tuple[_Object, str]] = []
    decoder, text, at, number = json.JSONDecoder(object_pairs_hook=partial(_object, twice)), text.strip(), 0, 0
    while at < len(text) or not number:
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise ForeignFile(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}: no JSON") from error
        except RecursionError as error:
            raise ForeignFile(f"{file}: it is nested too deeply") from error
        except ValueError as error:
            raise ForeignFile(f"{file}: it has a number of too many digits") from error
        number += 1
        document = Document(value, file if number == 1 else f"{file}: result {number}")
        if twice:
            raise _stands_twice(document, *twice[-1])
        yield document
        at += len(text[at:]) - len(text[at:].lstrip())
