"""Settings with which a simulated server is started."""

from __future__ import annotations

import re

import pytest

from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.model import Limits
from demo.server import Spec
from demo.workload import Mix, Rate

START = 1_796_000_000.0


def page(spec: Spec, path: str = "/metrics", minutes: float = 5) -> tuple[int, str]:
    service = Service("chat", (spec.name,), Mix("mix", Fixed(100), Fixed(50), stops=0.0), Rate(1.0))
    made = Fleet([spec], [service], {"rack-1": 1}, seed=1, start=START)
    answer = made.answer(spec.name, path, START + minutes * 60).answer
    assert answer is not None
    return answer.status, answer.body.decode()


def sum_of(text: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("frontend", "release", "path"),
    [
        ("sglang", "0.5.23", "/metrics"),
        ("lmdeploy", "0.18.0", "/metrics"),
        ("trtllm_serve", "1.3.0", "/prometheus/metrics"),
    ],
)
def test_without_metrics_there_is_no_page(frontend: str, release: str, path: str) -> None:
    there = Spec("a", "rack-1", frontend, release, "m", (0,))
    gone = Spec("a", "rack-1", frontend, release, "m", (0,), tells_metrics=False)
    assert (page(there, path)[0], page(gone, path)[0]) == (200, 404)
    assert page(gone, "/v1/models")[0] == 200


def test_without_statistics_the_page_of_vllm_has_none_of_its_families() -> None:
    status, text = page(Spec("a", "rack-1", "vllm", "0.32.0", "m", (0,), tells_metrics=False))
    assert status == 200
    assert "process_start_time_seconds" in text
    assert "http_requests_total" in text
    assert "vllm:" not in text


def test_a_server_takes_as_much_memory_as_it_was_told() -> None:
    spec = Spec("a", "rack-1", "vllm", "0.32.0", "m", (1,), used_mib=40_000)
    made = Fleet([spec], [], {"rack-1": 3}, seed=1, start=START)
    assert [gpu.used_mib for gpu in made.hosts["rack-1"].gpus] == [4, 40_000, 4]


@pytest.mark.parametrize("release", ["0.10.2", "0.32.0"])
def test_drafts_are_accepted_as_often_as_they_should(release: str) -> None:
    """Each step of a sequence makes one token beside those that are accepted of its draft."""
    limits = Limits(draft_tokens=4, drafts_accepted=0.25)
    text = page(Spec("a", "rack-1", "vllm", release, "m", (0,), limits))[1]
    drafts, drafted, accepted = (
        sum_of(text, f"vllm:spec_decode_num_{name}_total") for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    first_tokens = sum_of(text, "vllm:time_to_first_token_seconds_count")
    assert drafted == 4 * drafts > 1000
    assert drafts + accepted == sum_of(text, "vllm:generation_tokens_total") - first_tokens
    assert accepted / drafted == pytest.approx(0.25, abs=0.001)


def test_who_does_not_speculate_says_nothing_of_drafts() -> None:
    assert "spec_decode" not in page(Spec("a", "rack-1", "vllm", "0.32.0", "m", (0,)))[1]
