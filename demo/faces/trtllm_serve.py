"""trtllm-serve of TensorRT-LLM 1.2 and 1.3 with the PyTorch engine, and with all its statistics switched on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from demo.faces.trtllm_serve_metrics import METRICS
from demo.model import NOT_FOUND, Answer, EngineState, Identity, Observer

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class TrtllmServe:
    """Raises ValueError for a release that is none of those that are known. There is one engine.

    Reading /metrics takes away what was read: there is one reader of it. `renamed` are names of families other than
    the release's own.
    """

    def __init__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> None:
        if identity.release not in METRICS:
            raise ValueError(f"trtllm-serve {identity.release} is not known: it is one of {', '.join(METRICS)}")
        (engine,) = engines
        self._identity = identity
        self._metrics = METRICS[identity.release](identity, engine, renamed)
        self.page = self._metrics.page
        self._documents: dict[str, Callable[[float], Answer]] = {
            "/health": lambda _: Answer(200, "", b""),
            "/version": lambda _: _json({"version": identity.release}),
            "/v1/models": self._models,
            "/metrics": lambda _: Answer(200, "application/json", self._metrics.take()),
            "/perf_metrics": lambda _: _json([]),  # perf_metrics_max_requests is 0 unless it is set
        }

    def observer(self, engine: int) -> Observer:
        return (self._metrics,)[engine]

    def answer(self, path: str, now: float) -> Answer:
        if path.startswith("/prometheus/metrics"):  # a mount: whatever follows is the same page
            return self.page.answer(_TEXT)
        document = self._documents.get(path)
        return document(now) if document else NOT_FOUND

    def _models(self, now: float) -> Answer:
        card = {"id": self._identity.model, "object": "model", "created": int(now), "owned_by": "tensorrt_llm"}
        return _json({"object": "list", "data": [card]})


def _json(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value, separators=(",", ":")).encode())
