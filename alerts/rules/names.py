"""Which metrics and labels an expression of PromQL names.

No parser: it reads tokens, which is enough to tell what is a metric, what a label, and what a function. Variables of
Grafana (`$node`, `${node}`) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<comment>\#[^\n]*)"""
    r"""|(?P<variable>\$\{[^}]*\}|\$\w+|\[\[\w+\]\])|(?P<range>\[[^\]]*\])|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"""
    r"""|(?P<number>[0-9][0-9a-zA-Z.]*)|(?P<operator>=~|!~|!=|==|>=|<=)|(?P<other>\S)"""
)
_WITH_LABELS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _WITH_LABELS | {
    "and", "or", "unless", "atan2", "bool", "offset", "inf", "nan", "start", "end", "sum", "min", "max", "avg", "group",
    "count", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values",
}  # fmt: skip
_ALTERNATIVES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?:\|[a-zA-Z_:][a-zA-Z0-9_:]*)*")


@dataclass
class Named:
    """`selected`: metric and label of each selector, the label empty where only the metric is named."""

    selected: list[tuple[str, str]] = field(default_factory=list)
    grouped: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """Labels that `label_replace` and its like write, `count_values` among them."""


_Token = tuple[str, str]


def named(expression: str) -> Named:
    found = Named()
    tokens = [t for t in _tokens(expression) if t[0] not in ("comment", "variable", "range", "number")]
    i = 0
    while i < len(tokens):
        i = _read(tokens, i, found)
    return found


def _tokens(expression: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(expression):
        yield match.lastgroup or "", match.group()


def _read(tokens: list[_Token], i: int, found: Named) -> int:
    """The index after what was read."""
    kind, text = tokens[i]
    after = tokens[i + 1][1] if i + 1 < len(tokens) else ""
    if text == "{":
        return _selector(tokens, i, (), found)
    if kind != "name":
        return i + 1
    if text.lower() in _WITH_LABELS and after == "(":
        return _labels(tokens, i + 2, found)
    if after == "(" or text.lower() in _WORDS:
        if text in ("label_replace", "label_join"):
            found.made += _second_argument(tokens, i + 2)
        if text.lower() == "count_values":
            found.made += [word[1:-1] for kind, word in tokens[i:] if kind == "string"][:1]
        return i + 1
    found.selected.append((text, ""))
    return _selector(tokens, i + 1, (text,), found) if after == "{" else i + 1


def _selector(tokens: list[_Token], i: int, metrics: tuple[str, ...], found: Named) -> int:
    end = next((j for j in range(i, len(tokens)) if tokens[j][1] == "}"), len(tokens))
    inside = tokens[i + 1 : end]
    labels = [
        (text, inside[j + 2][1][1:-1] if j + 2 < len(inside) else "")
        for j, (kind, text) in enumerate(inside)
        if kind == "name" and j + 1 < len(inside) and inside[j + 1][1] in ("=", "!=", "=~", "!~")
    ]
    for label, value in labels:
        if label == "__name__" and _ALTERNATIVES.fullmatch(value):
            metrics += tuple(value.split("|"))
            found.selected += [(name, "") for name in value.split("|")]
    found.selected += [(m, label) for m in metrics for label, _ in labels if label != "__name__"]
    return end + 1


def _labels(tokens: list[_Token], i: int, found: Named) -> int:
    end = next((j for j in range(i, len(tokens)) if tokens[j][1] == ")"), len(tokens))
    found.grouped += [text for kind, text in tokens[i:end] if kind == "name"]
    return end + 1


def _second_argument(tokens: list[_Token], i: int) -> list[str]:
    depth = 0
    for j in range(i, len(tokens)):
        text = tokens[j][1]
        depth += (text in ("(", "{")) - (text in (")", "}"))
        if text == "," and depth == 0:
            return [tokens[j + 1][1][1:-1]] if j + 1 < len(tokens) and tokens[j + 1][0] == "string" else []
    return []
