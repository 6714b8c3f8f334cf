from __future__ import annotations

import http.client
import http.cookiejar
import io
import urllib.error
from email.message import Message
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify, permanent
from perdure.faults.http import fault_of_status

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)

# The whole range: what is named, and the rest of each hundred.
NAMED = {
    N: [304, 499],
    S: [401, 407, 421, 440, 511, 561],
    T: [408, 423, 425, 460, 521, 522, 523, 599],
    R: [420, 429, 509, 529],
    A: [500, 502, 503, 504, 520, 524, 527, 530, 598],
    P: [
        *(400, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 424, 426, 428),
        *(431, 451, 463, 494, 495, 496, 497, 498, 501, 505, 506, 507, 508, 510, 525, 526, 540),
    ],
}
OF_THE_HUNDRED = {1: N, 2: N, 3: S, 4: P, 5: A}
KIND_OF = {status: kind for kind, statuses in NAMED.items() for status in statuses}
ROWS = [(status, KIND_OF.get(status, OF_THE_HUNDRED[status // 100])) for status in range(100, 600)]


@pytest.mark.parametrize(("status", "kind"), ROWS)
def test_a_bare_status_has_its_kind(status: int, kind: FaultKind) -> None:
    for headers in (None, {}, {"Content-Type": "text/html"}, {"Retry-After": "soon"}):
        fault = fault_of_status(status, headers)
        assert (fault.kind, fault.hint) == (kind, None)
        assert fault.why.startswith(f"HTTP {status}")


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [
        (503, R, 30.0),
        (429, R, 30.0),
        (529, R, 30.0),
        (413, T, 30.0),
        (507, T, 30.0),
        (408, T, 30.0),
        (425, T, 30.0),
        (500, A, 30.0),
        (502, A, 30.0),
        (504, A, 30.0),
        # The field alone makes nothing retryable, and tells nothing where waiting does not help.
        (400, P, None),
        (403, P, None),
        (404, P, None),
        (409, P, None),
        (501, P, None),
        (505, P, None),
        (401, S, None),
        (307, S, None),
        (200, N, None),
    ],
)
def test_the_delay_counts_where_the_status_gives_it_a_meaning(
    status: int, kind: FaultKind, hint: float | None
) -> None:
    fault = fault_of_status(status, {"Retry-After": "30"})
    assert (fault.kind, fault.hint) == (kind, hint)


@pytest.mark.parametrize(("status", "kind"), [(503, R), (413, T), (429, R)])
def test_a_delay_of_zero_is_valid_but_leaves_the_wait_to_the_backoff(status: int, kind: FaultKind) -> None:
    assert fault_of_status(status, {"Retry-After": "0"}) == fault_of_status(status, {"retry-after": "0"})
    fault = fault_of_status(status, {"Retry-After": "0"})
    assert (fault.kind, fault.hint) == (kind, None)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "patch", None])
def test_whether_a_bare_5xx_is_sent_again_is_left_to_the_safety(method: str | None) -> None:
    assert {fault_of_status(status, None, method).kind for status in (500, 502, 503, 504)} == {A}


@pytest.mark.parametrize(("method", "kind"), [("POST", A), ("PATCH", A), ("get", T), ("PUT", T), (None, T)])
def test_a_request_timeout_may_have_acted_for_unsafe_methods(method: str | None, kind: FaultKind) -> None:
    assert fault_of_status(408, {}, method).kind is kind


@pytest.mark.parametrize(
    ("headers", "kind", "hint"),
    [
        ({"X-GitHub-Request-Id": "1", "Retry-After": "60"}, R, 60.0),
        ({"X-GitHub-Request-Id": "1", "X-RateLimit-Remaining": "0"}, R, None),
        ({"X-GitHub-Request-Id": "1", "X-RateLimit-Remaining": "7"}, P, None),
        ({"X-GitHub-Request-Id": "1"}, P, None),
        ({"X-RateLimit-Remaining": "0"}, P, None),
    ],
)
def test_github_says_403_for_its_limits(headers: dict[str, str], kind: FaultKind, hint: float | None) -> None:
    fault = fault_of_status(403, headers)
    assert (fault.kind, fault.hint) == (kind, hint)


@given(
    st.integers(100, 599),
    st.none() | st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=3),
    st.none() | st.text(max_size=5),
    st.none() | st.binary(max_size=50) | st.text(max_size=50),
)
def test_a_status_always_has_a_kind(
    status: int, headers: dict[str, str] | None, method: str | None, body: bytes | str | None
) -> None:
    fault = fault_of_status(status, headers, method, body)
    assert fault.why.startswith(f"HTTP {status}")
    assert fault.hint is None or 0 < fault.hint <= 1e10


@pytest.mark.parametrize(
    ("status", "word", "kind", "hint"),
    [
        # Yes: at least transient, whatever the status; a throttle stays one.
        (500, "true", T, 9.0),
        (409, "true", T, 9.0),
        (401, "true", T, 9.0),
        (429, "true", R, 9.0),
        # No: for good.
        (429, "false", P, None),
        (503, "false", P, None),
        (408, "false", P, None),
        (413, "false", P, None),
        (507, "false", P, None),
        (503, "true", R, 9.0),
        (413, "true", T, 9.0),
        # Anything else is no word.
        (429, "maybe", R, 9.0),
        (404, "", P, None),
        # After a success there is nothing to say.
        (200, "true", N, None),
        (304, "true", N, None),
    ],
)
@pytest.mark.parametrize("field", ["x-should-retry", "Stripe-Should-Retry"])
def test_the_servers_own_word_outranks_the_status(
    field: str, status: int, word: str, kind: FaultKind, hint: float | None
) -> None:
    fault = fault_of_status(status, {field: word, "Retry-After": "9"})
    assert (fault.kind, fault.hint) == (kind, hint)


@pytest.mark.parametrize("method", [7, b"POST", "", None])
def test_a_method_that_is_none_does_no_harm(method: Any) -> None:
    assert fault_of_status(408, None, method).kind in {T, A}


@pytest.mark.parametrize("status", [99, 600, 0, -1, "503", None, 503.0, 10**30])
def test_what_is_no_status_is_permanent(status: object) -> None:
    assert fault_of_status(status) == Fault(P, None, "not an HTTP status")


def test_phrases_name_the_status() -> None:
    assert fault_of_status(503).why == "HTTP 503 Service Unavailable"
    assert fault_of_status(HTTPStatus.NOT_FOUND).why == "HTTP 404 Not Found"
    assert fault_of_status(522).why == "HTTP 522 Origin Connection Timed Out"
    assert fault_of_status(470).why == "HTTP 470"


def test_bare_statuses_are_shared() -> None:
    assert fault_of_status(500) is fault_of_status(500, {})


# -- exceptions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (http.client.RemoteDisconnected(), A),
        (http.client.IncompleteRead(b"", 3), A),
        (http.client.BadStatusLine("x"), A),
        (http.client.ImproperConnectionState(), S),
        (http.client.CannotSendRequest(), S),
        (http.client.CannotSendHeader(), S),
        (http.client.ResponseNotReady(), S),
        (http.client.NotConnected(), S),
        (http.client.InvalidURL(), P),
        (http.client.LineTooLong("x"), P),
        (http.client.UnknownProtocol("x"), P),
        (http.client.UnknownTransferEncoding(), P),
        (http.client.UnimplementedFileMode(), P),
        (http.client.HTTPException(), P),
        (http.cookiejar.LoadError(), P),
        (urllib.error.ContentTooShortError("x", b""), A),
        (urllib.error.URLError(ConnectionRefusedError()), T),
        (urllib.error.URLError(TimeoutError()), A),
        (urllib.error.URLError(FileNotFoundError()), P),
        (urllib.error.URLError(urllib.error.URLError(ConnectionRefusedError())), T),
        (urllib.error.URLError(permanent(ConnectionRefusedError())), P),
        (urllib.error.URLError(Exception()), P),
        (urllib.error.URLError("unknown url type: x"), P),
        (urllib.error.URLError("no host given"), P),
        (urllib.error.URLError("<urlopen error timed out>"), A),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_exceptions_of_the_standard_library(exc: Exception, kind: FaultKind) -> None:
    fault = classify(exc)
    assert fault.kind is kind
    assert fault.why


def test_a_urlerror_in_words_is_as_its_cause() -> None:
    exc = urllib.error.URLError("ftp error: refused")
    exc.__cause__ = ConnectionRefusedError()
    assert classify(exc).kind is T


def test_a_urlerror_that_is_its_own_reason_is_no_hang() -> None:
    exc = urllib.error.URLError("x")
    exc.reason = exc
    assert classify(exc).kind is P


@pytest.mark.parametrize(
    ("status", "kind", "hint"), [(503, R, 7.0), (429, R, 7.0), (404, P, None), (500, A, 7.0)]
)
def test_an_httperror_goes_by_status_and_headers(status: int, kind: FaultKind, hint: float | None) -> None:
    headers = Message()
    headers["Retry-After"] = "7"
    with urllib.error.HTTPError("http://host.test", status, "x", headers, io.BytesIO()) as exc:
        fault = classify(exc)
    assert (fault.kind, fault.hint) == (kind, hint)
