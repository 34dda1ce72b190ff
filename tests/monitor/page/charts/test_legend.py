from dataclasses import replace

from monitor.page.charts.legend import Entry, legend
from monitor.page.charts.model import TimeSeries
from tests.monitor.page.charts.worlds import CHARTS


def test_lines_are_named_with_their_colour_and_dashes() -> None:
    assert legend(CHARTS["lines"]) == (Entry("vllm", "var(--line-1)", (1, 0)), Entry("sglang", "var(--line-2)", (7, 3)))


def test_a_line_with_a_colour_of_its_own_keeps_it_and_is_solid_unless_it_has_dashes_too() -> None:
    chart = CHARTS["lines"]
    assert isinstance(chart, TimeSeries)
    one, other = chart.lines
    own = replace(chart, lines=(replace(one, dashes=(2, 2)), replace(other, colour="#0072B2")))
    assert legend(own) == (Entry("vllm", "var(--line-1)", (2, 2)), Entry("sglang", "#0072B2", (1, 0)))


def test_areas_have_no_dashes() -> None:
    assert legend(CHARTS["stack"]) == (Entry("vllm", "var(--line-1)"), Entry("sglang", "var(--line-2)"))


def test_dots_are_named_with_their_shape_and_curves_with_their_dashes() -> None:
    assert legend(CHARTS["scatter"]) == (
        Entry("vllm", "var(--line-1)", shape="circle"),
        Entry("article", "var(--line-2)", (5, 4)),
    )


def test_states_are_named_once() -> None:
    assert legend(CHARTS["states"]) == (
        Entry("down", "var(--bad)"),
        Entry("up", "var(--good)", opacity=0.55),
    )


def test_a_line_without_a_name_needs_no_legend() -> None:
    assert legend(CHARTS["share"]) == ()
