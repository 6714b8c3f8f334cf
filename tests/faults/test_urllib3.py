"""Classes of urllib3 as they are raised, and wrapped, and pickled."""

from __future__ import annotations

import http.client
import pickle
import socket
import ssl
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import exceptions as u
from urllib3.util.ssl_match_hostname import CertificateError

from perdure.faults import Fault, FaultKind, classify, safety_of
from perdure.faults.signal import Signal, signal_of
from perdure.faults.urllib3 import RULES
from tests.faults.libraries import exceptions_in, without_row

T, A, P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.PERMANENT

POOL = urllib3.HTTPConnectionPool("host.test")
CONNECTION: Any = urllib3.connection.HTTPConnection("host.test")


def caused(exc: Exception, cause: Exception) -> Exception:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (u.NewConnectionError(CONNECTION, "x"), T),
        (caused(u.NewConnectionError(CONNECTION, "x"), ConnectionRefusedError()), T),
        (caused(u.NewConnectionError(CONNECTION, "x"), PermissionError()), P),
        (u.NameResolutionError("host.test", CONNECTION, socket.gaierror()), T),
        (u.ConnectTimeoutError(), T),
        (u.ReadTimeoutError(POOL, "/", "x"), A),
        (caused(u.ReadTimeoutError(POOL, "/", "x"), BlockingIOError(11, "again")), A),
        (caused(u.ReadTimeoutError(POOL, "/", "x"), TimeoutError("The handshake operation timed out")), T),
        (u.TimeoutError(), A),
        (u.EmptyPoolError(POOL, "x"), T),
        (u.FullPoolError(POOL, "x"), T),
        (u.ClosedPoolError(POOL, "x"), P),
        (u.HostChangedError(POOL, "/"), P),
        (u.ProtocolError("x"), A),
        (u.ProtocolError("x", http.client.RemoteDisconnected()), A),
        (u.ProtocolError("x", http.client.UnknownProtocol("HTTP/9")), P),
        (u.SSLError(), P),
        (u.SSLError(ssl.SSLCertVerificationError()), P),
        (u.SSLError(ssl.SSLEOFError()), A),
        (CertificateError(), P),
        (u.ProxyError("x", OSError("Tunnel connection failed: 503 no")), T),
        (u.ProxyError("x", OSError("Tunnel connection failed: 403 no")), P),
        (u.ProxyError("x", ConnectionRefusedError()), T),
        (u.ProxyError("x", ConnectionResetError()), T),
        (u.DecodeError(), A),
        (u.IncompleteRead(1, 2), A),
        (u.HeaderParsingError([], None), A),
        (u.InvalidHeader(), A),
        (u.LocationParseError("x"), P),
        (u.URLSchemeUnknown("x"), P),
        (u.ProxySchemeUnknown("x"), P),
        (u.ProxySchemeUnsupported(), P),
        (u.ResponseNotChunked(), P),
        (u.BodyNotHttplibCompatible(), P),
        (u.UnrewindableBodyError(), P),
        (u.TimeoutStateError(), P),
        (u.MaxRetryError(POOL, "/"), A),
        (u.MaxRetryError(POOL, "/", u.ConnectTimeoutError()), T),
        (u.MaxRetryError(POOL, "/", u.ResponseError("too many redirects")), P),
        (u.MaxRetryError(POOL, "/", u.ResponseError("too many error responses")), A),
        (u.MaxRetryError(POOL, "/", u.ResponseError("too many 404 error responses")), P),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_an_exception(exc: Exception, kind: FaultKind) -> None:
    assert classify(exc).kind is kind


def test_every_class_has_a_row_but_the_bases_that_say_nothing() -> None:
    assert without_row(exceptions_in(u), RULES) == {"HTTPError", "PoolError", "RequestError"}


def test_the_names_of_urllib3_future_have_the_same_rows() -> None:
    assert {name.removeprefix("urllib3.") for name in RULES if name.startswith("urllib3.")} == {
        name.removeprefix("urllib3_future.") for name in RULES if name.startswith("urllib3_future.")
    }


def test_a_refused_connection_inherits_from_a_timeout_and_is_none() -> None:
    error = caused(u.NewConnectionError(CONNECTION, "x"), ConnectionRefusedError())
    assert isinstance(error, u.TimeoutError)
    assert signal_of(error, classify(error), wanted=True) is Signal.FAILURE


def test_no_timeout_of_urllib3_is_the_builtin_one() -> None:
    assert not issubclass(u.TimeoutError, TimeoutError)
    error = u.ReadTimeoutError(POOL, "/", "x")
    assert signal_of(error, classify(error), wanted=True) is Signal.OVERLOAD


def test_the_last_status_is_read_from_the_words_that_are_left_of_it() -> None:
    error = u.MaxRetryError(POOL, "/", u.ResponseError("too many 503 error responses"))
    assert classify(error) == Fault(A, None, "HTTP 503 Service Unavailable")


@given(st.text() | st.from_regex(r"too many \d+ error responses"))
def test_any_words_of_a_response_error_are_classified(text: str) -> None:
    assert classify(u.ResponseError(text)).why != "unknown exception type"


def test_what_a_pickled_exception_still_knows() -> None:
    error = u.MaxRetryError(POOL, "/", u.NewConnectionError(CONNECTION, "x"))
    assert classify(pickle.loads(pickle.dumps(error))) == Fault(T, None, "could not connect")


def test_no_exception_of_urllib3_says_which_request_it_was() -> None:
    assert safety_of(u.MaxRetryError(POOL, "/", u.ProtocolError("x"))) is None
