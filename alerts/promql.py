"""PromQL as text. The only place where it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, NewType

from exporters.exposition import format_bound

Matcher = NewType("Matcher", str)
"""One comparison within a selector's braces, such as `node="gpu-1"`."""

_CODE_POINT = r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}"
_STRING = "|".join((
    rf'"(?:[^"\\\n]|\\(?:[abfnrtv\\"]|{_CODE_POINT}))*"',
    rf"'(?:[^'\\\n]|\\(?:[abfnrtv\\']|{_CODE_POINT}))*'",
    "`[^`]*`",
))  # fmt: skip
_MATCHER = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*({_STRING})\s*")
_MATCHERS_WANTED = 'matchers of PromQL without braces, such as cluster="a",team=~"x|y"'
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def matchers(text: str) -> tuple[Matcher, ...]:
    """Of a selector that a person wrote. Raises ValueError, saying what is allowed."""
    found: list[Matcher] = []
    place = 0
    while match := _MATCHER.match(text, place):
        found.append(Matcher("".join(match.groups())))
        place = match.end()
        if place == len(text):
            return tuple(found)
        if text[place] != ",":
            break
        place += 1
    backslash = r"; a backslash in a value is written \\" if "\\" in text[place:] else ""
    raise ValueError(f"{_MATCHERS_WANTED}{backslash}; not understood from character {place + 1} on")


def equals(label: str, value: str) -> Matcher:
    return Matcher(f"{label}={quoted(value)}")


def one_of(label: str, values: Iterable[str]) -> Matcher:
    """Any of these values, whatever characters they hold."""
    known = sorted(set(values))
    return equals(label, known[0]) if len(known) == 1 else Matcher(f"{label}=~{quoted('|'.join(map(literal, known)))}")


def none_of(label: str, values: Iterable[str]) -> Matcher:
    return Matcher(f"{label}!~{quoted('|'.join(map(literal, sorted(set(values)))))}")


def containing(label: str, text: str) -> Matcher:
    return Matcher(f"{label}=~{quoted(f'.*{literal(text)}.*')}")


def matching(label: str, pattern: str) -> Matcher:
    """A regular expression (RE2), or a variable of Grafana that holds one."""
    return Matcher(f"{label}=~{quoted(pattern)}")


def quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def literal(text: str) -> str:
    """A regular expression (RE2) that matches this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def filled(label: str, form: str, way: Literal["=", "=~"] = "=") -> Matcher:
    """With a place, such as `%q`, for a value that a template of Prometheus fills in by its `printf`."""
    return Matcher(f"{label}{way}{form}")


def selector(names: Iterable[str], *more: Matcher) -> str:
    """Series of these metrics, as a histogram's parts are named: `…_bucket`, `…_sum`, `…_count`."""
    return among(one_of("__name__", names), *more)


def among(*matchers: Matcher) -> str:
    """Series of whatever name."""
    return "{" + ",".join(matchers) + "}"


def raw(of: str, seconds: float) -> str:
    """Every sample within the last `seconds`."""
    return f"{of}[{_duration(seconds)}]"


def within(of: str, variable: str) -> str:
    """Every sample within as long as a variable of Grafana says, such as `__rate_interval`."""
    return f"{of}[${variable}]"


def each(of: str, variable: str, step: float) -> str:
    """What `of` was, every `step` seconds within as long as a variable of Grafana says."""
    return f"({of})[${variable}:{_duration(step)}]"


def at_steps(of: str, seconds: float, step: float) -> str:
    """What `of` was every `step` seconds within the last `seconds`."""
    return f"({of})[{_duration(seconds)}:{_duration(step)}]"


def over_time(function: str, of: str, seconds: float) -> str:
    return f"{function}_over_time({raw(of, seconds)})"


def resets(names: Sequence[str], by: Sequence[str], seconds: float, *more: Matcher) -> str:
    """Groups in which any of these counters fell within the last `seconds`: a clause each, as `resets` drops names."""
    group = ", ".join(by)
    return " or ".join(f"sum by ({group}) (resets({raw(selector([name], *more), seconds)})) > 0" for name in names)


def samples(names: Sequence[str], seconds: float, *more: Matcher) -> str:
    """How many samples the first of these metrics that has any has within the last `seconds`."""
    return " or ".join(f"sum({over_time('count', selector([name], *more), seconds)})" for name in names)


class Binary(str):
    """Two expressions with an operator between them: stands in parentheses within another."""

    __slots__ = ()


def series(name: str, *more: Matcher) -> str:
    return name + ("{" + ",".join(more) + "}" if more else "")


def call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def number(value: Decimal | float) -> str:
    """Without an exponent and without the dust of binary fractions."""
    return format(Decimal(str(value)).normalize(), "f")


def variable(name: str) -> str:
    """Of Grafana, in the place of a number."""
    return f"${name}"


def aggregate(function: str, by: Sequence[str], of: str) -> str:
    return f"{function} by ({', '.join(by)}) ({of})"


def aggregate_with(function: str, parameter: str, by: Sequence[str], of: str) -> str:
    """Aggregations that take a parameter: `quantile`, `topk`, `count_values`."""
    return f"{function} by ({', '.join(by)}) ({parameter}, {of})"


def without(function: str, labels: Sequence[str], of: str) -> str:
    """Over the series that differ in these labels alone."""
    return f"{function} without ({', '.join(labels)}) ({of})"


def offset(of: str, seconds: float) -> str:
    """`of` as it was then; a selector, or its raw samples."""
    return f"{of} offset {_duration(seconds)}" if seconds else of


def binary(
    left: str, operator: str, right: str, *, on: Sequence[str] | None = None, group: str = "", bring: Sequence[str] = ()
) -> Binary:
    """`group` is `left` or `right`, the side that has many series for one of the other; it gets the labels `bring`."""
    pairing = "" if on is None else f" on ({', '.join(on)})"
    grouping = f" group_{group} ({', '.join(bring)})" if group else ""
    return Binary(f"{_operand(left)} {operator}{pairing}{grouping} {_operand(right)}")


def first_of(*parts: str, on: Sequence[str] | None = None) -> str:
    """Of each group the first that has a value."""
    return _chain(parts, "or" if on is None else f"or on ({', '.join(on)})")


def all_of(*parts: str) -> str:
    """The first, where all have a value."""
    return _chain(parts, "and")


def _chain(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else Binary(f" {operator} ".join(map(_operand, parts)))


def larger(left: str, right: str) -> str:
    """Of each pair, or the one that there is."""
    return first_of(binary(left, ">", right), right, left)


def labelled(of: str, label: str, value: str) -> str:
    """With this label, whatever the others are."""
    return call("label_replace", of, quoted(label), quoted(value), quoted(""), quoted(""))


def at_bound(bound: float) -> Matcher:
    """`le` in either spelling: Prometheus 2 keeps the `1` of a page, Prometheus 3 makes `1.0` of it."""
    return one_of("le", _spellings(bound))


def among_bounds(bounds: Iterable[float]) -> Matcher:
    return one_of("le", [spelling for bound in bounds for spelling in _spellings(bound)])


def canonical_bound(of: str) -> str:
    """`le` as the sidecar and Prometheus 3 write it."""
    return call("label_replace", of, quoted("le"), quoted("$1.0"), quoted("le"), quoted("([0-9]+)"))


def first_listed(of: str, label: str, listed_in: str, among: Iterable[float]) -> str:
    """With `label` set to the first of the bounds listed in another label that is `among` these; not set if none is."""
    wanted = "|".join(literal(format_bound(bound)) for bound in among)
    pattern = f"(?:[^,]+,)*?({wanted})(?:,.*)?"
    return call("label_replace", of, quoted(label), quoted("$1"), quoted(listed_in), quoted(pattern))


def unless_between(of: str, start: float, end: float) -> str:
    """Nothing while the evaluation's time is after `start` and before `end`."""
    between = binary(binary(call("vector", call("time")), ">", number(start)), "<", number(end))
    return binary(of, "unless", between, on=())


def _spellings(bound: float) -> list[str]:
    text = format_bound(bound)
    return sorted({text, text.removesuffix(".0")})


def _operand(text: str) -> str:
    return f"({text})" if isinstance(text, Binary) else text


def _duration(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
