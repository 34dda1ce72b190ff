"""What a value is worth that the server refreshes now and then."""

from __future__ import annotations

import pytest

from exporters.rhythm import Refresh, Rhythm
from exporters.table import Calc, Field, Json, Quality, Series, Source
from tests.exporters.small_tables import GAUGE, read, status, table, value

OLD = Refresh((GAUGE,), on="at an output")
NEW = Refresh((GAUGE,), seconds=5.0, needs=("new",))
PAGE = 'p:running{engine="0"} 3\n'


def worth(*sources: Source, rhythm: Rhythm, text: str = PAGE, metric: str = GAUGE) -> tuple[float | None, str, str]:
    frontend = table(Field(metric, *sources), rhythm=rhythm, documents=("stats",), marks=("running",))
    reading = read(frontend, text, {"stats": {"running": 3}})
    told = status(reading, metric)
    return value(reading, metric), told.quality, told.reason


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Quality.EXACT, "approximate"),
        (Quality.DERIVED, "approximate"),
        (Quality.APPROXIMATE, "approximate"),
        (Quality.LAST_BATCH, "last_batch"),
    ],
)
def test_a_late_value_is_told_and_approximate_at_best(said: Quality, told: str) -> None:
    source = Source(Series("running"), quality=said, note="a count")
    assert worth(source, rhythm=Rhythm(gauges=(OLD,))) == (3, told, "a count; refreshed at an output")


def test_a_calculation_with_a_late_gauge_is_late() -> None:
    source = Source(Calc("+", Json("stats", "running"), Series("running")))
    assert worth(source, rhythm=Rhythm(gauges=(OLD,))) == (6, "approximate", "refreshed at an output")


@pytest.mark.parametrize(
    ("text", "told"), [(PAGE, "refreshed at an output"), (PAGE + "p:new 1\n", "refreshed every 5 s")]
)
def test_the_first_refresh_whose_conditions_hold_counts(text: str, told: str) -> None:
    assert worth(Source(Series("running")), rhythm=Rhythm(gauges=(NEW, OLD)), text=text)[2] == told


@pytest.mark.parametrize("rhythm", [Rhythm(), Rhythm(gauges=(NEW,))])
def test_what_is_not_refreshed_now_and_then_is_exact(rhythm: Rhythm) -> None:
    assert worth(Source(Series("running")), rhythm=rhythm) == (3, "exact", "")


def test_the_rhythm_is_that_of_the_page_and_of_the_metrics_named() -> None:
    rhythm = Rhythm(gauges=(OLD,))
    assert worth(Source(Json("stats", "running")), rhythm=rhythm)[1:] == ("exact", "")
    assert worth(Source(Series("running")), rhythm=rhythm, metric="llm_requests_waiting")[1:] == ("exact", "")
