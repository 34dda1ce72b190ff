"""vLLM 0.6.6 (V0 engine), 0.10 and 0.32: what its API server answers.

Left out: how speculation changes the time between tokens, how many drafted tokens are accepted at each position, and
that 0.10 looks a prompt up in the prefix cache again each step while it waits for room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from demo.faces.board import Board, Row, Signals
from demo.faces.exposition import ONE_PROCESS, SEVERAL_PROCESSES, Page
from demo.faces.vllm_engine import Adapters, Rates, VllmEngine
from demo.faces.vllm_families import LORA, RELEASES
from demo.faces.vllm_http import Http, http_rows, process_at, process_rows
from demo.model import NOT_FOUND, Answer, EngineState, Identity, Observer

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_EMPTY = Answer(200, "", b"")


class Vllm:
    """Raises ValueError for a release that is none of those that are known, and for several V0 engines.

    Several engines have as many API processes, whose metrics are merged: without process metrics, and without times of
    birth; so has a V0 engine. `renamed` are names of families other than the release's own.
    """

    def __init__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> None:
        if identity.release not in RELEASES:
            raise ValueError(f"vLLM {identity.release} is not known: it is one of {', '.join(RELEASES)}")
        self._release = RELEASES[identity.release]
        if self._release.is_v0 and len(engines) > 1:
            raise ValueError(f"vLLM {identity.release} has one engine, not {len(engines)}")
        self._identity = identity
        self._limits = engines[0].limits
        self._is_alone = len(engines) == 1 and not self._release.is_v0
        self.page = Page(ONE_PROCESS if self._is_alone else SEVERAL_PROCESSES, renamed=renamed)
        self._board = Board(self.page, self._rows(len(engines)))
        self._process = Signals(self._board, process=[{}])
        self.page.created = identity.started if self._is_alone else None  # not told of the process's own
        self._server = Signals(self._board, server=[{"model_name": identity.model}], http=[{}])
        self._http = Http(self.page, self._server)
        self._engines = [self._engine(number, state) for number, state in enumerate(engines)]
        self._documents = self._found_documents()

    def _rows(self, engines: int) -> list[Row]:
        own = self._release.rows(self._limits, engines)
        before = process_rows(self._identity) if self._is_alone else []
        return [*before, *own, *([] if self._release.is_v0 else http_rows())]

    def _engine(self, number: int, state: EngineState) -> VllmEngine:
        engine = {} if self._release.is_v0 else {"engine": str(number)}
        labels = {**engine, "model_name": self._identity.model}
        signals = Signals(self._board, engine=[labels], config=[engine])
        rates = Rates(signals, self._identity.started) if self._release.is_v0 else None
        return VllmEngine(state, signals, self._http, adapters=self._adapters(state), rates=rates)

    def _adapters(self, state: EngineState) -> Adapters | None:
        if not state.limits.adapters:
            return None
        return Adapters(state, self._board.values[LORA], tells_waiting=self._release.is_v0)

    def observer(self, engine: int) -> Observer:
        return self._engines[engine]

    def answer(self, path: str, now: float) -> Answer:
        path = path.partition("?")[0]
        if path in {"/metrics", "/metrics/"}:
            return self._metrics(self._release.metrics_type if path == "/metrics" else _TEXT, now)
        found = self._documents.get(path)
        answer = found(now) if found else NOT_FOUND
        if path == "/v1/models" or not found:
            self._http.asked("models" if found else "none", answer, now)
        return answer

    def _metrics(self, content_type: str, now: float) -> Answer:
        for engine in self._engines:
            engine.show(now)
        process_at(self._process, now - self._identity.started)
        return self.page.answer(content_type)

    def _found_documents(self) -> dict[str, Callable[[float], Answer]]:
        old: dict[str, Callable[[float], Answer]] = {
            "/health": lambda _: _EMPTY,
            "/version": lambda _: _json({"version": self._identity.release}),
            "/v1/models": self._models,
        }
        if self._release.is_v0:
            return old
        return {**old, "/ping": lambda _: _EMPTY, "/load": lambda _: _json({"server_load": 0})}

    def _models(self, now: float) -> Answer:
        model = self._identity.model
        served = _card(model, f"/models/{model}", None, self._limits.context_tokens, now)
        adapters = [_card(name, f"/models/{name}", model, None, now) for name in self._identity.adapters]
        return _json({"object": "list", "data": [served, *adapters]})


def _card(name: str, root: str, parent: str | None, longest: int | None, now: float) -> dict[str, object]:
    return {
        "id": name, "object": "model", "created": int(now), "owned_by": "vllm", "root": root, "parent": parent,
        "max_model_len": longest, "permission": [_permission(name, now)],
    }  # fmt: skip


def _permission(name: str, now: float) -> dict[str, object]:
    return {
        "id": f"modelperm-{crc32(name.encode()):016x}", "object": "model_permission", "created": int(now),
        "allow_create_engine": False, "allow_sampling": True, "allow_logprobs": True, "allow_search_indices": False,
        "allow_view": True, "allow_fine_tuning": False, "organization": "*", "group": None, "is_blocking": False,
    }  # fmt: skip


def _json(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value, separators=(",", ":")).encode())
