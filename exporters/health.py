"""What a server says of its own health: an HTTP status, or that it gave no answer; else nothing is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporters.fetch import Body, Failure
from exporters.findings import Finding, finding

BELIEVED_SECONDS = 300.0
"""What was said before that is told no more."""
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class NoAnswer:
    seconds: float
    """So long it was waited for."""

    def __str__(self) -> str:
        return f"no answer within {self.seconds:.0f} s"


Health = int | NoAnswer


def health_of(answer: Body | Failure, *, has_answered: bool) -> Health | None:
    """`has_answered`: whether this server's health ever did. Where not, it may be out of reach, which says nothing."""
    if isinstance(answer, Body) or answer.answered:
        return answer.status
    return NoAnswer(answer.duration) if has_answered and answer.reason == "timeout" else None


def unhealthy(said: Iterable[object]) -> Iterator[Finding]:
    for health in said:
        if isinstance(health, NoAnswer):
            yield finding("unhealthy", str(health))
        elif isinstance(health, int) and health >= _SERVER_ERROR:
            yield finding("unhealthy", f"HTTP {health}")
