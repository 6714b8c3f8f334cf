from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import azure.core.exceptions as az
import pytest
import requests
import urllib3.exceptions
from azure.core import PipelineClient
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from perdure.faults import FaultKind, classify
from perdure.faults.signal import Signal, signal_of
from tests.integration import wire

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


def answered(
    status: int,
    code: str | None = None,
    *,
    cls: Any = az.HttpResponseError,
    method: str = "GET",
    **headers: str,
) -> az.HttpResponseError:
    text = json.dumps({"error": {"code": code, "message": "no"}}) if code else ""
    response = SimpleNamespace(
        status_code=status,
        reason="no",
        text=lambda: text,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        request=SimpleNamespace(method=method),
    )
    made: az.HttpResponseError = cls(response=response)
    return made


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (408, None, T),
        (429, None, R),
        (500, None, A),
        (502, None, A),
        (503, None, A),
        (504, None, A),
        (501, None, P),
        (404, None, P),
        (409, None, P),
        (410, None, P),
        (412, None, P),
        (401, None, S),
        (403, None, P),
        (449, None, T),
        (449, "SomeTimeout", T),
        (503, "ServerBusy", R),
        (500, "OperationTimedOut", A),
        (500, "InternalError", A),
        (500, "ServerTimeout", A),
        (429, "TooManyRequests", R),
        (409, "AllocationFailed", P),
        (503, "AllocationFailed", P),
    ],
)
def test_an_answer_goes_by_its_code_and_its_status(status: int, code: str | None, kind: FaultKind) -> None:
    fault = classify(answered(status, code))
    assert fault.kind is kind
    assert fault.why.startswith(f"HTTP {status}")


def test_a_code_that_nobody_knows_is_no_sign_of_congestion() -> None:
    for status, code, signal in (
        (449, "SomeTimeout", Signal.FAILURE),
        (500, "ServerTimeout", Signal.OVERLOAD),
    ):
        error = answered(status, code)
        assert code in classify(error).why
        assert signal_of(error, classify(error), wanted=True) is signal


@pytest.mark.parametrize(
    ("cls", "status", "kind"),
    [
        (az.ResourceExistsError, 409, P),
        (az.ResourceNotFoundError, 404, P),
        (az.ResourceModifiedError, 412, P),
        (az.ResourceNotModifiedError, 304, N),
        (az.ClientAuthenticationError, 401, S),
        (az.ClientAuthenticationError, 403, P),
        (az.ODataV4Error, 503, A),
        (az.DecodeError, 200, A),
        (az.DecodeError, 503, A),
        (az.DecodeError, 404, P),
    ],
)
def test_the_classes_with_an_answer(cls: type[az.HttpResponseError], status: int, kind: FaultKind) -> None:
    assert classify(answered(status, cls=cls)).kind is kind


def test_milliseconds_come_before_seconds() -> None:
    assert classify(answered(429, X_Ms_Retry_After_Ms="250", Retry_After="9")).hint == 0.25
    assert classify(answered(503, "ServerBusy", Retry_After="9")).hint == 9.0
    assert classify(answered(404, Retry_After="9")).hint is None


def test_the_header_alone_makes_nothing_retryable() -> None:
    """azure-core itself retries any status from 400 on that has it."""
    assert classify(answered(409, Retry_After="9")).kind is P


def test_the_code_of_a_storage_account_stands_on_the_error() -> None:
    error = answered(503)
    error.error_code = "ServerBusy"  # type: ignore[attr-defined] # as azure-storage sets it
    assert classify(error).kind is R


def test_a_moved_partition_of_cosmos_is_stale() -> None:
    name = {"__module__": "azure.cosmos.exceptions"}
    cls = type("CosmosHttpResponseError", (az.HttpResponseError,), name)
    assert classify(answered(410, cls=cls)).kind is S
    assert classify(answered(449, cls=cls)).kind is T
    assert classify(answered(429, cls=cls, X_Ms_Retry_After_Ms="80")).hint == 0.08


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (az.ServiceRequestError("x"), T),
        (az.ServiceRequestError("x", error=ConnectionRefusedError()), T),
        (az.ServiceRequestError("x", error=urllib3.exceptions.NewConnectionError(None, "x")), T),  # type: ignore[arg-type]
        (az.ServiceRequestTimeoutError("x"), T),
        (az.ServiceResponseError("x"), A),
        (az.ServiceResponseTimeoutError("x"), A),
        (az.HttpResponseError("x"), A),
        (az.HttpResponseError("x", error=requests.exceptions.ChunkedEncodingError()), A),
        (az.IncompleteReadError("x"), A),
        (az.DecodeError("x"), A),
        (az.ClientAuthenticationError("no token"), P),
        (az.TooManyRedirectsError([]), P),
        (az.StreamConsumedError(SimpleNamespace(request="x")), P),
        (az.StreamClosedError(SimpleNamespace(request="x")), P),
        (az.ResponseNotReadError(SimpleNamespace(request="x")), P),
        (az.SerializationError("x"), P),
        (az.DeserializationError("x"), P),
        (az.AzureError("x"), P),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_errors_without_an_answer(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


def test_a_token_that_could_not_be_fetched_is_as_what_lies_under_it() -> None:
    error = az.ClientAuthenticationError("no token")
    error.__cause__ = ConnectionRefusedError()
    assert classify(error).kind is T


@pytest.mark.parametrize("error", [az.ServiceRequestTimeoutError("x"), az.ServiceResponseTimeoutError("x")])
def test_timeouts_are_congestion(error: Exception) -> None:
    assert signal_of(error, classify(error), wanted=True) is Signal.OVERLOAD


# -- the real pipeline -------------------------------------------------------------------------------------------


def sent(url: str, method: str = "GET") -> Exception:
    transport = RequestsTransport(connection_timeout=1, read_timeout=0.2)
    with (
        PipelineClient(url, policies=[], transport=transport) as client,
        pytest.raises(az.AzureError) as caught,
    ):
        client.send_request(HttpRequest(method, url)).raise_for_status()
    return caught.value


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_connection_sent_nothing_whatever_the_method(method: str) -> None:
    """B100."""
    with wire.refused() as port:
        error = sent(f"http://127.0.0.1:{port}", method)
    assert type(error) is az.ServiceRequestError
    assert classify(error).kind is T


@pytest.mark.parametrize(
    ("step", "cls", "kind"),
    [
        (wire.close(), az.ServiceResponseError, A),
        (wire.reset(), az.ServiceResponseError, A),
        (wire.hang(), az.ServiceResponseTimeoutError, A),
        (wire.answer(503, {"Retry-After": "4"}), az.HttpResponseError, R),
        (wire.answer(404), az.HttpResponseError, P),
    ],
    ids=["close", "reset", "hang", "503", "404"],
)
def test_what_the_pipeline_raises(step: wire.Step, cls: type[Exception], kind: FaultKind) -> None:
    with wire.serve(step) as server:
        error = sent(server.url)
    assert type(error) is cls
    assert classify(error).kind is kind


def test_a_bad_certificate_is_not_retried_though_nothing_was_sent() -> None:
    with wire.serve(tls="untrusted") as server:
        error = sent(server.url)
    assert type(error) is az.ServiceRequestError
    assert classify(error).kind is P
