"""What SGLang counts of its HTTP requests, its metrics page and health among them."""

from __future__ import annotations

from demo.faces.board import Board, Row


def http_rows() -> list[Row]:
    """Their series are made one by one."""
    return [
        Row("sglang:http_requests_total", "counter", "", ""),
        Row("sglang:http_responses_total", "counter", "", ""),
        Row("sglang:http_requests_active", "gauge", "", ""),
    ]


class Http:
    """Counts nothing in a release that has no rows for it."""

    def __init__(self, board: Board) -> None:
        self._requests = board.values.get("sglang:http_requests_total")
        self._responses = board.values.get("sglang:http_responses_total")
        self._active = board.values.get("sglang:http_requests_active")

    def arrived(self, path: str, method: str = "POST") -> None:
        if self._requests and self._active:
            self._requests.labelled(endpoint=path, method=method).add()
            self._active.labelled(endpoint=path, method=method).add()

    def finished(self, status: int, path: str, method: str = "POST") -> None:
        if self._responses and self._active:
            self._responses.labelled(endpoint=path, method=method, status_code=str(status)).add()
            self._active.labelled(endpoint=path, method=method).add(-1)
