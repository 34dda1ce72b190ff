"""What a FastAPI server in Python shows beside its own metrics: its process, and its HTTP requests by handler."""

from __future__ import annotations

from demo.faces.board import Row, Signals
from demo.faces.exposition import Page
from demo.model import Answer, Identity, Limits, Request

_FINE = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60)
_COARSE = (0.1, 0.5, 1)
_CPU_SHARE = 0.6
_COLLECTION_SECONDS = {"0": 0.4, "1": 4.0, "2": 60.0}
"""Between two garbage collections of each generation."""
_COLLECTED = {"0": 10, "1": 14, "2": 50}
_PYTHON = {"implementation": "CPython", "major": "3", "minor": "12", "patchlevel": "11", "version": "3.12.11"}
_HANDLERS = {"chat": ("POST", "/v1/chat/completions"), "models": ("GET", "/v1/models"), "none": ("GET", "none")}
_SECONDS_OF_A_DOCUMENT = 0.002
_BYTES_OF_A_REQUEST = 220.0
_BYTES_OF_A_TOKEN = 4.4


def process_rows(identity: Identity) -> list[Row]:
    gauges = {
        "process_virtual_memory_bytes": 2.4e10,
        "process_resident_memory_bytes": 1.3e9,
        "process_start_time_seconds": identity.started,
    }
    return [
        *_by_generation("python_gc_objects_collected_total", "collected"),
        *_by_generation("python_gc_objects_uncollectable_total", "uncollectable"),
        *_by_generation("python_gc_collections_total", "collections"),
        Row("python_info", "gauge", "process", "process", _PYTHON, value=1.0, at_start=True),
        *[Row(name, "gauge", "process", "process", value=value, at_start=True) for name, value in gauges.items()],
        Row("process_cpu_seconds_total", "counter", "cpu_seconds", "process", at_start=True),
        Row("process_open_fds", "gauge", "process", "process", value=78.0, at_start=True),
        Row("process_max_fds", "gauge", "process", "process", value=65535.0, at_start=True),
    ]


def _by_generation(name: str, signal: str) -> list[Row]:
    return [
        Row(name, "counter", f"{signal}_{generation}", "process", {"generation": generation}, at_start=True)
        for generation in _COLLECTION_SECONDS
    ]


def process_at(signals: Signals, age: float) -> None:
    signals.set("cpu_seconds", round(_CPU_SHARE * age, 2))
    for generation, seconds in _COLLECTION_SECONDS.items():
        signals.set(f"collections_{generation}", age // seconds)
        signals.set(f"collected_{generation}", age // seconds * _COLLECTED[generation])


def http_rows() -> list[Row]:
    return [
        *[row for handler in _HANDLERS for row in _answers(handler)],
        *[_summary("http_request_size_bytes", handler) for handler in _HANDLERS],
        *[_summary("http_response_size_bytes", handler) for handler in _HANDLERS],
        Row("http_request_duration_highr_seconds", "histogram", "http_seconds", "http", bounds=_FINE, at_start=True),
        *[_durations(handler) for handler in _HANDLERS],
    ]


def _answers(handler: str) -> list[Row]:
    method, path = _HANDLERS[handler]
    labels = {"handler": path, "method": method}
    return [
        Row("http_requests_total", "counter", f"{handler}_{status}", "http", {**labels, "status": status})
        for status in ("2xx", "4xx", "5xx")
    ]


def _summary(name: str, handler: str) -> Row:
    return Row(name, "summary", f"{handler}_{name}", "http", {"handler": _HANDLERS[handler][1]})


def _durations(handler: str) -> Row:
    method, path = _HANDLERS[handler]
    labels = {"handler": path, "method": method}
    return Row("http_request_duration_seconds", "histogram", f"{handler}_seconds", "http", labels, _COARSE)


class Http:
    """Counts what the API server answers. Metrics, health and version it does not count."""

    def __init__(self, page: Page, signals: Signals) -> None:
        self._page = page
        self._signals = signals

    def finished(self, request: Request, now: float) -> None:
        """Sizes of streams are told as 0."""
        self._chat(request, 500 if request.reason == "error" else 200, now)

    def rejected(self, request: Request, limits: Limits, now: float) -> None:
        if request.prompt_tokens + request.output_tokens > limits.context_tokens:
            self._chat(request, 400, now)
        elif request.adapter and not limits.adapters:
            self._chat(request, 404, now)
        else:
            self._signals.add("refused")
            self._chat(request, 503, now)

    def _chat(self, request: Request, status: int, now: float) -> None:
        asked = _BYTES_OF_A_REQUEST + _BYTES_OF_A_TOKEN * request.prompt_tokens
        self._count("chat", status, now, seconds=now - request.arrived, asked=asked)

    def asked(self, handler: str, answer: Answer, now: float) -> None:
        """A document: `models`, or `none` for one that is not there."""
        self._count(handler, answer.status, now, seconds=_SECONDS_OF_A_DOCUMENT, told=len(answer.body))

    def _count(
        self, handler: str, status: int, now: float, *, seconds: float, asked: float = 0.0, told: float = 0.0
    ) -> None:
        if self._page.created is not None:
            self._page.created = now
        self._signals.add(f"{handler}_{status // 100}xx")
        self._signals.observe(f"{handler}_http_request_size_bytes", asked)
        self._signals.observe(f"{handler}_http_response_size_bytes", told)
        self._signals.observe("http_seconds", seconds)
        self._signals.observe(f"{handler}_seconds", seconds)
