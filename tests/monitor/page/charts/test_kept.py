from __future__ import annotations

from monitor.page.charts.kept import Kept


def test_a_drawing_is_found_by_what_was_drawn() -> None:
    kept = Kept()
    kept.put(b"one", "<svg/>")
    assert (kept.get(b"one"), kept.get(b"other")) == ("<svg/>", None)


def test_beyond_the_room_the_one_asked_for_longest_ago_gives_way() -> None:
    kept = Kept(most_bytes=10)
    kept.put(b"a", "aaaa")
    kept.put(b"b", "bbbb")
    assert kept.get(b"a") == "aaaa"
    kept.put(b"c", "cccc")
    assert [kept.get(of) for of in (b"a", b"b", b"c")] == ["aaaa", None, "cccc"]


def test_a_drawing_that_is_put_again_takes_its_room_once() -> None:
    kept = Kept(most_bytes=10)
    for _ in range(5):
        kept.put(b"a", "aaaa")
    kept.put(b"b", "bbbb")
    assert kept.get(b"a") == "aaaa"


def test_a_drawing_larger_than_all_room_is_not_kept() -> None:
    kept = Kept(most_bytes=3)
    kept.put(b"a", "aaaa")
    assert kept.get(b"a") is None
