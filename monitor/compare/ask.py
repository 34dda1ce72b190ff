"""Comparisons out of a history."""

from __future__ import annotations

from sqlalchemy import Engine

from exporters.quote import quoted
from monitor.compare.asked import Asked, Prices
from monitor.compare.compare import compare
from monitor.compare.model import Comparison
from monitor.compare.read import models, observed
from monitor.compare.runs import Runs
from monitor.history.question import InvalidParameter


class Comparer:
    def __init__(self, engine: Engine, prices: Prices) -> None:
        self._engine, self._prices = engine, prices

    def compare(self, asked: Asked) -> Comparison:
        """With imported runs, which are of no time, unless it is about a change. Raises QuestionError and ReadError."""
        imported = Runs(self._engine).cells(asked.model) if asked.split is None else []
        seen = observed(self._engine, asked)
        if asked.model and not seen.servers and not imported:
            self._refuse_unknown(asked.model)
        return compare(seen, asked, self._prices, imported)

    def _refuse_unknown(self, model: str) -> None:
        known = models(self._engine)
        if known and model not in known:
            raise InvalidParameter("model", f"{quoted(model)} is no model of this history", known)
