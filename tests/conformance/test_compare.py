"""What a table makes of a release: small tables held to wheels of a few lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.compare import Comparison, Gone, compare
from exporters.table import Calc, Field, Frontend, Json, Label, Need, Ratio, Series, Source
from tests.conformance.wheels import declared
from tests.exporters.small_tables import COUNTER, GAUGE, HISTOGRAM, one, table

HITS, QUERIES = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"
CALLS = {"g": "Gauge", "c": "Counter", "h": "Histogram", "i": "Info", "s": "Summary"}


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


class Held:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, frontend: Frontend, metrics: str, more: str = "", release: str = "1.0") -> Comparison:
        """`metrics`: `g:running c:made`, a letter for the type and the name without prefix."""
        pairs = [metric.split(":") for metric in metrics.split()]
        calls = "\n".join(f"{CALLS[letter]}('p:{name}', '')" for letter, name in pairs)
        source = (
            f"from prometheus_client import *\nfrom prometheus_client import {', '.join(CALLS.values())}\n{calls}\n"
        )
        return compare(frontend, declared(self._folder, {"p/a.py": source + more}), release)


def instead(comparison: Comparison) -> dict[tuple[str, str], str]:
    return {(gone.name, gone.use): gone.instead for gone in comparison.gone}


def unknown(comparison: Comparison) -> list[str]:
    return [family.name for family in comparison.unknown]


def retyped(comparison: Comparison) -> list[tuple[str, str, str]]:
    return [(r.name, r.expected, r.family.kind or "") for r in comparison.retyped]


RUNNING = one(Series("running"))


def test_a_release_as_the_table_expects_it_is_good(held: Held) -> None:
    frontend = table(Field(GAUGE, Source(Series("running"))), Field(COUNTER, Source(Series("made_total"))))
    comparison = held(frontend, "g:running c:made")
    assert comparison.good
    assert (comparison.unknown, comparison.gone, comparison.retyped) == ((), (), ())


def test_a_name_that_the_table_neither_reads_nor_ignores_is_unknown(held: Held) -> None:
    frontend = replace(RUNNING, ignore=("cache_*", "@process_*"))
    comparison = held(frontend, "g:running c:new h:cache_time g:cache_size", "Gauge('stray', '')\nread('p:other')\n")
    assert unknown(comparison) == ["p:new_total", "stray", "p:other"]
    assert [family.kind for family in comparison.unknown] == ["counter", "gauge", None]
    assert not comparison.good


def test_a_name_that_an_older_release_had_is_replaced(held: Held) -> None:
    frontend = table(Field(GAUGE, Source(Series("running")), Source(Series("active"))))
    comparison = held(frontend, "g:running")
    assert comparison.gone == (Gone("p:active", GAUGE, "p:running"),)
    assert comparison.good


def test_a_field_of_which_no_source_is_left_is_lost(held: Held) -> None:
    frontend = table(
        Field(GAUGE, Source(Series("running")), Source(Series("active"))),
        Field(COUNTER, Source(Series("made_total"))),
        Field("llm_requests_waiting", missing="never"),
    )
    comparison = held(frontend, "c:made")
    assert instead(comparison) == {("p:running", GAUGE): "", ("p:active", GAUGE): ""}
    assert comparison.lost == (GAUGE,)
    assert not comparison.good


def test_facts_are_held_to_the_release_too(held: Held) -> None:
    frontend = one(Series("running"), facts={"dtype": Label("config_info", "dtype")})
    assert held(frontend, "g:running").lost == ("fact dtype",)
    assert held(frontend, "g:running i:config").good


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Source(Json("info", "running")), "`running` of `/info`"),
        (Source(Series("@process_start_time_seconds")), "`process_start_time_seconds`"),
        (Source(Series("other"), needs=("version>=1.0",)), "p:other"),
        (Source(Series("other"), needs=("version<1.1",)), "p:other"),
        (Source(Series("other"), needs=("dp>=2",)), "p:other"),
        (Source(Series("other"), needs=("json:info", "other{engine}")), "p:other"),
        (Source(Calc("+", Series("other"), Series("more"), need=Need.ANY)), "p:other"),
        (Source(Calc("+", Series("other"), Series("same"))), "p:other, p:same"),
        (Source(Series("other"), needs=("version>=1.1",)), ""),
        (Source(Series("other"), needs=("version<1.0",)), ""),
        (Source(Series("other"), needs=("missing",)), ""),
        (Source(Calc("+", Series("other"), Series("more"))), ""),
    ],
)
def test_a_source_stands_in_where_it_can_hold_in_this_release(source: Source, told: str, held: Held) -> None:
    frontend = table(Field(GAUGE, Source(Series("gone")), source), documents=("info",))
    assert instead(held(frontend, "g:other g:same"))["p:gone", GAUGE] == told


def test_a_ratio_stands_in_where_both_its_counters_have_a_source(held: Held) -> None:
    frontend = table(
        Field("llm_prefix_cache_hit_ratio", Source(Series("rate")), Source(Ratio(HITS, QUERIES))),
        Field(HITS, Source(Series("hits_total"))),
        Field(QUERIES, Source(Series("queries_total"))),
    )
    told = "increase of `llm_prefix_cache_hit_tokens_total` ÷ increase of `llm_prefix_cache_query_tokens_total`"
    assert held(frontend, "c:hits c:queries").gone[0].instead.startswith(told)
    assert held(frontend, "c:hits").lost == ("llm_prefix_cache_hit_ratio", QUERIES)


def test_sums_and_counts_belong_to_their_histogram(held: Held) -> None:
    frontend = one(Calc("-", Series("first_count"), Series("last_sum"), Series("size_count")))
    assert held(frontend, "h:first h:last s:size").gone == ()
    assert instead(held(frontend, "h:first g:last_sum s:size")) == {}
    assert instead(held(frontend, "h:first s:size")) == {("p:last_sum", GAUGE): ""}


def test_a_name_that_is_put_together_at_run_time_may_be_there(held: Held) -> None:
    frontend = one(Series("running_now"))
    assert held(frontend, "g:y", "def f(x):\n    Gauge(f'p:running_{x}', '')\n").gone == ()
    assert held(frontend, "g:y", "def f(x):\n    Gauge(f'p:{x}', '')\n").lost == (GAUGE,)
    assert held(frontend, "g:y", "def f(x):\n    Gauge(x, '')\n").lost == (GAUGE,)


def test_a_name_without_a_type_is_known_and_yet_no_source(held: Held) -> None:
    comparison = held(RUNNING, "g:y", "read('p:running')\n")
    assert unknown(comparison) == ["p:y"]
    assert comparison.lost == (GAUGE,)


@pytest.mark.parametrize(
    ("frontend", "metrics", "told"),
    [
        (one(Series("x_total"), COUNTER), "c:x", []),
        (one(Series("x_total"), COUNTER), "g:x_total", [("p:x_total", "counter", "gauge")]),
        (one(Series("x_total"), COUNTER), "g:x", [("p:x_total", "counter", "gauge")]),
        (one(Series("x"), COUNTER), "g:x", [("p:x", "counter", "gauge")]),
        (one(Series("x_sum"), COUNTER), "h:x", []),
        (one(Series("x_sum"), COUNTER), "s:x", []),
        (one(Series("x_sum"), COUNTER), "g:x_sum", [("p:x_sum", "histogram", "gauge")]),
        (one(Series("x")), "g:x", []),
        (one(Series("slots_total")), "g:slots_total", []),
        (one(Series("x")), "c:x", [("p:x", "gauge", "counter")]),
        (one(Series("x")), "h:x", [("p:x", "gauge", "histogram")]),
        (one(Series("x"), HISTOGRAM), "h:x", []),
        (one(Series("x"), HISTOGRAM), "s:x", [("p:x", "histogram", "summary")]),
        (one(Label("config_info", "size")), "i:config", []),
        (one(Label("config_info", "size")), "g:config_info", []),
        (one(Calc("+", Series("a_total"), Series("b"))), "c:a g:b", []),
        (one(Calc("+", Series("a_total"), Series("b"))), "g:a_total c:b", [("p:a_total", "counter", "gauge")]),
    ],
)
def test_a_type_that_the_table_does_not_expect_is_told(
    frontend: Frontend, metrics: str, told: list[tuple[str, str, str]], held: Held
) -> None:
    assert retyped(held(frontend, metrics)) == told


@pytest.mark.parametrize("metrics", ["g:x", "s:x", "c:x"])
def test_a_histogram_that_became_something_else_is_lost(metrics: str, held: Held) -> None:
    assert held(one(Series("x"), HISTOGRAM), metrics).lost == (HISTOGRAM,)


def test_a_counter_that_became_a_gauge_of_the_same_name_is_still_read(held: Held) -> None:
    assert held(one(Series("x"), COUNTER), "g:x").good
    assert held(one(Series("x_total"), COUNTER), "g:x").lost == (COUNTER,)


def test_a_table_with_names_without_prefix_is_held_to_them(held: Held) -> None:
    frontend = one(Series("running"), prefix=("t_", ""))
    comparison = held(frontend, "g:y", "Gauge('t_running', '')\nGauge('t_other', '')\n")
    assert unknown(comparison) == ["p:y", "t_other"]
    assert comparison.lost == ()
