"""A server that answers PromQL, whoever made it."""

from __future__ import annotations

from typing import Any

from tests.end_to_end.web import get
from tests.servers.server import Server


class Queried(Server):
    url: str

    def ask(self, query: str, **parameters: str) -> list[dict[str, Any]]:
        """`time` is among the parameters; without it the answer is for now."""
        answer = get(f"{self.url}/api/v1/query", query=query, **parameters)
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def number(self, query: str, **parameters: str) -> float:
        (only,) = self.ask(query, **parameters)
        return float(only["value"][1])
