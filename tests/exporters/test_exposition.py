"""The text format, read and written, against prometheus_client and against what was put into the text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from exporters import exposition
from exporters.exposition import InvalidExposition, Sample, read_samples
from exporters.normalise import Normaliser, Reading
from exporters.observation import Labels
from exporters.observation import labels as sorted_labels
from exporters.schema import PHASE_OF_METRIC
from exporters.tables import FRONTENDS
from exporters.tables.vllm import VLLM
from tests.exporters.recorded import CAPTURES, IDENTITY

PAGES = sorted(p for kind in ("prom", "openmetrics") for p in CAPTURES.glob(f"**/*.{kind}"))
A_PAGE = CAPTURES / "vllm" / "0.32.0" / "A-2-after.prom"

Key = tuple[str, tuple[tuple[str, str], ...], str, float | None]


def capture_id(path: Path) -> str:
    return str(path.relative_to(CAPTURES))


def text_of(path: Path) -> str:
    with path.open(newline="") as file:
        return file.read()


def ours(text: str) -> Counter[Key]:
    return Counter(_key(s.name, s.labels, s.value, s.timestamp) for s in read_samples(text))


def theirs(text: str) -> Counter[Key]:
    """prometheus_client's reading, the `_total` undone that it adds to counters declared without it."""
    bare_counters = set(re.findall(r"^# TYPE (\S+(?<!_total)) counter\r?$", text, re.MULTILINE))
    return Counter(
        _key(
            sample.name.removesuffix("_total") if family.name in bare_counters else sample.name,
            sample.labels,
            sample.value,
            None if sample.timestamp is None else float(sample.timestamp) * 1000,
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )


def _key(name: str, labels: Mapping[str, str], value: float, timestamp: float | None) -> Key:
    """`repr`, since NaN is to equal NaN."""
    return name, tuple(sorted(labels.items())), repr(float(value)), timestamp


@pytest.mark.parametrize("page", PAGES, ids=capture_id)
def test_every_recorded_page_reads_as_prometheus_client_reads_it(page: Path) -> None:
    text = text_of(page)
    assert ours(text) == theirs(text)


@pytest.mark.parametrize("page", [p for p in PAGES if p.suffix == ".openmetrics"], ids=capture_id)
def test_recorded_openmetrics_bodies_read_as_the_openmetrics_parser_reads_them(page: Path) -> None:
    text = text_of(page)
    families = openmetrics_families(text)  # type: ignore[no-untyped-call]
    assert ours(text) == Counter(_key(s.name, s.labels, s.value, None) for f in families for s in f.samples)


# What is put into a line is the truth; how it is written down is varied.

HOSTILE = ['"', "\\", "\n", "{", "}", ",", "=", "#", " ", "\t", "\r", "a", "5", "é", "日", "\u2028", "\x85", "\\n"]
LABEL_VALUES = st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join) | st.sampled_from(
    ["", "} 5", '"} 5\n', "\\", 'a="b",c="d"', "# {}", "+Inf", "ResponseType.FINISH"]
)
NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda n: not n.startswith("__"))
FINITE = ["0", "1", "-1", "+3", "007", "5.", ".5", "1e5", "1E-5", "2.5e+06", "9007199254740993", "4.9e-324", "1e400"]
NOT_FINITE = ["NaN", "Nan", "nan", "+Inf", "-Inf", "Inf", "inf", "+infinity"]
NUMBERS = st.sampled_from(FINITE) | st.sampled_from(NOT_FINITE) | st.floats().map(repr)
BLANKS = st.text(" \t", max_size=2)
GAPS = st.text(" \t", min_size=1, max_size=3)
TIMESTAMPS = st.none() | st.integers(-(10**13), 10**13)


@dataclass(frozen=True)
class Written:
    text: str
    samples: tuple[Sample, ...]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@st.composite
def sample_lines(draw: st.DrawFn) -> Written:
    name, number, time = draw(NAMES), draw(NUMBERS), draw(TIMESTAMPS)
    values = draw(st.none() | st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4))
    quoted = draw(st.booleans()) and values is not None
    pairs = [f'{draw(BLANKS)}"{name}"{draw(BLANKS)}'] if quoted else []
    for label, value in (values or {}).items():
        shown = f'"{label}"' if draw(st.booleans()) else label
        pairs.append(f'{draw(BLANKS)}{shown}{draw(BLANKS)}={draw(BLANKS)}"{_escaped(value)}"{draw(BLANKS)}')
    comma = draw(st.sampled_from(["", ",", ", "])) if pairs else ""
    block = f"{draw(BLANKS)}{{{','.join(pairs)}{comma}}}{draw(BLANKS)}" if values is not None else draw(GAPS)
    stamp = "" if time is None else f"{draw(GAPS)}{time}"
    text = f"{draw(BLANKS)}{'' if quoted else name}{block}{number}{stamp}{draw(BLANKS)}"
    sample = Sample(name, values or {}, float(number), None if time is None else float(time))
    return Written(text, (sample,))


ASIDE = st.sampled_from(["", "  ", "\t", "#", "# just a comment", "# HELP x_y some \\n help", "  # EOF", "#no blank"])
LINES = sample_lines() | ASIDE.map(lambda text: Written(text, ()))


@st.composite
def written_pages(draw: st.DrawFn) -> Written:
    lines = draw(st.lists(LINES, max_size=8))
    ends = draw(st.sampled_from(["\n", "\r\n"]))
    text = ends.join(line.text for line in lines) + draw(st.sampled_from(["", ends]))
    return Written(text, tuple(s for line in lines for s in line.samples))


def put_in(written: Written) -> Counter[Key]:
    return Counter(_key(s.name, s.labels, s.value, s.timestamp) for s in written.samples)


@given(written_pages())
def test_what_was_put_into_a_page_is_read_out_of_it_again(written: Written) -> None:
    assert ours(written.text) == put_in(written)


@given(written_pages())
def test_generated_pages_read_as_prometheus_client_reads_them(written: Written) -> None:
    def rounded(samples: Counter[Key]) -> Counter[Key]:
        """They divide a time stamp by 1000, which loses a bit."""
        return Counter({(*k[:3], None if k[3] is None else round(k[3])): n for k, n in samples.items()})

    assert rounded(ours(written.text)) == rounded(theirs(written.text))


EXEMPLARS = st.sampled_from(
    ["", ' # {trace_id="4bf9"} 0.67', ' # {trace_id="a,b=c",span="7"} 0.67 1520879607.789', " # {} 1"]
)


@given(
    st.dictionaries(LABEL_NAMES.filter(lambda n: n != "le"), LABEL_VALUES, max_size=3),
    st.lists(EXEMPLARS, min_size=3, max_size=3),
    st.sampled_from(["", " 1520879607.5", " 1520879607"]),
)
def test_exemplars_are_left_out_and_their_samples_stay(
    values: dict[str, str], exemplars: list[str], stamp: str
) -> None:
    pairs = [f'{k}="{_escaped(v)}"' for k, v in values.items()]
    block, bucket = ",".join(pairs), ",".join([*pairs, 'le="1.0"'])
    infinite = ",".join([*pairs, 'le="+Inf"'])
    text = (
        f"# TYPE a counter\na_total{{{block}}} 5{stamp}{exemplars[0]}\n"
        f"# TYPE b histogram\nb_bucket{{{bucket}}} 2{stamp}{exemplars[1]}\n"
        f"b_bucket{{{infinite}}} 3{stamp}{exemplars[2]}\nb_count{{{block}}} 3{stamp}\nb_sum{{{block}}} 4.5{stamp}\n"
        "# EOF\n"
    )
    families = openmetrics_families(text)  # type: ignore[no-untyped-call]
    expected = Counter(
        _key(s.name, s.labels, s.value, None if s.timestamp is None else float(s.timestamp))
        for family in families
        for s in family.samples
    )
    assert ours(text) == expected


def test_an_exemplar_may_look_like_another_exemplar() -> None:
    """prometheus_client's parser refuses this one."""
    assert read_samples('a_total{b="c"} 5 9 # {trace_id="} 5 # {"} 0.67 7') == [Sample("a_total", {"b": "c"}, 5.0, 9.0)]


MALFORMED = [
    "vllm:x",
    "vllm:x{}",
    "vllm:x nine",
    "vllm:x 1_000",
    "vllm:x 1e",
    "vllm:x ٣",
    "vllm:x 0x1p3",
    "vllm:x 5 later",
    "vllm:x 5 1 2",
    "vllm:x 5 # comment",
    "vllm:x 5#{}",
    "vllm:x+5",
    "vllm-x 5",
    "5x 5",
    "é 5",
    "hello world",
    "<td> 5",
    "{} 5",
    '{a="b"} 5',
    '{"x", "y"} 5',
    'vllm:x{"y"} 5',
    'vllm:x{a="b"',
    'vllm:x{a="b 5',
    'vllm:x{a="b"}',
    'vllm:x{a="b\\"} 5',
    'vllm:x{a="b"}} 5',
    'vllm:x{{a="b"} 5',
    'vllm:x a="b" 5',
    "vllm:x{a=b} 5",
    "vllm:x{a='b'} 5",
    "vllm:x{a} 5",
    'vllm:x{="b"} 5',
    'vllm:x{,a="b"} 5',
    'vllm:x{a="b",,c="d"} 5',
    'vllm:x{a="b" c="d"} 5',
    'vllm:x{a="b"c="d"} 5',
    'vllm:x{a=="b"} 5',
    'vllm:x{1a="b"} 5',
    'vllm:x{a-b="c"} 5',
    'vllm:x{a="1",a="2"} 5',
    'vllm:x{a="1","a"="2"} 5',
]


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_is_refused_by_number_and_text(line: str) -> None:
    with pytest.raises(InvalidExposition) as error:
        read_samples(f"# TYPE a gauge\na 1\n\n{line}\nb 2\n")
    assert (error.value.line, error.value.text) == (4, line)
    assert "line 4" in str(error.value)
    assert repr(line) in str(error.value)


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_is_counted_and_the_rest_of_the_page_is_used(line: str) -> None:
    good = text_of(A_PAGE)
    whole = Normaliser(VLLM, IDENTITY).normalise(good)
    normaliser = Normaliser(VLLM, IDENTITY)
    head, tail = good[: good.index("# HELP vllm:")], good[good.index("# HELP vllm:") :]
    for _ in range(2):
        reading = normaliser.normalise(f"{head}{line}\n{tail}")
        assert reading.values == whole.values
        assert reading.histograms == whole.histograms
        assert reading.dropped == {"syntax": 1}
        assert reading.dropped_samples == [(line, "syntax")]


@pytest.mark.parametrize("line", MALFORMED)
def test_a_page_without_a_single_sample_is_no_exposition(line: str) -> None:
    with pytest.raises(InvalidExposition) as error:
        Normaliser(VLLM, IDENTITY).normalise(f"# HELP x y\n{line}\n{line}\n")
    assert (error.value.line, error.value.text) == (2, line)


def test_a_page_without_lines_is_an_exposition() -> None:
    assert read_samples("") == read_samples("\n# nothing\n \r\n") == []


N = 100_000
HOSTILE_LINES = {
    "blanks": " " * N + "x",
    "blanks behind a name": "x" + " " * N + "y",
    "blanks and tabs before a number": "x" + " \t" * (N // 2) + "5_",
    "blanks in a block": "x{" + " " * N + "} y",
    "a name without end": "x" * N,
    "a number without end": "x " + "9" * N + "x",
    "an exponent without end": "x 1e" + "9" * N + "x",
    "braces": "{" * N,
    "closing braces": "x{" + "}" * N,
    "quotes": 'x{a="' + '"' * N,
    "backslashes": 'x{a="' + "\\" * N,
    "escaped quotes": 'x{a="' + '\\"' * (N // 2) + "} 5",
    "labels without end": "x{" + 'a="b",' * (N // 6) + " 5",
    "labels without commas": "x{" + 'a="b" ' * (N // 6) + "} 5",
    "quoted names": "x{" + '"b",' * (N // 4) + "} 5",
    "equal signs": "x{a" + "=" * N + "} 5",
    "blanks round an equal sign": "x{a" + " " * N + "=" + " " * N + "b} 5",
    "commas": "x{" + "," * N + "} 5",
    "hashes": "x 5 " + "#" * N,
    "times": "x 5" + " 1" * (N // 2),
}


@pytest.mark.parametrize("line", HOSTILE_LINES.values(), ids=HOSTILE_LINES)
def test_a_hostile_line_is_refused_in_time_that_grows_with_its_length(line: str) -> None:
    """A pattern that tries every split of such a line would not come to an end here."""
    with pytest.raises(InvalidExposition):
        read_samples(line)
    with pytest.raises(InvalidExposition):
        exposition.regular(line)
    assert not exposition.is_regular(line)
    assert exposition.parse_key(line) is None or line == "x" * N


@pytest.mark.parametrize(
    ("line", "name", "kind"),
    [
        ("# TYPE vllm:x counter", "vllm:x", "counter"),
        ("#\tTYPE  vllm:x\t gauge \r", "vllm:x", "gauge"),
        ('# TYPE "x.y" histogram', "x.y", "histogram"),
    ],
)
def test_a_type_line_declares_its_family(line: str, name: str, kind: str) -> None:
    assert exposition.declared_names([line, "# HELP TYPE x y", "# TYPE broken", "x 1"]) == {name: kind}


@given(written_pages())
def test_a_page_made_regular_holds_the_same_samples_and_splits_into_them(written: Written) -> None:
    text, bad = exposition.regular(written.text)
    assert bad == []
    assert exposition.is_regular(text)
    keys, values = exposition.split(text)
    found = [
        (parsed, repr(float(value)))
        for key, value in zip(keys, values, strict=True)
        if not key.startswith("#") and (parsed := exposition.parse_key(key))
    ]
    assert found == [((s.name, s.labels), repr(s.value)) for s in written.samples]


# Writing


def readings(page: Path) -> list[Reading]:
    framework = FRONTENDS[page.relative_to(CAPTURES).parts[0]].framework
    frontends = [f for f in FRONTENDS.values() if f.framework == framework]
    return [Normaliser(frontend, IDENTITY).normalise(text_of(page)) for frontend in frontends]


def to_be_read(reading: Reading) -> Iterable[tuple[str, Labels, float]]:
    """What a reader has to find: each value, and each histogram where native bounds are on the grid."""
    for series, value in reading.values.items():
        yield series.metric, series.labels, value
    for series, histogram in reading.histograms.items():
        grid = PHASE_OF_METRIC[series.metric].grid
        yield f"{series.metric}_count", series.labels, histogram.count
        if histogram.sum is not None:
            yield f"{series.metric}_sum", series.labels, histogram.sum
        for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
            if bound in (*grid, math.inf):
                le = exposition.format_bound(bound)
                yield f"{series.metric}_bucket", sorted_labels({**dict(series.labels), "le": le}), count


@pytest.mark.parametrize("page", PAGES, ids=capture_id)
def test_a_written_page_says_to_prometheus_client_what_was_read(page: Path) -> None:
    for reading in readings(page):
        found = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(exposition.page([reading.chunks()]))
            for sample in family.samples
        }
        for name, block, value in to_be_read(reading):
            assert found[name, block] == value
        known = {name for name, _, _ in to_be_read(reading)}
        beside = "llm_(latency|length)_(overflow_total|native_max_seconds|native_bounds_info)"
        assert all(name in known or re.fullmatch(beside, name) for name, _ in found)


def test_families_of_several_targets_stand_together_under_one_header() -> None:
    chunks = []
    for server in ("a", "b"):
        block = sorted_labels({"server": server})
        chunks.append({m: exposition.line(m, block, 1.0) for m in ("llm_requests_running", "llm_up")})
    assert exposition.page(chunks) == (
        "# HELP llm_up 1 if the server's process answers HTTP (metrics or health), whatever it answers.\n"
        "# TYPE llm_up gauge\n"
        'llm_up{server="a"} 1.0\n'
        'llm_up{server="b"} 1.0\n'
        "# HELP llm_requests_running Requests in the running batch: the batch size.\n"
        "# TYPE llm_requests_running gauge\n"
        'llm_requests_running{server="a"} 1.0\n'
        'llm_requests_running{server="b"} 1.0\n'
    )


@pytest.mark.parametrize("page", PAGES, ids=capture_id)
def test_a_written_page_has_each_family_once_with_one_header(page: Path) -> None:
    lines = exposition.page([reading.chunks() for reading in readings(page)]).splitlines()
    heads = [line.split()[1:3] for line in lines if line.startswith("#")]
    names = [name for kind, name in heads if kind == "TYPE"]
    assert heads == [[kind, name] for name in names for kind in ("HELP", "TYPE")]
    assert len(names) == len(set(names))
    current = ""
    for line in lines:
        if line.startswith("# TYPE"):
            current = line.split()[2]
        elif not line.startswith("#"):
            name = re.split(r"[{ ]", line)[0]
            assert re.sub("_(bucket|sum|count)$", "", name) == current or name == current


@given(st.dictionaries(LABEL_NAMES, LABEL_VALUES.filter(bool), max_size=4), st.floats())
def test_a_written_line_reads_back(values: dict[str, str], value: float) -> None:
    line = exposition.line("llm_up", sorted_labels(values), value)
    assert ours(line) == theirs(line) == Counter([_key("llm_up", values, value, None)])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (5e-324, "5e-324"), (3, "3.0")],
)
def test_values_are_written_so_that_every_reader_knows_them(value: float, text: str) -> None:
    assert exposition.format_value(value) == text


@pytest.mark.parametrize(("bound", "text"), [(1, "1.0"), (0.25, "0.25"), (math.inf, "+Inf"), (1e6, "1000000.0")])
def test_bounds_are_written_the_canonical_way(bound: float, text: str) -> None:
    assert exposition.format_bound(bound) == text
