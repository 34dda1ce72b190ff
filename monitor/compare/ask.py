"""Comparisons out of a history."""

from __future__ import annotations

from sqlalchemy import Engine

from monitor.compare.asked import Asked, Prices
from monitor.compare.compare import compare
from monitor.compare.model import Comparison
from monitor.compare.read import observed
from monitor.compare.runs import Runs


class Comparer:
    def __init__(self, engine: Engine, prices: Prices) -> None:
        self._engine, self._prices = engine, prices

    def compare(self, asked: Asked) -> Comparison:
        """With imported runs, which are of no time, unless it is about a change. Raises QuestionError and ReadError."""
        imported = Runs(self._engine).cells(asked.model) if asked.split is None else []
        return compare(observed(self._engine, asked), asked, self._prices, imported)
