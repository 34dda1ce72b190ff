from __future__ import annotations

import pytest

from monitor.page.accepted import accepts_gzip


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
