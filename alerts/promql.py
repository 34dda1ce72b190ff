"""PromQL as text. The only place where it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NewType

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


def quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def literal(text: str) -> str:
    """A regular expression (RE2) that matches this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def selector(names: Iterable[str], *more: Matcher) -> str:
    """Series of these metrics, as a histogram's parts are named: `…_bucket`, `…_sum`, `…_count`."""
    return "{" + ",".join((one_of("__name__", names), *more)) + "}"


def raw(of: str, seconds: float) -> str:
    """Every sample within the last `seconds`."""
    return f"{of}[{_duration(seconds)}]"


def over_time(function: str, of: str, seconds: float) -> str:
    return f"{function}_over_time({raw(of, seconds)})"


def resets(names: Sequence[str], by: Sequence[str], seconds: float, *more: Matcher) -> str:
    """Groups in which any of these counters fell within the last `seconds`: a clause each, as `resets` drops names."""
    group = ", ".join(by)
    return " or ".join(f"sum by ({group}) (resets({raw(selector([name], *more), seconds)})) > 0" for name in names)


def samples(names: Sequence[str], seconds: float, *more: Matcher) -> str:
    """How many samples the first of these metrics that has any has within the last `seconds`."""
    return " or ".join(f"sum({over_time('count', selector([name], *more), seconds)})" for name in names)


def _duration(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
