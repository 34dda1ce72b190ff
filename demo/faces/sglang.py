"""SGLang 0.4.9 and 0.5.23: what its server answers. Started with --enable-metrics and --collect-tokens-histogram.

Left out: speculation, caches beyond the GPU, what is evicted from the GPU's, the warm-up request, and that a request
that was put back into the queue has its stages timed again; the token that is made for whoever asks how it is, and that
such a question counts among HTTP requests until it is answered. 0.4.9 is asked by clients that stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor

from demo.faces import sglang_documents as documents
from demo.faces.board import Board, Signals
from demo.faces.exposition import SEVERAL_PROCESSES, Labels, Page
from demo.faces.sglang_engine import Scheduler, Tokenizer
from demo.faces.sglang_families import RELEASES
from demo.faces.sglang_http import Http, http_rows
from demo.model import NOT_FOUND, Answer, EngineState, Identity, Observer

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_LOADS_SECONDS = 0.0008
_HEALTH_SECONDS = 20.0
"""SGLANG_HEALTH_CHECK_TIMEOUT"""
_HEALTH_LOOK_SECONDS = 1.0
_CPU_SHARES = {"tokenizer": 0.3, "detokenizer": 0.1}
_ASKS_SCHEDULERS = {"/get_server_info", "/server_info", "/get_load"}
"""Each of which has to answer before these do."""


class Sglang:
    """Raises ValueError for a release that is none of those that are known. Each engine is a data-parallel rank.

    `renamed` are names of families other than the release's own.
    """

    def __init__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> None:
        if identity.release not in RELEASES:
            raise ValueError(f"SGLang {identity.release} is not known: it is one of {', '.join(RELEASES)}")
        self._identity = identity
        self._engines = tuple(engines)
        self._release = RELEASES[identity.release]
        self._limits = engines[0].limits
        self.page = Page(SEVERAL_PROCESSES, renamed=renamed)
        http = http_rows() if self._release.has_ranks else []
        self._board = Board(self.page, [*self._release.rows(self._limits, identity.role), *http])
        self._server = Signals(self._board, server=[self._told(self._release.has_ranks)], http=[{}])
        self._http = Http(self._board)
        tokenizer = Tokenizer(self._server, self._http, self._release, identity.role)
        self._schedulers = [self._scheduler(rank, tokenizer) for rank in range(len(self._engines))]
        self._documents = self._new_documents() if self._release.has_ranks else self._old_documents()

    # Labels

    def _told(self, with_role: bool) -> dict[str, str]:
        role = {"engine_type": self._identity.role} if with_role else {}
        return {**role, "model_name": self._identity.model}

    def _scheduler(self, dp_rank: int, tokenizer: Tokenizer) -> Scheduler:
        state, role, started = self._engines[dp_rank], self._identity.role, self._identity.started
        if self._release.has_ranks:
            ranks = [self._rank(dp_rank, tp_rank) for tp_rank in range(self._identity.tensor_parallel)]
        else:
            ranks = [self._told(with_role=True)]
        pid = str(self._identity.pid + 1 + dp_rank * len(ranks))
        signals = Signals(self._board, rank=ranks[:1], ranks=ranks, others=ranks[1:], pid=[{**ranks[0], "pid": pid}])
        return Scheduler(state, signals, tokenizer, self._release, role, started)

    def _rank(self, dp_rank: int, tp_rank: int) -> Labels:
        several = {"dp_rank": str(dp_rank)} if len(self._engines) > 1 else {}
        return {**self._told(with_role=True), **several, "tp_rank": str(tp_rank), "pp_rank": "0", "moe_ep_rank": "0"}

    def observer(self, engine: int) -> Observer:
        return self._schedulers[engine]

    # Answers

    def answer(self, path: str, now: float) -> Answer:
        path = path.partition("?")[0]
        self._http.arrived(path, "GET")
        answer = self._found(path, now)
        self._http.finished(answer.status, path, "GET")
        return answer

    def _found(self, path: str, now: float) -> Answer:
        if path.startswith("/metrics"):  # a mount: whatever follows is the same page
            return self._metrics(now)
        if path == "/health" and not self._release.has_ranks:
            return Answer(200, "", b"")
        if path in {"/health", "/health_generate"}:
            return self._health(now)
        document = self._documents.get(path)
        if document is None:
            return NOT_FOUND
        answer = documents.answer(document(now))
        return replace(answer, seconds=self._still(now, max)) if path in _ASKS_SCHEDULERS else answer

    def _health(self, now: float) -> Answer:
        """It looks each second whether any scheduler has told anything since it was asked."""
        looks = floor(self._still(now, min) / _HEALTH_LOOK_SECONDS) + 1
        seconds = looks * _HEALTH_LOOK_SECONDS
        return Answer(200 if seconds <= _HEALTH_SECONDS else 503, "", b"", seconds=min(seconds, _HEALTH_SECONDS))

    def _still(self, now: float, of: Callable[[Iterable[float]], float]) -> float:
        """Seconds until the first, or the last, of the engines works."""
        return of(max(engine.still_until - now, 0.0) for engine in self._engines)

    def _metrics(self, now: float) -> Answer:
        for scheduler in self._schedulers:
            scheduler.reports.pass_time(now)
        for scheduler in sorted(self._schedulers, key=lambda s: s.reports.last):  # who has no rank is written over
            scheduler.show(now)
        for component, share in _CPU_SHARES.items():
            self._server.set(f"{component}_cpu", share * (now - self._identity.started))
        return self.page.answer(_TEXT)

    def _old_documents(self) -> dict[str, Callable[[float], object]]:
        return {
            "/v1/models": lambda now: self._models(now, names_parents=False),
            "/get_model_info": lambda _: documents.model_info(self._identity),
            "/get_server_info": lambda _: self._server_info(),
            "/get_load": lambda _: documents.load(self._engines),
        }

    def _new_documents(self) -> dict[str, Callable[[float], object]]:
        return {
            "/v1/models": lambda now: self._models(now, names_parents=True),
            "/get_model_info": lambda _: documents.model_info(self._identity),
            "/model_info": lambda _: documents.model_info(self._identity),
            "/get_server_info": lambda _: self._server_info(),
            "/server_info": lambda _: self._server_info(),
            "/v1/loads": self._loads,
        }

    def _models(self, now: float, *, names_parents: bool) -> object:
        return documents.models(self._identity, self._limits.context_tokens, names_parents=names_parents, now=now)

    def _server_info(self) -> object:
        return documents.server_info(self._identity, self._engines, [s.reports for s in self._schedulers])

    def _loads(self, now: float) -> object:
        self._server.observe("loads_seconds", _LOADS_SECONDS)
        return documents.loads(self._identity, self._engines, [s.reports for s in self._schedulers], now)
