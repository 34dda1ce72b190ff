"""A vLLM server whose counters go on as a test says: a recorded page of one that has just started, served on a port."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

from tests.end_to_end.recorded import VLLM, serving, vllm

_SAMPLE = re.compile(r"^(vllm:\w+)\{(.*)\} (\S+)$")
_FIRST_TOKEN, _WHOLE = "vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"


class Vllm:
    """Down until it is started; it keeps its port and its counters while it is down."""

    def __init__(self, model: str) -> None:
        self._pages = vllm(VLLM, "0-fresh")
        self._text = self._pages.bodies["/metrics"].decode().replace('"tiny-qwen"', f'"{model}"')
        self._up = ExitStack()
        self.port = 0

    def start(self) -> None:
        self.show()
        self.port = self._up.enter_context(serving(self._pages, self.port))

    def stop(self) -> None:
        self._up.close()

    def show(self, instead: str | None = None) -> None:
        """The metrics, or something else at their place."""
        self._pages.bodies["/metrics"] = (self._text if instead is None else instead).encode()

    def answer(self, requests: int, *, first_token: float = 0.05, reason: str = "stop") -> None:
        """So many requests end, each in a second, with its first token after so many."""
        added = {
            f"{_FIRST_TOKEN}_sum": requests * first_token,
            f"{_WHOLE}_sum": requests * max(1.0, first_token),
            **dict.fromkeys((f"{_FIRST_TOKEN}_count", f"{_WHOLE}_count"), float(requests)),
        }
        seconds = {f"{_FIRST_TOKEN}_bucket": first_token, f"{_WHOLE}_bucket": max(1.0, first_token)}

        def more(name: str, labels: str) -> float:
            if name in seconds:
                return requests if seconds[name] <= _bound(labels) else 0
            if name == "vllm:request_success_total":
                return requests if f'finished_reason="{reason}"' in labels else 0
            return added.get(name, 0)

        self._text = "\n".join(_with(line, more) for line in self._text.split("\n"))
        self.show()


def _bound(labels: str) -> float:
    found = re.search(r'le="([^"]+)"', labels)
    assert found is not None
    return float(found[1])


def _with(line: str, more: Callable[[str, str], float]) -> str:
    match = _SAMPLE.match(line)
    if match is None:
        return line
    name, labels, value = match.groups()
    return f"{name}{{{labels}}} {float(value) + more(name, labels)!r}"
