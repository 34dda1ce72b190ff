"""One streamed completion of the OpenAI API: how it is asked for, and a judgement of the answer as it comes. Pure.

Neither the prompt nor any text of the answer is kept or told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from exporters.fetch import EVENTS_TYPE, Failure
from exporters.sse import Events

Endpoint = Literal["completions", "chat"]

PATHS: dict[Endpoint, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
MODELS = "/v1/models"

_PARTS_PER_TOKEN = 2
"""A token may come in two parts, one of reasoning and one of answer; more means that `max_tokens` is not kept."""
_MAX_REFUSAL_BYTES = 2**16
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
_GIVEN_UP = ("abort", "error")

_REALLY = "Real requests probably fail as well: look into the server's log."
_LOCKED = (
    "Give `bearer_token_file` or `bearer_token_env`, and see that it can be read: /metrics may be open where "
    "completions are not."
)
_MODEL_NAME = "Set `synthetic_request.model` to a name that /v1/models lists, or leave it out."
_PATH = "Set `synthetic_request.endpoint` to what the server has, `completions` or `chat`."
_REFUSED = "Try the other `synthetic_request.endpoint`; the server's log tells what it does not take."
_BUSY = "The server refuses requests, real ones too: it is starting, overloaded or broken."
_REMEDIES = {400: _REFUSED, 401: _LOCKED, 403: _LOCKED, 404: _PATH, 405: _PATH, 422: _REFUSED, 429: _BUSY, 503: _BUSY}


@dataclass(frozen=True, slots=True)
class Times:
    """Of a completion that got its tokens: seconds from the request's start, connecting included."""

    first_token: float
    whole: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no such completion, and what to do about it."""

    detail: str
    remedy: str = _REALLY


def question(endpoint: Endpoint, model: str, prompt: str, max_tokens: int) -> bytes:
    asked = {"prompt": prompt} if endpoint == "completions" else {"messages": [{"role": "user", "content": prompt}]}
    # Nothing beside: every further parameter is one that some server refuses.
    return json.dumps({"model": model, **asked, "max_tokens": max_tokens, "stream": True}).encode()


def served_model(text: str) -> str | Problem:
    """The first of /v1/models that is no adapter of another."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return Problem(f"model not known: {MODELS} is no JSON", _MODEL_NAME)
    data = listed.get("data") if isinstance(listed, dict) else None
    models = [m for m in data if isinstance(m, dict) and m.get("parent") is None] if isinstance(data, list) else []
    names = [name for m in models if isinstance(name := m.get("id"), str) and name]
    return names[0] if names else Problem(f"model not known: {MODELS} lists none", _MODEL_NAME)


def no_models(failure: Failure, seconds: float) -> Problem:
    """/v1/models did not come."""
    if failure.status is None:
        return unanswered(failure, seconds)
    remedy = _LOCKED if failure.reason == "unauthorized" else _MODEL_NAME
    return Problem(f"model not known: {MODELS}: {failure.detail}", remedy)


def unanswered(failure: Failure | None, seconds: float) -> Problem:
    if failure is None or failure.reason == "timeout":
        return Problem(f"timeout: no answer within {seconds:g} s")
    return Problem(_said(failure))


class Answer:
    """Receives the answer; what comes of it is `judged` when the exchange has ended, however it did."""

    def __init__(self, clock: Callable[[], float], max_tokens: int) -> None:
        """The request starts now. `clock` tells seconds."""
        self._clock = clock
        self._start = clock()
        self._max_parts = _PARTS_PER_TOKEN * max_tokens
        self._status: int | None = None
        self._type = ""
        self._events = Events()
        self._refusal = bytearray()
        self._parts = 0
        self._first: float | None = None
        self._end: float | None = None
        self._problem: Problem | None = None

    def head(self, status: int, content_type: str) -> None:
        self._status = status
        self._type = content_type.partition(";")[0].strip().lower()

    def part(self, raw: bytes) -> bool:
        at = self._clock()
        if not self._is_accepted:
            self._refusal += raw[: _MAX_REFUSAL_BYTES - len(self._refusal)]
            return len(self._refusal) == _MAX_REFUSAL_BYTES
        if self._type != EVENTS_TYPE:
            return True
        for event in self._events.feed(raw):
            self._take(event.strip(), at)
            if self._is_over:
                break
        return self._is_over

    def judged(self, failure: Failure | None, seconds: float) -> Times | Problem:
        """`failure`: why the exchange broke off, if it did; `seconds`: the time that it had."""
        if self._status is None:
            return unanswered(failure, seconds)
        if not self._is_accepted:
            return _refused(self._status, bytes(self._refusal))
        if self._type != EVENTS_TYPE:
            return Problem(f"no event stream: the answer's type is {self._type[:60]!r}", _REFUSED)
        if self._problem is not None:
            return self._problem
        if self._end is not None:
            return self._ended(self._end)
        return self._cut(failure, seconds)

    @property
    def _is_accepted(self) -> bool:
        return self._status is not None and 200 <= self._status < 300

    @property
    def _is_over(self) -> bool:
        return self._end is not None or self._problem is not None

    def _take(self, event: str, at: float) -> None:
        if event == "[DONE]":
            self._end = at
        elif event:
            try:
                self._read(json.loads(event), at)
            except (ValueError, RecursionError):
                self._problem = Problem("broken stream: one of its events is no JSON")

    def _read(self, chunk: object, at: float) -> None:
        self._problem = _complaint(chunk)
        if self._problem is None and _has_text(chunk):
            self._first = at if self._first is None else self._first
            self._parts += 1
            if self._parts > self._max_parts:
                self._problem = Problem(f"endless stream: more than {self._max_parts} parts, cut off")

    def _ended(self, end: float) -> Times | Problem:
        if self._first is None:
            return Problem(f"no token: the stream ended without one (HTTP {self._status})")
        return Times(self._first - self._start, end - self._start)

    def _cut(self, failure: Failure | None, seconds: float) -> Problem:
        if failure is not None and failure.reason == "timeout":
            late = "no token" if self._first is None else "the stream did not end"
            return Problem(f"timeout: {late} within {seconds:g} s")
        if failure is not None:
            return Problem(f"broken stream: {_said(failure)}")
        if self._first is None:
            return Problem(f"no token: the stream broke off without one (HTTP {self._status})")
        return Problem("broken stream: it ended without [DONE]")


def _said(failure: Failure) -> str:
    return f"{failure.reason}: {failure.detail}".removesuffix(": ")


def _has_text(chunk: object) -> bool:
    """Chunks of a role, of usage or of nothing do not count."""
    for choice in _choices(chunk):
        delta = choice.get("delta")
        said = delta if isinstance(delta, dict) else {}
        texts = (choice.get("text"), *(said.get(name) for name in ("content", "reasoning_content", "reasoning")))
        if any(isinstance(text, str) and text for text in texts):
            return True
    return False


def _complaint(chunk: object) -> Problem | None:
    """Servers answer 200 before they know how it ends: what goes wrong then stands in the stream."""
    if isinstance(chunk, dict) and (chunk.get("error") or chunk.get("object") == "error"):
        told = chunk["error"] if isinstance(chunk.get("error"), dict) else chunk
        words = [str(told.get(name)) for name in ("type", "code")]
        shown = " ".join(word for word in words if _WORD.fullmatch(word) and word != "None")
        return Problem(f"error in the stream: {shown}".removesuffix(": "))
    for choice in _choices(chunk):
        reason = choice.get("finish_reason")
        if isinstance(reason, dict):
            reason = reason.get("type")
        if reason in _GIVEN_UP:
            return Problem(f"given up by the server: finish_reason {reason}")
    return None


def _choices(chunk: object) -> Iterator[dict[str, object]]:
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if isinstance(choices, list):
        yield from (choice for choice in choices if isinstance(choice, dict))


def _refused(status: int, body: bytes) -> Problem:
    """The body's text may repeat the prompt: it is looked at and not told."""
    if status == 404 and _MODEL.search(_message(body)):
        return Problem("HTTP 404: the server does not know the model", _MODEL_NAME)
    return Problem(f"HTTP {status}", _REMEDIES.get(status, _REALLY))


def _message(body: bytes) -> str:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        told = told["error"]
    message = told.get("message") if isinstance(told, dict) else None
    return message if isinstance(message, str) else ""
