"""Reading and writing the Prometheus text format 0.0.4 (OpenMetrics bodies are read, their exemplars left out)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from exporters.observation import Labels
from exporters.schema import METRICS, Metric

BYTE_ORDER_MARK = "\ufeff"
"""Some writers put it before the first line."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# A hostile line costs time in proportion to its length: characters repeat possessively, and groups begin with what the
# repetition before them cannot hold. Groups do not repeat possessively: Python before 3.11.5 matches those wrongly.
_BLANKS = r"[ \t]*+"
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_LABEL = rf"(?:[a-zA-Z_][a-zA-Z0-9_]*+|{_QUOTED})"
_PAIR = rf"(?:{_LABEL}{_BLANKS}={_BLANKS})?{_QUOTED}"
_BLOCK = rf"\{{{_BLANKS}(?:{_PAIR}{_BLANKS}(?:,{_BLANKS}|(?=\}})))*\}}"
_NUMBER = r"[+-]?(?:(?ai:nan|inf(?:inity)?)|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
_SAMPLE = re.compile(
    rf"(?:(?P<name>{_NAME})(?:{_BLANKS}(?P<block>{_BLOCK}){_BLANKS}|[ \t]++)|(?P<nameless>{_BLOCK}){_BLANKS})"
    rf"(?P<value>{_NUMBER})(?:[ \t]++(?P<time>{_NUMBER}))?(?:[ \t]++#{_BLANKS}\{{.*+)?"
)
_REGULAR = re.compile(rf"#.*+|(?:{_NAME}(?:{_BLOCK})?|{_BLOCK}) {_NUMBER}|")
_KEY = re.compile(rf"(?P<name>{_NAME})?(?P<block>{_BLOCK})?")
_IN_BLOCK = re.compile(rf"(?:(?P<label>{_LABEL}){_BLANKS}={_BLANKS})?(?P<text>{_QUOTED})")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPARE = " \t\r"
_KEPT_KEYS = 4096
"""Servers of one release have most of their keys in common, and each is read several times."""
_KEPT_CHARACTERS = 512


class InvalidExposition(ValueError):
    """The text is not an exposition: no line of it is a sample. `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: not a sample of the Prometheus text format: {text[:120]!r}")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: float | None = None
    """As written: milliseconds in the text format, seconds in OpenMetrics."""


def split(text: str) -> tuple[list[str], list[str]]:
    """Lines cut at their last space: keys and values. Comments and blank lines keep their place."""
    parts = [line.rsplit(" ", 1) for line in text.split("\n")]
    return [p[0] for p in parts], [p[-1] for p in parts]


def is_regular(text: str) -> bool:
    """Whether `split` yields each sample's name and labels as key and its number as value."""
    return all(_REGULAR.fullmatch(line) and _is_well_formed(line) for line in text.split("\n"))


def _is_well_formed(line: str) -> bool:
    return not line or line.startswith("#") or parse_key(line.rpartition(" ")[0]) is not None


def regular(text: str) -> tuple[str, list[str]]:
    """The same samples one a line without timestamps, exemplars and spare blanks; and the lines that are no samples.

    Raises InvalidExposition where lines are no samples and none is one.
    """
    lines: list[str] = []
    bad: list[tuple[int, str]] = []
    good = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(_SPARE)
        match = _SAMPLE.fullmatch(stripped)
        if not stripped or stripped.startswith("#"):
            lines.append(stripped)
        elif match and parse_key(_key(match)):
            lines.append(f"{_key(match)} {match['value']}")
            good = True
        else:
            bad.append((number, line))
    if bad and not good:
        raise InvalidExposition(*bad[0])
    return "\n".join(lines), [line for _, line in bad]


def _key(sample: re.Match[str]) -> str:
    return (sample["name"] or "") + (sample["block"] or sample["nameless"] or "")


def parse_key(key: str) -> tuple[str, Mapping[str, str]] | None:
    """Name and labels of a key that `split` yields; None where it is not well-formed."""
    return _kept(key) if len(key) <= _KEPT_CHARACTERS else _parsed(key)


def _parsed(key: str) -> tuple[str, Mapping[str, str]] | None:
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    names = [match["name"]] if match["name"] else []
    labels: dict[str, str] = {}
    for pair in _IN_BLOCK.finditer(match["block"] or ""):
        label = pair["label"]
        text = unescape(pair["text"][1:-1])
        if label is None:
            names.append(text)
            continue
        label = _unquote(label)
        if label in labels:
            return None
        labels[label] = text
    return (names[0], labels) if len(names) == 1 and names[0] else None


_kept = lru_cache(maxsize=_KEPT_KEYS)(_parsed)


def unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: {"n": "\n", "\\": "\\", '"': '"'}.get(m[1], m[0]), text)


def parse_value(text: str) -> float | None:
    """A Go float as the format allows it, any case of NaN and Inf; None where it is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_samples(text: str) -> list[Sample]:
    """Every sample, in order. Raises InvalidExposition at the first line that is none."""
    samples: list[Sample] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(_SPARE)
        if not stripped or stripped.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(stripped)
        parsed = parse_key(_key(match)) if match else None
        if match is None or parsed is None:
            raise InvalidExposition(number, line)
        time = float(match["time"]) if match["time"] else None
        samples.append(Sample(*parsed, float(match["value"]), time))
    return samples


def declared_names(lines: Iterable[str]) -> dict[str, str]:
    """Families with a TYPE line: name to type."""
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith("#"):
            words = line[1:].split()
            if len(words) == 3 and words[0] == "TYPE":
                found[_unquote(words[1])] = words[2]
    return found


def _unquote(text: str) -> str:
    return unescape(text[1:-1]) if text.startswith('"') else text


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def format_labels(labels: Labels) -> str:
    return ",".join(f'{k}="{escape(v)}"' for k, v in labels)


def format_bound(bound: float) -> str:
    """`le` as Prometheus 3 and prometheus_client write it: 1.0, 0.25, +Inf."""
    return "+Inf" if bound == float("inf") else repr(float(bound))


def format_value(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return "NaN" if value != value else repr(float(value))  # noqa: PLR0124


def prefix(name: str, labels: Labels) -> str:
    """A sample line up to its value."""
    block = format_labels(labels)
    return f"{name}{{{block}}} " if block else f"{name} "


def line(metric: str, labels: Labels, value: float) -> str:
    return f"{prefix(metric, labels)}{format_value(value)}\n"


def page(chunks: Iterable[Mapping[str, str]]) -> str:
    """One exposition of many targets' sample lines (by metric): families in schema order, each under one header."""
    by_metric: dict[str, list[str]] = {}
    for chunk in chunks:
        for metric, lines in chunk.items():
            by_metric.setdefault(metric, []).append(lines)
    return "".join(_HEADERS[m] + "".join(by_metric[m]) for m in METRICS if m in by_metric)


def _header(metric: Metric) -> str:
    text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.type.value}\n"


_HEADERS = {m.name: _header(m) for m in METRICS.values()}
