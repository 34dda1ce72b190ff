"""What is written is read back by a real Prometheus, and by a real VictoriaMetrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alerts import promql
from exporters.exposition import escape
from tests.servers.prometheus import Prometheus
from tests.servers.queried import Queried
from tests.servers.victoria_metrics import VictoriaMetrics

AT = 1_750_000_000
ODD = [
    "gpu-1:8000",
    'with "quotes"',
    "back\\slash",
    "ends with \\",
    "two\nlines",
    "Zürich 東京 😀",
    "a.b|c*(d)+[e]{2}^$?",
    "aXb|c*(d)+[e]{2}^$?",
    "control \x01\x1b\x7f \u2028",
    "{server='x'} or vector(1) #",
    "`ticks` and 'single'",
]


@pytest.fixture(scope="module", params=[Prometheus, VictoriaMetrics])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queried]:
    """Has each odd name once, and a counter that falls where the name has a quote in it."""
    folder = tmp_path_factory.mktemp("odd")
    is_prometheus = request.param is Prometheus
    unit = 1 if is_prometheus else 1000
    lines = []
    for number, name in enumerate(ODD):
        of = f'{{node="n1",server="{escape(name)}"}}'
        lines.append(f"llm_requests_running{of} {number} {(AT - 10) * unit}")
    for number, name in enumerate(ODD):
        of = f'{{node="n1",server="{escape(name)}"}}'
        for step in range(3):
            value = 3 - step if '"' in name else number + step
            lines.append(f"llm_preemptions_total{of} {value} {(AT - 40 + 10 * step) * unit}")
    file = folder / "odd.txt"
    file.write_text("\n".join([*lines, "# EOF" if is_prometheus else "", ""]))
    server = request.param("global: {scrape_interval: 1h}", folder)
    if is_prometheus:
        server.load(file)
    with server:
        if not is_prometheus:
            server.load(file)
        yield server


def names_of(asked: Queried, query: str) -> list[str]:
    return sorted(found["metric"]["server"] for found in asked.ask(query, time=str(AT)))


@pytest.mark.parametrize("name", ODD)
def test_any_name_of_a_server_finds_that_server_alone(asked: Queried, name: str) -> None:
    for matcher in (
        promql.equals("server", name),
        promql.one_of("server", [name]),
        promql.one_of("server", [name, "-"]),
    ):
        assert names_of(asked, promql.selector(["llm_requests_running"], matcher)) == [name]


def test_several_names_find_these_servers(asked: Queried) -> None:
    both = promql.selector(["llm_requests_running", "llm_up"], promql.one_of("server", ODD[2:8]))
    assert names_of(asked, both) == sorted(ODD[2:8])


def test_a_selector_may_carry_what_a_person_wrote(asked: Queried) -> None:
    theirs = promql.matchers(r"""node="n1", server=~'gpu-\\d:8000|no such'""")
    assert names_of(asked, promql.selector(["llm_requests_running"], *theirs)) == ["gpu-1:8000"]


def test_raw_samples_come_with_their_own_moments(asked: Queried) -> None:
    of = promql.selector(["llm_preemptions_total"], promql.equals("server", ODD[0]))
    (found,) = asked.ask(promql.raw(of, 35), time=str(AT))
    assert found["values"] == [[AT - 30, "1"], [AT - 20, "2"]]
    (found,) = asked.ask(promql.raw(of, 30.5), time=str(AT))
    assert found["values"][0][0] == AT - 30


def test_what_was_last_keeps_its_name(asked: Queried) -> None:
    of = promql.selector(["llm_preemptions_total", "llm_requests_running"], promql.equals("server", ODD[4]))
    found = asked.ask(promql.over_time("last", of, 300), time=str(AT))
    assert {f["metric"]["__name__"]: f["value"][1] for f in found} == {
        "llm_preemptions_total": "6", "llm_requests_running": "4",
    }  # fmt: skip


def test_counters_that_fell_are_found_by_group(asked: Queried) -> None:
    query = promql.resets(["llm_preemptions_total", "llm_prompt_tokens_total"], ("node", "server"), 360)
    assert names_of(asked, query) == [ODD[1]]
    there = promql.equals("server", ODD[0])
    assert asked.ask(promql.resets(["llm_preemptions_total"], ["node"], 360, there), time=str(AT)) == []


def test_samples_of_the_first_metric_that_has_any_are_counted(asked: Queried) -> None:
    query = promql.samples(["llm_up", "llm_preemptions_total", "llm_requests_running"], 35)
    assert asked.number(query, time=str(AT)) == 2 * len(ODD), "those 20 and 30 s ago"
    assert asked.ask(promql.samples(["llm_up"], 35), time=str(AT)) == []


@pytest.mark.parametrize(
    "text",
    ['cluster="a"', ' cluster = "a" , team=~"x|y",z!~`\\d+`', "a!='it\\'s'", 'a="\\u00e9\\x41\\101\\n"'],
)
def test_a_persons_selector_is_taken_as_written(asked: Queried, text: str) -> None:
    query = promql.selector(["llm_up"], *promql.matchers(text))
    assert asked.ask(query, time=str(AT)) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{cluster="a"}', 1), ("cluster=a", 1), ('cluster="a" team="b"', 13), ('cluster="a",', 13), ("", 1),
        ('a="x\\d"', 1), ('a="x', 1), ('1a="x"', 1), ('a=="x"', 1), ('a="two\nlines"', 1), ('a="b"} or up{c="d"', 6),
    ],
)  # fmt: skip
def test_a_selector_that_is_none_is_refused_with_its_place(text: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"matchers of PromQL without braces.* from character {place} on"):
        promql.matchers(text)


def test_a_backslash_that_means_nothing_is_explained() -> None:
    with pytest.raises(ValueError, match=r"a backslash in a value is written \\\\"):
        promql.matchers(r'host=~"gpu\.x"')
