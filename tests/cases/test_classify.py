"""What is retried when the failure is not what it seems: B089, B090, B092, B093, B095, B097, B099-B101."""

from __future__ import annotations

from email.utils import formatdate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests

from perdure import Constant, FaultKind, Retry, Safety, StopReason, attempts_of, classify
from perdure.content import Reply, rejects, sse
from perdure.testing.virtual import WALL
from tests.faults.foreign import ForeignError, request
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = Retry(attempts=3, backoff=Constant(0))


def answer(status: int, body: Any = None, method: str = "GET", **headers: str) -> Exception:
    """The error that a client library makes of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = SimpleNamespace(status_code=status, headers=named, request=request(method))
    return ForeignError(response=response, body=body)


def quota(delay: str | None = None) -> dict[str, Any]:
    per_day = {"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerProject"}]}
    info = [] if delay is None else [{"@type": "x/google.rpc.RetryInfo", "retryDelay": delay}]
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [per_day, *info]}}


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "insufficient_quota"}},
        b'{"error": {"type": "insufficient_quota", "code": null}}',
        {"error": {"errors": [{"reason": "dailyLimitExceeded"}]}},
        quota(),
    ],
)
def test_a_429_that_means_no_money_or_no_more_today_is_final(colour: str, body: Any) -> None:
    """B089: the code in the body outranks the status."""
    played = play(colour, POLICY, answer(429, body), "never reached")
    assert played.calls == 1
    assert played.error is not None
    assert attempts_of(played.error)[-1].fault.kind is FaultKind.PERMANENT


@pytest.mark.parametrize("colour", COLOURS)
def test_a_used_up_quota_that_says_when_is_waited_for(colour: str) -> None:
    """B090: 36 s is a rate, whatever the quota is called."""
    played = play(colour, Retry(attempts=2, deadline=300), answer(429, quota("36s")), "done")
    assert (played.value, played.calls) == ("done", 2)
    assert 36 <= played.waits[0] <= 46


@pytest.mark.parametrize("colour", COLOURS)
def test_one_that_is_back_tomorrow_is_final(colour: str) -> None:
    """B090: more than the cap is not waited for."""
    played = play(colour, Retry(attempts=2, deadline=None), answer(429, quota("43200s")), "never reached")
    assert (played.calls, played.waits) == (1, [])


OVERLOADED = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'
HELLO = b'event: content_block_delta\ndata: {"delta": {"text": "Hello"}}\n\n'


@pytest.mark.parametrize("colour", COLOURS)
def test_an_overload_inside_a_200_is_seen_until_content_came(colour: str) -> None:
    """B092: by the type of the event, and only before anything was delivered."""
    policy = POLICY.replace(reject=rejects(sse))
    assert play(colour, policy, OVERLOADED, OVERLOADED, HELLO).calls == 3
    assert play(colour, policy, HELLO + OVERLOADED, "never reached").calls == 1


@pytest.mark.parametrize("colour", COLOURS)
def test_an_overload_that_an_sdk_raises_out_of_a_200_is_retried(colour: str) -> None:
    """B092: as an error with the body of the event."""
    error = answer(200, {"type": "error", "error": {"type": "overloaded_error"}})
    assert play(colour, POLICY, error, "done").value == "done"


def wrapped(how: str) -> Exception:
    """A framework's own error around the SDK's."""

    class ModelError(RuntimeError):
        pass

    class ModelHTTPError(ModelError):
        def __init__(self, status_code: int) -> None:
            self.status_code = status_code

    sdk = answer(429, Retry_After="7")
    wrapper = ModelHTTPError(429) if how == "by status" else ModelError("model failed")
    if how == "by context":
        wrapper.__context__ = sdk
    else:
        wrapper.__cause__ = sdk
    return wrapper


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("how", ["by status", "by cause", "by context"])
def test_a_framework_that_wraps_the_error_hides_nothing(colour: str, how: str) -> None:
    """B093, and B079: status and delay are found along causes and contexts."""
    played = play(colour, POLICY, wrapped(how), "done")
    assert played.value == "done"
    assert 7 <= played.waits[0] <= 10.5


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: httpx.RemoteProtocolError("Server disconnected without sending a response."),
        lambda: httpx.ConnectTimeout("timed out"),
        lambda: httpx.ReadTimeout("timed out"),
        lambda: httpx.ReadError("reset"),
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.PoolTimeout("busy"),
        lambda: requests.exceptions.ConnectTimeout("timed out"),
        lambda: requests.exceptions.ChunkedEncodingError("cut"),
    ],
)
def test_the_default_set_misses_no_transport_error(colour: str, make: Callable[[], Exception]) -> None:
    """B095: nobody has to know that RemoteProtocolError is no NetworkError."""
    assert play(colour, POLICY, make(), "done").value == "done"


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("text", ["Overloaded", "overloaded.", "Rate limit reached", "429 Too Many Requests"])
def test_words_alone_decide_nothing(colour: str, text: str) -> None:
    """B097: another language or a missing full stop must not change what is retried."""
    for error in (ForeignError(message=text), Exception(text), answer(400, {"error": {"message": text}})):
        assert play(colour, POLICY, error, "never reached").calls == 1


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(("minutes", "calls"), [(0, 1), (4, 1), (6, 2), (-30, 2)])
def test_a_bad_signature_is_tried_again_once_if_the_clock_is_off(
    colour: str, minutes: int, calls: int
) -> None:
    """B099: AuthFailure with a Date near the own clock is what it says."""
    error = answer(403, {"Code": "AuthFailure"}, Date=formatdate(WALL + minutes * 60, usegmt=True))
    fetched: list[str] = []
    policy = POLICY.replace(refresh=lambda: fetched.append("clock"))
    played = play(colour, policy, error, error, "never reached")
    assert (played.calls, len(fetched)) == (calls, calls - 1)


@pytest.mark.parametrize("colour", COLOURS)
def test_what_was_never_sent_is_sent_again_whatever_the_method(colour: str) -> None:
    """B100: a refused POST has done nothing; a lost answer to one may have."""
    unsafe = POLICY.replace(safety=Safety.UNSAFE)
    refused = ForeignError(request=request("POST"))
    refused.__cause__ = ConnectionRefusedError()
    assert play(colour, unsafe, ConnectionRefusedError(), "done").value == "done"
    assert play(colour, POLICY, refused, "done").value == "done"
    lost = ForeignError(request=request("POST"))
    lost.__cause__ = ConnectionResetError()
    played = play(colour, POLICY, lost, "never reached")
    assert played.calls == 1
    assert [event.reason for event in played.events if event.name == "retry.suppressed"] == [
        StopReason.UNSAFE
    ]


@pytest.mark.parametrize("colour", COLOURS)
def test_attempts_cover_connecting_reading_and_statuses_alike(colour: str) -> None:
    """B101: three attempts are three, whatever each of them met."""
    met = (ConnectionRefusedError(), answer(500), "done")
    assert play(colour, POLICY, *met).value == "done"
    played = play(colour, POLICY, TimeoutError(), answer(503), answer(429), "never reached")
    assert played.calls == 3
    assert classify(played.error).why == "HTTP 429 Too Many Requests"


def test_a_rule_sees_the_same_reply_however_it_came() -> None:
    """B092: the rule on a peeked start, and on the whole."""
    for complete in (True, False):
        fault = sse(Reply(200, {}, OVERLOADED, complete))
        assert fault is not None
        assert fault.kind is FaultKind.THROTTLED
