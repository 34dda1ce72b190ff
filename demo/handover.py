"""A server that computes prompts, and another that goes on from there: prefill and decode disaggregated."""

from __future__ import annotations

from dataclasses import replace

from demo.engine import Engine
from demo.model import Observer, Request
from demo.observers import Silent


class Handover(Silent):
    """Of two engines, of which the second must be advanced after the first, to the same time.

    The first is given one-token copies of the requests. `witness` is told of the requests themselves what becomes of
    them before they are handed over; it should observe the second engine as well.
    """

    def __init__(
        self, prefill: Engine, decode: Engine, witness: Observer, *, seconds: float = 0.005, token: float = 2e-6
    ) -> None:
        """The KV cache travels for so many seconds, and so many more for each token of the prompt."""
        self._prefill = prefill
        self._decode = decode
        self._witness = witness
        self._seconds = seconds
        self._token = token
        self._under_way: dict[int, Request] = {}
        prefill.observe(self)
        decode.observe(_Ends(self._under_way))

    def submit(self, request: Request) -> None:
        leaves = 0 if request.leaves_after == 0 else None
        self._prefill.submit(replace(request, output_tokens=1, ends_by="length", leaves_after=leaves))
        self._under_way[request.number] = request

    def crash(self) -> list[Request]:
        """Of both; see `Engine.crash`. What is on its way between them is lost as well."""
        self._prefill.crash()
        self._decode.crash()
        lost = [request for request in self._under_way.values() if request.arrived <= self._prefill.now]
        for request in lost:
            request.is_lost = True
        self._under_way.clear()
        return lost

    def arrived(self, copy: Request, now: float, /) -> None:
        self._witness.arrived(self._under_way[copy.number], now)

    def rejected(self, copy: Request, now: float, /) -> None:
        request = self._under_way.pop(copy.number)
        request.is_rejected = True
        self._witness.rejected(request, now)

    def scheduled(self, copy: Request, now: float, /) -> None:
        request = self._under_way[copy.number]
        request.scheduled, request.cached_tokens = copy.scheduled, copy.cached_tokens
        self._witness.scheduled(request, now)

    def finished(self, copy: Request, now: float, /) -> None:
        request = self._under_way[copy.number]
        if copy.reason == "length":
            request.is_prefilled = True
            self._decode.submit(request, now + self._seconds + self._token * request.prompt_tokens)
            return
        del self._under_way[copy.number]
        request.reason, request.finished = copy.reason, copy.finished
        self._witness.finished(request, now)


class _Ends(Silent):
    """Strikes off what has come to its end."""

    def __init__(self, under_way: dict[int, Request]) -> None:
        self._under_way = under_way

    def rejected(self, request: Request, _now: float, /) -> None:
        self._under_way.pop(request.number)

    finished = rejected
