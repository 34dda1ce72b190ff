"""A metrics page, indexed by a frontend's names."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters import exposition
from exporters.exposition import read_samples
from exporters.tables import FRONTENDS
from exporters.wire import Page, families, index, parse_version, stem
from tests.exporters.recorded import CAPTURES

PAGES = sorted(p for kind in ("prom", "openmetrics") for p in CAPTURES.glob(f"**/*.{kind}"))


def prefixes_of(path: Path) -> tuple[str, ...]:
    return FRONTENDS[path.relative_to(CAPTURES).parts[0]].prefixes


def page(text: str, *prefixes: str) -> Page:
    regular, _ = exposition.regular(text)
    return index(regular.split("\n"), exposition.split(regular)[0], prefixes)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(CAPTURES)))
def test_a_recorded_page_is_indexed_sample_by_sample_and_histogram_by_histogram(path: Path) -> None:
    text = path.read_text()
    found = page(text, *prefixes_of(path))
    lines = exposition.regular(text)[0].split("\n")
    shown = [s for series in found.series.values() for s in series]
    assert found.dropped == []
    assert len(shown) == len(read_samples(text))
    for s in shown:
        (sample,) = read_samples(lines[s.slot])
        assert {k: v for k, v in sample.labels.items() if v} == s.labels
    for name in [n.removesuffix("_bucket") for n in found.series if n.endswith("_bucket")]:
        for h in found.histograms(name):
            assert list(h.bounds) == sorted(set(h.bounds))
            assert h.bounds[-1] < math.inf
            assert len(h.slots) == len(h.bounds) + 1


@pytest.mark.parametrize(
    ("prefixes", "wire", "local"),
    [
        (("vllm",), "vllm:x_total", "x_total"),
        (("vllm",), "vllm_x_total", "x_total"),
        (("vllm",), "vllmx_total", "@vllmx_total"),
        (("vllm",), "vllm:", "@vllm:"),
        (("vllm",), "vllm", "@vllm"),
        (("vllm",), "process_start_time_seconds", "@process_start_time_seconds"),
        (("vllm",), "_x", "@_x"),
        (("trtllm_",), "trtllm_x", "x"),
        (("trtllm_",), "trtllm:x", "x"),
        (("trtllm_",), "trtllm", "@trtllm"),
        (("trtllm_", ""), "trtllm_x", "x"),
        (("trtllm_", ""), "x", "x"),
        (("",), "nv_inference_count", "nv_inference_count"),
        (("a", "b"), "b:x", "x"),
    ],
)
def test_names_lose_their_prefix_and_strangers_are_marked(prefixes: tuple[str, ...], wire: str, local: str) -> None:
    found = page(f"# TYPE {wire} gauge\n{wire} 1\n", *prefixes)
    assert list(found.series) == [local]
    assert found.declared == {local: "gauge"}
    assert found.wire_name(local) == wire


@pytest.mark.parametrize(
    ("prefix", "wire", "rewritten"),
    [("vllm", "vllm:x", False), ("vllm", "vllm_x", True), ("trtllm_", "trtllm_x", False), ("", "a_x", False)],
)
def test_only_an_underscore_in_place_of_a_colon_is_a_rewritten_name(prefix: str, wire: str, rewritten: bool) -> None:
    assert page(f"{wire} 1", prefix).rewritten is rewritten


def test_on_a_page_without_prefix_a_name_may_be_said_with_its_mark() -> None:
    found = page("process_start_time_seconds 5\n", "trtllm_", "")
    assert found.find("@process_start_time_seconds") == found.find("process_start_time_seconds") != []
    assert found.exists("@process_start_time_seconds")
    assert found.wire_name("@process_start_time_seconds") == "process_start_time_seconds"


def test_labels_without_value_are_no_labels() -> None:
    assert page('p:x{a="",b="c"} 1', "p").find("x")[0].labels == {"b": "c"}


def test_a_second_sample_of_one_series_is_dropped_whatever_its_spelling() -> None:
    found = page('p:x{a="1",b="2"} 1\np_x{b="2",a="1",c=""} 2\np:x{a="1",b="3"} 3\n', "p")
    assert [s.slot for s in found.find("x")] == [0, 2]
    assert found.dropped == [('p_x{b="2",a="1",c=""} 2', "duplicate")]


SHOWN = 'p:plain 1\np:counted_total{model="m.1"} 2\np:held_info{a="b",state="ResponseType.OK"} 1\n# TYPE p:told gauge\n'


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("plain", True),
        ("told", True),
        ("plai", False),
        ("counted", True),
        ("counted_total", True),
        ("held", True),
        ("plain{model}", False),
        ("counted{model}", True),
        ("counted_total{model=m.1}", True),
        ("counted{model=m.2}", False),
        ("held{state=ResponseType.OK}", True),
        ("held_info{a}", True),
        ("missing{a}", False),
        ("version>=0.28", True),
        ("version>=0.28.0", True),
        ("version>=0.28.1", False),
        ("version<0.28", False),
        ("version<0.28.0", False),
        ("version<0.100", True),
        ("dp>=2", True),
        ("dp<2", False),
        ("tp>=1", False),
        ("json:stats", True),
        ("json:models", False),
    ],
)
def test_conditions_hold_on_what_the_page_and_its_documents_show(condition: str, holds: bool) -> None:
    found = page(SHOWN, "p")
    found.facts = {"version": parse_version("0.28.0.post1"), "dp": parse_version("2")}
    found.documents = frozenset({"stats"})
    assert found.holds((condition,), ()) is holds
    assert found.holds((), (condition,)) is not holds
    assert found.holds(("plain",), (condition,)) is not holds


def test_an_unknown_version_is_neither_new_nor_old() -> None:
    found = page(SHOWN, "p")
    assert not found.holds(("version>=0.1",), ())
    assert not found.holds(("version<99",), ())


@pytest.mark.parametrize("condition", ["", "x{", "x{a", "x}", "x{}", "version=1", "version>1", "x{a=b}c", "x>=y"])
def test_a_condition_that_says_nothing_is_refused_with_what_is_allowed(condition: str) -> None:
    with pytest.raises(ValueError, match=r"allowed: name, name\{label\}") as error:
        page(SHOWN, "p").holds((condition,), ())
    assert repr(condition) in str(error.value)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.6.3.post1", (0, 6, 3)),
        ("v1.2", (1, 2)),
        ("0.28.0rc1", (0, 28)),
        ("0.28.0", (0, 28)),
        ("0.10.0.1", (0, 10, 0, 1)),
        ("2.51.0+cpu", (2, 51)),
        ("0.0.0", ()),
        ("dev", ()),
        ("", ()),
        ("9" * 5000, (999999999,)),
    ],
)
def test_a_version_is_its_leading_numbers(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_versions_compare_as_their_numbers_do(a: list[int], b: list[int]) -> None:
    padded = [(*v, *[0] * (4 - len(v))) for v in (a, b)]
    one, other = (parse_version(".".join(map(str, v))) for v in (a, b))
    assert (one < other) == (padded[0] < padded[1])


@pytest.mark.parametrize(
    ("text", "name", "declared"),
    [
        ("# TYPE p:x_total counter\n", "x_total", True),
        ("# TYPE p:x counter\n", "x_total", True),
        ("# TYPE p:x histogram\n", "x_total", False),
        ("# TYPE p:x gauge\n", "x", True),
        ("# TYPE p:x_total counter\np:x_total 0\n", "x_total", False),
        ("# TYPE p:x counter\np:x_total 0\n", "x_total", False),
        ("", "x", False),
    ],
)
def test_a_family_is_declared_as_long_as_it_has_no_sample(text: str, name: str, declared: bool) -> None:
    assert page(text, "p").declares(name) is declared


def histogram(text: str) -> list[tuple[dict[str, str], tuple[float, ...], tuple[int, ...], int | None]]:
    return [(dict(h.labels), h.bounds, h.slots, h.sum_slot) for h in page(text, "p").histograms("h")]


def test_a_histogram_is_its_buckets_in_order_of_their_bounds() -> None:
    text = (
        'p:h_count{m="a"} 7\np:h_sum{m="a"} 5.5\n'
        'p:h_bucket{le="+Inf",m="a"} 7\np:h_bucket{m="a",le="10.0"} 6\np:h_bucket{m="a",le="2.5"} 3\n'
    )
    assert histogram(text) == [({"m": "a"}, (2.5, 10.0), (4, 3, 2), 1)]


def test_histograms_of_different_labels_stay_apart() -> None:
    text = "\n".join(f'p:h_bucket{{m="{m}",le="{le}"}} 1' for m in "ab" for le in ("1", "+Inf"))
    assert histogram(text) == [({"m": "a"}, (1.0,), (0, 1), None), ({"m": "b"}, (1.0,), (2, 3), None)]


def test_the_count_stands_in_for_a_missing_last_bucket() -> None:
    assert histogram('p:h_bucket{le="1"} 2\np:h_count 3\n') == [({}, (1.0,), (0, 1), None)]


def test_two_spellings_of_one_bound_count_once() -> None:
    assert histogram('p:h_bucket{le="1"} 2\np:h_bucket{le="1.0"} 2\np:h_bucket{le="+Inf"} 2\n') == [
        ({}, (1.0,), (0, 2), None)
    ]


@pytest.mark.parametrize(
    "text",
    [
        'p:h_bucket{le="1"} 2\n',
        'p:h_bucket{le="+Inf"} 2\np:h_count 2\n',
        'p:h_bucket{le="x"} 2\np:h_bucket{le="+Inf"} 2\np:h_bucket{le="NaN"} 2\n',
    ],
)
def test_an_incomplete_histogram_is_not_used_and_counted_once(text: str) -> None:
    found = page(text, "p")
    assert found.histograms("h") == found.histograms("h") == []
    assert found.dropped == [("p:h_bucket", "bucket_incomplete")]


def test_families_are_told_by_type_lines_or_by_their_samples() -> None:
    text = (
        "# TYPE p:a_total counter\np:a_total 1\n# TYPE p:h histogram\np:h_count 1\np:h_sum 1\n"
        'p:h_bucket{le="1"} 1\np:alone 1\np:bare_bucket{le="1"} 1\np:bare_count 1\np:bare_sum 1\np:kv_count 1\n'
    )
    assert families(page(text, "p")) == ["a_total", "h", "alone", "bare", "kv_count"]


@pytest.mark.parametrize(
    ("name", "bare"),
    [("x", "x"), ("x_total", "x"), ("x_info", "x"), ("iteration_tokens_total_bucket", "iteration_tokens")],
)
def test_the_stem_of_a_name_lacks_what_its_type_adds(name: str, bare: str) -> None:
    assert stem(name) == bare
