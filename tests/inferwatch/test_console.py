from __future__ import annotations

from inferwatch.console import columns, plural


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert columns([("8000", "vllm 0.32.0", "tiny"), ("23333", "nothing listens", "")]) == (
        "  8000   vllm 0.32.0      tiny\n  23333  nothing listens"
    )


def test_no_rows_are_no_text() -> None:
    assert columns([]) == ""


def test_one_is_singular() -> None:
    assert [plural(n, "engine") for n in (0, 1, 2)] == ["0 engines", "1 engine", "2 engines"]
