"""What somebody who asks a simulated server gets, and how: whoever carries it to him does the waiting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from demo.model import Answer


@dataclass(frozen=True, slots=True)
class Reply:
    """`wait` seconds pass before its head, `body_seconds` within its body; `cut` is how many bytes of that come.

    Without an answer nothing listens.
    """

    answer: Answer | None
    wait: float = 0.0
    body_seconds: float = 0.0
    cut: int | None = None


REFUSED = Reply(None)
Change = Callable[[Reply], Reply]
"""What a fault makes of a reply."""


def silent(reply: Reply) -> Reply:
    return replace(reply, wait=math.inf)


def slow(seconds: float) -> Change:
    return lambda reply: replace(reply, body_seconds=seconds)


def truncated(share: float) -> Change:
    return lambda reply: replace(reply, cut=int(share * len(reply.answer.body)) if reply.answer else None)


def unauthorized(_: Reply) -> Reply:
    return Reply(Answer(401, "application/json", b'{"error":"Unauthorized"}'))


def empty(reply: Reply) -> Reply:
    return replace(reply, answer=replace(reply.answer, body=b"") if reply.answer else None)
