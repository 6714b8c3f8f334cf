"""Streams that fail after their status: before the first content it is a failure, afterwards it is not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure import FaultKind
from perdure.content import Reply, ndjson, sse, streams
from perdure.content.words import kind_of
from perdure.faults.documents import load
from perdure.faults.signal import Signal, signal_of

T, R, A, S, P = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
)


def event(data: Any, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {text}\n\n".encode()


def anthropic(kind: str) -> bytes:
    return event({"type": "error", "error": {"type": kind, "message": "m"}}, "error")


def start(body: bytes, *, complete: bool = False) -> Reply:
    return Reply(200, {"content-type": "text/event-stream"}, body, complete)


BEGUN = (
    event({"type": "message_start", "message": {"content": []}}, "message_start")
    + event({"type": "ping"}, "ping")
    + event(
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, "content_block_start"
    )
)
ROLE = event(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
)
WORD = event({"choices": [{"index": 0, "delta": {"content": "Hello"}}]})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (anthropic("overloaded_error"), R),
        (anthropic("rate_limit_error"), R),
        (anthropic("api_error"), A),
        (anthropic("timeout_error"), A),
        (anthropic("authentication_error"), S),
        (anthropic("invalid_request_error"), P),
        (anthropic("something_new"), A),
        (BEGUN + anthropic("overloaded_error"), R),
        (event({"error": {"message": "m", "type": "server_error", "code": None}}), A),
        (event({"error": {"message": "m", "code": "rate_limit_exceeded"}}), R),
        (event({"error": {"message": "m", "code": "insufficient_quota"}}), P),
        (event({"error": {"message": "m", "code": 502}}), A),  # as a router of models has it
        (event({"error": {"message": "m", "code": 429}}), R),
        (event({"error": {"message": "m", "code": 400}}), P),
        (event({"error": {"code": 503, "status": "UNAVAILABLE"}}), T),
        (event({"error": "unexpected EOF"}), A),
        (event({"type": "error", "code": "server_error", "message": "m"}, "error"), A),
        (event({"type": "response.created", "response": {"error": None}}, "response.created")
         + event({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}), R),
        (ROLE + event({"error": {"type": "overloaded_error"}}), R),
        (event("something broke", "error"), A),
        (b": comment\nretry: 100\nid: 7\n\n" + anthropic("overloaded_error"), R),
        (b"\xef\xbb\xbf" + anthropic("overloaded_error").replace(b"\n", b"\r\n"), R),
        (anthropic("overloaded_error").replace(b"\n", b"\r"), R),
        (b'event: error\ndata: {"type": "error",\ndata: "error": {"type": "overloaded_error"}}\n\n', R),
    ],
)  # fmt: skip
def test_an_error_event_before_the_first_content_is_a_failure(body: bytes, kind: FaultKind) -> None:
    """B092."""
    fault = sse(start(body))
    assert fault is not None
    assert fault.kind is kind
    assert fault.why.startswith("HTTP 200, event stream: ")
    assert sse.is_enough(body)


@pytest.mark.parametrize(
    "body",
    [
        WORD + anthropic("overloaded_error"),
        BEGUN
        + event({"type": "content_block_delta", "delta": {"text": "H"}})
        + anthropic("overloaded_error"),
        event("[DONE]"),
        event({"choices": []}),
        event({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        event({"choices": [{"delta": {"tool_calls": [{"id": 1}]}}]}),
        event({"choices": [{"text": "a completion"}]}),
        event("plain words"),
    ],
)
def test_content_settles_it_and_what_follows_is_the_callers(body: bytes) -> None:
    assert sse(start(body)) is None
    assert sse.is_enough(body)


@pytest.mark.parametrize(
    "body", [b"", b": hello\n\n", BEGUN, ROLE, b"event: error\n", b"event: error\ndata: {}"]
)
def test_before_either_has_come_more_is_needed(body: bytes) -> None:
    assert sse(start(body)) is None
    assert not sse.is_enough(body)


def test_an_event_that_the_end_of_the_stream_cut_counts() -> None:
    assert sse(start(b"event: error\ndata: x")) is None
    fault = sse(start(b"event: error\ndata: x", complete=True))
    assert fault is not None
    assert fault.kind is A


def test_a_delay_in_the_event_is_kept() -> None:
    fault = sse(start(event({"error": {"code": "rate_limit_exceeded", "retry_after": 3}})))
    assert fault is not None
    assert (fault.kind, fault.hint) == (R, 3.0)


@given(st.integers(0, 400))
def test_wherever_the_bytes_are_cut_the_answer_is_the_same_or_not_yet_there(cut: int) -> None:
    body = BEGUN + ROLE + anthropic("overloaded_error") + WORD
    part = body[:cut]
    fault = sse(start(part))
    assert (fault is not None) == sse.is_enough(part)
    assert fault is None or fault.kind is R


LINES = ["\n", "\r", "\r\n", "data: {}", 'data: {"type": "ping"}', "event: error", "event: ping", ": data"]


@given(st.lists(st.sampled_from([*LINES, "\ufeff"]), max_size=12).map("".join))
@example("\ufeffdata: {}\n\n")
@example("\n\n\ufeffdata: {}\n\n")
@example("data: {}\r\n\r")
@example("data: {}\r\n")
def test_wherever_the_lines_end_enough_is_what_decides(text: str) -> None:
    whole = streams._first_word(text, complete=False)
    assert sse.is_enough(text.encode()) == (whole is not None)


@pytest.mark.parametrize("comment", [b":\n\n", b": keepalive %09d\n\n", b":%d\r", b"retry: 100\n"])
def test_comments_are_not_read_again_at_every_chunk(monkeypatch: pytest.MonkeyPatch, comment: bytes) -> None:
    monkeypatch.setattr(streams, "_events", lambda *_, **__: pytest.fail("comments were read as events"))
    body = b""
    for number in range(2_000):
        body += comment % number if b"%" in comment else comment
        assert not sse.is_enough(body)


@pytest.mark.parametrize("is_alike", [True, False])
def test_an_event_that_decides_nothing_is_read_once_and_not_at_every_chunk(
    monkeypatch: pytest.MonkeyPatch, is_alike: bool
) -> None:
    read: list[str] = []
    monkeypatch.setattr(streams, "load", lambda text: read.append(text) or load(text))
    monkeypatch.setattr(streams, "_DULL", set())
    body = event({"type": "message_start"}, "message_start")
    for number in range(500):
        body += event({"type": "ping", "at": 0 if is_alike else number}, "ping")
        assert not sse.is_enough(body)
        assert len(read) == (2 if is_alike else number + 2)
    assert sse.is_enough(body + WORD)


def test_what_is_kept_of_dull_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dull = set[str]()
    monkeypatch.setattr(streams, "_DULL", dull)
    monkeypatch.setattr(streams, "_KEPT", 10)
    for number in range(25):
        assert not sse.is_enough(
            event({"type": "ping", "at": number, "long": "x" * 300 * (number % 2)}, "ping")
        )
        assert len(dull) <= 10
    assert max(map(len, dull)) < 200


def test_a_code_that_nobody_knows_is_no_sign_of_congestion() -> None:
    """It may be named after a timeout of the server's own sessions; known codes of timeouts count."""
    for code, signal in (("session_timeout_policy", Signal.FAILURE), ("timeout_error", Signal.OVERLOAD)):
        fault = sse(start(anthropic(code)))
        assert fault is not None
        assert fault.kind is A
        assert code in fault.why
        assert signal_of(RuntimeError(), fault, wanted=True) is signal


@given(st.text())
def test_no_server_finds_words_that_steer_the_breaker(code: str) -> None:
    for words in (f"{code}_timeout", f"{code} timed out", f'timeout"{code}', f'"{code}timeout"'):
        fault = sse(start(event({"error": {"type": words}})))
        assert fault is not None
        if kind_of(words) is None:
            assert signal_of(RuntimeError(), fault, wanted=True) is Signal.FAILURE


# -- lines of JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": "llama runner process has terminated"}\n', A),
        (b'\n\n{"error": {"code": "rate_limit_exceeded"}}\n', R),
        (b'{"error": {"code": 404}}\r\n', P),
        (b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n', P),
        (b'{"type": "ERROR", "object": {"kind": "Status", "code": 500}}\n', A),
        (b'{"type": "ERROR", "object": {"kind": "Status", "code": 429}}\n', R),
    ],
)
def test_a_first_line_that_is_an_error_is_a_failure(body: bytes, kind: FaultKind) -> None:
    fault = ndjson(start(body))
    assert fault is not None
    assert fault.kind is kind
    assert ndjson.is_enough(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"response": "Hi"}\n{"error": "later"}\n',
        b'{"error": null}\n',
        b'{"error": 0}\n',
        b"[1]\n",
        b"words\n",
        b'{"type": "ERROR", "object": 7}\n',
    ],
)
def test_any_other_first_line_is_well(body: bytes) -> None:
    assert ndjson(start(body)) is None
    assert ndjson.is_enough(body)


def test_a_line_counts_when_it_is_whole() -> None:
    assert ndjson(start(b'{"error": "x"}')) is None
    assert not ndjson.is_enough(b'{"error": "x"}')
    assert not ndjson.is_enough(b"\n\n")
    assert ndjson(start(b'{"error": "x"}', complete=True)) is not None
    assert ndjson(start(b"", complete=True)) is None
