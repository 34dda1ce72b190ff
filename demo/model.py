"""What the simulated fleet is made of: requests, what happens to them, and what a server shows of it.

All times are seconds of the Unix epoch, handed in: nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Reason = Literal["stop", "length", "abort", "error"]


@dataclass(slots=True, eq=False)
class Request:
    """What was asked for, and below it what came of it: the truth that everything shown can be held to.

    `prefix_tokens` of the prompt are the same in all requests with the same `prefix`. `leaves_after` is the number of
    tokens after which the client goes away, if it does: 0 is before the first. If it `is_prefilled`, its prompt's KV
    cache and its first token come along, from a prefill server to a decode server.
    """

    number: int
    arrived: float
    prompt_tokens: int
    output_tokens: int
    prefix: str = ""
    prefix_tokens: int = 0
    adapter: str = ""
    ends_by: Literal["stop", "length"] = "length"
    leaves_after: int | None = None
    is_prefilled: bool = False

    scheduled: float | None = None
    first_token: float | None = None
    finished: float | None = None
    reason: Reason | None = None
    is_rejected: bool = False
    is_lost: bool = False
    """Was waiting or running when its server died: nobody observes that."""
    cached_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """`count` equal steps of an engine, each `seconds` long, with `running` requests in its batch."""

    count: int
    seconds: float
    running: int
    prompt_tokens: int
    """Computed in all of them together; what was found in the prefix cache is not among them."""
    generated_tokens: int
    """In all of them together."""


class Observer(Protocol):
    """Is told by an engine what happens, in order of time. `now` is when it happened."""

    def arrived(self, request: Request, now: float, /) -> None: ...

    def rejected(self, request: Request, now: float, /) -> None: ...

    def scheduled(self, request: Request, now: float, /) -> None:
        """Left the queue for the first time; `cached_tokens` of its prompt are found."""

    def first_token(self, request: Request, now: float, /) -> None: ...

    def gaps(self, seconds: float, count: int, now: float, /) -> None:
        """`count` times between two tokens of one request, all `seconds` long; those of many requests come together."""

    def preempted(self, request: Request, now: float, /) -> None: ...

    def finished(self, request: Request, now: float, /) -> None:
        """Its `reason`, `finished` and `generated_tokens` are set; `first_token` may be None."""

    def stepped(self, steps: Steps, now: float, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How a server was started."""

    running: int = 256
    waiting: int | None = None
    """Requests beyond this are rejected, as are those too long for the context or the KV cache."""
    kv_tokens: int = 400_000
    block_tokens: int = 16
    context_tokens: int = 8192
    prefill_tokens_per_step: int = 8192
    prefix_caching: bool = True
    adapters: int = 0
    """So many different ones run together; without any, requests for one are rejected."""
    draft_tokens: int = 0
    """Proposed for each step of a sequence; without any, it speculates not. The model's steps take no account of it."""
    drafts_accepted: float = 0.0
    """The share of them."""


class EngineState(Protocol):
    """One data-parallel replica as its gauges see it at the moment up to which it was advanced."""

    @property
    def limits(self) -> Limits: ...

    @property
    def running(self) -> Sequence[Request]: ...

    @property
    def waiting(self) -> Sequence[Request]: ...

    @property
    def kv_tokens(self) -> int:
        """Held by running requests, in whole blocks; shared blocks count once."""

    @property
    def cached_kv_tokens(self) -> int:
        """Held by nobody, kept for prefixes that may come again."""

    @property
    def still_until(self) -> float:
        """It makes no step before: a moment that is over, unless it hangs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a server over HTTP."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    """Until it comes."""


NOT_FOUND = Answer(404, "application/json", b'{"detail":"Not Found"}')


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server says of itself."""

    model: str
    release: str
    started: float
    role: Literal["unified", "prefill", "decode"] = "unified"
    tensor_parallel: int = 1
    pid: int = 1
    adapters: tuple[str, ...] = field(default=())


class Face(Protocol):
    """One framework's release: it observes engines, and answers as that release would.

    A face is as old as its process: a restart makes new engines and a new face.
    """

    def observer(self, engine: int) -> Observer: ...

    def answer(self, path: str, now: float) -> Answer:
        """Of a GET. All engines were advanced to `now`. Some documents lose what was read (TensorRT-LLM's JSON)."""
