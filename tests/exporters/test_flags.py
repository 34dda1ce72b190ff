from __future__ import annotations

import pytest

from exporters.flags import Flag, Purpose, flags_of
from exporters.tables import FRONTENDS


def names(frontend: str, purpose: Purpose, version: str) -> list[str]:
    return [flag.name for flag in flags_of(FRONTENDS[frontend].flags, purpose, version)]


@pytest.mark.parametrize(
    ("frontend", "version", "told"),
    [
        ("vllm", "0.6.3.post1", ["--enable-prefix-caching"]),
        ("vllm", "0.8.0", ["--no-enable-prefix-caching"]),
        ("vllm", "0.32.0", ["--no-enable-prefix-caching"]),
        ("vllm", "", ["--no-enable-prefix-caching", "--enable-prefix-caching"]),
        ("sglang", "0.4.9", ["--disable-radix-cache"]),
    ],
)
def test_a_release_has_its_own_flag_and_an_unknown_one_any(frontend: str, version: str, told: list[str]) -> None:
    assert names(frontend, Purpose.PREFIX_CACHING, version) == told


def test_lmdeploy_switched_its_metrics_on_before_it_switched_them_off() -> None:
    told = [(v, names("lmdeploy", Purpose.STATISTICS, v)) for v in ("0.9.1", "0.9.2", "0.10.2", "0.11.0", "0.18")]
    assert told == [
        ("0.9.1", []),
        ("0.9.2", ["--enable-metrics"]),
        ("0.10.2", ["--enable-metrics"]),
        ("0.11.0", ["--disable-metrics"]),
        ("0.18", ["--disable-metrics"]),
    ]


def test_releases_are_said_in_words() -> None:
    assert Flag("--a").releases == ""
    assert Flag("--a", since="0.8").releases == "since 0.8"
    assert Flag("--a", before="0.8").releases == "before 0.8"
    assert Flag("--a", since="0.9.2", before="0.11").releases == "since 0.9.2, before 0.11"


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_every_frontend_names_what_decides_about_batch_and_cache(frontend: str) -> None:
    for purpose in (Purpose.BATCH, Purpose.KV_MEMORY, Purpose.PREFIX_CACHING, Purpose.CONTEXT):
        assert FRONTENDS[frontend].flags[purpose]
