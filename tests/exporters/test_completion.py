from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.completion import Answer, Problem, Times, question, served_model
from exporters.fetch import Failure

EVENTS = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
TIMEOUT = Failure("timeout", "before the body was complete", 200)


def event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def text(said: str, finish_reason: object = None) -> bytes:
    return event({"object": "text_completion", "choices": [{"index": 0, "text": said, "finish_reason": finish_reason}]})


def delta(**said: object) -> bytes:
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said}]})


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def judged(
    *parts: bytes,
    status: int = 200,
    content_type: str = EVENTS,
    failure: Failure | None = None,
    max_tokens: int = 4,
) -> Times | Problem:
    answer = Answer(Clock(), max_tokens)
    answer.head(status, content_type)
    any(answer.part(part) for part in parts)
    return answer.judged(failure, 30)


def told(*parts: bytes, **more: object) -> str:
    result = judged(*parts, **more)  # type: ignore[arg-type]
    assert isinstance(result, Problem), result
    assert result.remedy
    return result.detail


def test_times_run_from_the_start_of_the_request() -> None:
    clock = Clock()
    answer = Answer(clock, 4)
    answer.head(200, EVENTS)
    parts: list[tuple[float, bytes, bool]] = [
        (100.25, b": hello\n\n", False),
        (100.5, text(""), False),
        (102.0, text(" four"), False),
        (102.5, text(", five", "length"), False),
        (103.5, DONE, True),
    ]
    for clock.now, part, enough in parts:
        assert answer.part(part) is enough
    assert answer.judged(None, 30) == Times(first_token=2.0, whole=3.5)


def test_an_event_counts_when_it_is_whole() -> None:
    clock = Clock()
    answer = Answer(clock, 4)
    answer.head(200, EVENTS)
    first, second = text(" four")[:20], text(" four")[20:]
    answer.part(first)
    clock.now = 101.0
    answer.part(second)
    clock.now = 104.0
    answer.part(DONE)
    assert answer.judged(None, 30) == Times(1.0, 4.0)


@pytest.mark.parametrize("said", ["content", "reasoning_content", "reasoning"])
def test_a_chat_answers_in_text_or_in_reasoning(said: str) -> None:
    assert judged(delta(role="assistant", content=""), delta(**{said: "four"}), DONE) == Times(0.0, 0.0)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [text(""), text("", "stop")],
        [delta(role="assistant"), delta(role="assistant", content=""), delta(content=None), delta()],
        [event({"choices": [], "usage": {"completion_tokens": 4}})],
        [event([]), event(None), event("text"), event({"choices": None}), event({"choices": ["text"]})],
        [event({"choices": [{"delta": None, "text": None}]}), event({"choices": [{"delta": [], "text": 7}]})],
    ],
)
def test_a_stream_without_a_token_is_no_success_though_its_status_is_200(parts: list[bytes]) -> None:
    assert told(*parts, DONE) == "no token: the stream ended without one (HTTP 200)"
    assert told(*parts) == "no token: the stream broke off without one (HTTP 200)"


@pytest.mark.parametrize(
    ("chunk", "detail"),
    [
        ({"error": {"message": "the prompt", "type": "ServiceUnavailableError", "code": 503}},
         "error in the stream: ServiceUnavailableError 503"),
        ({"object": "error", "message": "the prompt", "type": "BadRequestError", "param": None, "code": None},
         "error in the stream: BadRequestError"),
        ({"error": "the prompt"}, "error in the stream"),
        ({"error": {"type": "what the model said", "code": ["x"]}}, "error in the stream"),
    ],
)  # fmt: skip
def test_an_error_in_the_stream_is_a_failure_whatever_came_before(chunk: object, detail: str) -> None:
    assert told(text(" four"), event(chunk), DONE) == detail


@pytest.mark.parametrize("reason", ["abort", "error", {"type": "abort", "message": "the prompt"}])
def test_a_request_that_the_server_gave_up_is_a_failure(reason: object) -> None:
    assert told(text(" four", reason), DONE).startswith("given up by the server: finish_reason ")


@pytest.mark.parametrize("reason", ["stop", "length", {"type": "length"}, None])
def test_other_reasons_to_finish_are_none_to_complain(reason: object) -> None:
    assert isinstance(judged(text(" four", reason), event({"error": None, "choices": []}), DONE), Times)


@pytest.mark.parametrize("data", [b"{", b"nothing", b"[" * 5000, b"9" * 5000, b"[DONE"])
def test_an_event_that_is_no_json_breaks_the_stream(data: bytes) -> None:
    assert told(text(" four"), b"data: " + data + b"\n\n", DONE) == "broken stream: one of its events is no JSON"


def test_an_event_without_data_breaks_nothing() -> None:
    assert isinstance(judged(b"data:\n\ndata: \n\n", text(" four"), DONE), Times)


def test_what_comes_after_the_end_does_not_count() -> None:
    assert isinstance(judged(text(" four") + DONE + event({"error": "x"})), Times)


def test_a_stream_that_does_not_end_properly_is_broken() -> None:
    assert told(text(" four")) == "broken stream: it ended without [DONE]"
    assert told(text(" four"), DONE[:-1]) == "broken stream: it ended without [DONE]"
    cut = Failure("truncated", "peer closed", 200)
    assert told(text(" four"), failure=cut) == "broken stream: truncated: peer closed"
    assert told(failure=cut) == "broken stream: truncated: peer closed"


def test_a_stream_that_hangs_says_where() -> None:
    assert told(text(""), failure=TIMEOUT) == "timeout: no token within 30 s"
    assert told(text(" four"), failure=TIMEOUT) == "timeout: the stream did not end within 30 s"


def test_more_parts_than_the_tokens_asked_for_can_make_are_cut_off() -> None:
    assert isinstance(judged(*[text("x")] * 4, DONE, max_tokens=2), Times)
    assert told(*[text("x")] * 5, max_tokens=2) == "endless stream: more than 4 parts, cut off"


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "endpoint"), (401, "bearer_token_file"), (403, "bearer_token_file"), (404, "endpoint"),
        (422, "endpoint"), (429, "refuses"), (503, "refuses"), (500, "log"), (307, "log"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_by_its_status_and_by_no_word_of_it(status: int, remedy: str) -> None:
    body = json.dumps({"error": {"message": "you asked: Count on"}}).encode()
    result = judged(body, status=status, content_type="application/json")
    assert isinstance(result, Problem)
    assert result.detail == f"HTTP {status}"
    assert remedy in result.remedy


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"error": {"message": "The model `x` does not exist.", "code": 404}}', "the server does not know the model"),
        (b'{"object": "error", "message": "The model \'x\' does not exist."}', "the server does not know the model"),
        (b'{"detail": "Not Found"}', ""),
        (b"<html>model</html>", ""),
        (b"[]", ""),
        (b'{"message": 7}', ""),
        (b"[" * 5000, ""),
        (b"\xff", ""),
    ],
)
def test_a_model_that_the_server_does_not_know_is_told_from_a_path_that_it_has_not(body: bytes, detail: str) -> None:
    assert told(body, status=404, content_type="application/json") == f"HTTP 404: {detail}".removesuffix(": ")


def test_a_refusal_is_read_to_a_limit() -> None:
    answer = Answer(Clock(), 4)
    answer.head(404, "text/html")
    assert not answer.part(b"x" * 65_535)
    assert answer.part(b"x" * 65_536)
    assert answer.judged(None, 30) == judged(status=404)


@pytest.mark.parametrize("content_type", ["application/json", "text/html; charset=utf-8", "", "x" * 99])
def test_an_answer_that_is_no_stream_is_not_read(content_type: str) -> None:
    answer = Answer(Clock(), 4)
    answer.head(200, content_type)
    assert answer.part(text("four") + DONE)
    result = answer.judged(None, 30)
    assert isinstance(result, Problem)
    assert result.detail == f"no event stream: the answer's type is {content_type.partition(';')[0][:60]!r}"


def test_a_request_that_nobody_answered_says_why() -> None:
    answer = Answer(Clock(), 4)
    refused = answer.judged(Failure("connection_refused", "127.0.0.1:1"), 30)
    hanging = answer.judged(Failure("timeout", "before the server answered"), 0.5)
    assert isinstance(refused, Problem)
    assert isinstance(hanging, Problem)
    assert refused.detail == "connection_refused: 127.0.0.1:1"
    assert hanging.detail == "timeout: no answer within 0.5 s"


def test_both_endpoints_are_asked_in_their_own_words() -> None:
    common = {"model": "m", "max_tokens": 4, "stream": True}
    assert json.loads(question("completions", "m", "Count on", 4)) == {**common, "prompt": "Count on"}
    asked = json.loads(question("chat", "m", "Count on", 4))
    assert asked == {**common, "messages": [{"role": "user", "content": "Count on"}]}


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ({"data": [{"id": "llama", "parent": None}, {"id": "other"}]}, "llama"),
        ({"data": [{"id": "adapter", "parent": "llama"}, {"id": "llama"}]}, "llama"),
        ({"data": [{"id": ""}, {"id": 7}, "x", {"id": "llama"}]}, "llama"),
    ],
)
def test_the_first_model_that_is_no_adapter_is_asked(listed: object, name: str) -> None:
    assert served_model(json.dumps(listed)) == name


@pytest.mark.parametrize("listed", ["{}", '{"data": []}', '{"data": {}}', "[]", "<html>", "[" * 5000])
def test_a_list_without_a_model_is_a_problem(listed: str) -> None:
    found = served_model(listed)
    assert isinstance(found, Problem)
    assert found.detail.startswith("model not known: /v1/models ")


part = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([text("four"), text(""), delta(content="x"), DONE, event({"error": {}}), b"data: ", b"\r\n"]),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["choices", "delta", "text", "error", "type", "code", "finish_reason", "object"]), inner,
            max_size=3,
        ),
    )).map(event),
)  # fmt: skip
failures = st.none() | st.builds(
    Failure, st.sampled_from(["timeout", "truncated", "too_large"]), st.just(""), st.just(200)
)


@given(
    st.sampled_from([200, 204, 400, 404, 500]), st.sampled_from([EVENTS, "application/json", ""]),
    st.lists(part, max_size=8), failures,
)  # fmt: skip
def test_no_answer_whatsoever_raises(
    status: int, content_type: str, parts: list[bytes], failure: Failure | None
) -> None:
    result = judged(*parts, status=status, content_type=content_type, failure=failure)
    if isinstance(result, Times):
        assert 200 <= status < 300
        assert b"[DONE]" in b"".join(parts)
