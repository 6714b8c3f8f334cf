from __future__ import annotations

import json
import ssl
from typing import Any

import google.auth.exceptions as auth
import grpc
import pytest
import requests
from google.api_core import exceptions as api
from google.genai import errors as genai

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.websockets import fault_of_close

T, R, A, S, P, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.NEUTRAL,
)


def rest(status: int, body: object = None, method: str = "GET", **headers: str) -> requests.Response:
    response = requests.Response()
    response.status_code, response._content = status, json.dumps(body or {}).encode()
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    response.request = requests.Request(method, "http://host.test/").prepare()
    return response


# -- google.api_core -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "cls", "kind"),
    [
        (grpc.StatusCode.CANCELLED, api.Cancelled, A),
        (grpc.StatusCode.UNKNOWN, api.Unknown, A),
        (grpc.StatusCode.DEADLINE_EXCEEDED, api.DeadlineExceeded, A),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, api.ResourceExhausted, R),
        (grpc.StatusCode.ABORTED, api.Aborted, T),
        (grpc.StatusCode.INTERNAL, api.InternalServerError, A),
        (grpc.StatusCode.UNAVAILABLE, api.ServiceUnavailable, T),
        (grpc.StatusCode.DATA_LOSS, api.DataLoss, P),
        (grpc.StatusCode.UNIMPLEMENTED, api.MethodNotImplemented, P),
        (grpc.StatusCode.INVALID_ARGUMENT, api.InvalidArgument, P),
        (grpc.StatusCode.NOT_FOUND, api.NotFound, P),
        (grpc.StatusCode.ALREADY_EXISTS, api.AlreadyExists, P),
        (grpc.StatusCode.PERMISSION_DENIED, api.PermissionDenied, P),
        (grpc.StatusCode.FAILED_PRECONDITION, api.FailedPrecondition, P),
        (grpc.StatusCode.OUT_OF_RANGE, api.OutOfRange, P),
        (grpc.StatusCode.UNAUTHENTICATED, api.Unauthenticated, S),
    ],
)
def test_a_grpc_call_goes_by_its_code(code: grpc.StatusCode, cls: type[Exception], kind: FaultKind) -> None:
    by_code = api.from_grpc_status(code, "no")
    by_call = api.from_grpc_error(grpc.aio.AioRpcError(code, details="no"))
    by_hand = cls("no")
    assert {type(by_code), type(by_call)} == {cls}
    assert [classify(error).kind for error in (by_code, by_call, by_hand)] == [kind] * 3


def test_the_trailers_of_the_call_behind_it_are_read() -> None:
    call = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE,
        trailing_metadata=grpc.aio.Metadata(("grpc-retry-pushback-ms", "2500")),
        details="no",
    )
    assert classify(api.from_grpc_error(call)).hint == 2.5


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, P),
        (401, S),
        (403, P),
        (404, P),
        (405, P),
        (409, P),
        (411, P),
        (412, P),
        (416, P),
        (429, R),
        (499, N),
        (500, A),
        (501, P),
        (502, A),
        (503, A),
        (504, A),
        (308, S),
        (301, S),
        (304, N),
        (307, S),
        (418, P),
    ],
)
def test_a_rest_call_goes_by_its_status(status: int, kind: FaultKind) -> None:
    by_answer = api.from_http_response(rest(status, {"error": {"message": "no"}}))
    assert classify(by_answer).kind is kind


@pytest.mark.parametrize(("status", "kind"), [(429, R), (502, A), (504, A), (409, P), (308, S)])
def test_without_an_answer_a_status_class_goes_by_its_own(status: int, kind: FaultKind) -> None:
    assert classify(api.from_http_status(status, "no")).kind is kind


def test_a_rest_answer_says_when() -> None:
    assert classify(api.from_http_response(rest(503, Retry_After="12"))) == Fault(
        R, 12.0, "HTTP 503 Service Unavailable"
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("rateLimitExceeded", R), ("userRateLimitExceeded", R), ("dailyLimitExceeded", P), ("forbidden", P)],
)
def test_a_403_of_a_rate_limit_is_throttled(reason: str, kind: FaultKind) -> None:
    body = {"error": {"code": 403, "message": "no", "errors": [{"domain": "usageLimits", "reason": reason}]}}
    assert classify(api.from_http_response(rest(403, body))).kind is kind


def test_a_call_error_without_anything_is_unknown() -> None:
    assert classify(api.GoogleAPICallError("no")).kind is P


def test_what_api_core_gave_up_on_is_judged_by_its_cause() -> None:
    assert classify(api.RetryError("late", api.ServiceUnavailable("no"))).kind is T
    assert classify(api.RetryError("late", api.NotFound("no"))).kind is P
    assert classify(api.RetryError("late", None)) == Fault(A, None, "google.api_core timed out retrying")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (api.TransferStalledError("x"), A),
        (api.MissingStatusHeaderError("x"), A),
        (api.UnseekableStreamError("x"), P),
        (api.UploadCancelledError("x"), N),
        (api.DuplicateCredentialArgs("x"), P),
    ],
)
def test_transfers_and_the_rest_of_api_core(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


# -- google.auth -----------------------------------------------------------------------------------------


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (auth.TransportError("x"), T),
        (caused(auth.TransportError("x"), ConnectionRefusedError()), T),
        (caused(auth.TransportError("x"), requests.exceptions.ReadTimeout()), T),
        (auth.RefreshError("x"), P),
        (auth.RefreshError("x", retryable=True), T),
        (auth.ReauthFailError("x"), P),
        (auth.DefaultCredentialsError("x"), P),
        (auth.MalformedError("x"), P),
        (auth.InvalidType("x"), P),
        (auth.OSError("x"), P),
        (auth.TimeoutError("x"), T),
        (auth.ResponseError("x"), T),
        (auth.ClientCertError("x", retryable=True), P),
        (auth.GoogleAuthError("x"), P),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_credentials(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


def test_a_token_that_a_bad_certificate_keeps_away_stays_away() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert classify(caused(auth.TransportError("x"), error)).kind is P


# -- google.genai ----------------------------------------------------------------------------------------

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"


def exhausted(*details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no", "details": list(details)}}


DAILY = {"@type": QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, P), (401, S), (403, P), (404, P), (408, A), (429, R), (500, A), (502, A), (503, A), (504, A)],
)
def test_gemini_goes_by_the_status(status: int, kind: FaultKind) -> None:
    cls = genai.ClientError if status < 500 else genai.ServerError
    error = cls(
        status, {"error": {"code": status, "status": "X", "message": "no"}}, rest(status, method="POST")
    )
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("details", "kind", "hint"),
    [
        ([], R, None),
        ([{"@type": RETRY_INFO, "retryDelay": "38s"}], R, 38.0),
        ([{"@type": RETRY_INFO, "retryDelay": "36.429760048s"}], R, 36.429760048),
        # B089: a day's quota is used up; B090: it is not when the server says that it is back soon.
        ([DAILY], P, None),
        ([DAILY, {"@type": RETRY_INFO, "retryDelay": "36s"}], R, 36.0),
    ],
)
def test_gemini_says_when_in_the_body(details: list[Any], kind: FaultKind, hint: float | None) -> None:
    fault = classify(genai.ClientError(429, exhausted(*details), rest(429)))
    assert (fault.kind, fault.hint) == (kind, hint)


@pytest.mark.parametrize(
    ("code", "kind"), [(1000, N), (1001, T), (1006, A), (1008, P), (1011, A), (1012, T), (1013, R), (4001, P)]
)
def test_a_live_session_ends_with_the_code_of_its_socket(code: int, kind: FaultKind) -> None:
    fault = classify(genai.APIError(code, "gone", None))
    assert fault.kind is kind
    assert fault == fault_of_close(code)


def test_paid_work_is_not_begun_anew() -> None:
    error = genai.ContinuationInterruptedError("x", continuation_token="t")  # noqa: S106 - of no value
    assert classify(caused(error, genai.ServerError(503, {}, rest(503)))).kind is P


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (genai.UnknownApiResponseError("x"), A),
        (genai.UnknownFunctionCallArgumentError("x"), P),
        (genai.FunctionInvocationError("x"), P),
    ],
)
def test_the_rest_of_genai(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind
