"""A comparison as text: a table for the terminal, Markdown, and CSV. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from exporters.terminal import printable
from monitor.compare.model import PERCENTILES, Cell, Comparison, Group, Measure
from monitor.compare.notes import name_of
from monitor.compare.words import READING, SHOWN, SIGNS, asked_for, nothing, remarks, sections, title, with_interval
from monitor.page import quantities

_BRACKETED = (Measure.TOKENS, Measure.TTFT_P99)
"""The intervals of the others stand in CSV and JSON: a table has to be read."""
_LEFT_ALIGNED = 2
"""Columns of words, before those of numbers."""
Line = tuple[str, ...]


def as_table(told: Comparison) -> str:
    return "\n".join(map(printable, _page(told, _aligned, "{}")))


def as_markdown(told: Comparison) -> str:
    return "\n".join(map(printable, _page(told, _piped, "## {}")))


def _page(told: Comparison, drawn: Callable[[Sequence[Line]], Iterable[str]], heading: str) -> Iterator[str]:
    yield from (f"{quantities.moment(told.since)} to {quantities.moment(told.until)}", "")
    if not told.cells:
        yield from (nothing(told), "")
    for section in sections(told):
        yield from (heading.format(section.title), "")
        yield from drawn([_head(told.currency), *map(_line, section.cells)])
        yield from ("", *(f"- {each}" for each in section.rankings()), "")
    yield from (READING, SIGNS, "", *(f"- {each}" for each in remarks(told)), "")
    yield from _definitions(told)


def _definitions(told: Comparison) -> Iterator[str]:
    if told.definitions:
        yield from ("What is not the same quantity for all that are compared:", "")
    for each in told.definitions:
        yield f"- {each.metric}"
        yield from (f"  - {frontend}: {said}" for frontend, said in each.said.items())


def _head(currency: str) -> Line:
    titles = (title(measure, currency) for measure in SHOWN)
    return ("at once", "who", "minutes", *titles, "prompt", "output", "aborted")


def _line(cell: Cell) -> Line:
    minutes = f"{cell.minutes:,}" if not cell.group.is_imported else f"imported, {cell.group.file}"
    return (str(cell.band.at_once), name_of(cell.group), minutes, *_measured(cell), *asked_for(cell.workload))


def _measured(cell: Cell) -> Iterator[str]:
    for measure in SHOWN:
        estimate = cell.of(measure)
        if estimate is not None and measure not in _BRACKETED:
            estimate = replace(estimate, low=None, high=None)
        yield with_interval(measure, estimate)


def _aligned(lines: Sequence[Line]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            text.ljust(width) if n < _LEFT_ALIGNED else text.rjust(width)
            for n, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _piped(lines: Sequence[Line]) -> Iterator[str]:
    head, *rest = lines
    rule = tuple("---" if n < _LEFT_ALIGNED else "---:" for n in range(len(head)))
    for line in (head, rule, *rest):
        yield "| " + " | ".join(text.replace("|", "\\|") for text in line) + " |"


_GROUP = tuple(field.name for field in fields(Group))
_WORKLOAD = ("prompt_tokens", "output_tokens", "abort_ratio")
_NO_INTERVAL = "no_interval"


def as_csv(told: Comparison) -> str:
    """All numbers in full; what is not known is empty, and so is an end that lies beyond the largest bucket."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"{measure.value}{end}" for measure in Measure for end in _ends(measure)]
    writer.writerow([*_GROUP, "at_once", "minutes", "concurrency", *columns, *_WORKLOAD, _NO_INTERVAL])
    for cell in told.cells:
        writer.writerow(_row(cell))
    return text.getvalue()


def _ends(measure: Measure) -> Mapping[str, str]:
    """Of names in CSV: what of an estimate they are. Percentiles have the bounds of their buckets too."""
    interval = {"": "value", "_low": "low", "_high": "high"}
    return interval | {"_lower": "lower", "_upper": "upper"} if measure in PERCENTILES else interval


def _row(cell: Cell) -> Iterator[object]:
    yield from (getattr(cell.group, name) for name in _GROUP)
    yield from (cell.band.at_once, cell.minutes, cell.concurrency)
    for measure in Measure:
        estimate = cell.of(measure)
        told = (getattr(estimate, end, None) for end in _ends(measure).values())
        yield from (None if number == math.inf else number for number in told)
    yield from (cell.workload.prompt_tokens, cell.workload.generation_tokens, cell.workload.abort_ratio)
    yield "; ".join(cell.without_interval)
