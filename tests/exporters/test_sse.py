from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.sse import Events


def fed(*parts: bytes) -> list[str]:
    events = Events()
    return [event for part in parts for event in events.feed(part)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_any_of_three_ways(end: bytes) -> None:
    assert fed(b"data: one", end, end, b"data: two" + end + end) == ["one", "two"]


def test_a_blank_line_ends_an_event_and_nothing_else_does() -> None:
    assert fed(b"data: one\n") == []
    assert fed(b"data: one\n", b"\n") == ["one"]
    assert fed(b"\n\n\n") == []


def test_several_lines_of_data_are_one_event() -> None:
    assert fed(b"data: a\ndata:b\ndata\ndata:  c\n\n") == ["a\nb\n\n c"]


def test_comments_and_other_fields_do_not_count() -> None:
    assert fed(b": keep alive\n\nevent: message\nid: 7\nretry: 10\ndata: one\nunknown\ndatax: no\n\nid: 8\n\n") == [
        "one"
    ]


def test_an_event_is_told_as_soon_as_its_blank_line_is_there() -> None:
    events = Events()
    assert events.feed(b"data: one\r\n\r") == ["one"]
    assert events.feed(b"\ndata: two\r\n\r\n") == ["two"]


def test_a_line_feed_alone_after_a_whole_event_is_an_empty_line() -> None:
    assert fed(b"data: a\n", b"\n", b"\n", b"data: b\n\n") == ["a", "b"]


def test_a_byte_order_mark_counts_at_the_start_only() -> None:
    assert fed(b"\xef\xbb\xbfdata: one\n\n\xef\xbb\xbfdata: two\n\n") == ["one"]


def test_characters_may_be_cut_in_two() -> None:
    raw = "data: größer €\n\n".encode()
    for at in range(len(raw)):
        assert fed(raw[:at], raw[at:]) == ["größer €"]


def test_what_is_no_text_is_replaced() -> None:
    assert fed(b"data: a\xff\xfeb\n\n") == ["a\ufffd\ufffdb"]


LINE = st.one_of(
    st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=8).map("data: {}".format),
    st.sampled_from(["", ":", "data", "data:", "event: x"]),
)


@given(st.lists(LINE, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_how_a_stream_is_cut_makes_no_difference(lines: list[str], end: str, data: st.DataObject) -> None:
    raw = "".join(line + end for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert fed(*parts) == fed(raw)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_whatsoever_raise(parts: list[bytes]) -> None:
    assert all(isinstance(event, str) for event in fed(*parts))


@given(st.lists(st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"])), max_size=5))
def test_json_comes_out_as_it_went_in(texts: list[str]) -> None:
    raw = "".join(f"data: {json.dumps(text, ensure_ascii=False)}\n\n" for text in texts).encode()
    assert [json.loads(event) for event in fed(raw)] == texts
