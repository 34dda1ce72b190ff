"""What several parts say of the same trouble, in one sentence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

_TEXT = re.compile(r"could not (?P<what>.+?) at (?P<place>.+?): (?P<why>.+)", re.DOTALL)
_MOST_PLACES = 8


@dataclass(frozen=True, slots=True)
class _Failure:
    what: str
    places: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        more = len(self.places) - _MOST_PLACES
        shown = self.places if more <= 0 else (*self.places[:_MOST_PLACES], f"{more} more")
        return f"could not {self.what} at {_listed(shown, 'and')}: {self.why}"


def merged(problems: Iterable[str]) -> list[str]:
    """Each text once; of those that could not do something, what could not be done for one reason at one place, then
    what could not be done for one reason at several places."""
    found = [_failure(text) for text in dict.fromkeys(problems)]
    by_place = _together([f for f in found if isinstance(f, _Failure)], of_place=True)
    return [str(each) for each in (*(f for f in found if isinstance(f, str)), *_together(by_place, of_place=False))]


def _failure(text: str) -> _Failure | str:
    told = _TEXT.fullmatch(text)
    return _Failure(told["what"], (told["place"],), told["why"]) if told else text


def _together(failures: Sequence[_Failure], *, of_place: bool) -> list[_Failure]:
    alike: defaultdict[Hashable, list[_Failure]] = defaultdict(list)
    for each in failures:
        alike[each.places if of_place else each.what, each.why].append(each)
    if of_place:
        return [replace(of[0], what=_listed([f.what for f in of], "or")) for of in alike.values()]
    return [replace(of[0], places=tuple(place for f in of for place in f.places)) for of in alike.values()]


def _listed(parts: Sequence[str], before_last: str) -> str:
    *others, last = dict.fromkeys(parts)
    return f"{', '.join(others)} {before_last} {last}" if others else last
