import logging
import math
from collections.abc import Sequence

import pytest

from exporters.schema import TTFT
from monitor.history.ask import Answer, Point
from monitor.history.database import HistoryError
from monitor.history.life import Wanted
from monitor.history.minutes import Event
from monitor.page.trends import GPUS, KINDS, Trends
from tests.monitor.page.fleet_data import CALM, NOW, Past, Server

UNTIL = 1_796_031_660
"""The last full minute before NOW."""


class Told:
    """A history that says the same of every metric."""

    def __init__(self, *points: Point) -> None:
        self.points = list(points)
        self.asked: list[tuple[object, ...]] = []

    def ask(
        self, metric: str, q: float | None, since: float, until: float, step: float, group_by: Sequence[str] = ()
    ) -> list[Answer]:
        self.asked.append((metric, q, since, until, step, tuple(group_by)))
        return [Answer({"node": "n", group_by[1]: "s"}, self.points)]

    def events(self, wanted: Wanted) -> list[Event]:
        return []


class Broken(Told):
    def ask(
        self, metric: str, q: float | None, since: float, until: float, step: float, group_by: Sequence[str] = ()
    ) -> list[Answer]:
        raise HistoryError("the disk is full")


def point(minutes_ago: int, value: float, upper: float | None = None) -> Point:
    return Point(UNTIL - 60 * minutes_ago, 60, value, None, upper, 60, 1)


def test_the_history_is_asked_for_the_last_hour_in_minutes() -> None:
    history = Told()
    Trends(history).of("n", "s", NOW)
    span = (UNTIL - 3600, UNTIL, 60, ("node", "server"))
    assert history.asked == [
        ("llm_metrics_available", None, *span),
        ("llm_generation_tokens_total", None, *span),
        ("llm_requests_waiting", None, *span),
        ("llm_kv_cache_utilization_ratio", None, *span),
        ("llm_time_to_first_token_seconds", 0.99, *span),
    ]


def test_a_trend_is_told_in_words_too() -> None:
    history = Told(point(5, 700), point(4, 300), point(1, 980))
    trend = Trends(history).of("n", "s", NOW)["generation"]
    assert trend.text == (
        "Generated tokens per second, last hour: latest 980, lowest 300, highest 980, scale 0 to 1,000, 1 gap, "
        "no data for 57 min"
    ), "three of 60 minutes are known"
    assert trend.scale == "1,000"


def test_use_of_the_cache_is_drawn_against_all_of_it() -> None:
    trend = Trends(Told(point(1, 0.25))).of("n", "s", NOW)["kv"]
    assert trend.scale == "100 %"
    assert "latest 25 %" in trend.text


def test_absurd_values_are_told_all_the_same() -> None:
    trends = Trends(Told(point(2, 5e-324), point(1, 1.7e308))).of("n", "s", NOW)
    assert all(trend.line is not None for trend in trends.values())


def test_a_percentile_in_the_overflow_reads_at_least() -> None:
    trend = Trends(Told(point(2, 2.5, 5), point(1, 60, math.inf))).of("n", "s", NOW)["ttft"]
    assert "latest 60 s, lowest 2.5 s, highest at least 60 s, scale 0 to 1 min 40 s" in trend.text
    assert trend.line is not None
    assert trend.line.marks.count("v") == 1


def test_a_server_without_history_says_so() -> None:
    trend = Trends(Told()).of("n", "other", NOW)["waiting"]
    assert trend.line is None
    assert trend.text == "Requests waiting: nothing recorded in the last hour"


def test_a_broken_history_costs_the_lines_and_not_the_page(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trends = Trends(Broken()).of("n", "s", NOW)
    assert all(trend.line is None for trend in trends.values())
    assert trends["ttft"].text == ("Time to first token, P99: the history could not be read, see the monitor's log")
    assert "the disk is full" in caplog.text


def test_all_who_look_within_seconds_share_one_answer() -> None:
    past = Past(Server("chat", waves=CALM))
    trends = Trends(past)
    for later in (0, 5, 14.9):
        trends.of("gpu-07", "chat", NOW + later)
    assert len(past.asked) == len(KINDS) + 1
    trends.of("gpu-07", "chat", NOW + 15)
    assert len(past.asked) == 2 * (len(KINDS) + 1)


def test_a_gap_in_what_was_asked_for_is_shaded_only_where_nothing_could_be_read() -> None:
    """No request finished from minute 10 to 19, and nothing could be read from minute 30 to 35."""
    readable = {m: 1.0 for m in range(60) if not 30 <= m <= 35}
    finished = {m: 0.2 for m in readable if not 10 <= m <= 19}
    server = Server("chat", waves={"llm_metrics_available": readable.get, TTFT.metric: finished.get})
    trend = Trends(Past(server)).of("gpu-07", "chat", NOW)["ttft"]
    assert trend.line is not None
    assert trend.line.gaps == 2
    assert trend.shade == "M60 0H72V28H60z", "two units a minute"
    assert trend.text.endswith("2 gaps, no data for 6 min")


def test_a_minute_in_which_no_reading_came_through_is_no_data() -> None:
    readable = {m: float(not 30 <= m <= 35) for m in range(60)}
    server = Server("chat", waves={"llm_metrics_available": readable.get, "llm_requests_waiting": lambda _: 1.0})
    assert Trends(Past(server)).of("gpu-07", "chat", NOW)["waiting"].shade == "M60 0H72V28H60z"


def test_gpus_are_told_by_uuid_in_their_units() -> None:
    waves = {
        "gpu_up": lambda _: 1.0, "gpu_utilization_ratio": lambda _: 0.93, "gpu_power_watts": lambda _: 642.0,
        "gpu_memory_used_bytes": lambda _: 71 * 2.0**30,
    }  # fmt: skip
    told = Trends(Past(gpus={("gpu-07", "GPU-0"): waves}), GPUS).of("gpu-07", "GPU-0", NOW)
    assert {name: trend.scale for name, trend in told.items()} == {
        "utilization": "100 %", "memory": "100 GiB", "power": "1,000 W",
    }  # fmt: skip
    assert told["memory"].text == "Memory in use, last hour: latest 71 GiB, lowest 71 GiB, highest 71 GiB, " + (
        "scale 0 to 100 GiB"
    )
