"""Commands about what the history holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from inferwatch.place import Place, opened
from monitor.api.history import answered, json_lines
from monitor.api.parameters import Format, HistoryQuery
from monitor.history.ask import History
from monitor.history.question import Question

_LINES = "jsonl"


def export(at: Place, form: str, parameters: Mapping[str, Any]) -> None:
    """`parameters` are those of /api/v1/history."""
    query = HistoryQuery(**parameters)
    with opened(at.settings, current=True) as engine:
        for text in _texts(History(engine), query.question(time.time()), form):
            sys.stdout.write(text)


def _texts(history: History, asked: Question, form: str) -> Iterator[str]:
    if form == _LINES:
        yield from json_lines(asked, history.pieces(asked))
    else:
        yield answered(asked, history.tell(asked), Format(form))
