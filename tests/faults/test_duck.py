"""What exceptions and responses of unknown classes show: statuses, bodies, gRPC codes, SQLSTATEs, errnos."""

from __future__ import annotations

import asyncio
import enum
import errno
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import aiohttp
import httpx
import pytest
import requests
import urllib3
from aiohttp import test_utils, web

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.duck import loaded_body
from tests.faults.foreign import ForeignError, HTTPFailure, NoRequestError, request

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)
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
        (ForeignError(http_status=429, headers=HEADERS), (R, 9.0)),
        (ForeignError(resp=SimpleNamespace(status=503, headers=HEADERS)), (R, 9.0)),
        (ForeignError(http_response=SimpleNamespace(status=503, headers=HEADERS)), (R, 9.0)),
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


# -- bodies that are already in memory --------------------------------------------------------------------

NO_MONEY = b'{"error": {"code": "insufficient_quota"}}'


@pytest.mark.parametrize(
    "exc",
    [
        ForeignError(status_code=429, body={"code": "insufficient_quota"}),  # as openai has it
        ForeignError(status=429, body=NO_MONEY.decode()),  # as kubernetes has it
        ForeignError(
            http_status=429, json_body={"error": {"code": "insufficient_quota"}}
        ),  # as stripe has it
        ForeignError(resp=SimpleNamespace(status=429), content=NO_MONEY),  # as googleapiclient has it
        ForeignError(response=SimpleNamespace(status_code=429, headers={}, _content=NO_MONEY)),
        ForeignError(response=httpx.Response(429, content=NO_MONEY)),
    ],
    ids=lambda exc: repr(exc.__dict__)[:60],
)
def test_a_body_in_memory_outranks_the_status(exc: Exception) -> None:
    """B089, for libraries that nobody has heard of."""
    assert classify(exc) == Fault(P, None, "HTTP 429 Too Many Requests: insufficient_quota")


def test_responses_of_clients_are_classified_with_the_body_they_have() -> None:
    in_requests = requests.Response()
    in_requests.status_code = 429
    in_requests._content = NO_MONEY
    in_urllib3 = urllib3.HTTPResponse(NO_MONEY, status=429)
    for response in (httpx.Response(429, content=NO_MONEY), in_requests, in_urllib3):
        assert classify(response).kind is P


class Unread:
    """The wire under a response: reading it is the mistake."""

    def read(self, *_: object, **__: object) -> bytes:
        raise AssertionError("something read from the wire")

    stream = read1 = read


def test_a_body_that_was_not_read_is_never_read() -> None:
    streamed = httpx.Response(429, stream=httpx.ByteStream(NO_MONEY))
    unread = requests.Response()
    unread.status_code, unread.raw = 429, Unread()
    raw = urllib3.HTTPResponse(Unread(), status=429, preload_content=False)
    for response in (streamed, unread):
        assert classify(ForeignError(response=response)).kind is R
        assert loaded_body(response) is None
    assert loaded_body(raw) is None
    assert classify(raw).kind is R
    assert not streamed.is_stream_consumed
    assert streamed.read() == NO_MONEY


def test_aiohttp_shows_the_body_it_has_read_and_no_other() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=429, body=NO_MONEY)

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/", answer)
        async with (
            test_utils.TestServer(app) as server,
            aiohttp.ClientSession() as session,
            session.get(server.make_url("/")) as response,
        ):
            assert classify(response).kind is R
            await response.read()
            assert classify(response).kind is P

    asyncio.run(main())


class Surprise:
    """Properties may read from the wire."""

    status_code = 429

    @property
    def body(self) -> bytes:
        raise AssertionError("read")

    content = data = body


@pytest.mark.parametrize(
    "carrier", [None, 7, Surprise(), ForeignError(body=7), MagicMock(), type("S", (), {"__slots__": ()})()]
)
def test_what_has_no_body_of_its_own_shows_none(carrier: object) -> None:
    assert loaded_body(carrier) is None


def test_an_error_after_a_good_status_is_what_its_code_says() -> None:
    """B092: a stream that began well, and broke off with an error event."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert classify(ForeignError(status_code=200, body=body)) == Fault(
        R, None, "HTTP 200 OK: overloaded_error"
    )
    assert classify(ForeignError(status_code=200, body={"type": "error"})).why == "unknown exception type"


# -- wrappers ---------------------------------------------------------------------------------------------


def test_a_wrapper_that_kept_the_status_gets_the_rest_from_under_it() -> None:
    """B079: the delay and the body of the answer are where the status came from."""
    wrapper = ForeignError(status_code=429)
    wrapper.__cause__ = ForeignError(message="in between")
    wrapper.__cause__.__context__ = ForeignError(response=SimpleNamespace(status_code=429, headers=HEADERS))
    assert classify(wrapper) == Fault(R, 9.0, "HTTP 429 Too Many Requests")
    wrapper.__cause__.__context__ = ForeignError(status_code=429, headers={}, body=NO_MONEY)
    assert classify(wrapper).kind is P


def test_an_answer_to_something_else_adds_nothing() -> None:
    wrapper = ForeignError(status_code=429)
    wrapper.__context__ = ForeignError(status_code=503, headers=HEADERS, body=NO_MONEY)
    assert classify(wrapper) == Fault(R, None, "HTTP 429 Too Many Requests")


# -- gRPC without grpc ------------------------------------------------------------------------------------


class StatusCode(enum.Enum):
    UNAVAILABLE = (14, "unavailable")
    NOT_FOUND = (5, "not found")
    RESOURCE_EXHAUSTED = (8, "resource exhausted")
    TEAPOT = (99, "teapot")


class RpcFailure(Exception):
    """Codes behind a method, as grpc has them."""

    def __init__(self, code: object, trailers: object = ()) -> None:
        self._code = code
        self._trailers = trailers

    def code(self) -> object:
        return self._code

    def trailing_metadata(self) -> object:
        return self._trailers


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (RpcFailure(StatusCode.UNAVAILABLE), (T, None)),
        (RpcFailure(StatusCode.NOT_FOUND), (P, None)),
        (RpcFailure(StatusCode.RESOURCE_EXHAUSTED, [("grpc-retry-pushback-ms", "1500")]), (R, 1.5)),
        (ForeignError(status=StatusCode.UNAVAILABLE), (T, None)),  # as grpclib has it
        (ForeignError(code=StatusCode.NOT_FOUND), (P, None)),  # as Connect has it
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_grpc_code_is_known_by_its_name(exc: Exception, expected: tuple[Any, Any]) -> None:
    fault = classify(exc)
    assert (fault.kind, fault.hint) == expected
    assert fault.why.startswith("gRPC ")


class Raising(Exception):
    def code(self) -> object:
        raise ValueError("no code yet")


class Asking(Exception):
    def code(self, which: str) -> object:
        return which


class Later(Exception):
    async def code(self) -> object:
        return StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    "exc",
    [
        RpcFailure(StatusCode.TEAPOT),
        RpcFailure(None),
        RpcFailure("UNAVAILABLE"),
        Raising(),
        Asking(),
        Later(),
    ],
)
def test_other_codes_say_nothing_and_do_no_harm(exc: Exception) -> None:
    assert classify(exc).why == "unknown exception type"
