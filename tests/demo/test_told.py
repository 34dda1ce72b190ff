from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from demo.control import control
from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.model import Limits
from demo.server import Spec
from demo.truth import Window
from demo.workload import Mix, Rate

START = 1_796_000_000.0
MIX = Mix("mix", Fixed(100), Fixed(200), stops=0.0)
RATE = Rate(1.0)


def spec(name: str, **more: object) -> Spec:
    return Spec(name, "rack-1", "vllm", "0.32.0", "m", (), Limits(), **more)  # type: ignore[arg-type]  # parts of a Spec


def fleet(kept: float | None = None) -> Fleet:
    specs = [spec("a"), spec("b", engines=2), spec("p", role="prefill"), spec("d", role="decode")]
    services = [Service("chat", ("a", "b"), MIX, RATE), Service("pair", ("p",), MIX, RATE, decode="d")]
    return Fleet(specs, services, {}, seed=1, start=START, kept=kept)


def asked(made: Fleet, query: str, now: float) -> tuple[int, Mapping[str, Any]]:
    answer = control(made, "GET", f"/truth?{query}", "", b"", now)
    return answer.status, json.loads(answer.body)


def test_the_truth_of_a_server_is_told_for_the_window_that_is_asked_for() -> None:
    made = fleet()
    status, told = asked(made, f"server=b&start={START + 60}&end={START + 120.5}", START + 600)
    window, latency = Window(START + 60, START + 120.5), told["servers"]["b"]["latency"]
    generated = [made.truth.summary(window, {engine}).generated_tokens for engine in ("b/0", "b/1")]
    assert (status, told["start"], told["end"], list(told["servers"])) == (200, START + 60, START + 120.5, ["b"])
    assert told["servers"]["b"]["generated_tokens"] == sum(generated) > 0
    assert latency["time_to_first_token"]["p99"] == made.truth.percentile(
        "time_to_first_token", 0.99, window, {"b/0", "b/1"}
    )
    assert {"time_to_first_token", "duration", "between_tokens"} <= latency.keys()


def test_of_a_service_each_server_is_told_and_all_of_them_together() -> None:
    _, told = asked(fleet(), "service=chat", START + 600)
    finished = [told["servers"][name]["finished"]["length"] for name in "ab"]
    assert told["service"]["finished"]["length"] == sum(finished) > 0


def test_where_decoding_is_apart_no_request_is_counted_twice() -> None:
    _, told = asked(fleet(), "service=pair", START + 600)
    assert list(told["servers"]) == ["p", "d"]
    assert "service" not in told


def test_without_a_window_it_is_that_of_the_last_five_minutes() -> None:
    made = fleet()
    assert [asked(made, "server=a", START + at)[1]["start"] for at in (120, 600)] == [START, START + 300]


def test_what_is_forgotten_is_not_told_as_if_nothing_had_happened() -> None:
    made = fleet(kept=600)
    for minute in range(60):
        made.advance(START + 60 * minute)
    known = made.known_since
    assert START < known <= made.now - 600
    status, told = asked(made, f"server=a&start={START}", made.now)
    assert (status, told["error"]) == (422, f"start: '{START}': allowed: unix seconds from {known} to {made.now}")
    since = asked(made, f"server=a&start={known}", made.now)[1]["servers"]["a"]
    assert abs(since["arrived"] - (made.now - known) / 2) < 100


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "server: None: allowed: one of `server` and `service`, with a name"),
        ("server=a&service=chat", "server: 'a': allowed: one of `server` and `service`, with a name"),
        ("server=c", "server: 'c': allowed: a, b, p, d"),
        ("service=chats", "service: 'chats': allowed: chat, pair; did you mean chat?"),
        ("server=a&end=soon", f"end: 'soon': allowed: unix seconds from {START} to {START + 60}"),
        ("server=a&end=nan", f"end: 'nan': allowed: unix seconds from {START} to {START + 60}"),
        (f"server=a&end={START + 61}", f"end: '{START + 61}': allowed: unix seconds from {START} to {START + 60}"),
        (f"server=a&end={START + 9}&start={START + 10}",
         f"start: '{START + 10}': allowed: unix seconds from {START} to {START + 9}"),
        ("server=a&until=1", "until: '1': allowed: server, service, start, end, each once"),
        ("server=a&server=b", "server: 'a': allowed: server, service, start, end, each once"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_told_by_its_part_and_what_is_allowed(query: str, told: str) -> None:
    assert asked(fleet(), query, START + 60) == (422, {"error": told})
