"""What the specification says of a chart; that it draws is tested with the drawing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.page.charts.model import Bar, Bars, Line, Point, TimeSeries
from monitor.page.charts.specification import specification
from monitor.page.charts.units import RATIO, SECONDS
from tests.monitor.page.charts.worlds import CHARTS, T, lines, minutes


def layers(spec: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    return [each for each in spec["layer"] if each["mark"]["type"] == mark]


def rows(spec: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["datasets"][(layer.get("data") or spec["data"])["name"]]
    return found


def line_rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return rows(spec, layers(spec, "line")[0])


def titles(spec: dict[str, Any]) -> list[str]:
    return [row["said"] for data in spec["datasets"].values() for row in data if "said" in row]


@pytest.mark.parametrize("name", CHARTS)
def test_a_specification_is_plain_json_and_loads_nothing(name: str) -> None:
    text = json.dumps(specification(CHARTS[name]), allow_nan=False)
    assert '"url"' not in text


def test_a_gap_ends_one_line_and_begins_another() -> None:
    spec = specification(lines(("vllm", minutes([0.2, 0.4, None, 0.3, 0.1]))))
    assert [(row["run"], row["value"]) for row in line_rows(spec)] == [(0, 200), (0, 400), (1, 300), (1, 100)]


def test_a_lone_window_is_a_dot_in_the_middle_of_it() -> None:
    spec = specification(lines(("vllm", minutes([0.2, None, 0.4]))))
    assert line_rows(spec) == []
    assert [row["at"] for row in rows(spec, layers(spec, "point")[0])] == [(T + 30) * 1000, (T + 150) * 1000]


def test_bounds_are_a_band_only_where_both_are_known() -> None:
    unknown = (Point(T + 120, 60, 0.3, 0.25, float("inf")), Point(T + 180, 60, 0.3))
    spec = specification(lines(("vllm", (*minutes([0.2, 0.4], 0.1, 0.5), *unknown))))
    band = rows(spec, layers(spec, "area")[0])
    assert [(row["lower"], row["upper"]) for row in band] == [(100, 500), (100, 500)]


def test_a_value_that_is_only_known_to_be_at_least_that_is_marked_and_said_so() -> None:
    spec = specification(lines(("vllm", (Point(T, 60, 60.0, 60.0, float("inf")),))))
    arrows = [each for each in layers(spec, "point") if each["mark"].get("shape") == "triangle-up"]
    assert [row["value"] for row in rows(spec, arrows[0])] == [60]
    assert "vllm: at least 60 s" in titles(spec)[0]


def test_pointing_at_a_moment_tells_what_all_lines_say_of_it() -> None:
    spec = specification(lines(("vllm", minutes([0.2], 0.1, 0.5)), ("sglang", minutes([1.5]))))
    assert titles(spec) == ["2025-11-30 11:00:00 UTC\nvllm: 200 ms (100 ms – 500 ms)\nsglang: 1.5 s"]


def test_the_axis_is_in_the_unit_that_fits_the_largest_number() -> None:
    def axis(*values: float) -> str:
        spec = specification(lines(("", minutes(list(values)))))
        title: str = layers(spec, "line")[0]["encoding"]["y"]["axis"]["title"]
        return title

    assert [axis(0.0), axis(2e-5), axis(0.2, 0.4), axis(0.2, 4.0), axis(3600.0)] == ["s", "µs", "ms", "s", "min"]


def test_time_is_in_utc_and_the_axis_says_so_from_the_first_moment_to_the_last() -> None:
    x = layers(specification(CHARTS["lines"]), "line")[0]["encoding"]["x"]
    assert x["axis"]["title"] == "UTC"
    assert x["scale"] == {"type": "utc", "domain": [T * 1000, (T + 600) * 1000], "nice": False}


def test_a_share_goes_to_100_percent_and_beyond_only_where_a_value_does() -> None:
    def top(value: float) -> object:
        share = TimeSeries("", SECONDS, T, T + 600, (Line("", minutes([value, value])),), top=1.0)
        return layers(specification(share), "line")[0]["encoding"]["y"]["scale"].get("domain")

    assert (top(0.5), top(1.5)) == ([0, 1], None)


def test_lines_differ_by_colour_and_by_dashes() -> None:
    spec = specification(lines(*((f"line {i}", minutes([0.1, 0.2])) for i in range(20))))
    encoding = layers(spec, "line")[0]["encoding"]
    colours, dashes = encoding["color"]["scale"]["range"], encoding["strokeDash"]["scale"]["range"]
    assert len({(colour, *dash) for colour, dash in zip(colours, dashes, strict=True)}) == 20


def test_stacked_windows_stand_on_each_other() -> None:
    spec = specification(CHARTS["stack"])
    bars = rows(spec, layers(spec, "rect")[0])
    assert [(row["name"], row["below"], row["value"]) for row in bars] == [
        ("vllm", 0, 1), ("sglang", 1, 4), ("vllm", 0, 2), ("sglang", 0, 1),
    ]  # fmt: skip


def test_a_heatmap_has_a_cell_for_each_bucket_with_anything_in_it() -> None:
    spec = specification(CHARTS["heatmap"])
    cells = rows(spec, layers(spec, "rect")[0])
    assert [(row["at"] / 1000 - T, row["bottom"], row["count"]) for row in cells] == [
        (0, 0, 1), (0, 1, 5), (120, 1, 2), (120, 2, 7), (120, 3, 3),
    ]  # fmt: skip
    assert [title.split("\n")[1] for title in titles(spec)] == [
        "up to 100 ms: 1 requests", "100 ms – 250 ms: 5 requests", "100 ms – 250 ms: 2 requests",
        "250 ms – 2.5 s: 7 requests", "above 2.5 s: 3 requests",
    ]  # fmt: skip


def test_a_stretch_in_a_state_tells_which_and_how_long() -> None:
    assert titles(specification(CHARTS["states"])) == [
        "gpu-1/a: up\n2025-11-30 11:00:00 UTC – 11:01:00 UTC (60 s)",
        "gpu-1/a: down\n2025-11-30 11:01:00 UTC – 11:01:30 UTC (30 s)",
    ]


def test_a_measured_dot_tells_both_numbers_and_its_bounds() -> None:
    assert titles(specification(CHARTS["scatter"]))[0] == (
        "vllm: Requests running 16 requests, Rate 900 tokens/s\nbetween 850 tokens/s and 970 tokens/s\n20 minutes"
    )


def test_a_curve_to_compare_with_has_no_dots() -> None:
    spec = specification(CHARTS["scatter"])
    assert {row["name"] for row in line_rows(spec)} == {"article"}
    assert {row["name"] for row in rows(spec, layers(spec, "point")[0])} == {"vllm"}


def test_of_a_window_across_an_end_of_the_axis_the_part_within_is_drawn() -> None:
    points = (Point(T - 60, 60, 0.1), Point(T - 30, 60, 0.2), Point(T + 570, 60, 0.3))
    spec = specification(lines(("", points)))
    reaches = rows(spec, layers(spec, "rect")[-1])
    assert [(row["at"] / 1000 - T, row["end"] / 1000 - T) for row in reaches] == [(0, 30), (570, 600)]


def test_an_axis_of_zeros_starts_at_the_bottom() -> None:
    spec = specification(lines(("", minutes([0.0, 0.0]))))
    assert layers(spec, "line")[0]["encoding"]["y"]["scale"]["domain"] == [0, 1]


def test_a_bar_below_zero_goes_to_the_left_and_has_its_number_there() -> None:
    spec = specification(Bars("Budget left", RATIO, (Bar("a", 0.5), Bar("b", -1.0))))
    least, most = layers(spec, "bar")[0]["encoding"]["x"]["scale"]["domain"]
    assert least < -100
    assert most > 50
    numbers = {each["mark"]["align"]: rows(spec, each)[0]["text"] for each in layers(spec, "text")}
    assert numbers == {"left": "50 %", "right": "-100 %"}
