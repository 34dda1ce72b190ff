from __future__ import annotations

import logging

import pytest

from exporters.terminal import LogFormat, printable
from inferwatch.console import columns, plural


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert columns([("8000", "vllm 0.32.0", "tiny"), ("23333", "nothing listens", "")]) == [
        "  8000   vllm 0.32.0      tiny",
        "  23333  nothing listens",
    ]


def test_no_rows_are_no_lines() -> None:
    assert columns([]) == []


def test_columns_stay_aligned_beside_what_cannot_be_printed() -> None:
    assert columns([("a\nb", "x"), ("c", "y\x1b")]) == ["  a\\nb  x", "  c     y\\x1b"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("qwen2.5, größer 模型 😀", "qwen2.5, größer 模型 😀"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\u202eevil\u202c \u2066x\u2069 \u200f\u061c", r"\u202eevil\u202c \u2066x\u2069 \u200f\u061c"),
        ("zero\u200bwidth\ufeff \U000e0041", r"zero\u200bwidth\ufeff \U000e0041"),
        ("\udcff", r"\udcff"),
        (r'a "b" \n', r'a "b" \n'),
    ],
)
def test_text_of_others_is_made_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def logged(message: str, *arguments: object, error: BaseException | None = None) -> str:
    failed = None if error is None else (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, message, arguments, failed)
    return LogFormat().format(record)


def test_a_log_line_shows_what_a_server_said_printably() -> None:
    assert logged("%s: broke", "m\x1b[31m").endswith(r" ERROR m\x1b[31m: broke")


def test_nothing_that_a_server_said_looks_like_a_record_of_the_log() -> None:
    text = logged("%s", "m\n2026-01-01 00:00:00,000 INFO fine", error=ValueError("e\x1b\nforged"))
    first, *others = text.split("\n")
    assert first.endswith(" ERROR m")
    assert others[0] == "    2026-01-01 00:00:00,000 INFO fine"
    assert others[-2:] == [r"    ValueError: e\x1b", "    forged"]


def test_one_is_singular() -> None:
    assert [plural(n, "engine") for n in (0, 1, 2)] == ["0 engines", "1 engine", "2 engines"]
