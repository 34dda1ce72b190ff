"""Triton 24.10 and 24.11 with TensorRT-LLM's C++ backend behind an ensemble, on both of its ports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from demo.faces.triton_metrics import Metrics
from demo.model import Answer, EngineState, Identity, Observer

_TEXT = "text/plain; charset=utf-8"
_VERSIONS = {"24.10": "2.51.0", "24.11": "2.52.0"}
_FIRST_RESPONSES = ("24.11",)
"""These run with histogram_latencies=true, which 24.10 takes without a word and without effect."""
_EXTENSIONS = (
    "classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
    "model_configuration", "system_shared_memory", "cuda_shared_memory", "binary_tensor_data", "parameters",
    "statistics", "trace", "logging",
)  # fmt: skip
_NOT_FOUND = Answer(404, "application/json", b'{"error":"Not Found"}')
"""As at the port of its API."""


class Triton:
    """Raises ValueError for a release that is none of those that are known. There is one engine.

    `renamed` are names of families other than the release's own.
    """

    def __init__(
        self, identity: Identity, engines: Sequence[EngineState], *, renamed: Mapping[str, str] | None = None
    ) -> None:
        if identity.release not in _VERSIONS:
            raise ValueError(f"Triton {identity.release} is not known: it is one of {', '.join(_VERSIONS)}")
        (engine,) = engines
        self._metrics = Metrics(engine, renamed, has_first_response=identity.release in _FIRST_RESPONSES)
        self.page = self._metrics.page
        server = {"name": "triton", "version": _VERSIONS[identity.release], "extensions": _EXTENSIONS}
        self._documents: Mapping[str, Callable[[], Answer]] = {
            "/metrics": self._page,
            "/v2": lambda: _json(server),
            "/v2/models/stats": self._statistics,
            "/v2/health/live": lambda: Answer(200, "", b""),
            "/v2/health/ready": lambda: Answer(200, "", b""),
        }

    def observer(self, engine: int) -> Observer:
        return (self._metrics,)[engine]

    def answer(self, path: str, now: float) -> Answer:
        document = self._documents.get(path)
        return document() if document else _NOT_FOUND

    def _page(self) -> Answer:
        self._metrics.refresh()
        return self.page.answer(_TEXT)

    def _statistics(self) -> Answer:
        """By the models' names."""
        models = sorted(self._metrics.models.values(), key=lambda model: model.name)
        return _json({"model_stats": [model.document() for model in models]})


def _json(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value, separators=(",", ":")).encode())
