"""Finds ratios that an expression adds up or averages as if they were numbers of things.

A ratio is a metric that the schema calls one, a recorded one, a quotient, or a percentile. Times a weight it may be
summed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporters.schema import METRICS

_ADDING = frozenset({"sum", "avg", "stddev", "stdvar"})
_PICKING = frozenset({"max", "min", "quantile", "topk", "bottomk"})
_COUNTING = frozenset({"count", "group", "count_values"})
_PASSING = frozenset({
    "abs", "ceil", "clamp", "clamp_max", "clamp_min", "floor", "label_join", "label_replace", "last_over_time", "round",
    "sort", "avg_over_time", "max_over_time", "min_over_time",
})  # fmt: skip
"""Functions of a ratio that are ratios: the mean of one series over time weighs each moment alike."""
_OPERATORS = (("or", "unless", "and"), ("==", "!=", ">=", "<=", ">", "<"), ("+", "-"), ("*", "/", "%"))
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\{[^{}"]*(?:"(?:[^"\\]|\\.)*"[^{}"]*)*\}|\[[^\]]*\]|[$\w:.]+|==|!=|>=|<=|[^\s]')
_NUMBER = re.compile(r"[\d.]+|\$\w+")
_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_RECORDED = re.compile(r":\w*_ratio\b")


def added_ratios(expression: str) -> list[str]:
    """What is added up, as it is written."""
    return list(dict.fromkeys(_added(_WORD.findall(expression))))


def _added(words: list[str]) -> Iterator[str]:
    for i, word in enumerate(words):
        if word in _ADDING or word == "sum_over_time":
            inside = _argument(words, i)
            if _is_ratio(inside):
                yield f"{word} of {' '.join(inside)}"


def _argument(words: list[str], i: int) -> list[str]:
    """Of the function at `i`: the last of its arguments, which is the one of vectors."""
    i += 1
    while i < len(words) and words[i] in _LISTS:
        i = _closing(words, i + 1) + 1
    return _last(words[i + 1 : _closing(words, i)]) if i < len(words) and words[i] == "(" else []


def _closing(words: list[str], i: int) -> int:
    depth = 0
    for j in range(i, len(words)):
        depth += (words[j] == "(") - (words[j] == ")")
        if depth == 0:
            return j
    return len(words)


def _last(words: list[str]) -> list[str]:
    found, start = list[list[str]](), 0
    for place in [*_at_top(words, (",",)), len(words)]:
        found.append(words[start:place])
        start = place + 1
    return next((part for part in reversed(found) if not _is_scalar(part)), [])


def _is_scalar(words: list[str]) -> bool:
    return len(words) == 1 and (_NUMBER.fullmatch(words[0]) is not None or words[0].startswith('"'))


def _at_top(words: list[str], wanted: tuple[str, ...]) -> list[int]:
    depth, found = 0, []
    for i, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in wanted:
            found.append(i)
    return found


def _is_ratio(words: list[str]) -> bool:
    for operators in _OPERATORS:
        if places := _at_top(words, operators):
            place = places[-1]
            is_told = words[place + 1 : place + 2] == ["bool"]
            return not is_told and _of_operator(words[place], words[:place], _right(words[place + 1 :]))
    return _of_one(words)


def _right(words: list[str]) -> list[str]:
    """Without `bool` and the labels that are matched."""
    while words and (words[0] in _LISTS or words[0] == "bool"):
        words = words[1:] if words[0] == "bool" else words[_closing(words, 1) + 1 :]
    return words


def _of_operator(operator: str, left: list[str], right: list[str]) -> bool:
    if operator == "*":
        return _is_ratio(left) and (_is_scalar(right) or _is_ratio(right))
    if operator == "/":
        return not _is_scalar(right) or _is_ratio(left)
    if operator in ("+", "-", "or"):
        return _is_ratio(left) or _is_ratio(right)
    return _is_ratio(left)


def _of_one(words: list[str]) -> bool:
    """A selector, a function, or an expression in parentheses."""
    if not words:
        return False
    name = words[0]
    if name == "(":
        return _is_ratio(words[1 : _closing(words, 0)])
    if name == "histogram_quantile":
        return True
    if name in _PASSING or name in _PICKING:
        return _is_ratio(_first_vector(words))
    if name in _COUNTING or name in _ADDING:
        return False
    is_selector = len(words) == 1 or words[1] != "("
    return is_selector and ((name in METRICS and METRICS[name].is_ratio) or _RECORDED.search(name) is not None)


def _first_vector(words: list[str]) -> list[str]:
    i = 1
    while i < len(words) and words[i] in _LISTS:
        i = _closing(words, i + 1) + 1
    inside = words[i + 1 : _closing(words, i)]
    first, *rest = [0, *(place + 1 for place in _at_top(inside, (",",)))]
    parts = [inside[a:b] for a, b in zip([first, *rest], [*(r - 1 for r in rest), len(inside)], strict=True)]
    return next((part for part in parts if not _is_scalar(part)), [])
