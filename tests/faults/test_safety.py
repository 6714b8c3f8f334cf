"""What foreign objects show: requests, responses, statuses, SQLSTATEs, errnos."""

from __future__ import annotations

import errno
import io
import urllib.error
from email.message import Message
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from perdure.faults import Fault, FaultKind, Safety, classify, safety_of
from perdure.faults.duck import fault_of_sqlstate

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


class ForeignError(Exception):
    """As a client library makes one: whatever it was given becomes an attribute."""

    def __init__(self, **fields: object) -> None:
        super().__init__(*fields)
        self.__dict__.update(fields)


class HTTPFailure(ForeignError):
    pass


class NoRequestError(Exception):
    """Properties that raise when a part is missing, as httpx has them."""

    @property
    def request(self) -> object:
        raise RuntimeError("The request property has not been set.")

    response = request


def request(method: object, headers: object = None) -> SimpleNamespace:
    return SimpleNamespace(method=method, headers=headers)


# -- safety --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "safety"),
    [
        *((method, Safety.SAFE) for method in ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY")),
        *((method, Safety.UNSAFE) for method in ("POST", "PATCH", "CONNECT", "LOCK", "post")),
        ("get", Safety.SAFE),
        (b"GET", Safety.SAFE),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_method_is_safe_or_not(method: object, safety: Safety | None) -> None:
    assert safety_of(ForeignError(request=request(method))) is safety
    assert safety_of(ForeignError(response=SimpleNamespace(request=request(method)))) is safety
    assert safety_of(ForeignError(request_info=request(method))) is safety


@pytest.mark.parametrize(
    ("headers", "safety"),
    [
        ({"Idempotency-Key": "k"}, Safety.KEYED),
        ({"idempotency-key": b"k"}, Safety.KEYED),
        ([("IDEMPOTENCY-KEY", "k")], Safety.KEYED),
        (((b"idempotency-key", b"k"),), Safety.KEYED),
        ({"Idempotency-Key": " "}, Safety.UNSAFE),
        ({"X-Key": "k"}, Safety.UNSAFE),
        (None, Safety.UNSAFE),
        (7, Safety.UNSAFE),
    ],
)
def test_a_key_makes_an_unsafe_method_keyed(headers: object, safety: Safety) -> None:
    assert safety_of(ForeignError(request=request("POST", headers))) is safety


def test_what_carries_no_request_says_nothing() -> None:
    with urllib.error.HTTPError("http://host.test", 503, "x", Message(), io.BytesIO()) as http_error:
        assert safety_of(http_error) is None
    for exc in (
        ValueError(),
        NoRequestError(),
        ForeignError(request="POST"),
        ForeignError(request=MagicMock()),
    ):
        assert safety_of(exc) is None


def test_the_nearest_request_counts() -> None:
    top = ForeignError()
    top.__cause__ = ForeignError(request=request("POST"))
    top.__cause__.__cause__ = ForeignError(request=request("GET"))
    assert safety_of(top) is Safety.UNSAFE


def test_the_most_dangerous_leaf_of_a_group_counts() -> None:
    get, post, keyed = (
        ForeignError(request=request("GET")),
        ForeignError(request=request("POST")),
        ForeignError(request=request("POST", {"Idempotency-Key": "k"})),
    )
    assert safety_of(ExceptionGroup("g", [get, ExceptionGroup("g", [post]), keyed])) is Safety.UNSAFE
    assert safety_of(ExceptionGroup("g", [get, keyed, ValueError()])) is Safety.KEYED
    assert safety_of(ExceptionGroup("g", [ValueError()])) is None
    wrapper = ForeignError()
    wrapper.__cause__ = ExceptionGroup("g", [ValueError(), post])
    assert safety_of(wrapper) is Safety.UNSAFE


# -- exceptions of unknown classes ---------------------------------------------------------------------

HEADERS = {"Retry-After": "9"}


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (ForeignError(status_code=429), (R, None)),
        (ForeignError(status_code=HTTPStatus.NOT_FOUND), (P, None)),
        (ForeignError(status=503, headers=HEADERS), (R, 9.0)),
        (ForeignError(response=SimpleNamespace(status_code=503, headers=HEADERS)), (R, 9.0)),
        (ForeignError(response=SimpleNamespace(status=429, headers=[("retry-after", "9")])), (R, 9.0)),
        (ForeignError(code=503, response=SimpleNamespace(headers=HEADERS)), (R, 9.0)),
        (ForeignError(code=429, headers=HEADERS), (R, 9.0)),
        (HTTPFailure(code=502), (A, None)),
        (ForeignError(code=502), (P, None)),
        (ForeignError(status_code=408, request=request("POST")), (A, None)),
        (ForeignError(status_code=408, response=SimpleNamespace(request=request("POST"))), (A, None)),
        (ForeignError(status_code=408, request=request("GET")), (T, None)),
        (ForeignError(status_code=200), (P, None)),
        (ForeignError(status_code="503"), (P, None)),
        (ForeignError(status_code=1213), (P, None)),
        (ForeignError(status_code=True), (P, None)),
        (ForeignError(response=MagicMock()), (P, None)),
        (ForeignError(sqlstate="40001"), (T, None)),
        (ForeignError(pgcode="40P01"), (T, None)),
        (ForeignError(sqlstate=None, pgcode="08006"), (A, None)),
        (ForeignError(sqlstate="00000"), (P, None)),
        (ForeignError(errno=errno.ECONNREFUSED), (T, None)),
        (ForeignError(errno=errno.ECONNRESET), (A, None)),
        (ForeignError(errno=2013), (P, None)),
        (ForeignError(errno="x"), (P, None)),
        (NoRequestError(), (P, None)),
    ],
    ids=lambda value: repr(getattr(value, "__dict__", value))[:60],
)
def test_an_unknown_exception_is_what_it_carries(exc: Exception, expected: tuple[Any, Any]) -> None:
    fault = classify(exc)
    assert (fault.kind, fault.hint) == expected


def test_what_an_exception_carries_counts_before_what_lies_under_it() -> None:
    exc = ForeignError(status_code=404)
    exc.__cause__ = ConnectionRefusedError()
    assert classify(exc).kind is P
    wrapper = ForeignError(status_code=200)
    wrapper.__context__ = ForeignError(status_code=429, headers=HEADERS)
    assert classify(wrapper) == Fault(R, 9.0, "HTTP 429 Too Many Requests")


class StatusOSError(OSError):
    status_code = 503


class StatusValueError(ValueError):
    status_code = 429


def test_what_an_exception_carries_counts_before_its_base_class() -> None:
    assert classify(StatusOSError()).kind is A
    assert classify(StatusValueError()).kind is R


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *((state, T) for state in ("40001", "40P01", "55P03", "53300", "57P03", "08001", "08004")),
        *((state, A) for state in ("40003", "08000", "08003", "08006", "08007", "08P01", "57P01", "57P02")),
        *((state, S) for state in ("25006", "25P03", "25P04", "57P05")),
        *((state, P) for state in ("23505", "23P01", "28P01", "42601", "22012", "3D000", "57014", "57P04")),
        *((state, P) for state in ("53100", "53200", "53400", "58030", "XX000")),
    ],
)
def test_an_sqlstate_has_its_kind(state: str, kind: FaultKind) -> None:
    assert fault_of_sqlstate(state) == Fault(kind, None, f"SQLSTATE {state}")


@pytest.mark.parametrize("state", [None, 40001, "", "4000", "40-01", "00000", "01000", "02000"])
def test_what_is_no_sqlstate_of_a_failure_says_nothing(state: object) -> None:
    assert fault_of_sqlstate(state) is None


# -- responses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (SimpleNamespace(status_code=503, headers=HEADERS), (R, 9.0)),
        (SimpleNamespace(status=503, headers={}), (A, None)),
        (SimpleNamespace(status_code=200, headers={}), (N, None)),
        (SimpleNamespace(status_code=408, headers={}, request=request("POST")), (A, None)),
        (SimpleNamespace(status_code=503), (P, None)),
        (SimpleNamespace(headers={}), (P, None)),
        (MagicMock(), (P, None)),
    ],
)
def test_a_response_is_classified_by_status_and_headers(response: object, expected: tuple[Any, Any]) -> None:
    fault = classify(response)
    assert (fault.kind, fault.hint) == expected
