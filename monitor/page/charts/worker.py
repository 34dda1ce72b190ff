"""Draws charts that come in on standard input, one at a time, and ends when no other comes for a while.

A process of its own, since V8 takes some 200 MB and can neither be stopped nor sent home within one.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
from io import BufferedReader, FileIO
from typing import BinaryIO

import vl_convert

from monitor.page.charts.clean import cleaned
from monitor.page.charts.model import Chart
from monitor.page.charts.specification import specification

_MOST_CHARTS = 1000
"""V8 keeps a little of each."""


def main(idle_seconds: float) -> None:
    questions, answers = BufferedReader(FileIO(0)), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    patience = None  # it was started for a chart, which comes late where the monitor stands still
    for _ in range(_MOST_CHARTS):
        if not select.select([questions], [], [], patience)[0] or not questions.peek(1):
            return
        _answer(questions, answers)
        patience = idle_seconds


def _answer(questions: BinaryIO, answers: BinaryIO) -> None:
    pickle.dump(drawn(pickle.load(questions)), answers)  # noqa: S301 the monitor's own words
    answers.flush()


def drawn(chart: Chart) -> tuple[str | None, str]:
    """The SVG, or why there is none."""
    try:
        svg = vl_convert.vegalite_to_svg(specification(chart), allowed_base_urls=[])
        return cleaned(svg, chart.title), ""
    except Exception as cause:  # whatever a library raises costs this chart alone
        return None, f"{type(cause).__name__}: {cause}"


if __name__ == "__main__":
    main(float(sys.argv[1]))
