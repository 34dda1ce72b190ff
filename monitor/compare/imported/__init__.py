"""Results of load tests as runs: one file per tool. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from exporters.quote import quoted
from monitor.compare.imported import aiperf, guidellm, vllm
from monitor.compare.imported.document import Document, ForeignFile
from monitor.compare.imported.run import Run

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


class _TwiceError(Exception):
    """Has a name that an object gives two values: nobody knows which one is meant."""


def _object(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(quoted(name))
        found[name] = value
    return found


def _documents(text: str, file: str) -> Iterator[Document]:
    """One, or several after each other, as results that are appended stand in a file."""
    decoder, text, at, number = json.JSONDecoder(object_pairs_hook=_object), text.strip(), 0, 0
    while at < len(text) or not number:
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise ForeignFile(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}: no JSON") from error
        except _TwiceError as error:
            place = f"{file}: result {number + 1}" if number else file
            raise ForeignFile(f"{place}: {error}: stands twice; allowed: each name once in an object") from error
        except RecursionError as error:
            raise ForeignFile(f"{file}: it is nested too deeply") from error
        except ValueError as error:
            raise ForeignFile(f"{file}: it has a number of too many digits") from error
        number += 1
        yield Document(value, file if number == 1 else f"{file}: result {number}")
        at += len(text[at:]) - len(text[at:].lstrip())
