"""Classes of requests as they are raised, alone and around those of urllib3."""

from __future__ import annotations

import io
import ssl
from typing import Any

import pytest
import requests
from requests import exceptions as r
from urllib3 import exceptions as u

from perdure.faults import Fault, FaultKind, Safety, classify, safety_of
from perdure.faults.requests import RULES
from perdure.faults.signal import Signal, signal_of
from tests.faults.libraries import exceptions_in, without_row

T, R, A, P = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS, FaultKind.PERMANENT


def exhausted(reason: Exception) -> u.MaxRetryError:
    return u.MaxRetryError(None, "/", reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (r.ConnectionError("told by a test double"), A),
        (r.ConnectionError(exhausted(u.ConnectTimeoutError())), T),
        (r.ConnectionError(u.ClosedPoolError(None, "x")), P),  # type: ignore[arg-type]
        (r.ConnectionError(u.ProtocolError("x", ConnectionResetError())), A),
        (r.ConnectTimeout(), T),
        (r.ReadTimeout(), A),
        (r.Timeout(), A),
        (r.SSLError(), P),
        (r.SSLError(exhausted(u.SSLError(ssl.SSLCertVerificationError()))), P),
        (r.ProxyError(), T),
        (r.ProxyError(exhausted(u.ProxyError("x", OSError("Tunnel connection failed: 403 no")))), P),
        (r.ChunkedEncodingError(), A),
        (r.ContentDecodingError(), A),
        (r.RetryError(), A),
        (r.RetryError(exhausted(u.ResponseError("too many 404 error responses"))), P),
        (r.TooManyRedirects(), P),
        (r.InvalidURL(), P),
        (r.MissingSchema(), P),
        (r.InvalidSchema(), P),
        (r.InvalidProxyURL(), P),
        (r.InvalidHeader("Header value must be str"), P),
        (r.InvalidHeader(u.InvalidHeader("Content-Length")), A),
        (r.InvalidJSONError(ValueError("out of range")), P),
        (r.URLRequired(), P),
        (r.StreamConsumedError(), P),
        (r.UnrewindableBodyError(), P),
        (r.HTTPError("without a response"), P),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_an_exception(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind


def test_every_class_has_a_row_but_the_base_that_says_nothing() -> None:
    assert without_row(exceptions_in(r), RULES) == {"RequestException"}
    assert {name.removeprefix("requests.") for name in RULES if name.startswith("requests.")} == {
        name.removeprefix("niquests.") for name in RULES if name.startswith("niquests.")
    }


@pytest.mark.parametrize("exc", [r.InvalidURL(), r.MissingSchema(), r.TooManyRedirects(), r.SSLError()])
def test_being_an_oserror_makes_nothing_transient(exc: Exception) -> None:
    assert isinstance(exc, OSError)
    assert classify(exc).kind is P
    assert signal_of(exc, classify(exc), wanted=False) is Signal.NEUTRAL


@pytest.mark.parametrize("cls", [r.SSLError, r.ProxyError, r.ConnectTimeout])
def test_subclasses_of_its_connection_error_have_kinds_of_their_own(cls: type[Exception]) -> None:
    assert issubclass(cls, r.ConnectionError)
    assert not issubclass(cls, ConnectionError)
    assert classify(cls()).kind is not A


@pytest.mark.parametrize(
    ("body", "kind"), [(b'{"a": ', A), (b'{"a": "b', A), (b"<html>", P), (b"", P)], ids=repr
)
def test_json_that_ends_too_early_was_cut(body: bytes, kind: FaultKind) -> None:
    response = requests.Response()
    response.raw = io.BytesIO(body)
    with pytest.raises(requests.JSONDecodeError) as caught:
        response.json()
    assert classify(caught.value).kind is kind


def error_with(status: int, method: str = "POST", headers: Any = None, content: Any = None) -> Exception:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers or {})
    response.request = requests.Request(method, "http://host.test").prepare()
    if content is not None:
        response._content = content
    return requests.HTTPError("x", response=response)


def test_an_http_error_goes_by_all_that_the_response_says() -> None:
    assert classify(error_with(503, headers={"Retry-After": "7"})) == Fault(
        R, 7.0, "HTTP 503 Service Unavailable"
    )
    assert classify(error_with(408)).kind is A
    assert classify(error_with(408, "GET")).kind is T
    assert classify(error_with(429, content=b'{"error": {"code": "insufficient_quota"}}')).kind is P
    assert safety_of(error_with(500)) is Safety.UNSAFE


def test_a_body_that_was_not_loaded_is_not_loaded_for_this() -> None:
    error = error_with(429)
    assert isinstance(error, requests.HTTPError)
    assert error.response is not None
    error.response.raw = io.BytesIO(b'{"error": {"code": "insufficient_quota"}}')
    assert classify(error).kind is R
    assert error.response.raw.tell() == 0
