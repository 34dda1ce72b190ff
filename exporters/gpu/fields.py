"""Values that NVML gives by field number: many in one call, each with an error code of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from exporters.gpu.errors import NO_DATA, NOT_SUPPORTED, Verdict, code_of

_OK = 0
_FATAL = (Verdict.LOST, Verdict.OVER)
_MEMBER_OF_TYPE = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_WIDE_TYPES = (2, 3, 4)

ALL_LINKS = 0xFFFFFFFF


class Member(NamedTuple):
    field: int
    scope: int = 0


class _Answer(NamedTuple):
    error: int
    value: float
    wide: bool


class FieldReader:
    """Remembers each field's last value, so that a sum of counters never falls because one of them is not there."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._answers: Mapping[Member, _Answer] = {}
        self._last: dict[Member, float] = {}
        self._never: set[Member] = set()
        self._error = _OK

    def read(self, handle: Any, members: Iterable[Member]) -> None:
        """Once per reading of the GPU. Raises only errors of the whole GPU."""
        wanted = [m for m in dict.fromkeys(members) if m not in self._never]
        self._answers, self._error = {}, _OK
        try:
            self._answers = self._asked(handle, wanted) if wanted else {}
        except self._nvml.NVMLError as error:
            if code_of(error.value).verdict in _FATAL:
                raise
            self._error = error.value

    def _asked(self, handle: Any, wanted: list[Member]) -> dict[Member, _Answer]:
        got = self._nvml.nvmlDeviceGetFieldValues(handle, wanted)
        answers = {m: _answer(value) for m, value in zip(wanted, got, strict=True)}
        for member, answer in answers.items():
            if answer.error == _OK:
                self._last[member] = answer.value
            elif member not in self._last and code_of(answer.error).verdict is Verdict.NEVER:
                self._never.add(member)
        return answers

    def total(self, members: Iterable[Member], *, wide: bool = False) -> float:
        """Raises NVML's error where no member has a value now."""
        known = [m for m in members if m in self._answers]
        now = [m for m in known if self._answers[m].error == _OK and (self._answers[m].wide or not wide)]
        if not now:
            raise self._nvml.NVMLError(self._why_not(known))
        return sum(self._last[m] for m in known if m in self._last)

    def _why_not(self, known: list[Member]) -> int:
        """Members that are not asked any more are not supported; a narrow value is not what is wanted."""
        if self._error:
            return self._error
        errors = [self._answers[m].error for m in known]
        if not errors or _OK in errors:
            return NOT_SUPPORTED
        once_there = any(m in self._last for m in known)
        return NO_DATA if once_there and code_of(errors[0]).verdict is Verdict.NEVER else errors[0]


def _answer(field: Any) -> _Answer:
    kind = int(field.valueType)
    member = _MEMBER_OF_TYPE.get(kind)
    error = int(field.nvmlReturn) if member is not None or field.nvmlReturn != _OK else NOT_SUPPORTED
    value = float(getattr(field.value, member)) if member is not None and error == _OK else 0.0
    return _Answer(error, value, kind in _WIDE_TYPES)
