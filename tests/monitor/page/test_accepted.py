from __future__ import annotations

import pytest

from monitor.page.accepted import accepts_gzip, accepts_html


@pytest.mark.parametrize(
    ("said", "takes_it"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("GZIP;q=0.5", True),
        ("deflate , gzip ; q=1.0", True),
        ("*", True),
        ("identity;q=0, *", True),
        ("", False),
        ("identity", False),
        ("deflate, br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("gzip;q=", False),
        ("gzip;q=much", False),
        ("xgzip", False),
    ],
)
def test_gzip_is_sent_to_who_takes_it_and_to_nobody_else(said: str, takes_it: bool) -> None:
    assert accepts_gzip(said) is takes_it


@pytest.mark.parametrize(
    ("said", "takes_it"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", True),
        ("Text/HTML; q=0.7", True),
        ("application/json, text/html;q=0.1", True),
        ("text/html;level=1", True),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("text/html;q=0", False),
        ("text/htmlx", False),
        ("", False),
    ],
)
def test_html_is_for_who_asks_for_it_by_name(said: str, takes_it: bool) -> None:
    assert accepts_html(said) is takes_it
