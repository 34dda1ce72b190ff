from __future__ import annotations

import pytest

from exporters.allow import Allowed, permitted
from exporters.config import host_and_port


def allows(entry: str, url: str) -> bool:
    return permitted([entry], url, host_and_port(url))


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("http://gw:8000/model-a", "http://gw:8000/model-a"),
        ("http://gw:8000/model-a", "http://gw:8000/model-a/"),
        ("gpu-1:8000", "http://gpu-1:8000"),
        ("gpu-1:8000", "https://GPU-1:8000/metrics"),
        ("gpu-1:80", "http://gpu-1"),
        ("gpu-*.example:8000", "http://gpu-17.example:8000"),
        ("gpu-1:*", "http://gpu-1:30000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("10.20.0.0/16", "http://10.20.3.4:8000"),
        ("10.20.0.0/16", "http://10.20.3.4"),
        ("fd00::/8", "http://[fd00::7]:8000/metrics"),
        ("10.20.3.4", "http://10.20.3.4:8000"),
    ],
)
def test_an_entry_allows(entry: str, url: str) -> None:
    assert allows(entry, url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("http://gw:8000/model-a", "http://gw:8000/model-b"),
        ("http://gw:8000/model-a", "http://gw:8000"),
        ("http://gw:8000/model-a", "https://gw:8000/model-a"),
        ("gpu-1:8000", "http://gpu-1:8001"),
        ("gpu-1:8000", "http://gpu-1:8000/admin"),
        ("gpu-1:8000", "http://gpu-1:8000/metrics/../admin"),
        ("gpu-1:8000", "http://gpu-1x8000:8000"),
        ("gpu-*.example:8000", "http://gpu-1.evil.example:8000"),
        ("gpu-*.example:8000", "http://gpu-1.example.evil:8000"),
        ("gpu.example:8000", "http://gpuxexample:8000"),
        ("10.20.0.0/16", "http://10.21.0.1:8000"),
        ("10.20.0.0/16", "http://localhost:8000"),
        ("10.20.0.0/16", "http://10.20.3.4:8000/admin"),
        ("::ffff:0:0/96", "http://10.20.3.4:8000"),
    ],
)
def test_an_entry_does_not_allow(entry: str, url: str) -> None:
    assert not allows(entry, url)


@pytest.mark.parametrize("entry", ["", "gpu-1", "10.20.0.0/8", "gpu-1:port", "*", "10.0.0.0/33", "gpu 1:8000"])
def test_what_is_no_entry_says_what_would_be(entry: str) -> None:
    with pytest.raises(ValueError, match="an exact URL, host:port"):
        Allowed.parse(entry)


def test_nothing_is_allowed_by_default() -> None:
    assert not permitted([], "http://gpu-1:8000", "gpu-1:8000")
