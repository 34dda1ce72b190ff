"""Servers of the simulated fleet that were started with the wrong settings: each gets its own finding first, with the
flag of its release and the numbers that the fleet's truth has; those that are well get none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from alerts.slo.published import DEFAULT
from alerts.slo.spec import read
from demo.fleet import Service
from demo.lengths import Fixed
from demo.model import Limits
from demo.pace import PACES
from demo.server import Spec, scaled
from demo.truth import Window
from demo.workload import CHAT, Burst, Mix, Prefixes, Rate
from monitor.advise.model import Finding
from tests.end_to_end.advised import MINUTE, NODE, START, Lived, findings, lived, names, number

END = 80 * MINUTE
SLOS = read(DEFAULT).slos
_SHORT = Mix("short", Fixed(16), Fixed(300), stops=0.0)
_BRIEF = Mix("brief", Fixed(16), Fixed(20), Prefixes("word", 24))
_LONG = Mix("long", Fixed(30), Fixed(60), Prefixes("system", 2000), stops=0.0)
_WORK = Burst(START + 40 * MINUTE, 25 * MINUTE, 2.2)

_LIMITS = Limits(running=128, waiting=256, kv_tokens=80_000)
_OFF = replace(_LIMITS, prefix_caching=False)
_GUESSING = replace(_LIMITS, draft_tokens=5, drafts_accepted=0.06)
_VLLM, _SGLANG, _LMDEPLOY = ("vllm", "0.32.0"), ("sglang", "0.5.23"), ("lmdeploy", "0.18.0")


def _spec(name: str, release: tuple[str, str], model: str, limits: Limits = _LIMITS, **more: object) -> Spec:
    given: dict[str, object] = {"slowness": 4.0} | more
    return Spec(name, NODE, *release, model, (_PLACES.index(name),), limits, **given)  # type: ignore[arg-type]


_PLACES = ("wide", "keeps", "forgets", "sgl-keeps", "sgl-forgets", "lmd-forgets", "coarse", "shy", "guesses")
SPECS = (
    _spec("wide", _VLLM, "m-batch", slowness=20.0),
    _spec("keeps", _VLLM, "m-vllm"),
    _spec("forgets", _VLLM, "m-vllm", _OFF),
    _spec("sgl-keeps", _SGLANG, "m-sglang"),
    _spec("sgl-forgets", _SGLANG, "m-sglang", _OFF),
    _spec("lmd-forgets", _LMDEPLOY, "m-sglang", replace(_OFF, block_tokens=64)),
    _spec("coarse", _VLLM, "m-brief", replace(_LIMITS, block_tokens=64)),
    _spec("shy", _VLLM, "m-memory", replace(_LIMITS, kv_tokens=3000), slowness=20.0, used_mib=45_000),
    _spec("guesses", _VLLM, "m-guess", _GUESSING),
)
SERVICES = (
    Service("batch", ("wide",), _SHORT, Rate(0.9, bursts=(_WORK,))),
    Service("vllm", ("keeps", "forgets"), CHAT, Rate(0.2)),
    Service("sglang", ("sgl-keeps", "sgl-forgets", "lmd-forgets"), CHAT, Rate(0.3)),
    Service("brief", ("coarse",), _BRIEF, Rate(0.8)),
    Service("memory", ("shy",), _LONG, Rate(0.4, bursts=(replace(_WORK, factor=6.25),))),
    Service("guess", ("guesses",), CHAT, Rate(0.1)),
)
EXPECTED = {
    "wide": ("batch_too_large", "lower `--max-num-seqs` to about "),
    "forgets": ("prefix_caching_off", "start without `--no-enable-prefix-caching` (it is off)"),
    "sgl-forgets": ("prefix_caching_off", "start without `--disable-radix-cache` (it is off)"),
    "lmd-forgets": ("prefix_caching_off", "start with `--enable-prefix-caching`"),
    "coarse": ("prompts_below_block", "lower `--block-size` (it is 64)"),
    "shy": ("memory_head_room", "raise `--gpu-memory-utilization` (the default is 0.9)"),
    "guesses": ("speculation_loses", "start without `--speculative-config`"),
}
"""The finding and the change of each server; the others are well."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(SPECS, SERVICES, END, tmp_path_factory.mktemp("settings"), slos=SLOS) as made:
        yield made


@pytest.fixture(scope="module")
def found(fleet: Lived) -> dict[str, list[Finding]]:
    return findings(fleet.advice(0, END, now=END))


def test_each_gets_its_own_finding_and_no_other(fleet: Lived) -> None:
    expected = {server: [name] for server, (name, _) in EXPECTED.items()}
    assert names(fleet.advice(0, END, now=END)) == names(fleet.advice(0, END)) == expected


@pytest.mark.parametrize("server", EXPECTED)
def test_the_setting_has_the_name_of_that_release(found: dict[str, list[Finding]], server: str) -> None:
    change = found[server][0].change
    assert change is not None
    assert change.text.startswith(EXPECTED[server][1])


@pytest.mark.parametrize("server", ["forgets", "sgl-forgets", "lmd-forgets"])
def test_prompts_were_computed_anew_and_repeat_elsewhere_as_told(
    fleet: Lived, found: dict[str, list[Finding]], server: str
) -> None:
    """SGLang counts nothing of a request whose client went away before its first token."""
    (finding,) = found[server]
    other = "keeps" if server == "forgets" else "sgl-keeps"
    ratio, computed = number(finding, "hit ratio"), number(finding, "prompt tokens computed")
    assert ratio.value == pytest.approx(fleet.truth(other, ratio).hit_ratio, rel=0.01)
    assert computed.value == pytest.approx(fleet.truth(server, computed).prompt_tokens, rel=0.01)
    assert fleet.truth(server, computed).cached_tokens == 0


def test_prompts_were_as_short_as_told(fleet: Lived, found: dict[str, list[Finding]]) -> None:
    """All have 40 tokens, a block has 64; vLLM's next bound is 50."""
    (finding,) = found["coarse"]
    assert (
        number(finding, "hit tokens").value == fleet.truth("coarse", number(finding, "hit tokens")).cached_tokens == 0
    )
    assert number(finding, "P90 of prompt length").value == 50


def test_large_batches_were_as_large_and_as_slow_as_told(fleet: Lived, found: dict[str, list[Finding]]) -> None:
    """As many ran in the mean as Little's law has it of the requests that ended."""
    (finding,) = found["wide"]
    running, p99 = number(finding, "running where the goal was missed"), number(finding, "P99 where it was missed")
    window = Window(running.since, running.until)
    ends = fleet.fleet.truth.observer("wide/0").ends.rows(window)
    decoding = sum(since_first for _, since_first, *_ in ends) / (window.end - window.start)
    assert running.value == pytest.approx(decoding, rel=0.05)
    true = fleet.fleet.truth.percentile("between_tokens", 0.99, window, {"wide/0"})
    assert true is not None
    assert 0.1 < true <= 0.3
    assert 0.1 < p99.value <= 0.3
    before = fleet.fleet.truth.percentile("between_tokens", 0.99, Window(START, _WORK.start), {"wide/0"})
    assert before is not None
    assert before <= 0.1
    assert number(finding, "P99 where it was met").value <= 0.1


def test_the_batch_that_is_advised_meets_the_goal(found: dict[str, list[Finding]]) -> None:
    """By the step of the simulated engine: up to 47 sequences take less than 0.1 s."""
    (finding,) = found["wide"]
    assert finding.change is not None
    step = scaled(PACES["vllm"], 20.0).decode.at
    advised = int(finding.change.to.removeprefix("about "))
    assert advised >= 8
    assert step(advised) < 0.1 < step(number(finding, "running where the goal was missed").value)


def test_memory_was_as_free_and_the_cache_as_full_as_told(found: dict[str, list[Finding]]) -> None:
    (finding,) = found["shy"]
    total, used = 81_559, 45_000
    assert number(finding, "memory never used").value == (total - used) * 2**20
    assert number(finding, "memory in use").value == pytest.approx(used / total)
    at_once = 2.5 * 60 * scaled(PACES["vllm"], 20.0).decode.at(8)
    held = (2000 + at_once * (30 + 60 / 2)) / 3000
    assert number(finding, "KV-cache use").value == pytest.approx(held, abs=0.08)


def test_drafts_were_as_many_and_as_bad_as_told(fleet: Lived, found: dict[str, list[Finding]]) -> None:
    """A step makes a token of its own beside 0.06 x 5 of its draft; a first token is no step's."""
    (finding,) = found["guesses"]
    assert number(finding, "drafted tokens accepted").value == pytest.approx(0.06, abs=0.001)
    drafted = number(finding, "tokens drafted")
    truth = fleet.truth("guesses", drafted)
    steps = (truth.generated_tokens - truth.latency["time_to_first_token"].count) / (1 + 0.06 * 5)
    assert drafted.value == pytest.approx(5 * steps, rel=0.001)
