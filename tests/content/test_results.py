"""`rejects`: content rules on what plain functions return, and calls guarded by them."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import requests
import urllib3

from perdure import Constant, ResultRejected, Retry
from perdure.content import every, graphql, rejects, slack, sse
from perdure.content import json as json_rule
from tests.harness import COLOURS, play

LIMITED = {"ok": False, "error": "ratelimited"}
WELL = {"ok": True}
is_rejected = rejects(slack)


def responses(document: Any, status: int = 200) -> list[Any]:
    raw = json.dumps(document).encode()
    of_requests = requests.Response()
    of_requests.status_code, of_requests._content = status, raw
    return [
        httpx.Response(status, content=raw),
        of_requests,
        urllib3.HTTPResponse(raw, status=status),
        SimpleNamespace(status=status, headers={}, _body=raw),  # as aiohttp has it
        SimpleNamespace(status_code=status, headers={}, data=document),  # as slack_sdk has it
    ]


@pytest.mark.parametrize("status", [200, 429])
def test_responses_documents_and_raw_bodies_are_looked_into(status: int) -> None:
    raw = json.dumps(LIMITED)
    for result in (*responses(LIMITED, status), LIMITED, raw, raw.encode(), bytearray(raw.encode())):
        assert is_rejected(result)
    for result in (*responses(WELL), WELL, json.dumps(WELL)):
        assert not is_rejected(result)


@pytest.mark.parametrize("error", ["invalid_auth", "channel_not_found", "token_expired"])
def test_what_another_attempt_does_not_cure_goes_to_the_caller(error: str) -> None:
    assert not is_rejected({"ok": False, "error": error})


class Wire:
    def read(self, *_: object, **__: object) -> bytes:
        raise AssertionError("something read from the wire")

    stream = read1 = read


def test_a_stream_that_nobody_has_read_is_left_alone() -> None:
    streamed = httpx.Response(200, stream=httpx.ByteStream(json.dumps(LIMITED).encode()))
    unread = requests.Response()
    unread.status_code, unread.raw = 200, Wire()
    assert not is_rejected(streamed)
    assert not is_rejected(unread)
    assert not streamed.is_stream_consumed


@pytest.mark.parametrize(
    "result", [None, 7, "", "ok", object(), SimpleNamespace(status_code=200), (), iter([])]
)
def test_what_is_no_answer_is_never_rejected(result: object) -> None:
    assert not is_rejected(result)


def test_a_long_body_is_looked_at_up_to_the_limit() -> None:
    rule = rejects(json_rule)
    assert not rule('{"a": "' + "x" * 70_000)
    assert rule('{"a": "' + "x" * 60_000)
    assert rule("<html>" + "x" * 70_000)
    assert not rule("\ud800" * 3 + "{")


def test_the_predicate_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(is_rejected)) == is_rejected == rejects(slack)
    assert is_rejected != rejects(graphql)
    assert "slack" in repr(is_rejected)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_guarded_call_is_made_again_while_the_answer_is_a_failure(colour: str) -> None:
    policy = Retry(attempts=3, backoff=Constant(0), reject=rejects(every(slack, sse)))
    played = play(colour, policy, LIMITED, LIMITED, WELL)
    assert (played.value, played.calls) == (WELL, 3)
    played = play(colour, policy, LIMITED, LIMITED, LIMITED, WELL)
    assert isinstance(played.error, ResultRejected)
    assert played.calls == 3
    bad = {"ok": False, "error": "invalid_auth"}
    played = play(colour, policy, bad, WELL)
    assert (played.value, played.calls) == (bad, 1)
