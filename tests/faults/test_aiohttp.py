"""Classes of aiohttp as they are raised; what needs a server is in tests/integration."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions as c
from aiohttp import http_exceptions as h
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from perdure.faults import Fault, FaultKind, Safety, classify, safety_of
from perdure.faults.aiohttp import RULES
from perdure.faults.signal import Signal, signal_of
from tests.faults.libraries import exceptions_in, without_row

T, R, A, S, P = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
)

KEY: Any = ConnectionKey("host.test", 443, True, True, None, None, None)


def request_info(method: str = "POST") -> aiohttp.RequestInfo:
    url = URL("http://host.test")
    return aiohttp.RequestInfo(url, method, CIMultiDictProxy(CIMultiDict()), url)


def answered(cls: type[Exception], status: int, **fields: Any) -> Exception:
    return cls(request_info(fields.pop("method", "POST")), (), status=status, **fields)


def caused(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (c.ClientConnectionError(), A),
        (c.ClientConnectionError("Connector is closed."), P),
        (caused(c.ClientConnectionError("Failed to send bytes"), ConnectionResetError()), A),
        (c.ClientConnectionResetError("Cannot write to closing transport"), A),
        (c.ClientConnectorError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "x")), T),
        (c.ClientConnectorError(KEY, ConnectionResetError()), T),
        (c.ClientConnectorError(KEY, OSError("x")), T),
        (c.UnixClientConnectorError("s", KEY, FileNotFoundError()), P),
        (c.ClientProxyConnectionError(KEY, ConnectionRefusedError()), T),
        (c.ClientConnectorCertificateError(KEY, ValueError("x")), P),
        (c.ClientConnectorSSLError(KEY, ssl.SSLError(1, "x")), P),
        (c.ClientOSError(errno.ECONNRESET, "x"), A),
        (c.ClientOSError(), A),
        (c.ServerDisconnectedError(), A),
        (c.ServerTimeoutError(), A),
        (c.SocketTimeoutError(), A),
        (c.ConnectionTimeoutError(), T),
        (c.ServerFingerprintMismatch(b"a", b"b", "host.test", 443), P),
        (c.ClientPayloadError(), A),
        (c.UploadAbortedError() if hasattr(c, "UploadAbortedError") else c.ClientPayloadError(), A),
        (c.InvalidURL("x"), P),
        (c.InvalidUrlClientError("x"), P),
        (c.NonHttpUrlClientError("x"), P),
        (c.InvalidUrlRedirectClientError("x"), P),
        (c.NonHttpUrlRedirectClientError("x"), P),
        (c.WSMessageTypeError(), P),
        (answered(c.TooManyRedirects, 0), P),
        (answered(c.ClientHttpProxyError, 502), T),
        (answered(c.ClientHttpProxyError, 407), S),
        (answered(c.ClientResponseError, 0), P),
        (h.TransferEncodingError("x"), A),
        (h.ContentLengthError("x"), A),
        (h.BadStatusLine(), A),
        (h.LineTooLong("x"), P),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_an_exception(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind


def test_every_class_has_a_row_but_the_base_that_says_nothing() -> None:
    assert without_row(exceptions_in(c, h), RULES) == {"ClientError"}
    by_name = {name.rpartition(".")[2] for name in RULES if ".http_exceptions." in name}
    assert by_name == {cls.__name__ for cls in exceptions_in(h) if cls.__module__ == h.__name__}


def test_a_response_error_goes_by_status_headers_and_method() -> None:
    busy = answered(c.ClientResponseError, 503, headers={"Retry-After": "7"})
    assert classify(busy) == Fault(R, 7.0, "HTTP 503 Service Unavailable")
    assert classify(answered(c.ClientResponseError, 408)).kind is A
    assert classify(answered(c.ClientResponseError, 408, method="GET")).kind is T
    assert safety_of(busy) is Safety.UNSAFE


def test_a_400_that_no_server_sent_is_a_broken_connection() -> None:
    real = answered(c.ClientResponseError, 400, message="Bad Request")
    made = caused(answered(c.ClientResponseError, 400), caused(h.HttpProcessingError(), h.BadStatusLine()))
    assert classify(real) == Fault(P, None, "HTTP 400 Bad Request")
    assert classify(made) == Fault(A, None, "garbage instead of an HTTP response")
    long = caused(answered(c.ClientResponseError, 400), caused(h.HttpProcessingError(), h.LineTooLong("x")))
    assert classify(long).kind is P


@pytest.mark.parametrize("cls", [c.ContentTypeError, c.WSServerHandshakeError])
def test_what_is_wrong_after_a_good_status_stays_wrong(cls: type[Exception]) -> None:
    assert classify(answered(cls, 200)).kind is P
    assert classify(answered(cls, 503)).why == "HTTP 503 Service Unavailable"


def test_the_number_of_a_tls_error_is_no_errno() -> None:
    """Aiohttp copies it: OpenSSL's 1 would be "operation not permitted"."""
    tls = ssl.SSLError(1, "x")
    tls.reason = "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    error = caused(c.ClientOSError(*tls.args), tls)
    assert classify(error) == Fault(A, None, "TLS record damaged")


def test_a_cancellation_at_the_end_of_a_timeout_is_no_cancellation() -> None:
    timeout = caused(TimeoutError(), asyncio.CancelledError())
    error = caused(c.ConnectionTimeoutError("x"), timeout)
    timeout.__context__ = timeout.__cause__
    assert classify(error) == Fault(T, None, "connect timed out")
    assert signal_of(error, classify(error), wanted=True) is Signal.OVERLOAD
