"""Reading and writing the Prometheus text format 0.0.4 (OpenMetrics bodies are read, their exemplars left out)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporters.observation import Labels
from exporters.schema import METRICS, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_BLOCK = rf'\{{(?:[^"{{}}]++|{_QUOTED})*+\}}'
_SAMPLE = re.compile(
    rf"[ \t]*(?P<name>[^\s{{}}#\"]*)[ \t]*(?:(?P<block>{_BLOCK})[ \t]*|[ \t])"
    r"[ \t]*(?P<value>[^\s#_]+)(?:[ \t]+(?P<time>[+-]?[0-9.eE+-]+))?[ \t]*(?:#[^\n]*)?"
)
_REGULAR = re.compile(rf"#.*|(?:[^\s{{}}#\"]+(?:{_BLOCK})?|{_BLOCK}) [^\s#_]+|")
_LABEL = re.compile(rf"\s*(?:(?P<label>[^\s=,\"{{}}]+|{_QUOTED})\s*=\s*)?(?P<text>{_QUOTED})\s*(?:,|$)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class InvalidExposition(ValueError):
    """The text is not an exposition: no line of it is a sample. `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: not a sample of the Prometheus text format: {text[:120]!r}")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None = None
    """As written: milliseconds in the text format, seconds in OpenMetrics."""


def split(text: str) -> tuple[list[str], list[str]]:
    """Lines cut at their last space: keys and values. Comments and blank lines keep their place."""
    parts = [line.rsplit(" ", 1) for line in text.split("\n")]
    return [p[0] for p in parts], [p[-1] for p in parts]


def is_regular(text: str) -> bool:
    """Whether `split` yields each sample's name and labels as key and its number as value."""
    return all(_REGULAR.fullmatch(line) for line in text.split("\n"))


def regular(text: str) -> tuple[str, list[str]]:
    """The same samples one a line without timestamps, exemplars and spare blanks; and the lines that are no samples.

    Raises InvalidExposition where lines are no samples and none is one.
    """
    lines: list[str] = []
    bad: list[tuple[int, str]] = []
    good = 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            lines.append(stripped)
        elif (match := _SAMPLE.fullmatch(line.rstrip("\r"))) and (match["name"] or match["block"]):
            lines.append(f"{match['name']}{match['block'] or ''} {match['value']}")
            good += 1
        else:
            bad.append((number, line))
    if bad and not good:
        raise InvalidExposition(*bad[0])
    return "\n".join(lines), [line for _, line in bad]


def parse_key(key: str) -> tuple[str, dict[str, str]] | None:
    """Name and labels of a key that `split` yields; None where it is not well-formed."""
    name, brace, rest = key.partition("{")
    name = name.strip()
    labels: dict[str, str] = {}
    if brace:
        body = rest.rstrip()
        if not body.endswith("}"):
            return None
        quoted_name = _parse_labels(body[:-1], labels)
        if quoted_name is None:
            return None
        if quoted_name:
            return (quoted_name, labels) if not name else None
    return (name, labels) if _NAME.fullmatch(name) else None


def _parse_labels(body: str, labels: dict[str, str]) -> str | None:
    """Fills `labels`; returns the metric name if it stands quoted among them, "" if not, None if malformed."""
    name = ""
    position, end = 0, len(body.rstrip())
    while position < end:
        match = _LABEL.match(body, position)
        if match is None:
            return None
        text = unescape(match["text"][1:-1])
        if match["label"] is None:
            if name:
                return None
            name = text
        else:
            label = match["label"]
            label = unescape(label[1:-1]) if label.startswith('"') else label
            if label in labels:
                return None
            labels[label] = text
        position = match.end()
    return name


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
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.rstrip("\r"))
        parsed = parse_key(f"{match['name']}{match['block'] or ''}") if match else None
        value = parse_value(match["value"]) if match else None
        if match is None or parsed is None or value is None:
            raise InvalidExposition(number, line)
        time = parse_value(match["time"]) if match["time"] else None
        samples.append(Sample(parsed[0], parsed[1], value, time))
    return samples


def declared_names(keys: Iterable[str]) -> dict[str, str]:
    """Families with a TYPE line: name to type. `keys` as `split` yields them drop the type itself, so pass lines."""
    found: dict[str, str] = {}
    for line in keys:
        if line.startswith("# TYPE "):
            parts = line.split()
            if len(parts) >= 4:
                found[parts[2]] = parts[3]
    return found


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
