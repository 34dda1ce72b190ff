"""What a plan makes of a page does not depend on how the page is written, and a plan is made once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporters import exposition, normalise, plan
from exporters.normalise import Limits, Normaliser, Reading, TooManySamples
from exporters.schema import METRICS, PHASE_OF_METRIC, Type
from exporters.table import Field, Frontend, Json, Over, Series, Source
from exporters.tables import FRONTENDS
from exporters.tables.vllm import VLLM
from tests.exporters.recorded import CAPTURES, IDENTITY, SWITCHED_OFF, VLLM_PAGES, page_id
from tests.exporters.small_tables import COUNTER, GAUGE, HISTOGRAM, one, read, table, value

PAIRS = [
    (frontend, page)
    for frontend in FRONTENDS.values()
    for page in sorted(CAPTURES.glob("*/*/*.prom"))
    if FRONTENDS[page.parent.parent.name].framework == frontend.framework
]
"""Every table with every page of its framework, also with those that it has nothing to read on."""
READABLE = [p for p in VLLM_PAGES if SWITCHED_OFF not in p.name]
SOME = [p for p in READABLE if p.stem in ("2-after", "1-mid62s", "A-2-after", "C-dp2-smallkv-1-mid03", "0-fresh")]


def fresh(text: str, frontend: Frontend = VLLM, **limits: int) -> Reading:
    return Normaliser(frontend, IDENTITY, Limits(**limits)).normalise(text)


def shown(reading: Reading) -> tuple[object, ...]:
    """All that a reading says of the server. Sums may differ in their last bit where parts add up in another order."""
    return (
        {series: pytest.approx(value, rel=1e-12) for series, value in reading.values.items()},
        {s: (h.bounds, h.counts, h.sum and pytest.approx(h.sum, rel=1e-12)) for s, h in reading.histograms.items()},
        {f.field: f.quality for f in reading.fields},
        reading.start_time,
    )


def shuffled(text: str, random: Random) -> str:
    lines = text.splitlines()
    random.shuffle(lines)
    return "\n".join(lines)


def prefix_rewritten(text: str, random: Random) -> str:
    return text.replace("vllm:", "vllm_")


def half_rewritten(text: str, random: Random) -> str:
    """As OpenMetrics bodies are: samples rewritten, headers not."""
    return re.sub(r"^vllm:", "vllm_", text, flags=re.MULTILINE)


def strangers_added(text: str, random: Random) -> str:
    new = '# TYPE vllm:new gauge\nvllm:new 5\nvllm:newer_total{a="b"} 1\nother_bucket{le="1"} 0\nother_count 1\n'
    lines = text.splitlines()
    for line in new.splitlines():
        lines.insert(random.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def process_label_added(text: str, random: Random) -> str:
    return re.sub(r"^(vllm:\w+)\{(?!\})", r'\1{pid="4242",', text, flags=re.MULTILINE)


def lines_repeated(text: str, random: Random) -> str:
    lines = text.splitlines()
    repeated = [x for line in lines for x in [line] * random.choice([1, 1, 2])]
    return "\n".join(repeated)


def times_added(text: str, random: Random) -> str:
    return re.sub(r"^([^#\n].*)$", r"\1 1796027072659", text, flags=re.MULTILINE)


def blanks_added(text: str, random: Random) -> str:
    return re.sub(r"^([^#\n].*) (\S+)$", "\t\\1 \t \\2 ", text, flags=re.MULTILINE).replace("\n", "\r\n\r\n")


def comments_removed(text: str, random: Random) -> str:
    return re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)


def labels_reversed(text: str, random: Random) -> str:
    def turn(match: re.Match[str]) -> str:
        return "{" + ",".join(reversed(re.findall(r'\w+="[^"]*"', match[1]))) + "}"

    return re.sub(r"\{(.*)\}", turn, text)


Rewriting = Callable[[str, Random], str]
OF_CONTENT: list[Rewriting] = [
    shuffled,
    prefix_rewritten,
    half_rewritten,
    strangers_added,
    process_label_added,
    lines_repeated,
    labels_reversed,
]
OF_FORM: list[Rewriting] = [times_added, blanks_added]


@pytest.mark.parametrize("rewritten", [*OF_CONTENT, *OF_FORM])
@pytest.mark.parametrize("page", SOME, ids=page_id)
def test_a_page_says_the_same_however_it_is_written(page: Path, rewritten: Rewriting) -> None:
    text = page.read_text()
    assert shown(fresh(rewritten(text, Random(7)))) == shown(fresh(text))


@settings(max_examples=40)
@given(
    st.sampled_from(READABLE),
    st.lists(st.sampled_from(OF_CONTENT), min_size=1, max_size=4, unique=True),
    st.sampled_from(OF_FORM),
    st.integers(0, 2**32),
)
def test_a_page_says_the_same_after_several_rewritings(
    page: Path, chain: list[Rewriting], form: Rewriting, seed: int
) -> None:
    text, random = page.read_text(), Random(seed)
    expected = shown(fresh(text))
    for rewritten in (*chain, form):
        text = rewritten(text, random)
    assert shown(fresh(text)) == expected


@settings(max_examples=40)
@given(
    st.sampled_from(PAIRS),
    st.sampled_from([shuffled, lines_repeated, labels_reversed, *OF_FORM]),
    st.integers(0, 2**32),
)
def test_pages_of_every_frontend_say_the_same_however_they_are_written(
    pair: tuple[Frontend, Path], rewritten: Rewriting, seed: int
) -> None:
    frontend, page = pair
    text = page.read_text()
    assert shown(fresh(rewritten(text, Random(seed)), frontend)) == shown(fresh(text, frontend))


@pytest.mark.parametrize("page", [p for p in SOME if "fresh" not in p.name], ids=page_id)
def test_without_headers_all_that_has_samples_stays(page: Path) -> None:
    text = page.read_text()
    whole, bare = fresh(text), fresh(comments_removed(text, Random(7)))
    assert bare.histograms == whole.histograms
    assert bare.values.items() <= whole.values.items()
    # What is left out are counters that only their header announced.
    assert {v for s, v in whole.values.items() if s not in bare.values} <= {0.0}


def test_strangers_are_counted_and_repeated_lines_are_dropped() -> None:
    text = SOME[0].read_text()
    assert set(fresh(strangers_added(text, Random(7))).unmapped) == {"vllm:new", "vllm:newer_total", "other"}
    twice = "\n".join(line for line in text.splitlines() for _ in range(2))
    samples = sum(1 for line in text.splitlines() if line and line[0] != "#")
    assert fresh(twice).dropped == {"duplicate": samples}


@pytest.mark.parametrize("page", VLLM_PAGES, ids=page_id)
def test_a_vllm_server_exports_at_most_500_series_per_model_and_engine(page: Path) -> None:
    lines = exposition.read_samples(exposition.page([fresh(page.read_text()).chunks()]))
    per_engine = Counter((s.labels.get("model"), s.labels.get("engine")) for s in lines)
    assert max(per_engine.values(), default=0) <= 500


# Plans


RUNS: dict[str, list[Path]] = {}
for _page in VLLM_PAGES:
    _run = re.sub(r"(-?)[0-7]-.*", "", _page.stem)
    RUNS.setdefault(f"{_page.parent.name}/{_run}", []).append(_page)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_following_a_server_says_what_each_page_says_alone(run: list[Path]) -> None:
    follower = Normaliser(VLLM, IDENTITY)
    for page in [*run, *reversed(run)]:
        text = page.read_text()
        followed, alone = follower.normalise(text), fresh(text)
        assert followed.values == alone.values
        assert followed.histograms == alone.histograms
        assert followed.findings == alone.findings
        assert followed.dropped == alone.dropped


def other_numbers(text: str, random: Random) -> str:
    def turn(match: re.Match[str]) -> str:
        return f"{match[1]} {random.choice([0.0, 1.0, 0.5, float(match[2]) + 1, float(match[2]) * 2, 'NaN', '+Inf'])}"

    return re.sub(r"^([^#\n].*) (\S+)$", turn, text, flags=re.MULTILINE)


@settings(max_examples=40)
@given(st.sampled_from(READABLE), st.integers(0, 2**32))
def test_other_numbers_through_a_known_plan_say_what_they_say_to_a_new_one(page: Path, seed: int) -> None:
    text = page.read_text()
    changed = other_numbers(text, Random(seed))
    follower = Normaliser(VLLM, IDENTITY)
    follower.normalise(text)
    followed, alone = follower.normalise(changed), fresh(changed)
    assert followed.values == alone.values
    assert followed.histograms == alone.histograms
    assert followed.dropped == alone.dropped
    assert followed.dropped_samples == alone.dropped_samples


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each plan that is made."""
    made: list[int] = []
    real = plan.compile_plan

    def counting(*arguments: object) -> plan.Plan:
        made.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(normalise, "compile_plan", counting)
    return made


def test_orders_that_alternate_keep_their_plans(compiled: list[int]) -> None:
    text = READABLE[0].read_text()
    orders = [shuffled(text, Random(seed)) for seed in range(4)]
    follower = Normaliser(VLLM, IDENTITY)
    for _ in range(5):
        for order in orders:
            assert shown(follower.normalise(other_numbers(order, Random(1)))) is not None
    assert len(compiled) == 4


def test_a_page_that_is_written_irregularly_keeps_its_plan_too(compiled: list[int]) -> None:
    text = READABLE[0].read_text()
    follower = Normaliser(VLLM, IDENTITY)
    for n in range(4):
        follower.normalise(re.sub(r"^([^#\n].*)$", rf"\1 {1796027072659 + n}", text, flags=re.MULTILINE))
    follower.normalise(text)
    assert len(compiled) == 1


def test_the_numbers_of_documents_make_no_new_plan_and_their_facts_do(compiled: list[int]) -> None:
    frontend = table(
        Field(GAUGE, Source(Series("x"))),
        Field(COUNTER, Source(Json("stats", "n", over=Over.SUM, engine="rank"))),
        facts={"version": Json("about", "version")},
    )
    follower = Normaliser(frontend, IDENTITY)
    first, second = {"rank": 0, "n": 1}, {"rank": 1, "n": 2}
    about = {"version": "1"}
    follower.normalise("p:x 1\n", {"stats": [first, second], "about": about})
    follower.normalise("p:x 1\n", {"stats": [second, first], "about": about})
    reading = follower.normalise("p:x 1\n", {"stats": [first] * 4 + [second] * 4, "about": about})
    assert len(compiled) == 1
    assert {s.label("engine"): v for s, v in reading.values.items() if s.metric == COUNTER} == {"0": 6, "1": 12}
    follower.normalise("p:x 1\n", {"stats": [], "about": {"version": "2"}})
    assert len(compiled) == 2


def test_a_page_with_more_samples_than_the_limit_is_refused() -> None:
    text = "".join(f'p:x{{a="{i}"}} 1\n' for i in range(11))
    with pytest.raises(TooManySamples, match="11 samples, more than the limit of 10"):
        read(one(Series("x"), COUNTER), text, max_samples=10)
    assert value(read(one(Series("x"), COUNTER), text, max_samples=11), COUNTER) == 11


# What is missing is missing


def family(line: str) -> str:
    name = line.split()[2] if line.startswith("#") else re.split(r"[{ ]", line)[0]
    return re.sub(r"_(bucket|sum|count)$", "", name)


@pytest.mark.parametrize("page", [p for p in SOME if "fresh" not in p.name], ids=page_id)
def test_a_family_that_goes_makes_its_field_unavailable_or_lets_another_in_and_never_0(page: Path) -> None:
    text = page.read_text()
    whole = fresh(text)
    for name, metric in [(name, metric) for name, fed in whole.mapped.items() for metric in fed.split(", ")]:
        lines = [line for line in text.splitlines() if line and family(line) not in (name, re.sub("_count$", "", name))]
        less = fresh("\n".join(lines))
        now = next(f for f in less.fields if f.field == metric)
        assert name not in now.source.split(", ")
        found = [s for s in (*less.values, *less.histograms) if s.metric == metric]
        if now.quality == "unavailable":
            assert found == []
            assert now.reason
        else:
            assert now.source != next(f for f in whole.fields if f.field == metric).source


def says_why_or_has_a_value(reading: Reading) -> bool:
    found = {s.metric for s in (*reading.values, *reading.histograms)}
    return all(
        (f.field in found) is (f.quality != "unavailable" and "over 5 minutes" not in f.source)
        and (bool(f.reason) or f.quality != "unavailable")
        for f in reading.fields
    )


@pytest.mark.parametrize("page", SOME, ids=page_id)
def test_an_unavailable_field_has_no_value_and_any_other_has_one(page: Path) -> None:
    assert says_why_or_has_a_value(fresh(page.read_text()))


def test_a_field_whose_values_are_all_unusable_is_unavailable_until_one_is_usable() -> None:
    frontend = table(Field(GAUGE, Source(Series("x", invalid=(0,)))), Field(HISTOGRAM, Source(Series("h"))))
    follower = Normaliser(frontend, IDENTITY)
    bad = follower.normalise('p:x{engine="0"} 0\np:x{engine="1"} NaN\n' + buckets(3, 2, 1))
    assert {(f.quality, f.reason) for f in bad.fields} == {
        ("unavailable", "the server shows no usable value at present")
    }
    good = follower.normalise('p:x{engine="0"} 0\np:x{engine="1"} 4\n' + buckets(1, 2, 3))
    assert {(f.quality, f.reason) for f in good.fields} == {("exact", "")}


# What is not usable


@pytest.mark.parametrize(
    ("number", "expected", "reason"),
    [
        ("0.5", 0.5, None),
        ("1.0000005", 1.0, None),
        ("1.01", None, "ratio_out_of_range"),
        ("-0.1", None, "negative"),
        ("+Inf", None, "invalid_value"),
        ("NaN", None, "nan"),
        ("-1", None, "not_known"),
    ],
)
def test_a_ratio_is_between_0_and_1_or_dropped(number: str, expected: float | None, reason: str | None) -> None:
    ratio = "llm_kv_cache_utilization_ratio"
    reading = read(one(Series("x", invalid=(-1,)), ratio), f"p:x {number}\n")
    assert value(reading, ratio) == expected
    assert reading.dropped == ({reason: 1} if reason else {})


def buckets(*numbers: object, total: object = 7.5) -> str:
    bounds = ("0.1", "1.0", "+Inf")
    return "".join(f'p:h_bucket{{le="{b}"}} {n}\n' for b, n in zip(bounds, numbers, strict=True)) + f"p:h_sum {total}\n"


@pytest.mark.parametrize(
    ("text", "counts", "total", "dropped"),
    [
        (buckets(1, 2, 3), (1, 2, 3), 7.5, {}),
        (buckets(0, 0, 0), (0, 0, 0), 7.5, {}),
        (buckets(1e12, 1e12 - 1e-4, 1e12), (1e12, 1e12, 1e12), 7.5, {}),
        (buckets(3, 2, 3), None, None, {"bucket_decreasing": 1}),
        (buckets(1, 3, 2), None, None, {"bucket_decreasing": 1}),
        (buckets(-1, 2, 3), None, None, {"bucket_decreasing": 1}),
        (buckets(1, "NaN", 3), None, None, {"nan": 1}),
        (buckets(1, 2, "+Inf"), None, None, {"bucket_decreasing": 1}),
        (buckets(1, 2, 3, total="NaN"), (1, 2, 3), None, {"nan": 1}),
        (buckets(1, 2, 3, total="+Inf"), (1, 2, 3), None, {"invalid_value": 1}),
        (buckets(1, 2, 3, total=-1), (1, 2, 3), None, {"negative": 1}),
    ],
)
def test_a_histogram_rises_or_is_dropped(
    text: str, counts: tuple[float, ...] | None, total: float | None, dropped: dict[str, int]
) -> None:
    reading = read(one(Series("h"), HISTOGRAM), text)
    found = list(reading.histograms.values())
    assert [(h.counts, h.sum) for h in found] == ([] if counts is None else [(counts, total)])
    assert reading.dropped == dropped


HOSTILE_NUMBERS = ["NaN", "+Inf", "-Inf", "-1", "1e308", "1e-320", "0", "7", "x", "1_0", "", "0.5 12", "9" * 400]
HOSTILE_TEXTS = ["", " ", '\\"', "\\\\", "\\n", "}", "{", ",", "é", "\u2028", "0", "1", "2", "+Inf", "NaN", "x" * 3000]


def spoiled(line: str, random: Random) -> str:
    how = random.randrange(6)
    if how == 0:
        return re.sub(r"\S+$", lambda _: random.choice(HOSTILE_NUMBERS), line)
    if how == 1:
        return re.sub(
            r'="[^"]*"', lambda m: f'="{random.choice(HOSTILE_TEXTS)}"' if random.random() < 0.5 else m[0], line
        )
    if how == 2:
        return re.sub(r'le="[^"]*"', lambda _: f'le="{random.choice(HOSTILE_TEXTS)}"', line)
    if how == 3:
        return re.sub(r'(\w+)="', lambda m: f'{random.choice([m[1], "pid", "engine", "model_name", "new"])}="', line)
    if how == 4:
        return line[: random.randrange(len(line) + 1)]
    return ""


@settings(max_examples=60)
@given(st.sampled_from([p for p in PAIRS if "fresh" not in p[1].name]), st.floats(0, 0.3), st.integers(0, 2**32))
def test_whatever_a_page_holds_its_reading_is_a_sound_exposition(
    pair: tuple[Frontend, Path], share: float, seed: int
) -> None:
    frontend, page = pair
    random = Random(seed)
    lines = [spoiled(x, random) if random.random() < share else x for x in page.read_text().splitlines()]
    reading = fresh("\n".join(lines), frontend, max_models=3)
    written = exposition.page([reading.chunks()])
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for family in text_string_to_metric_families(written):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen
            seen.add(key)
            assert math.isfinite(sample.value)
            assert sample.value >= 0
            assert not METRICS[name].is_ratio or sample.value <= 1
            assert all(len(text) <= 1024 or label == "bounds" for label, text in sample.labels.items())
    assert len({dict(labels).get("model") for _, labels in seen}) <= 3 + 2
    assert says_why_or_has_a_value(reading)
    for series, histogram in reading.histograms.items():
        assert histogram.is_monotone()
        assert PHASE_OF_METRIC[series.metric].metric == series.metric
    assert all(METRICS[s.metric].type is not Type.HISTOGRAM for s in reading.values)


N = 2000
APART = ("num_requests_waiting", "num_requests_swapped")
TTFT = "vllm:time_to_first_token_seconds_bucket"
ENDLESS = {
    "engines": "".join(f'vllm:{n}{{engine="{i}"}} 1\n' for i in range(N) for n in APART),
    "other engines in each name": "".join(f'vllm:{n}{{engine="{n}{i}"}} 1\n' for i in range(N) for n in APART),
    "models": "".join(f'vllm:{n}{{model_name="{i}"}} 1\n' for i in range(N) for n in APART),
    "engines in one name and models in another": "".join(
        f'vllm:{APART[0]}{{engine="{i}"}} 1\nvllm:{APART[1]}{{model_name="{i}"}} 1\n' for i in range(N)
    ),
    "settings of engines": "".join(f'vllm:cache_config_info{{engine="{i}",block_size="{i}"}} 1\n' for i in range(N)),
    "bounds": "".join(f'{TTFT}{{le="{i}"}} 1\n' for i in range(N)),
    "broken histograms": "".join(f'{TTFT}{{le="1",engine="{i}"}} 1\n' for i in range(N)) + "vllm:x 1\n" * N,
    "families": "".join(f"vllm:f{i} 1\n" for i in range(N)),
    "labels": "".join(f'vllm:generation_tokens_total{{x="{i}"}} 1\n' for i in range(N)),
    "reasons": "".join(f'vllm:request_success_total{{finished_reason="{i}"}} 1\n' for i in range(N)),
    "processes": "".join(f'vllm:num_requests_running{{pid="{i}"}} {i}\n' for i in range(N)),
    "a name": f'vllm:num_requests_running{{model_name="{"m" * 1000 * N}"}} 1\n',
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_page_that_tells_apart_without_end_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    """With each pair of its series compared, or each engine put beside each model, this would not come to an end."""
    reading = fresh(text)
    assert len(exposition.page([reading.chunks()])) < 10_000_000
