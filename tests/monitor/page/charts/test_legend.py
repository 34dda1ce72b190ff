from dataclasses import replace

from monitor.page.charts import units
from monitor.page.charts.legend import Entry, legend
from monitor.page.charts.model import Group, Measure, Pair, Scatter, TimeSeries
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


def test_no_two_dots_and_no_two_curves_are_told_apart_by_colour_alone() -> None:
    pair = (Pair(1.0, 2.0),)
    dots = tuple(Group(f"dot {n}", pair) for n in range(4))
    curves = tuple(Group(f"curve {n}", pair, curve=True) for n in range(4))
    measure = Measure("x", units.counted(""))
    entries = legend(Scatter("", measure, measure, (*dots, *curves)))
    assert len({entry.shape for entry in entries[:4]}) == 4
    assert len({entry.dashes for entry in entries[4:]}) == 4
    assert [entry.dashes for entry in entries[:4]] == [None] * 4
    assert [entry.shape for entry in entries[4:]] == [None] * 4


def test_states_are_named_once() -> None:
    assert legend(CHARTS["states"]) == (
        Entry("down", "var(--bad)"),
        Entry("up", "var(--good)", opacity=0.55),
    )


def test_a_line_without_a_name_needs_no_legend() -> None:
    assert legend(CHARTS["share"]) == ()
