"""LMDeploy 0.9.2 and 0.18 with the PyTorch engine, one data-parallel rank: what its API process answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from demo.faces.lmdeploy_families import OLD
from demo.faces.lmdeploy_metrics import METRICS
from demo.model import NOT_FOUND, Answer, EngineState, Identity, Observer

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Lmdeploy:
    """Raises ValueError for a release that is none of those that are known. A rank is a server: there is one engine.

    `renamed` are names of families other than the release's own.
    """

    def __init__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> None:
        if identity.release not in METRICS:
            raise ValueError(f"LMDeploy {identity.release} is not known: it is one of {', '.join(METRICS)}")
        (self._engine,) = engines
        self._identity = identity
        self._metrics = METRICS[identity.release](identity, self._engine, renamed)
        self.page = self._metrics.page
        self._documents: dict[str, Callable[[float], Answer]] = {
            "/health": self._metrics.health.answer,
            "/v1/models": self._models,
            "/distserve/engine_info": self._engine_info,
        }
        if identity.release == OLD:
            self._documents["/health"] = lambda _: Answer(200, "", b"")
        else:
            self._documents["/is_sleeping"] = lambda _: _json({"is_sleeping": False})

    def observer(self, engine: int) -> Observer:
        return (self._metrics,)[engine]

    def answer(self, path: str, now: float) -> Answer:
        if path.startswith("/metrics"):  # a mount: whatever follows is the same page
            self._metrics.refresh(now)
            return self.page.answer(_TEXT)
        document = self._documents.get(path)
        return document(now) if document else NOT_FOUND

    def _models(self, now: float) -> Answer:
        served = [_card(name, now) for name in (self._identity.model, *self._identity.adapters)]
        return _json({"object": "list", "data": served})

    def _engine_info(self, _: float) -> Answer:
        limits = self._engine.limits
        info = {
            "tp_size": self._identity.tensor_parallel, "ep_size": 1, "dp_size": 1, "pp_size": None, "dp_rank": 0,
            "block_size": limits.block_tokens, "num_cpu_blocks": 0,
            "num_gpu_blocks": limits.kv_tokens // limits.block_tokens,
        }  # fmt: skip
        return _json(json.dumps(info))  # text in text: the server encodes it twice


def _card(name: str, now: float) -> dict[str, object]:
    return {
        "id": name, "object": "model", "created": int(now), "owned_by": "lmdeploy", "root": name, "parent": None,
        "permission": [],
    }  # fmt: skip


def _json(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value, separators=(",", ":")).encode())
